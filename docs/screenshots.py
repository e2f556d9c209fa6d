"""Take the pictures of the screens: `.venv/bin/python docs/screenshots.py [--only NAME ...]`, after `make test`.

Starts a separate server on a temporary data folder with the demo, opens each screen of SHOTS in Chromium, and writes
docs/images/<name>.png. A new screen needs one line in SHOTS.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from PIL import Image
from playwright.sync_api import Page, sync_playwright

CHECKOUT = Path(__file__).resolve().parents[1]
IMAGES = CHECKOUT / "docs" / "images"
sys.path.insert(0, str(CHECKOUT))

# The scripted model counts tokens by the application's code, and its settings need a data folder.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
UNUSED = tempfile.TemporaryDirectory(prefix="memoryhub-pictures-")
os.environ.setdefault("MEMORYHUB_DATA_DIR", UNUSED.name)
django.setup()

from tests.browser.chromium import FLAGS, MISSING, find_chromium  # noqa: E402
from tests.fakes.llm_server import Asked, LLMServer, Reply, smallest  # noqa: E402

LOCALES = {"en": "en-US", "ja": "ja-JP"}
PATIENCE_SECONDS = 180
COLOURS = 128
Steps = Callable[[Page], object]


@dataclass(frozen=True)
class Shot:
    """A picture: its name, the page, what is done there first, and how it is looked at."""

    name: str
    address: str
    steps: Steps = lambda page: None
    language: str = "en"
    width: int = 1280
    height: int = 860
    dark: bool = False


def first_row(page: Page) -> None:
    """Open the page of a list's first row."""
    page.goto(page.locator("#result_list a[href*='/change/']").first.get_attribute("href") or "")


def row_with(text: str) -> Steps:
    """Return steps that open the page of the row that holds a text."""

    def steps(page: Page) -> None:
        row = page.locator("#result_list tr", has_text=text).first
        page.goto(row.locator("th a[href*='/change/']").first.get_attribute("href") or "")

    return steps


def unfolded(text: str) -> Steps:
    """Return steps that open a list's first row, and there a folded part."""

    def steps(page: Page) -> None:
        first_row(page)
        part = page.locator("summary", has_text=text).first
        part.click()
        part.evaluate("each => each.scrollIntoView({block: 'start'})")

    return steps


def policies(page: Page) -> None:
    """Open the policies of contexts."""
    part = page.locator("summary", has_text="Contexts").first
    part.click()
    part.evaluate("each => { each.scrollIntoView({block: 'start'}); scrollBy(0, -80); }")


def preview(page: Page) -> None:
    """Preview a sleep of everybody's memory."""
    page.locator("select[name=agent]").evaluate(
        "(field) => { const first = new Option('release-assistant', 'release-assistant', true, true);"
        " field.append(first); field.dispatchEvent(new Event('change')); }"
    )
    page.locator("button[name=verb][value=preview]").click()
    page.wait_for_load_state()


def playground(page: Page) -> None:
    """Ask for a context, and look at what entered it."""
    page.locator("#id_agent").select_option("release-assistant")
    page.locator("#id_user").select_option("maya")
    page.locator("#id_message").fill("Under which licence do we release?")
    page.locator("#playground-form button[type=submit]:not([name])").click()
    page.wait_for_selector("#budget-bar")
    page.evaluate("scrollTo(0, 0)")


def talk(message: str) -> Steps:
    """Return steps that say something to the agent and wait for the answer."""

    def steps(page: Page) -> None:
        page.locator("#id_message").fill(message)
        page.locator("#talk-form button[type=submit]").click()
        page.wait_for_url("**session=*")
        page.wait_for_selector("#learnt h2")
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")

    return steps


def answered(asked: Asked) -> Reply:
    """Return what the scripted model answers."""
    if asked.schema is not None:
        return Reply(data=smallest(asked.schema))
    if "抹茶" in asked.text:
        return Reply("抹茶アイスがお好きでしたね。今日は暑いので、ぴったりだと思います。")
    return Reply("We release under Apache-2.0, as you decided: three beta companies could not use AGPL.")


SHOTS = [
    Shot(
        "talk",
        "/admin/talk/?agent=release-assistant&user=maya",
        talk("Under which licence do we release, and why?"),
        width=1440,
    ),
    Shot(
        "talk-ja",
        "/admin/talk/?agent=yuno&user=haruka",
        talk("暑いから抹茶のアイスを食べようかな。"),
        language="ja",
        width=1440,
    ),
    Shot("dashboard", "/admin/"),
    Shot("memories", "/admin/strength/memory/"),
    Shot("memory", "/admin/strength/memory/?q=licensed&kind__exact=decision", first_row),
    Shot("memory-strength", "/admin/strength/memory/?q=licensed&kind__exact=decision", unfolded("Strength and use")),
    Shot("news", "/admin/news/?since=30"),
    Shot("review", "/admin/review/"),
    Shot("playground", "/admin/playground/", playground, width=1440),
    Shot("sleep-preview", "/admin/strength/sleeprun/begin/", preview),
    Shot("merge", "/admin/strength/merge/", row_with("Maya")),
    Shot("decisions", "/admin/strength/tombstone/"),
    Shot("timeline", "/admin/conversations/session/", row_with("Kick-off")),
    Shot("receipt", "/admin/conversations/receipt/", first_row),
    Shot("summary", "/admin/summaries/summary/", first_row),
    Shot("project", "/admin/summaries/project/", row_with("tidepool")),
    Shot("document", "/admin/summaries/document/?q=MEMORY", row_with("tidepool")),
    Shot("routing", "/admin/summaries/routingdecision/", first_row),
    Shot("agent", "/admin/memoryhub/agent/release-assistant/change/", policies),
    Shot("keys", "/admin/memoryhub/apikey/"),
    Shot("jobs", "/admin/memoryhub/job/"),
    Shot("people", "/admin/auth/user/add/"),
    Shot("spending", "/admin/spending/"),
    Shot("ledger", "/admin/memoryhub/ledgerentry/"),
    Shot("audit", "/admin/memoryhub/auditentry/"),
    Shot("memories-ja", "/admin/strength/memory/?actor__agent__agent_id__exact=yuno", language="ja"),
    Shot("review-ja", "/admin/review/", language="ja"),
    Shot("news-ja", "/admin/news/?since=30", language="ja"),
    Shot("memory-ja", "/admin/strength/memory/?q=抹茶", first_row, language="ja"),
    Shot("memories-dark", "/admin/strength/memory/", dark=True),
    Shot("memories-phone", "/admin/strength/memory/", width=390, height=844),
]


@dataclass
class Hub:
    """A running server, with a login and a key."""

    url: str
    login: tuple[str, str]
    key: str

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API and return its answer."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310
            f"{self.url}/api/v1{path}", method=method, data=data, headers=headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def is_ready(self) -> bool:
        """Return whether it answers by now."""
        try:
            self.call("GET", "/agents")
        except urllib.error.URLError:
            return False
        return True


@contextmanager
def serving(llm: LLMServer) -> Iterator[Hub]:
    """Run a server with the demo and a scripted model on a temporary data folder."""
    folder = Path(tempfile.mkdtemp(prefix="memoryhub-pictures-"))
    folder.chmod(0o711)  # as root, PostgreSQL is another user
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"MEMORYHUB_DATA_DIR": str(folder / "data"), "HOST": "127.0.0.1", "PORT": str(port), "DEMO": "1"}
    settings |= {"MEMORYHUB_LLM_PROVIDER": "anthropic", "MEMORYHUB_LLM_BASE_URL": llm.url}
    settings |= {"MEMORYHUB_LLM_API_KEY": llm.key, "MEMORYHUB_LLM_MODEL": "a-model"}
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    manage = [sys.executable, str(CHECKOUT / "manage.py")]
    log = folder / "log"
    with log.open("w") as out:
        server = subprocess.Popen([*manage, "serve"], env={**kept, **settings}, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield _ready(f"http://127.0.0.1:{port}", server, log)
    finally:
        subprocess.run([*manage, "stop"], env={**kept, **settings}, stdout=subprocess.DEVNULL, check=False)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _ready(url: str, server: subprocess.Popen[bytes], log: Path) -> Hub:
    first = log.with_name("data") / "first-login.txt"
    for _ in range(PATIENCE_SECONDS):
        told = log.read_text() + (first.read_text() if first.exists() else "")
        login, key = re.search(r"Login +(\S+) / (\S+)", told), re.search(r"API key +(\S+)", told)
        if login and key:
            hub = Hub(url, (login[1], login[2]), key[1])
            if hub.is_ready():
                return hub
        if server.poll() is not None:
            break
        time.sleep(1)
    raise SystemExit(f"The server did not start:\n{log.read_text()}")


def take(hub: Hub, shots: list[Shot]) -> None:
    """Write the pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    program = find_chromium()
    if program is None:
        raise SystemExit(f"There is {MISSING}")
    if not _has_japanese():
        raise SystemExit("There is no Japanese font here: apt install fonts-noto-cjk")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        state = _logged_in(browser, hub)
        for shot in shots:
            window = browser.new_context(
                base_url=hub.url,
                storage_state=state,
                locale=LOCALES[shot.language],
                viewport={"width": shot.width, "height": shot.height},
                timezone_id="UTC",
                color_scheme="dark" if shot.dark else "light",
                reduced_motion="reduce",
            )
            page = window.new_page()
            page.goto(shot.address)
            shot.steps(page)
            page.evaluate("document.fonts.ready")
            _save(page, shot.name)
            window.close()
        browser.close()


def _has_japanese() -> bool:
    """Return whether Japanese shows as more than boxes; true if it is unknown."""
    if shutil.which("fc-list") is None:
        return True
    return bool(subprocess.run(["fc-list", ":lang=ja"], capture_output=True, check=False).stdout.strip())


def _logged_in(browser: Any, hub: Hub) -> Any:
    window = browser.new_context(base_url=hub.url)
    page = window.new_page()
    page.goto("/admin/login/")
    page.locator("#id_username").fill(hub.login[0])
    page.locator("#id_password").fill(hub.login[1])
    page.locator("#id_password").press("Enter")
    page.wait_for_url("**/admin/")
    state = window.storage_state()
    window.close()
    return state


def _save(page: Page, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, animations="disabled", caret="hide")
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    sys.stdout.write(f"{path.relative_to(CHECKOUT)} {path.stat().st_size // 1024} KB\n")


def main() -> None:
    """Take all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description="Take the pictures of the screens.")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[shot.name for shot in SHOTS])
    only = parser.parse_args().only
    with LLMServer() as llm, serving(llm) as hub:
        llm.answer(answered)
        take(hub, [shot for shot in SHOTS if not only or shot.name in only])


if __name__ == "__main__":
    main()

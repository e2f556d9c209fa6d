"""Download what another memory server keeps, by its public REST interface, into a file of pages.

A line of the file is one page: `{"service": …, "path": …, "page": …, "items": […]}`. A download that was interrupted
continues after the last whole line. The file is then imported like an export (`formats.honcho`, `formats.hindsight`).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx2

from memoryhub.importexport.foreign.formats.honcho import ASSISTANTS
from memoryhub.importexport.foreign.imports import CannotImport

SETTING: Final = "MEMORYHUB_IMPORT_TOKEN"
PAGE_SIZE: Final = 100
SECONDS: Final = 60.0
ATTEMPTS: Final = 5
MAX_WAIT_SECONDS: Final = 60.0
MAX_PAGES: Final = 1_000_000

Items = list[Any]


@dataclass
class Download:
    """Pages of a server, kept in a file; a page that the file has is not asked for again."""

    service: str
    url: str
    path: Path
    token: str = field(default="", repr=False)
    on_page: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise CannotImport("--url is no address: give it as https://host or http://host:port.")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self._client = httpx2.Client(base_url=self.url.rstrip("/"), headers=headers, timeout=SECONDS)
        self._places = self._kept_pages()

    def close(self) -> None:
        self._client.close()

    def listed(self, path: str, ask: Callable[[int], tuple[str, dict[str, Any]]], items: str) -> Iterator[Any]:
        """Yield the items of a list; `ask` returns the method and arguments of the request for a page, from 1."""
        before: Items = []
        for page in range(1, MAX_PAGES):
            found = self._page(path, page, ask, items)
            if found and found == before:
                raise CannotImport(f"{path}: the server answers the same page again and again. Is --format its own?")
            before = found
            yield from found
            if len(found) < PAGE_SIZE:
                return

    def keep(self, path: str, items: Items) -> None:
        """Add a page that no server was asked for, once."""
        if items and (path, 1) not in self._places:
            self._append(path, 1, items)

    def _append(self, path: str, page: int, items: Items) -> None:
        line = {"service": self.service, "path": path, "page": page, "items": items}
        with self.path.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self.on_page()

    def _page(self, path: str, page: int, ask: Callable[[int], tuple[str, dict[str, Any]]], items: str) -> Items:
        if (place := self._places.get((path, page))) is not None:
            with self.path.open("rb") as file:
                file.seek(place)
                return _items(json.loads(file.readline()))
        method, arguments = ask(page)
        answer = self._send(method, path, arguments)
        found = answer.get(items) if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise CannotImport(f"{path}: the server's answer has no list `{items}`. Is --format that of the server?")
        self._append(path, page, found)
        return found

    def _send(self, method: str, path: str, arguments: dict[str, Any]) -> Any:
        for attempt in range(ATTEMPTS):
            wait = min(2.0**attempt, MAX_WAIT_SECONDS)
            try:
                answer = self._client.request(method, path, **arguments)
            except httpx2.TransportError as error:
                problem = f"the server cannot be reached ({type(error).__name__})"
            else:
                if answer.status_code == httpx2.codes.OK:
                    return _json(answer, path)
                problem = _problem(answer.status_code, path)
                asked = answer.headers.get("Retry-After", "")
                wait = min(float(asked), MAX_WAIT_SECONDS) if asked.isdecimal() else wait
            if attempt + 1 < ATTEMPTS:
                time.sleep(wait)
        raise CannotImport(
            f"{path}: {problem}. {self.path} keeps what was downloaded; the same command continues from there."
        )

    def _kept_pages(self) -> dict[tuple[str, int], int]:
        """Return the places of the file's pages; the rest of a line that was cut off is removed."""
        places: dict[tuple[str, int], int] = {}
        if not self.path.exists():
            self.path.touch(mode=0o600, exist_ok=False)
            return places
        with self.path.open("r+b") as file:
            place = 0
            for line in file:
                is_cut, begin = not line.endswith(b"\n"), f'{{"service": "{self.service}", '.encode()
                page = {} if is_cut else _page_line(line)
                # Another file, which the user named by mistake, is left as it is.
                if not (line.startswith(begin[: len(line)]) if is_cut else page.get("service") == self.service):
                    raise CannotImport(f"{self.path} is no download from {self.service}; choose another file.")
                if is_cut:
                    file.truncate(place)
                    break
                places[(page["path"], page["page"])] = place
                place += len(line)
        return places


def _page_line(line: bytes) -> Mapping[str, Any]:
    try:
        page = json.loads(line)
    except ValueError:
        return {}
    is_page = isinstance(page, dict) and isinstance(page.get("page"), int) and isinstance(page.get("items"), list)
    return page if is_page and isinstance(page.get("path"), str) else {}


def _items(page: Mapping[str, Any]) -> Items:
    return list(page["items"])


def _name(item: Any, key: str) -> str:
    """Return a listed item's name as a part of an address. Raises CannotImport where it has none."""
    name = item.get(key) if isinstance(item, dict) else None
    if not isinstance(name, str) or not name:
        raise CannotImport(f"An item of the server's list has no `{key}`. Is --format that of the server?")
    return name


def _json(answer: httpx2.Response, path: str) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise CannotImport(f"{path}: the server's answer is no JSON. Is --url the address of its API?") from None


def _problem(status: int, path: str) -> str:
    """Return what a status means, where another attempt may help. Raises CannotImport where none does."""
    if status in (401, 403):
        raise CannotImport(f"{path}: the server refuses the token ({status}). Set {SETTING}.")
    if status == 404:
        raise CannotImport(f"{path}: the server knows no such address (404). Check --url, --format and --space.")
    if status != 429 and status < 500:
        raise CannotImport(f"{path}: the server refuses the request ({status}).")
    return f"the server failed ({status})"


def download_honcho(download: Download, space: str, assistants: Items) -> None:
    """Download the peers, conclusions and sessions with messages of a workspace, or of all (Honcho's API v3)."""

    def ask(page: int) -> tuple[str, dict[str, Any]]:
        return "POST", {"params": {"page": page, "size": PAGE_SIZE}, "json": {}}

    def listed(path: str) -> Iterator[Any]:
        return download.listed(path, ask, "items")

    download.keep(ASSISTANTS, assistants)
    for workspace in [space] if space else [_name(each, "id") for each in listed("/v3/workspaces/list")]:
        root = f"/v3/workspaces/{quote(workspace, safe='')}"
        for name in ("peers", "conclusions"):
            for _item in listed(f"{root}/{name}/list"):
                pass
        for session in listed(f"{root}/sessions/list"):
            for _item in listed(f"{root}/sessions/{quote(_name(session, 'id'), safe='')}/messages/list"):
                pass


def download_hindsight(download: Download, space: str, _assistants: Items) -> None:
    """Download the memories of a bank, or of all (Hindsight's API v1)."""

    def ask(page: int) -> tuple[str, dict[str, Any]]:
        return "GET", {"params": {"limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE}}

    banks = (
        [space] if space else [_name(each, "bank_id") for each in download.listed("/v1/default/banks", ask, "banks")]
    )
    for bank in banks:
        root = f"/v1/default/banks/{quote(bank, safe='')}"
        for name in ("documents", "memories/list"):
            for _item in download.listed(f"{root}/{name}", ask, "items"):
                pass


SERVICES: Final[dict[str, Callable[[Download, str, Items], None]]] = {
    "honcho": download_honcho,
    "hindsight": download_hindsight,
}

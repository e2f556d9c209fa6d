"""The interface in Japanese (SPEC W10): everything is translated, and no page of the admin still speaks English."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import translation

from conversations.domain.policy import ChatPolicy
from memoryhub.admin.base import form_errors
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.roles import ROLES
from memoryhub.jobs.registry import KINDS
from memoryhub.tenancy.policies import check_overrides
from memoryhub.tenancy.policy import PolicyError, Trust
from memoryhub.unfold import PAGES
from memoryhub.zones import known_zones
from scripts import translations
from strength.actions.curation import apply_transition
from strength.domain.memories import WrongState
from strength.models import Memory
from summaries.actions.documents import append_entry
from summaries.actions.projects import create_project
from summaries.actions.routing import route_message
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, page_of

REGISTERED = sorted(admin.site._registry, key=lambda model: model._meta.label)
WORD = re.compile(r"[A-Za-z][a-z]{2,}")
PERMISSION = re.compile(r"[^|<>,]+\| [^|<>]+ \| Can (?:view|add|change|delete) [A-Za-z0-9 ]+")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{4,27}|[0-9a-f]{8,}|\S+\*{4,}")  # and what is left of a password's hash
DATA = {"bdi", "code", "pre", "textarea", "script", "style", "template"}
"""Elements that hold what people and programs wrote, and what is no language."""

# Products, formats, units and languages, and what the API and the settings call by these words.
NAMES = {
    "memoryhub", "Webhook", "English", "JSON", "Lines", "CSV", "API", "OpenAPI", "Django", "JavaScript", "Python", "Shell", "curl",
    "fetch", "requests", "zip", "Anthropic", "OpenAI", "hashing", "Hashing", "ngrams", "none", "anthropic", "openai",
    "esc", "Ctrl", "Control", "Command", "Mac", "manage", "serve", "run", "worker", "read", "write", "admin", "auto",
    "Chat", "Claude", "Code", "Letta", "Markdown", "mem", "Deep", "Seek", "Gemini", "Grok", "Libre", "Mistral", "Web",
    "Hindsight", "Honcho",
    "content", "text", "created", "date",  # systems and forms that are imported, and columns of a table
    "agent",  # a value of memory_language
    "Memoryhub", "Open", "actor",  # of OpenAI, and of {actorId} in a namespace
}  # fmt: skip


# What the fixture's rows hold.
ROWS = {
    "kana", "Kana", "hiroki", "tanaka", "boss", "Boss", "slack", "laptop", "Laptop", "home", "Kyoto", "last", "moved",
    "spring", "Likes", "matcha", "ice", "cream", "Which", "food", "sweet",
    "notes", "top", "relevance", "score", "sha", "pbkdf",
    "asked",  # the reason that a program gave, kept as it was given
}  # fmt: skip

GROUPS = {word for name in ROLES for word in (name, name.capitalize())}
"""What the groups are called is data where people and groups are listed; anywhere else it is a word for a reader."""


class Texts(HTMLParser):
    """Collects what a page shows and reads out, but for data."""

    def __init__(self) -> None:
        super().__init__()
        self.closed_by: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if self.closed_by or tag in DATA or "material-symbols-outlined" in (values.get("class") or ""):
            if tag not in ("br", "input", "img", "hr", "meta", "link", "wbr"):
                self.closed_by.append(tag)
            return
        for name in ("title", "aria-label", "placeholder", "alt"):
            self.found.append(values.get(name) or "")

    def handle_endtag(self, tag: str) -> None:
        if self.closed_by and self.closed_by[-1] == tag:
            self.closed_by.pop()

    def handle_data(self, data: str) -> None:
        if not self.closed_by:
            self.found.append(data)


def english_of(page: str, known: set[str]) -> set[str]:
    """Return the English words that a page shows, but for names and what the rows hold.

    The names of permissions are rows too: Django keeps them in a table of its own, in English.
    """
    texts = Texts()
    texts.feed(PERMISSION.sub("", page))
    return {word for text in texts.found for word in WORD.findall(ID.sub("", text))} - known


@pytest.fixture
def japanese(boss: Client) -> Client:
    boss.cookies[settings.LANGUAGE_COOKIE_NAME] = "ja"
    return boss


def addresses(hub: Hub) -> Iterator[str]:
    project = create_project(actor=hub.actor, name="kana", description="Likes matcha", by=BY, now=NOW)
    append_entry(
        project=project,
        document_name="MEMORY.md",
        text="Likes matcha",
        pinned=False,
        sources={},
        trust=Trust.TRUSTED,
        by=BY,
        now=NOW,
    )
    route_message(actor=hub.actor, message="Likes matcha", session=None, channel="slack", by=BY, now=NOW)
    yield reverse("admin:index")
    for model in REGISTERED:
        yield list_of(model)
        yield list_of(model, "add")
        for row in model._default_manager.all()[:1]:
            yield page_of(row)
            yield page_of(row, "delete")
    for page in PAGES:
        if "<" not in page.address:
            yield f"/admin/{page.address}"


def test_every_text_is_translated() -> None:
    assert translations.run(check=True) == []


@pytest.mark.slow
def test_no_page_speaks_english(japanese: Client, hub: Hub) -> None:
    known = NAMES | ROWS | {word for kind in KINDS for word in WORD.findall(f"{kind} {kind.capitalize()}")}
    known |= {word for zone in known_zones() for word in WORD.findall(zone)}
    policy = ChatPolicy()
    of_programs = [*policy.unstored_tags, *policy.unstored_openings, *policy.task_openings]
    known |= {word for text in of_programs for word in WORD.findall(text)}
    left: dict[str, set[str]] = {}
    seen = 0
    for address in addresses(hub):
        answer = japanese.get(address)
        if answer.status_code != 200 or "text/html" not in answer["Content-Type"] or address.endswith("/palette/"):
            continue
        seen += 1
        page = answer.content.decode()
        assert '<html lang="ja"' in page, address
        if words := english_of(page, known | GROUPS if address.startswith("/admin/auth/") else known):
            left[address] = words
    assert seen > 50
    assert not left, "\n".join(f"{address}: {sorted(words)}" for address, words in left.items())


def test_the_check_finds_what_is_english(japanese: Client, hub: Hub) -> None:
    assert english_of("<p>保存 <b title='Save it'>済み</b> <bdi>some data</bdi></p>", set()) == {"Save"}
    assert english_of("<p>Archived <code>not this</code></p>", {"Other"}) == {"Archived"}


def test_the_check_finds_kinds_of_hands_and_verbs() -> None:
    shown = "<p><bdi>aya</bdi> (curator), Write summary</p>"
    assert english_of(shown, NAMES | ROWS) == {"curator", "Write", "summary"}


def test_pages_say_what_kind_of_hand_it_was_in_the_readers_language(japanese: Client, hub: Hub) -> None:
    page = japanese.get(page_of(hub.memory)).content.decode()
    assert "<bdi>test</bdi></span>（コマンド）" in page and "command）" not in page
    told = AuditEntry.objects.filter(verb="write").latest("at")
    assert not english_of(japanese.get(page_of(told)).content.decode(), NAMES | ROWS)


def test_what_the_log_keeps_does_not_depend_on_the_reader(japanese: Client, boss: Client, hub: Hub) -> None:
    for verb in ("pin", "unpin"):
        japanese.post(page_of(hub.memory, "curate"), {"verb": verb})
    chosen = {"action": "pin", "_selected_action": [str(hub.memory.pk)], "post": "yes"}
    japanese.post(list_of(Memory), chosen)
    kept = list(LogEntry.objects.values_list("object_repr", flat=True))
    assert len(kept) == 3
    with translation.override(None):
        assert set(kept) == {str(hub.memory)}


def test_the_login_page_is_japanese(client: Client, db: None) -> None:
    page = client.get(reverse("admin:login"), headers={"accept-language": "ja"}).content.decode()
    assert '<html lang="ja"' in page and "ログイン" in page
    assert not english_of(page, NAMES)


def test_refusals_are_in_the_readers_language(hub: Hub) -> None:
    with pytest.raises(WrongState) as refused:
        apply_transition(memory=hub.memory, verb="approve", by=BY, reason="", now=NOW)
    with translation.override("ja"):
        told = str(refused.value)
    assert not WORD.search(told), told
    assert str(refused.value) == "A memory that is active cannot be approved."


def test_policy_problems_are_in_the_readers_language() -> None:
    with pytest.raises(PolicyError) as refused:
        check_overrides({"recall_limit": -1, "untrusted_channels": "slack"})
    with translation.override("ja"):
        problems: Any = [problem for _field, problem in form_errors(refused.value)]
    assert len(problems) == 2
    for problem in problems:
        _key, _colon, words = problem.partition(": ")
        assert not WORD.search(words), problem

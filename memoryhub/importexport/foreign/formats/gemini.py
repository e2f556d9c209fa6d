"""Gemini's activity from Google Takeout: `My Activity/Gemini Apps/MyActivity.json`, or the same as HTML. Pure.

It is a log of questions with their answers, the newest first, and mostly without conversations: those of a day (UTC)
become a session with an id that does not change when later exports have more. Takeout calls the file by the
language of the account.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from html import unescape
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from django.utils.translation import gettext_noop

from memoryhub.importexport.foreign.archives import Archive, elements_of, first_values, json_files
from memoryhub.importexport.foreign.formats import activity_html
from memoryhub.importexport.foreign.records import (
    FILES,
    MESSAGES,
    ImportedMessage,
    ImportedSession,
    LeftOut,
    LocatedRecord,
    Omission,
    Record,
    Refusal,
    Role,
    UnreadableElement,
    new_message,
    objects,
    parse_time,
    session_records,
)

OTHER_PRODUCTS: Final = gettext_noop("activities of other products.")
NO_QUESTION: Final = gettext_noop("activities that are no question, such as feedback and sharing.")

_PRODUCTS: Final = ("gemini", "bard")
_QUESTION: Final = re.compile(
    r"(?:Prompted with: |Asked (?:Gemini|Bard): |(?:Prompted|Asked|Said|Branched|Answered)\s)"
)
_OTHER: Final = re.compile(
    r"(?:Created|Used|Added|Gave|Selected|Shared|Deleted|Viewed|Visited|Searched|Edited|Pinned|Renamed|Exported|Updated)\s"
)
_TAG: Final = re.compile(r"(/?)([A-Za-z0-9]+)")
_ATTACHED: Final = re.compile(r"(?:\A|\s)Attached (\d{1,4}) files?\.?\Z")
_CONVERSATION: Final = re.compile(r"/app/(?:c/)?([0-9A-Za-z_-]{4,100})")
_BLOCKS: Final = frozenset(
    ["p", "br", "div", "li", "tr", "pre", "table", "ul", "ol", "hr", "h1", "h2", "h3", "h4", "h5", "h6"]
)

Exchange = tuple[str, float, str, str, str, int]
"""Session, time, id, question, answer and number of files."""

SIGN: Final = "activities of Gemini or Bard"


def recognises(archive: Archive) -> bool:
    values = first_values(archive, [name for name in json_files(archive) if not _is_html(name)])
    return any(_is_activity(value) and _is_gemini(value) for value in values) or bool(_html_files(archive))


def _is_html(name: str) -> bool:
    return name.lower().endswith(".html")


def _html_files(archive: Archive) -> list[str]:
    return [name for name in archive.ending(".html") if _is_log(archive, name)]


def _is_log(archive: Archive, name: str) -> bool:
    with archive.open(name, counts=False) as file:
        return activity_html.is_activity(file)


def _logs(archive: Archive) -> list[str]:
    """Return the files of activities; a Takeout has those of other products, too."""
    named = [name for name in json_files(archive) if not _is_html(name)]
    if len(archive.names) > 1:
        named = [name for name in named if any(map(_is_activity, first_values(archive, [name])))]
    return named + _html_files(archive)


def _is_activity(value: Any) -> bool:
    return isinstance(value, dict) and {"header", "title", "time"} <= value.keys()


def _is_gemini(value: Mapping[str, Any]) -> bool:
    products = value.get("products")
    names = [value.get("header"), *(products if isinstance(products, list) else [])]
    return any(product in str(name).lower() for name in names for product in _PRODUCTS)


def read(archive: Archive, now: datetime) -> Iterator[LocatedRecord]:
    for name in _logs(archive):
        waiting: list[Exchange] = []
        with archive.open(name) as file:
            for element in activity_html.activities(file) if _is_html(name) else elements_of(name, file):
                record: Record | None = None
                try:
                    if element.problem:
                        raise UnreadableElement(element.problem)
                    exchange = read_activity(element.value)
                    if waiting and exchange[0][:10] != waiting[0][0][:10]:
                        yield from _sessions(waiting, name)
                        waiting = []
                    waiting.append(exchange)
                except LeftOut as reason:
                    record = Omission(str(reason))
                except UnreadableElement as error:
                    record = Refusal(MESSAGES, str(error))
                if record is not None:
                    yield LocatedRecord(record, element.entry, element.line, name)
        yield from _sessions(waiting, name)


def read_activity(value: Any) -> Exchange:
    """Return an activity's question and answer. Raises LeftOut, UnreadableElement."""
    if not _is_activity(value) or not isinstance(value["title"], str):
        raise UnreadableElement("it is no activity: it has no `header`, `title` or `time`.")
    if not _is_gemini(value):
        raise LeftOut(OTHER_PRODUCTS)
    time = parse_time(value["time"])
    if time is None:
        raise UnreadableElement("it has no time, or in a language that is not known; choose JSON in Google Takeout.")
    question, answer, files = _parts(value)
    if not question.strip():
        raise LeftOut(NO_QUESTION)
    # Byte-equal activities are one: they have no ids.
    key = sha256(f"{value['time']} {value['title']}".encode("utf-8", "replace")).hexdigest()[:32]
    conversation = _CONVERSATION.search(value["titleUrl"]) if isinstance(value.get("titleUrl"), str) else None
    session = f"{time.date()} {conversation[1]}" if conversation else str(time.date())
    return session, time.timestamp(), key, question, answer, files


def _parts(value: Mapping[str, Any]) -> tuple[str, str, int]:
    details = {str(detail.get("name")): detail.get("value") for detail in objects(value.get("details"))}
    request, response = details.get("Request"), details.get("Response")
    if isinstance(request, str):
        return request, response if isinstance(response, str) else "", 0
    answers = [item.get("html") for item in objects(value.get("safeHtmlItem"))]
    answer = "\n".join(html_text(each) for each in answers if isinstance(each, str)).strip()
    title, names = value["title"].replace("\xa0", " ").strip(), value.get("attachedFiles")
    files = len(names) if isinstance(names, list) else int("imageFile" in value)
    if attached := _ATTACHED.search(title):
        files, title = max(files, int(attached[1])), title[: attached.start()]
    if verb := _QUESTION.match(title):
        return title[verb.end() :], answer, files
    # An account in another language has other verbs; what was answered is a question.
    return ("" if _OTHER.match(title) or not answer else title), answer, files


def _sessions(exchanges: list[Exchange], name: str) -> Iterator[LocatedRecord]:
    """Yield the sessions of a day, each in the order of time."""
    for session, group in groupby(sorted(exchanges), itemgetter(0)):
        records = session_records(ImportedSession(session, f"Gemini, {session[:10]}"), _turns(group), _read_turn)
        yield from (LocatedRecord(record, file=name) for record in records)


def _turns(exchanges: Iterable[Exchange]) -> Iterator[tuple[str, str, float, str, int]]:
    for _, time, key, question, answer, files in exchanges:
        yield "user", f"{key}-q", time, question, files
        if answer:
            yield "assistant", f"{key}-a", time, answer, 0


def _read_turn(turn: tuple[str, str, float, str, int]) -> ImportedMessage:
    name, key, time, text, files = turn
    role: Role = "user" if name == "user" else "assistant"
    return new_message(role, text, id=key, created_at=time, left_out=[FILES] * files)


def html_text(html: str) -> str:
    """Return the text of sanitised HTML, a line for each block.

    By searching, as Python's parser takes quadratic time for tags that are not closed.
    """
    pieces: list[str] = []
    position = 0
    while (start := html.find("<", position)) >= 0 and (end := html.find(">", start)) >= 0:
        pieces.append(html[position:start])
        tag = _TAG.match(html, start + 1, end)
        name = tag[2].lower() if tag else ""
        if tag and name == "li":
            pieces.append("" if tag[1] else "\n- ")
        elif name in _BLOCKS:
            pieces.append("\n")
        position = end + 1
    lines = [line.rstrip() for line in unescape("".join([*pieces, html[position:]])).split("\n")]
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if line or before]
    return "\n".join(kept).strip()

"""Google's activity log as HTML, which Takeout writes unless JSON is chosen, read into the objects of the JSON. Pure.

Dates are words in the language of the account; those of its commonest languages are read.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from html import unescape
from typing import Any, BinaryIO, Final

from memoryhub.importexport.foreign.json_stream import CHUNK_BYTES, MAX_ELEMENT_BYTES, Element

CELL: Final = b'<div class="outer-cell'
SNIFFED_BYTES: Final = 2**18

_PRODUCT: Final = re.compile(r'mdl-typography--title">([^<]{0,100})')
_CONTENT: Final = 'mdl-typography--body-1">'
_NEXT_CELL: Final = '<div class="content-cell'
_ADDRESS: Final = re.compile(r"https://gemini\.google\.com/app/[\w-]{4,100}")
_BREAK: Final = re.compile(r"<br */?>")
_CLOCK: Final = re.compile(r"\b(\d{1,2}):(\d\d):(\d\d)(?:\s?([AP])\.?M)?", re.IGNORECASE)
_NUMERIC_DATE: Final = re.compile(r"\b(\d{4})[/年.-] ?(\d{1,2})[/月.-] ?(\d{1,2})")
_WORDED_DATE: Final = re.compile(
    r"(?:([^\W\d_]{3,12})\.? (\d{1,2})|(\d{1,2})\.? (?:de )?([^\W\d_]{3,12})\.?),? (?:de )?(\d{4})\b"
)
_OFFSET: Final = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2}):?(\d\d)?")
_MAX_DATE_LENGTH: Final = 80

# By the first letters, in English, German, French, Spanish, Portuguese, Italian, Dutch and Swedish.
_MONTHS: Final = (
    "jan ene gen", "feb fév fev", "mar mär mrt", "apr avr abr", "may mai mei mag maj", "jun juin giu", "jul juil lug",
    "aug aoû ago", "sep set", "oct okt out ott", "nov", "dec déc dez dic",
)  # fmt: skip
_HOURS: Final = {
    "JST": 9, "KST": 9, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4,
    "BRT": -3, "BST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "EET": 2, "EEST": 3, "MSK": 3, "IST": 5.5,
    "AEST": 10, "AEDT": 11,
}  # fmt: skip


def is_activity(file: BinaryIO) -> bool:
    """Return whether a file is a log with activities of Gemini or Bard."""
    begin = file.read(SNIFFED_BYTES)
    return CELL in begin and any(name in begin.lower() for name in (b"gemini", b"bard"))


def activities(file: BinaryIO) -> Iterator[Element]:
    """Yield the activities of a log as `MyActivity.json` has them."""
    buffer, number = b"", 0
    while chunk := file.read(CHUNK_BYTES):
        before, *cells = (buffer + chunk).split(CELL)
        for cell in cells[:-1]:
            number += 1
            yield Element(0, _activity(cell), entry=number)
        buffer = CELL + cells[-1] if cells else before[1 - len(CELL) :]
        if len(buffer) > MAX_ELEMENT_BYTES:
            number += 1
            yield Element(0, problem=f"longer than {MAX_ELEMENT_BYTES} bytes.", entry=number)
            buffer = b""
    if buffer.startswith(CELL):
        yield Element(0, _activity(buffer.removeprefix(CELL)), entry=number + 1)


def _activity(raw: bytes) -> dict[str, Any]:
    cell = raw.decode("utf-8", "replace")
    product = _PRODUCT.search(cell)
    content = cell.partition(_CONTENT)[2].partition(_NEXT_CELL)[0]
    pieces = _BREAK.split(content)
    at, time = next(((at, time) for at, piece in enumerate(pieces) if (time := parse_date(unescape(piece)))), (1, None))
    address = _ADDRESS.search(cell)
    return {
        "header": unescape(product[1]).strip() if product else "",
        "title": unescape("\n".join(pieces[:at])).strip(),
        "time": time.isoformat() if time else None,
        "safeHtmlItem": [{"html": "<br>".join(pieces[at + 1 :])}],
        "titleUrl": address[0] if address else None,
    }


def parse_date(text: str) -> datetime | None:
    """Parse a date with its time, None for another text: `Feb 17, 2026, 10:05:10 PM JST`, `2026/02/17 22:05:10 JST`."""
    clock = _CLOCK.search(text) if len(text) <= _MAX_DATE_LENGTH else None
    numeric, worded = _NUMERIC_DATE.search(text), _WORDED_DATE.search(text)
    if clock is None or not (numeric or worded):
        return None
    if numeric:
        year, month, day = int(numeric[1]), int(numeric[2]), int(numeric[3])
    elif worded:
        year, day = int(worded[5]), int(worded[2] or worded[3])
        month = _month(worded[1] or worded[4])
    hour = int(clock[1]) % 12 + 12 * (clock[4].upper() == "P") if clock[4] else int(clock[1])
    try:
        return datetime(year, month, day, hour, int(clock[2]), int(clock[3]), tzinfo=_zone(text))
    except (ValueError, OverflowError):
        return None


def _month(word: str) -> int:
    starts = ((number, start) for number, listed in enumerate(_MONTHS, 1) for start in listed.split())
    found = [(len(start), number) for number, start in starts if word.lower().startswith(start)]
    return max(found)[1] if found else 0


def _zone(text: str) -> timezone:
    if offset := _OFFSET.search(text):
        minutes = 60 * int(offset[2]) + int(offset[3] or 0)
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes)) if minutes < 24 * 60 else UTC
    if "年" in text and "CST" in text:
        return timezone(timedelta(hours=8))  # China's
    name = next((word for word in text.split() if word in _HOURS), "")
    return timezone(timedelta(hours=_HOURS[name])) if name else UTC

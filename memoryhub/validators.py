"""Validation of text and JSON that PostgreSQL or Python could not store or parse (SPEC H3).

NUL and lone surrogates cannot be stored in PostgreSQL's text, NaN and Infinity not in its JSON, a
nesting of thousands exhausts the interpreter's stack, and integers of thousands of digits its
patience. Each is refused here, once, with the place named, whatever field it stands in. Pure: the API's
parser and the admin's forms both ask it.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 32
MAX_DIGITS = 100
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class UnusableJSON(ValueError):
    """A document that is no JSON, or that holds what cannot be stored; the message says where."""


def parse_json(body: bytes) -> Any:
    """Return the document in `body`; raises UnusableJSON for what cannot be parsed or stored."""
    if not body.strip():
        return {}
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableJSON(f"The body is not UTF-8 (byte {error.start}).") from None
    _check_depth(text)
    try:
        document = json.loads(text, parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise UnusableJSON(
            f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from None
    check_storable(document)
    return document


def check_storable(value: Any, path: str = "body") -> None:
    """Raise UnusableJSON where a text in `value` holds NUL or a lone surrogate."""
    for place, text in _texts(value, path):
        if problem := text_problem(text):
            raise UnusableJSON(f"{place}: {problem}")


def text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "the character NUL cannot be stored."
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "half of a surrogate pair is no character; send the whole one."
    return None


def storable_text(text: str) -> str:
    """Return a text with U+FFFD in place of what cannot be stored."""
    return _UNSTORABLE.sub("\ufffd", text)


def _check_depth(text: str) -> None:
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    if deepest > MAX_DEPTH:
        raise UnusableJSON(f"The body is nested {deepest} levels deep; at most {MAX_DEPTH} are allowed.")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path} (a key)", key
            yield from _texts(item, f"{path}.{key[:50]!a}" if text_problem(key) else f"{path}.{key[:50]}")


def _refuse_constant(name: str) -> float:
    raise UnusableJSON(f"{name} is not a JSON number.")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise UnusableJSON(f"A number has {len(digits)} digits; at most {MAX_DIGITS} are allowed.")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value) or len(digits) > MAX_DIGITS:
        raise UnusableJSON("A number is too large to be kept.")
    return value

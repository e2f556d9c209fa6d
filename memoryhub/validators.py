"""Validation of text and JSON that PostgreSQL or Python could not store or parse (SPEC H3).

NUL and lone surrogates cannot be stored in PostgreSQL's text, NaN and Infinity not in its JSON, a
nesting of thousands exhausts the interpreter's stack, and integers of thousands of digits its
patience; of a key that is given twice one value would be lost. Each is refused here, once, with the
place named, in any field; in the texts of a request, what cannot be stored is replaced.
Pure: the API's parser and the admin's forms both ask it.
"""

import json
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

MAX_DEPTH = 32
MAX_DIGITS = 100
MAX_CONTAINERS = 50_000
MAX_STRINGS = 200_000
MAX_VALUES = 1_000_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
KEY = " (a key)"
_BRACKET = re.compile(r"[][{}]")


class UnusableJSON(ValueError):
    """A document that is no JSON, or that holds what cannot be stored; the message names the place."""


def parse_json(body: bytes) -> Any:
    """Return the document in `body`; raises UnusableJSON for what cannot be parsed or stored."""
    document, is_storable = _parse(body)
    if not is_storable:
        check_storable(document)
    return document


def parse_mended_json(body: bytes) -> tuple[Any, int]:
    """Return the document in `body`, and in how many of its texts NUL or half a surrogate pair was replaced by U+FFFD.

    Raises UnusableJSON for what cannot be parsed, and for such a character in a key.
    """
    document, is_storable = _parse(body)
    return (document, 0) if is_storable else mend(document)


def mend(document: Any, path: str = "body") -> tuple[Any, int]:
    """Return a document with U+FFFD in place of what its texts cannot hold, and the number of texts that had it.

    Raises UnusableJSON for a key that has.
    """
    wrong = [location for location, text in _texts(document, path) if text_problem(text)]
    for location in wrong:
        if location.endswith(KEY):
            check_storable(document, path)
    return (_mended(document), len(wrong)) if wrong else (document, 0)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {key: _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value


def _parse(body: bytes) -> tuple[Any, bool]:
    """Return the document in `body`, and whether all of it can surely be stored."""
    if not body.strip():
        return {}, True
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableJSON(f"The body is not UTF-8 (byte {error.start}).") from None
    _check_shape(text)
    try:
        document = decode_json(text)
    except json.JSONDecodeError as error:
        raise UnusableJSON(f"The body is not JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    # Both can occur only as escapes: unescaped, neither is valid in UTF-8 or JSON.
    return document, _ESCAPED_UNSTORABLE.search(text) is None


def decode_json(text: str, name: str = "body") -> Any:
    """Return the document; raises UnusableJSON for numbers that are none, too long or infinite, and for repeated keys.

    Raises json.JSONDecodeError and RecursionError as `json.loads` does.
    """
    read = partial(json.loads, text, parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite)
    try:
        return read(object_pairs_hook=_object)
    except _RepeatedKey:
        # The decoder does not report positions: parse again with all members to find the path.
        path = _repeated_key(read(object_pairs_hook=_Members), name)
        raise UnusableJSON(f"{path}: the key is given more than once.") from None


class _RepeatedKey(Exception):
    pass


class _Members(list[tuple[str, Any]]):
    """An object's keys and values, the repeated ones included."""


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        raise _RepeatedKey
    return value


def _repeated_key(value: Any, path: str) -> str | None:
    """Return the path of the first repeated key, or None."""
    seen: set[str] = set()
    if isinstance(value, _Members):
        for key, item in value:
            member_path = _member(path, key)
            if key in seen:
                return member_path
            seen.add(key)
            if repeated := _repeated_key(item, member_path):
                return repeated
    elif isinstance(value, list):
        return next(filter(None, (_repeated_key(item, f"{path}[{n}]") for n, item in enumerate(value))), None)
    return None


def check_storable(value: Any, path: str = "body") -> None:
    """Raise UnusableJSON where a text in `value` holds NUL or a lone surrogate."""
    for location, text in _texts(value, path):
        if problem := text_problem(text):
            raise UnusableJSON(f"{location}: {problem}")


def text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "the character NUL cannot be stored."
    if _UNSTORABLE.search(text):
        return "half of a surrogate pair is no character; send the whole one."
    return None


def storable_text(text: str) -> str:
    """Return a text with U+FFFD in place of what cannot be stored."""
    return _UNSTORABLE.sub("\ufffd", text)


def _check_shape(text: str) -> None:
    """Raise UnusableJSON before parsing a document that would take a hundred times its bytes in memory."""
    skeleton = _without_texts(text)
    if excess := _excess(skeleton):
        raise UnusableJSON(f"The body has {excess} are allowed. Send it in parts.")
    if _containers(skeleton) <= MAX_DEPTH:
        return
    depth = deepest = 0
    for bracket in _BRACKET.findall(skeleton):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise UnusableJSON(f"The body is nested {deepest} levels deep; at most {MAX_DEPTH} are allowed.")


def _without_texts(text: str) -> str:
    """Return a document with its strings emptied.

    A backslash outside a string ends the parser's work, so what is miscounted behind it is never parsed.
    """
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    if text.count('"') // 2 > MAX_STRINGS:
        return text  # refused before a list of all of them is built
    return '""'.join(text.split('"')[::2])


def _containers(text: str) -> int:
    return text.count("[") + text.count("{")


def _excess(text: str) -> str | None:
    containers = _containers(text)
    for count, limit, name in (
        (text.count('"') // 2, MAX_STRINGS, "texts"),
        (containers, MAX_CONTAINERS, "lists and objects"),
        (text.count(",") + containers + 1, MAX_VALUES, "values"),
    ):
        if count > limit:
            return f"{count} {name}; at most {limit}"
    return None


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}{KEY}", key
            yield from _texts(item, _member(path, key))


def _member(path: str, key: str) -> str:
    return f"{path}.{key[:50]!a}" if text_problem(key) else f"{path}.{key[:50]}"


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

"""Take secrets out of texts before they are stored. Pure, and idempotent: a screened text is screened to itself."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memoryhub.privacy.shapes import (
    ANYWHERE,
    ASSIGNED,
    BY_HEAD,
    HARMLESS_NAMES,
    HEAD,
    HEADER,
    KEY_NAME,
    NUMBER_NAMES,
    PASSWORD_NAMES,
    STATED,
    VALUE,
    WINDOW,
    Named,
    Shape,
    has_digit,
    is_random,
)

MARK: Final = "[secret removed: "
MIN_LENGTH: Final = 8
"""Characters of the shortest text with a secret and its name."""

MORE_PASSES: Final = 2
MIN_KEY_LENGTH: Final = 16
"""Characters from which the key of a JSON object is screened."""

MIN_RANDOM_LENGTH, MIN_CHARACTERS = 20, 8
"""Different characters that a secret of some length has; `ghp_xxxx…` is an example."""

_SENTENCE_END: Final = re.compile(r"[。！？!?\n]|\. ")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_MEASURE: Final = re.compile(r"\d+-?[a-z]+[.,]?|[\d.,:/-]+")
_PLACEHOLDERS: Final = (
    "your",
    "example",
    "change",
    "placeholder",
    "xxx",
    "***",
    "...",
    "redacted",
    "dummy",
    "<",
    "todo",
)
_NAMES_OF_SECRETS: Final = (*ASSIGNED.names, *HEADER.names)
_WORD_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_CODE: Final = frozenset("()[]{}=<>")
_BEFORE: Final = 40


@dataclass(frozen=True)
class Screened:
    """A text without its secrets, how many of each kind it had, and whether it seems to state a password in prose."""

    text: str = field(repr=False)
    removed: Mapping[str, int] = field(default_factory=dict)
    is_doubtful: bool = False


def screen(text: str) -> Screened:
    """Return a text with each secret replaced by `[secret removed: kind]`."""
    if len(text) < MIN_LENGTH:
        return Screened(text)
    total = _pass(text)
    # A secret that is glued to another is found once the other is gone. Few times: one may be glued to the next.
    for _ in range(MORE_PASSES):
        if not total.removed or not (more := _pass(total.text)).removed:
            break
        total = Screened(more.text, Counter(total.removed) + Counter(more.removed))
    return replace(total, is_doubtful=_states_password(total.text, _lowered(total.text)))


def _pass(text: str) -> Screened:
    removed = Counter[str]()
    heads = {*HEAD.findall(text)}
    for shape in [*ANYWHERE, *(shape for head in sorted(heads & BY_HEAD.keys()) for shape in BY_HEAD[head])]:
        if any(mark in text for mark in shape.marks):
            text = _without_shape(text, shape, removed)
    lowered = _lowered(text)
    for named, kind_of in ((HEADER, _kind_of_header), (ASSIGNED, _kind_of_assigned)):
        if present := [name for name in named.names if name in lowered]:
            text = _without_values(text, lowered, named, present, kind_of, removed)
            lowered = _lowered(text)
    return Screened(text, dict(removed))


def screen_json(value: Any, screen_text: Callable[[str], str]) -> Any:
    """Return a JSON value with all its texts and keys screened; a member's name counts as the name of its value."""
    if isinstance(value, str):
        return screen_text(value)
    if isinstance(value, Mapping):
        named = value.get("name") or value.get("key")
        return {
            screen_text(key) if len(key) >= MIN_KEY_LENGTH else key: _member(
                named if key == "value" and isinstance(named, str) else key, item, screen_text
            )
            for key, item in value.items()
        }
    return [screen_json(item, screen_text) for item in value] if isinstance(value, list | tuple) else value


def _member(key: str, value: Any, screen_text: Callable[[str], str]) -> Any:
    if isinstance(value, list | tuple):
        return [_member(key, item, screen_text) for item in value]
    if isinstance(value, str) and 4 <= len(value) <= 200 and any(name in key.lower() for name in _NAMES_OF_SECRETS):
        prefix = f'{key}="'
        screened = screen_text(f'{prefix}{value}"')
        if screened.startswith(prefix) and screened.endswith('"'):
            return screened[len(prefix) : -1]
    return screen_json(value, screen_text)


def removal(kind: str) -> str:
    return f"{MARK}{kind}]"


def _lowered(text: str) -> str:
    """Return a text in lower case, of the same length: one letter alone has a longer small one."""
    return text.replace("İ", "I").lower()


def _without_shape(text: str, shape: Shape, removed: Counter[str]) -> str:
    group = VALUE if VALUE in shape.pattern.groupindex else 0

    def replaced(match: re.Match[str]) -> str:
        value = match[group]
        if not shape.check(value) or (len(value) >= MIN_RANDOM_LENGTH and len({*value.lower()}) < MIN_CHARACTERS):
            return match[0]
        removed[shape.kind] += 1
        start = match.start(group) - match.start()
        return match[0][:start] + removal(shape.kind) + match[0][start + len(value) :]

    return shape.pattern.sub(replaced, text)


def _without_values(
    text: str,
    lowered: str,
    named: Named,
    present: list[str],
    kind_of: Callable[[str, str, re.Match[str]], str | None],
    removed: Counter[str],
) -> str:
    parts, end = [], 0
    for place, name in _places(lowered, present):
        if place < end or _is_in_mark(text, place) or not (match := named.pattern.match(text, place + len(name))):
            continue
        group = VALUE if match[VALUE] is not None else "quoted"
        before = text[max(0, place - _BEFORE) : place + len(name)]
        if kind := kind_of(name, before, match):
            parts += [text[end : match.start(group)], removal(kind)]
            removed[kind] += 1
            end = match.end(group)
    return "".join([*parts, text[end:]]) if parts else text


def _is_in_mark(text: str, place: int) -> bool:
    """Return whether a name is one of a kind in a mark, as in `[secret removed: token]`."""
    begin = text.rfind(MARK, max(0, place - _BEFORE), place)
    return begin >= 0 and "]" not in text[begin:place]


def _places(lowered: str, names: list[str]) -> Iterator[tuple[int, str]]:
    """Return the places of names in a text, in their order."""
    found = []
    for name in names:
        place = lowered.find(name)
        while place >= 0:
            found.append((place, name))
            place = lowered.find(name, place + len(name))
    return iter(sorted(found))


def _kind_of_header(name: str, before: str, match: re.Match[str]) -> str | None:
    value, is_basic = match[VALUE], match["scheme"].lower().startswith("basic")
    is_secret = has_digit(value) or is_basic or (len(value) >= 16 and not value.isupper() and not value.islower())
    return "authorization header" if is_secret and not _is_placeholder(value) else None


def _kind_of_assigned(name: str, before: str, match: re.Match[str]) -> str | None:
    value, is_quoted = match["quoted"] or match[VALUE], match["quoted"] is not None
    whole = before[len(before) - _length_of_word(before) :] + match["suffix"]
    if (match["blank"] and not whole.startswith("--")) or (not is_quoted and "==" in (match["sign"] or "")):
        return None
    if match["suffix"].lower().endswith(("id", "ids")):
        return None
    if _is_placeholder(value) or any(word in whole.lower() for word in HARMLESS_NAMES):
        return None
    if not is_quoted and (_IDENTIFIER.fullmatch(value) or match.string[match.end() : match.end() + 1] in {"(", "["}):
        return None
    is_setting = whole.isupper() and match["sign"] == "=" and not match["suffix"].startswith("S")
    if name == KEY_NAME:
        return "key" if is_setting and len(value) >= 16 and is_random(value) and not _UUID.fullmatch(value) else None
    if name in PASSWORD_NAMES and _looks_like_password(value, is_setting):
        return "secret" if name == "secret" else "password"
    is_token = len(value) >= 16 and is_random(value)
    is_short_token = is_setting and len(value) >= 8 and has_digit(value) and not value.isdigit()
    return "token" if name not in PASSWORD_NAMES and (is_token or is_short_token) else None


def _length_of_word(text: str) -> int:
    return next((n for n, each in enumerate(reversed(text)) if each not in _WORD_CHARACTERS), len(text))


def _is_placeholder(value: str) -> bool:
    lowered, is_template = value.lower(), "${" in value and value.endswith("}")
    return value[0] in "$<{%*[" or is_template or len({*lowered}) < 3 or lowered.startswith(_PLACEHOLDERS)


def _looks_like_password(value: str, is_setting: bool) -> bool:
    """Return whether a value has letters and what words have not; any word of some length in a file of settings."""
    letters = sum(each.isascii() and each.isalpha() for each in value)
    others = sum(each.isascii() and not each.isalpha() and each not in "-_./:,*" for each in value)
    if not value.isascii() or len(value) < 6 or "://" in value:
        return False
    if is_setting and letters >= 8:
        return True
    return others > 0 and (letters > 0 or (value.isdigit() and is_setting))


def _states_password(text: str, lowered: str) -> bool:
    present = [name for name in STATED.names if name in lowered]
    return any(_is_stated(text, place + len(name), name) for place, name in _places(lowered, present))


def _is_stated(text: str, start: int, name: str) -> bool:
    window = text[start : start + WINDOW]
    if end := _SENTENCE_END.search(window):
        window = window[: end.start()]
    # A longer word, or a name in code, is no password in prose.
    if window[:1] in _WORD_CHARACTERS or text[start - len(name) - 1 : start - len(name)] in _WORD_CHARACTERS:
        return False
    match = STATED.pattern.search(window)
    if match is None or not _CODE.isdisjoint(match[VALUE]):
        return False
    value = match[VALUE].strip("\"'`.,;:!?").removesuffix("です")
    if name in NUMBER_NAMES and value.isdigit():
        return len(value) >= 4
    has_letter = any(each.isalpha() for each in value)
    return len(value) >= 5 and has_letter and has_digit(value) and not _MEASURE.fullmatch(value)

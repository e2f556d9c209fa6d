"""Characters that render as nothing, and names that look the same. Pure.

A reader sees neither: a hidden message reaches a model only, and "Аnna" in Cyrillic passes for Anna.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

CONTROLS: Final = r"\u0001-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f"
"""Without tab, line breaks and what Python calls a space."""

IGNORABLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point without JOINERS; also annotations and the null notehead."""

JOINERS: Final = r"\u200c\u200d\ufe0e\ufe0f"
"""Joiners and the selectors of emoji, which emoji and some scripts need in certain places."""

BLANK: Final = "\u2800"
"""The empty pattern of Braille, its space."""

_EMOJI: Final = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff"
)
_JOINING: Final = r"\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc"
"""Scripts in which a joiner changes a letter's form: Arabic, those of India and South-East Asia, Mongolian."""

_NAME_CHARS: Final = 1_000

_HIDDEN: Final = re.compile(
    rf"[\x00{CONTROLS}\x1f{IGNORABLE}]"
    rf"|(?<![{_EMOJI}])[\ufe0e\ufe0f](?!\u20e3)"  # but the selector of a keycap
    rf"|(?<![{_EMOJI}{_JOINING}])(?<![{_EMOJI}]\ufe0f)\u200d|(?<=[{_EMOJI}\ufe0f])\u200d(?![{_EMOJI}])"
    rf"|(?<![{_JOINING}])\u200c"
)
_UNSEEN: Final = re.compile(rf"[\x00{CONTROLS}\x1f{IGNORABLE}{JOINERS}]")
_PRINTABLE: Final = re.compile(
    rf"[{BLANK}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
"""What `str.isprintable` takes for printable."""


def without_hidden(text: str) -> str:
    """Return text without what renders as nothing; joiners stay where emoji and scripts need them.

    Printable text, the common case, is told apart first.
    """
    if text.replace("\n", " ").isprintable() and (text.isascii() or not _PRINTABLE.search(text)):
        return text
    return _HIDDEN.sub("", text.replace(BLANK, " "))


def is_blank(text: str) -> bool:
    """Return whether a text renders as nothing."""
    return not without_hidden(text).strip()


_CAPITALS: Final = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕЗКМНОРСТУХЅІЈԚԜ", "ABEZHIKMNOPTYXABE3KMHOPCTYXSIJQW")
_SMALL: Final = str.maketrans(
    "αγηικνορτυχωавегкмнорстухѕіјԁһԛԝпօոսհցıɑɡᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ01i|",
    "aynlkvoptuxwaberkmhopctyxsljdhqwnonuhglagabcdeghljklmnoprstuvwyzolll",
)


def looks(text: str) -> frozenset[str]:
    """Return what a name is compared by: two names look alike where they share one.

    Its letters regardless of width, case and accents, and those as Latin ones that look the same (as UTS #39 has it,
    for Cyrillic, Greek, Armenian and small capitals). Both, as a capital may look unlike its small letter.
    """
    bare = _UNSEEN.sub("", text).replace(BLANK, " ")[:_NAME_CHARS]
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", bare))
    plain = " ".join("".join(each for each in decomposed if not unicodedata.combining(each)).split())
    folded = plain.casefold()
    return frozenset({folded, folded.translate(_SMALL), plain.translate(_CAPITALS).casefold().translate(_SMALL)} - {""})


def tell_apart(names: Iterable[str], *, most: int) -> dict[str, str]:
    """Return each name as it is shown, in at most `most` characters: of look-alikes, all but the first get a number."""
    shown, numbers = dict[str, str](), dict[str, int]()
    for name in dict.fromkeys(names):
        text, number = name, max((numbers.get(each, 2) for each in looks(name)), default=2)
        while looks(text) & numbers.keys():
            mark = f" ({number})"
            text, number = f"{name[: most - len(mark)]}{mark}", number + 1
        shown[name] = text
        numbers |= dict.fromkeys(looks(text), 2) | dict.fromkeys(looks(name), number)
    return shown

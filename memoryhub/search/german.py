"""Function words of German in queries. Pure.

They are terms of stored texts, for which there is no list by language. In a query they are none: otherwise
"Wo ist meine Karte?" finds each text with "ist".
"""

from collections.abc import Iterable
from typing import Final

from memoryhub.search.analysis import analyse

_GERMAN: Final = """
ich du wir mich mir dich dir uns euch ihnen ihr mein meine meinen meinem meiner dein deine deinen deinem deiner seine
seinen seinem seiner unser unsere unseren der das dem ein eine einen einem einer und oder aber nicht kein keine keinen
ist sind habe hast haben hatte wird werden wurde kann kannst muss wo wie wer wen wem wann warum welche welcher welches
welchen welchem mit auf aus bei nach von vom zu zum zur für auch noch schon
"""
_ALSO_ENGLISH: Final = "am an bin den des die er es gibt hat im in man sie so war was will"
_SIGNS: Final = frozenset(_GERMAN.replace("ü", "u").split())
MIN_SIGNS: Final = 2
"""Different words from which on a query is German."""

FUNCTION_WORDS: Final = _SIGNS | frozenset(_ALSO_ENGLISH.split())
FUNCTION_TERMS: Final = frozenset(analyse(f"{_GERMAN} {_ALSO_ENGLISH}"))


def is_german(words: Iterable[str]) -> bool:
    """Return whether folded words are of a German query."""
    return len(_SIGNS.intersection(words)) >= MIN_SIGNS

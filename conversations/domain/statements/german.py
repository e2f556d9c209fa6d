"""German texts: capitalised words that are no names, and words of days and times in English. Pure.

German capitalises every noun. Without this, each German statement would name "Benutzer", which no message does.
"""

import re
from typing import Final

from conversations.domain.statements.dates import MONTHS, WEEKDAYS
from conversations.domain.statements.languages import language_of

_USER: Final = "benutzer benutzers benutzerin nutzer nutzers nutzerin anwender anwenders anwenderin"
USER_WORDS: Final = frozenset(_USER.split())
"""What models call the user."""

_PLAIN_WORDS: Final = """
herr herrn frau uhr euro jahr jahre jahren jahres monat monate monaten woche wochen tag tage tagen mal stunden minuten
kilometer prozent grad familie kind kinder kindern sohn tochter bruder schwester mutter vater eltern mann freund
freunde freundin hund hunde katze katzen kaffee tee musik sport arbeit urlaub hause situation absicht ergebnis
"""
_ARTICLES: Final = """
der die das den dem des ein eine einen einem einer eines im ins am ans zum zur beim vom kein keine keinen keinem
keiner mein meine meinen meinem meiner sein seine seinen seinem seiner seines ihr ihre ihren ihrem ihrer ihres unser
unsere unseren unserem unserer jede jeden jedem jeder jedes diese diesen diesem dieser dieses viele vielen
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split()) | frozenset(_ARTICLES.split()) | USER_WORDS
_WORDS: Final = """
montag:monday dienstag:tuesday mittwoch:wednesday donnerstag:thursday freitag:friday samstag:saturday
sonnabend:saturday sonntag:sunday januar:january janner:january februar:february marz:march juni:june juli:july
oktober:october dezember:december heute:today gestern:yesterday vorgestern:day_before_yesterday morgen:tomorrow
ubermorgen:day_after_tomorrow tage:days tagen:days woche:week wochen:weeks monat:month monate:months monaten:months
jahr:year jahre:years jahren:years letzte:last letzten:last letzter:last letztes:last nachste:next nachsten:next
nachster:next nachstes:next zwei:two drei:three vier:four funf:five sechs:six sieben:seven acht:eight neun:nine zehn:ten
"""
_ENGLISH: Final = dict(pair.replace("_", " ").split(":") for pair in _WORDS.split())
_HOURS: Final = ["eins", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwolf"]
_OF_TIME: Final = frozenset(
    [*(word for word, english in _ENGLISH.items() if english in (*MONTHS, *WEEKDAYS)), "jänner", "märz", "mai"]
)
_SIGNS: Final = (USER_WORDS | _OF_TIME) - {"mai", "juni", "juli"}
"""Words of which one makes a text German."""

_HALF: Final = re.compile(rf"\bhalb ({'|'.join(_HOURS)})\b")
_CLOCK: Final = re.compile(r"(?<![\d:.])(\d{1,2})(?:[:.](\d\d))? uhr\b")
_DAY: Final = re.compile(r"\b(\d{1,2})\. (?=(?:jan|feb|marz|apr|mai|jun|jul|aug|sep|okt|nov|dez))")
_MAY: Final = re.compile(r"(?<=\d )mai\b|\bim mai\b")
_MONTH: Final = re.compile(
    r"\b(?:im|seit|bis|ab|anfang|mitte|ende) (?=(?:january|february|march|april|may|june|july|august|september|october"
    r"|november|december)\b)"
)
_BEFORE_NOUN: Final = re.compile(rf"(?<!\w)(?i:{'|'.join(_ARTICLES.split())}) (?:[a-zäöüß]{{2,20}}e[nmrs]? ){{0,2}}$")
"""An article, with adjectives, at the end of a text."""

_WORD: Final = re.compile(r"[^\W\d_]{1,40}")
BEFORE: Final = 64
"""Characters before a noun in which its article is."""


def is_german(text: str) -> bool:
    return language_of(text) == "de" or not _SIGNS.isdisjoint(_WORD.findall(text.casefold()))


def is_plain_noun(word: str, before: str) -> bool:
    """Return whether a capitalised word of a German text is no name; `before` are the characters before it.

    „Anna“ has no article, „die Allergie“ has one. Names with one, as „die Schweiz“, are not checked.
    """
    lower = word.casefold()
    if lower in _OF_TIME:
        return True  # compared as a date
    if any(map(str.isupper, word[1:])):
        return False
    return lower in _PLAIN or _BEFORE_NOUN.search(before) is not None


def in_english(folded: str) -> str:
    """Return a folded text with German words for days and times in English: "am 3. märz" as "am 3 march"."""
    folded = _HALF.sub(lambda match: f"{_HOURS.index(match[1]) or 12}:30", folded)
    folded = _DAY.sub(r"\1 ", _CLOCK.sub(lambda match: f"{match[1]}:{match[2] or '00'}", folded))
    folded = _MAY.sub(lambda match: match[0].replace("mai", "may"), folded)
    folded = _WORD.sub(lambda match: _ENGLISH.get(match[0], match[0]), folded)
    return _MONTH.sub("in ", folded)

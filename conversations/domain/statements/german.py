"""Capitalised words of German texts that are no names: nouns after an article, and frequent ones. Pure.

German capitalises every noun. Without this, each German statement would name "Benutzer", which no message does.
"""

import re
from typing import Final

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
_TIMES: Final = """
montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar jänner februar märz april mai juni juli
august september oktober november dezember
"""
_OF_TIME: Final = frozenset(_TIMES.split())
"""Their words are checked after an article, too: „am Montag“."""

_BEFORE_NOUN: Final = re.compile(rf"(?<!\w)(?i:{'|'.join(_ARTICLES.split())}) (?:[a-zäöüß]{{2,20}}e[nmrs]? ){{0,2}}$")
"""An article, with adjectives, at the end of a text."""

_WORD: Final = re.compile(r"[^\W\d_]{1,16}")
BEFORE: Final = 64
"""Characters before a noun in which its article is."""


def is_german(text: str) -> bool:
    return language_of(text) == "de" or any(word in USER_WORDS for word in _WORD.findall(text.casefold()))


def is_plain_noun(word: str, before: str) -> bool:
    """Return whether a capitalised word of a German text is no name; `before` are the characters before it.

    „Anna“ has no article, „die Allergie“ has one. Names with one, as „die Schweiz“, are not checked.
    """
    lower = word.casefold()
    if lower in _OF_TIME or any(map(str.isupper, word[1:])):
        return False
    return lower in _PLAIN or _BEFORE_NOUN.search(before) is not None

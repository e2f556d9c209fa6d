"""Reports about other persons: hearsay, calls and records. Pure; English and Japanese.

Their sentences often have no subject ("Lives alone.", 「銀行やめるんだって」), so that they read like the writer's own.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from conversations.domain.statements.kinds import Sentence, Speech
from conversations.domain.statements.persons import FIRST, KIN

_KIN_JAPANESE: Final = (
    "姉|妹|兄|弟|母|父|祖母|祖父|娘|息子|妻|夫|友達|友人|同僚|上司|同居人|隣人|先輩|後輩|旦那|彼氏|彼女"
)
_SOURCE: Final = re.compile(
    rf"\b(?:off the phone with|(?:call|letter|message|text|news) from|heard from) (?:my |our )?(?:{KIN})\b"
    rf"|\b(?:{KIN}) (?:just )?(?:called|rang|rings|phoned|calls|texted|wrote|says|said|told|tells|announced)\b"
    r"|\bmet (?:the|a|my|our|this) (?:new )?\w+|\bthe new (?:guy|girl|colleague|neighbour|hire|boss)\b"
    r"|\b(?:my|our|a) (?:\w+ )?(?:patient|client|student|pupil|customer|passenger)\b.{0,80}\b(?:told|said|says)\b"
    r"|[^。、]{1,12}(?:に会った|に会ってきた|と話した)|新人[がはに]|(?:患者|お客|生徒|学生|乗客)さん?[がは、]"
    rf"|(?:{_KIN_JAPANESE})から[^。]{{0,6}}(?:電話|連絡|メール|手紙)|(?:{_KIN_JAPANESE})(?:から|に)[^。]{{0,4}}聞い"
    rf"|(?:{_KIN_JAPANESE})[がは][^。]{{0,60}}(?:って|らしい|だそう|とのこと)"
)
"""A sentence that names a person; words or a description of that person follow."""

_HEARSAY: Final = re.compile(
    "たが(?:って|る|り)|(?:(?<!いけない)(?<!ならない)んだって|らしい|とのこと(?:です)?|だそう(?:です|だ)?|って言って(?:る|た|いる|いた))[。！!〜~w笑)）…]*$"
)
_RECORD: Final = re.compile(
    r"\b(?:participant|patient|client|customer|caller|applicant|candidate|interviewee|respondent)s?\b"
    r"(?: (?:no\.? ?|number )?\d| (?:call|notes?|file|record|summary|profile)\b|[.:,] )"
    r"|\b(?:interview|call|case|intake|meeting) (?:notes?|summary|record)\b"
    r"|(?:協力者|被験者|相談者|応募者|受講者|患者)(?:[0-9０-９]|様|：|:)"
    r"|\b(?:write|draft|compose|prepare) (?:an? |the )?[\w ]{3,30} (?:for|about|on) (?!me\b|us\b|my\b|our\b|the\b|a\b)"
    r"|[^。、]{1,8}(?:さん|様|君|先生)の[^。、]{1,10}を(?:書|作|考え|お願い)"
    r"|(?:問診|聞き取り|電話|通話|面談|商談|相談)(?:の)?(?:要約|メモ|記録|内容)"
)
"""A heading of notes on a person whom the writer met at work, or a text about another that is asked for."""

_SPEAKS: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|we|we're|my|our)\b|私|僕|俺|自分|わたし|ぼく|うち|こっち")
"""The writer as subject or owner."""

_ELIDED_THIRD: Final = re.compile(
    r"(?:^|[,;] |\band )(?:lives|works|runs|drives|trusts|hates|likes|loves|prefers|wants|plays|owns|keeps|teaches"
    r"|studies|eats|drinks|smokes|speaks|travels|suffers|enjoys|needs|reports)\b"
)


def with_reports(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield a message's sentences; those that repeat or describe another person are of another person.

    A record lasts until the writer speaks of themselves; so does what follows the mention of a call.
    """
    kind = Speech.OWN
    for sentence in sentences:
        lower = sentence.text.casefold()
        is_of_self = FIRST.search(lower) is not None
        opened = Speech.QUOTATION if _RECORD.search(lower) else Speech.OTHER_PERSON if _SOURCE.search(lower) else None
        kind = opened or (Speech.OWN if _SPEAKS.search(lower) else kind)
        is_hearsay = not is_of_self and (_HEARSAY.search(lower) or _ELIDED_THIRD.search(lower))
        found = Speech.OTHER_PERSON if kind is Speech.OWN and is_hearsay else kind
        yield Sentence(sentence.text, found) if sentence.speech is Speech.OWN else sentence

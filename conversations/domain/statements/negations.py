"""Find what a text denies, by its negated clauses in English and Japanese. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from conversations.domain.statements import other_languages

_NEGATED: Final = re.compile(
    r"\b(?:not|never|no longer|don'?t|doesn'?t|didn'?t|isn'?t|aren'?t|wasn'?t|can'?t|cannot|won'?t|wouldn'?t|haven'?t"
    r"|hasn'?t)\b(?! (?:only|just|sure|wait|mind|forget))(?: (?:a (?:big )?fan of|keen on|into|big on))?"
    r"|\b(?:have|has|had|got|with) no\b"
    "|(?<!いけ)(?<!なら)ない(?!と(?:いけ|なら|だめ|ダメ)|か[なも])|(?<!いけ)(?<!なり)ません|なかっ|ず(?:に|、)"
    "|[はがも](?:苦手|嫌い|きらい)"
)
_NEGATIVE: Final = re.compile(
    r"\b(?:not|no|never|without|un\w{2,}|in(?:tolerant|ability)|dis\w{2,}|hates?|avoids?|refus\w+|quit\w*|stop\w*"
    r"|lacks?"
    r"|allerg\w+|instead|rather|former\w*|\w{2,}n't|cannot|gave up|rarely|hardly|only|has yet|vegetarian|vegan"
    r"|absten\w+"
    r"|abstain\w*|fail\w*|free)\b|ない|なく|なかっ|なし|ません|ず|嫌|苦手|避け|やめ|辞め|断|アレルギー|不|未|無|禁"
    r"|以外|だけ|のみ"
)
_CLAUSE: Final = re.compile(r"[,;、—]|\b(?:but|and|though|because|so)\b|けど|けれど|から|ので")
_ADVERB: Final = re.compile("本当は|実際は|実は|もう|まだ|今は")


def states_negation(statement: str) -> bool:
    """Return whether a statement itself negates or restricts something, in lower case."""
    if other_languages.USER_IS_SUBJECT.match(statement):
        return other_languages.NEGATIVE.search(statement) is not None
    return _NEGATIVE.search(statement) is not None


def clauses_of(sentences: Iterable[str]) -> list[str]:
    return [part.casefold() for sentence in sentences for part in _CLAUSE.split(sentence)]


def denied_parts(clauses: Iterable[str]) -> Iterator[str]:
    """Yield what clauses negate: it follows the English word and precedes the Japanese ending."""
    for part in clauses:
        if match := _NEGATED.search(part):
            yield part[match.end() :] if match[0].isascii() else _ADVERB.sub("", part[: match.start()])

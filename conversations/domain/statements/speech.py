"""Kinds of speech in a person's messages: own statements, questions, hypotheses, jokes, stories, roles, quotations.

Pure. Words and signs of the message decide, sentence by sentence; English and Japanese. A sentence that no rule matches
is the person's own statement.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from conversations.domain.messages import is_question
from conversations.domain.passages import sentences
from conversations.domain.statements.kinds import Sentence, Speech, Spoken
from conversations.domain.statements.material import (
    introduced,
    is_pasted_answer,
    lines_of,
    paragraphs,
    pasted,
    without_quotes,
)
from conversations.domain.statements.persons import FIRST, THEM
from conversations.domain.statements.plays import BACK, FICTION, LEAVES, OPENS, RETRACTS, ROLE_PLAY, STAGE_DIRECTION
from conversations.domain.statements.reports import with_reports
from memoryhub.search.analysis import HAN, KATAKANA, is_unspaced

_HYPOTHESIS: Final = re.compile(
    r"\bif (?:i|we)\b(?! (?:ask|say|write|send|paste|tell|type|forget|remember|recall)\b)|\bif only\b|\bi wish\b"
    r"|\bassum(?:e|ing)\b|\bas (?:if|though)\b|\b(?:i|we) dream(?:t|ed)\b|\bsuppos(?:e|ing)\b|\bimagine\b|\bwhat if\b"
    r"|\blet'?s (?:say|assume|imagine)\b|\bhypothetical|\bin theory\b"
    r"|\bsay (?:i|we) (?:had|was|were|got|did|won)\b|\bfor (?:example|instance)\b|\be\.g\.|\bsome ?day\b|\bmaybe (?:i"
    r"|we)\b|\bperhaps (?:i|we)\b|\b(?:i|we) might\b"
    r"|\bnot decided\b|\b(?:thinking|thought) (?:of|about)\b|\bconsidering\b|\bwonder(?:ing)? (?:if|whether)\b"
    r"|\bwere i\b|\bi'd (?:have|be|get|go|move|live)\b"
    r"|\bi would have\b|\bif\b.{1,60}\bwould\b|\bwould\b.{1,60}\bif\b|\b(?:only|just) dreaming\b"
    r"|もしも?|とする[。、]?$|とします[。、]?$|(?:ていい|でき|もらえ|選べ)る?なら|仮に|例えば|たとえば|としたら|とすれば|だとすると|たらなあ|たらいいの[にな]|ばいいのに|かもしれ"
    r"|かも(?=[、。ねなし]|$)|まだ決め[てま]"
    r"|かな[あぁ]?$"
    r"|想像し|いつか|いつの日か|夢の話|空想|夢を見|夢で|のにな[あぁ]?[。！!]?$|たら[ねな][あぁ]?[。！!]?$"
)

_HEDGED: Final = re.compile(
    r"\b(?:might|may|maybe|perhaps|possibly|consider\w*|think\w*|wonder\w*|wants?|wish\w*|hop(?:e|es|ing)|plans?"
    r"|planning"
    r"|would|if|dream\w*|undecided|unsure|interested|some ?day)\b|もし|場合|検討|考え|かも|たい|希望|予定|いつか|迷"
    r"|可能性|仮"
)

_CONTRARY: Final = re.compile(
    r"\bif (?:i|we|you|he|she|it|they|money|time|only)\b[^.?!]{0,20}\b(?:were|was|had|won|could|didn'?t)\b|\bwere i\b"
    r"|\bif only\b|\bi wish\b|\bimagine\b|\bin theory\b|\bdream(?:t|ed)\b"
    "|(?:たら|なら)(?:なあ|いいの|[^。]{0,40}のに)|なくて(?:いい|よけれ)|いいなら|仮に|夢で|空想|想像し"
)
"""Suppositions contrary to fact, which are no plans."""

_WISHED: Final = re.compile(
    r"\b(?:would|if|wish\w*|wants?|dream\w*|imagin\w*|hypothetical\w*)\b|もし|場合|たい|夢|仮|想像"
)

_JOKE: Final = re.compile(
    r"\b(?:joking|kidding)\b|\bpulling your leg\b|\bhaha no\b|\bjust messing\b|\bnot serious\b|\bjk\b|\bas a joke\b"
    r"|\bapril fool|(?:^|\s)/s\b|\(in [a-z]{2,12} years\)"
    "|冗談|なんちゃって|[(（][^)）]{1,12}年齢で[)）]|うそうそ|嘘(?:です|だよ|だけど)|うそ(?:です|だよ)|ジョーク"
)

_STATES: Final = re.compile(
    r"\b(?:i|i'm|i've|my|we|our|sitting|working|living)\b|(?:ます|です|ました|でした|んで|けど|ので|から|てて|だけど"
    r"|[いただるたんの]が)$"
)

MIN_STATED: Final = 12
"""Characters before a comma of a question that may state something."""

_OWN_IN_QUESTION: Final = re.compile(
    r"\b(?:my|our|i'm|i am|i've|i have|we have|we're|since i|because i|as i|i (?:work|live|use|love|like|hate|prefer"
    r"|want|need"
    r"|just|got|moved|bought))\b|私の|わたしの|僕の|俺の|うちの|我が家|弊社|当社|自宅|ので|んですが|のですが"
    r"|[だでま]すが|けど"
)

_ASKED_OF_ASSISTANT: Final = re.compile(
    r"^(?:\w{1,10},? )?(?:could|can|would|will) you (?:please |always )?\w{2,15} (?:me|my|us)\b"
)
"""A polite request, which states a wish."""

_ASKED_OF_SELF: Final = re.compile(r"^(?:\w{1,10},? )?(?:should|could|would|can|do|am|shall|must|will) (?:i|we)\b")

_STORY_WORD: Final = re.compile(f"[A-Z][a-z]{{2,20}}|[{HAN}{KATAKANA}]{{2,12}}")


def is_hedged(statement: str, sentence: str = "") -> bool:
    """Return whether a statement says a wish or a possibility; of a sentence contrary to fact, a wish."""
    words = _WISHED if _CONTRARY.search(sentence.casefold()) else _HEDGED
    return words.search(statement.casefold()) is not None


def sentences_of(messages: Sequence[Spoken]) -> list[list[Sentence]]:
    """Return the sentences of each message of a person with their kinds; of an assistant's, none.

    A role play lasts until a message ends it; sentences about the persons of a story belong to the story.
    """
    found, plays, told, before = list[list[Sentence]](), False, "", ""
    for message in messages:
        if not message.is_users:
            found.append([])
            plays, before = plays or STAGE_DIRECTION.match(message.text) is not None, message.text
            continue
        parts = list(_told_on(with_reports(_classified(message.text, before)), told, is_answer=is_question(before)))
        told += "\n".join(
            each.text for each in parts if each.speech in (Speech.FICTION, *[Speech.QUOTATION] * bool(told))
        )
        lower = [each.text.casefold() for each in parts]
        starts = next((place for place, each in enumerate(lower) if ROLE_PLAY.search(each) or OPENS.search(each)), None)
        starts = 0 if starts is None and OPENS.search(message.text.casefold()) else starts
        leaves = BACK if starts is not None or not plays else _OUT_OF_ROLE
        ends = next((place for place, each in enumerate(lower) if leaves.search(each)), None)
        first = 0 if plays else len(parts) if starts is None else starts
        last = len(parts) if ends is None or (starts is not None and starts > ends) else ends
        plays = (plays or starts is not None) and last == len(parts)
        found.append(
            [Sentence(each.text, Speech.ROLE_PLAY) if first <= n < last else each for n, each in enumerate(parts)]
        )
        if RETRACTS.search(message.text.casefold()):
            found[:-1] = [_all_as(Speech.ROLE_PLAY, sentences) for sentences in found[:-1]]
        if _ASIDE.search(message.text.casefold()):
            found[:-1] = [_all_as(Speech.JOKE, sentences) for sentences in found[:-1]]
    return found


_OUT_OF_ROLE: Final = re.compile(f"{BACK.pattern}|{LEAVES.pattern}")
_ASIDE: Final = re.compile(
    r"\b(?:jok(?:es?|ing) aside|seriously though|real question|on a serious note|but seriously)\b"
    "|冗談(?:は|は?さて)?(?:おき|おいて|抜き)|ふざけるのは|まじめな話|真面目な話"
)
"""The end of a joke in earlier messages."""


def _all_as(kind: Speech, sentences: Sequence[Sentence]) -> list[Sentence]:
    return [Sentence(each.text, kind) if each.speech is Speech.OWN else each for each in sentences]


_OF_WRITER: Final = re.compile(rf"{FIRST.pattern}|^(?:my|our)\b")


def _told_on(sentences: Iterable[Sentence], told: str, *, is_answer: bool) -> Iterator[Sentence]:
    """Yield a message's sentences; those that continue the story in `told` are fiction.

    So is an answer to a question about it.
    """
    goes_on = bool(told) and is_answer
    for sentence in sentences:
        is_open = sentence.speech is Speech.OWN and not _OF_WRITER.search(sentence.text.casefold())
        words = (match[0] for match in _STORY_WORD.finditer(sentence.text))
        is_told = told and (THEM.search(sentence.text.casefold()) or any(word in told for word in words))
        goes_on = sentence.speech is Speech.FICTION or bool(is_open and (goes_on or is_told))
        yield Sentence(sentence.text, Speech.FICTION) if goes_on and is_open else sentence


_SUPPOSES: Final = re.compile(
    r"^(?:imagine|suppose|supposing|let'?s (?:assume|imagine|pretend)|hypothetically)\b|\bthought experiment\b"
    "|思考実験|たとえ話|とする[。、]?$|とします[。、]?$|^(?:仮に|もしも)"
)
"""The beginning of a supposition that the rest of a message continues."""


def _supposed(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    is_supposed = False
    for each in sentences:
        is_supposed = is_supposed or _SUPPOSES.search(each.text.casefold()) is not None
        yield Sentence(each.text, Speech.HYPOTHESIS) if is_supposed and each.speech is Speech.OWN else each


_TRANSLATES: Final = re.compile(
    r"\btranslat|\bin (?:english|japanese)\b|訳し|翻訳|和訳|英訳|(?:英語|日本語)[にで]|どういう意味"
)


def _translated(sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    """Yield a message's sentences; where it asks for a translation, those in another script are the text."""
    request = next((each.text for each in sentences if _TRANSLATES.search(each.text.casefold())), None)
    for each in sentences:
        is_text = request is not None and is_unspaced(each.text) != is_unspaced(request)
        yield Sentence(each.text, Speech.QUOTATION) if is_text and each.speech is Speech.OWN else each


def _classified(text: str, before: str) -> Iterator[Sentence]:
    """Yield the sentences of a message that follows the message `before`."""
    is_pasted = is_pasted_answer(text, before) or pasted(text) is not Speech.OWN
    parts = [
        each if kind is Speech.OWN else Sentence(each.text, kind)
        for paragraph, kind in ([(text, Speech.QUOTATION)] if is_pasted else paragraphs(text))
        for each in _parts(paragraph)
    ]
    parts = list(_supposed(_translated(parts)))
    lower = [each.text.casefold() for each in parts]
    jokes = [place - (_ASIDE.search(each) is not None) for place, each in enumerate(lower) if _JOKE.search(each)]
    last_joke = max(jokes, default=-1)
    for place, each in enumerate(parts):
        is_joke = place <= last_joke and each.speech in (Speech.OWN, Speech.HYPOTHESIS)
        yield Sentence(each.text, Speech.JOKE) if is_joke else each


def _parts(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a message; what follows a heading with a colon is of the kind that this announces."""
    tells, quotes = False, Speech.OWN
    for line, quoting in lines_of(text):
        quotes = quoting if quoting in (Speech.FICTION, Speech.OWN) and not line else quotes
        rest, quoted = without_quotes(line)
        kind = Speech.QUOTATION if quotes is Speech.OWN else quotes
        yield from (Sentence(sentence, kind) for each in quoted for sentence in sentences(each))
        for own in _clauses(rest):
            speech = quotes if quotes is not Speech.OWN else quoting if quoting is not Speech.OWN else _kind(own)
            if speech is Speech.OWN and tells and not FIRST.search(own.casefold()):
                speech = Speech.FICTION
            yield Sentence(own, speech)
            tells = tells or (speech is Speech.FICTION)
        if quotes is Speech.OWN and line.endswith((":", "：")):
            quotes = introduced(line.casefold())


_OTHER_SUBJECT: Final = re.compile(
    r"(?<=[,;]) (?=(?:(?:s?he|they)(?:'s|'re|'d)?|the (?:man|woman|guy|girl|boy)|(?:and|but|so) i(?:'m|'ve|'d|'ll)?) )"
    r"| (?=but i(?:'m|'ve|'d)? )|(?<=けど)(?=私|僕|俺)|(?<=、)(?=(?:あの[子人]|彼女?|その人|相手)は)",
    re.IGNORECASE,
)
"""Where the subject of a sentence changes between the writer and another person."""


def _clauses(line: str) -> Iterator[str]:
    """Yield the sentences of a line; what precedes the last comma of a question is a separate one.

    So is a part with another subject.
    """
    for sentence in (part for each in sentences(line) for part in _OTHER_SUBJECT.split(each) if part):
        stated, comma, asked = re.sub(r"[,、](?=[^,、]*$)", "\0", sentence, count=1).partition("\0")
        if comma and is_question(sentence) and len(stated) >= MIN_STATED and _STATES.search(stated.casefold()):
            yield from (stated, asked.strip())
        else:
            yield sentence


def _kind(sentence: str) -> Speech:
    lower = sentence.casefold()
    if _HYPOTHESIS.search(lower):
        return Speech.HYPOTHESIS
    if _ASKED_OF_ASSISTANT.search(lower):
        return Speech.OWN
    if is_question(sentence) and (_ASKED_OF_SELF.match(lower) or not _OWN_IN_QUESTION.search(lower)):
        return Speech.QUESTION
    if FICTION.search(lower):
        return Speech.FICTION
    return Speech.OWN

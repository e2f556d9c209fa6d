"""Check without a model whether messages support a statement that a model drew from them, and if not, why (SPEC L6).

Pure. A statement belongs to the messages of the user that share its words and details, whatever numbers the model
cites; its details must be in them; and what it shares words with must be the user's own statement. An assistant's
message counts where the user's next message takes it up. Time is linear in the length of the messages.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from conversations.domain.statements.details import COUNTED, LOANWORD, Detail, Offered, stated, without_counts
from conversations.domain.statements.german import USER_WORDS
from conversations.domain.statements.kinds import Sentence, Speech, Spoken
from conversations.domain.statements.languages import are_other_languages
from conversations.domain.statements.names import squashed
from conversations.domain.statements.persons import acts_instead, is_of_relation, owns_a_person, spoken_about
from conversations.domain.statements.plays import is_of_fiction
from conversations.domain.statements.speech import is_hedged, sentences_of
from conversations.domain.statements.talk import agrees, asks_for_detail, reports_talk
from memoryhub.search.analysis import COMPOUND, HAN, HIRAGANA, KATAKANA, analyse, fold, is_unspaced
from memoryhub.search.bm25 import COMMON_DOCUMENTS, common_terms, inverse_document_frequency, term_id

_USER: Final = """
user users assistant person ユーザー ユーザ 利用者 アシスタント 彼 彼女 usuario usuaria utilisateur utilisatrice utente
utilizador gebruiker
"""
GENERIC: Final = frozenset(analyse(" ".join([_USER, *USER_WORDS])))
MIN_SUPPORT: Final = 0.3
"""Share of a statement's weight that its message has at least; below, it is unsupported."""

OWN_SHARE: Final = 0.65
"""Share of the best support that the user's own statements have at least."""

KEPT_SHARE: Final = 0.6
"""Share of the best support that a cited message has, or it is replaced by the best one."""

ASSISTANT_LEAD: Final = 0.35
"""Lead in support by which a statement is an assistant's and not the user's."""

DENIED_SHARE: Final = 0.6
"""Share of the words of a negated clause that a statement has, from which on the clause denies it."""

GRAM_WEIGHT: Final = 0.25
DETAIL_WEIGHT: Final = 4.0
"""Weight of a date, time or number, written differently in message and statement; a rare word has 5."""

MAX_SOURCES: Final = 6

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
_USER_IS_SUBJECT: Final = re.compile(
    r"^(?:the )?user (?!and\b)|^ユーザー?[はがもに]|^[^、。]{1,30}のユーザー(?:であ|です|だ)", re.IGNORECASE
)
_AND: Final = re.compile(r",? and (?=(?:is|was|has|had|will|can|does|[a-z]{3,}s) )")
_CLAUSE: Final = re.compile(r"[,;、—]|\b(?:but|and|though|because|so)\b|けど|けれど|から|ので")
_ADVERB: Final = re.compile("本当は|実際は|実は|もう|まだ|今は")
_PREDICATE: Final = re.compile(f"([{HAN}{KATAKANA}a-z])[{HIRAGANA}]{{0,6}}$")
"""Last letter of the Japanese word that a negation ends."""


@dataclass(frozen=True)
class Doubt:
    """Reason why a statement waits for a person: a kind of speech or of detail, and the words that no message has."""

    reason: str
    detail: str = field(default="", repr=False)


UNSUPPORTED: Final = "unsupported"
DENIED: Final = "denied"
LANGUAGE: Final = "language"
COPIED: Final = "copied"
"""A piece of a message, which is not understood without the conversation."""

UNRELIABLE: Final = "unreliable"
"""Most of what the model draws from this user's messages fails the checks; this statement alone passed them."""

_NAMES_USER: Final = re.compile(r"\b(?:user|they|their)\b|ユーザ", re.IGNORECASE)
_FIRST_PERSON: Final = re.compile(r"(?:I|I'\w{1,2}|My|We|Our)\b|[私僕俺](?:た?ち)?[はがのもに]")
_POINTS: Final = re.compile(
    r"^(?:the )?user(?:'s)? (?:\w+ ){1,3}(?:it|that|this|these|those|them|so)(?: (?:too|much|a lot|now))?\W*$"
    "|^ユーザー?は(?:それ|これ|あれ|そこ|ここ|そう)[がをはに]?[^、。]{1,12}[。]?$"
    r"|^(?:s?he|they)\b|^(?:彼女?|あの[人子])[はがもに]",
    re.IGNORECASE,
)
"""A statement about something, or someone, that only the conversation names."""

_LIKING: Final = re.compile(r"\b(?:likes?|loves?|enjoys?|fond of|favou?rite)\b|好き")
_SAID_LIKING: Final = re.compile(
    r"\b(?:lik\w{1,4}|lov\w{1,4}|enjoy\w{0,4}|fan of|fond|favou?rite|prefer\w{0,4}|adore|into|best|mad about"
    r"|crazy about|happy|rather|hate|stand)\b|好|推し|ハマ|派|楽し|気に入|嬉し"
)


@dataclass(frozen=True)
class Verdict:
    """Places of the messages that support a statement; without a doubt it holds, and one that `falls` is dropped."""

    places: tuple[int, ...]
    doubt: Doubt | None = None
    falls: bool = False


@dataclass(frozen=True)
class Claim:
    """A statement with the weights of its terms, rare ones more, and its details; participants' names count nothing."""

    text: str = field(repr=False)
    people: frozenset[str] = frozenset()

    @cached_property
    def details(self) -> tuple[Detail, ...]:
        return tuple(stated(self.text))

    @cached_property
    def weights(self) -> dict[str, float]:
        names = {term for name in self.people for term in analyse(name)}
        return {term: _weight(term) for term in _terms(without_counts(self.text)) - names}

    @property
    def is_about_user(self) -> bool:
        return _USER_IS_SUBJECT.match(self.text) is not None

    @property
    def parts(self) -> tuple["Claim", ...]:
        """The statement, and each of its predicates about the user as a statement: one of two may be another's."""
        begin, *more = _AND.split(self.text)
        return (self, *(Claim(f"The user {part}", self.people) for part in more if _USER_IS_SUBJECT.match(begin)))

    def share(self, terms: Collection[str]) -> float:
        """Return the share of the weights that these terms have; a compound is there if its characters are."""
        total = sum(self.weights.values())
        return sum(weight for term, weight in self.weights.items() if _is_among(term, terms)) / total if total else 0.0

    def support(self, terms: Collection[str], offered: Offered) -> float:
        """Return the share of weights and details that a message has."""
        counted = [each for each in self.details if each.kind in COUNTED]
        words = sum(self.weights.values())
        total = words + DETAIL_WEIGHT * len(counted)
        found = words * self.share(terms) + DETAIL_WEIGHT * sum(map(offered.has, counted))
        return found / total if total else 0.0


@dataclass(frozen=True)
class Evidence:
    """Messages of a conversation in order, from which statements were drawn."""

    messages: tuple[Spoken, ...]
    language: str = ""
    """Language that statements are asked for; "" for that of the messages."""

    @cached_property
    def sentences(self) -> list[list[Sentence]]:
        """Sentences of the users' messages, with those of an assistant's that they agree to or answer."""
        found = sentences_of(self.messages)
        for place, (before, message) in enumerate(pairwise(self.messages), 1):
            if not before.is_users and message.is_users:
                is_agreed, shown = agrees(message.text, before.text), sentences_of([replace(before, is_users=True)])[0]
                taken = [each.text for each in shown if is_agreed or asks_for_detail(each.text)]
                found[place] = [*found[place], *(Sentence(each, Speech.OWN) for each in taken)]
        return found

    @cached_property
    def terms(self) -> list[list[frozenset[str]]]:
        return [[_terms(sentence.text) for sentence in sentences] for sentences in self.sentences]

    @cached_property
    def offered(self) -> list[Offered]:
        """Details of each message, with those of what it takes up."""
        return [
            Offered.of("\n".join([each.text, *(sentence.text for sentence in said)]), each.said_at.date())
            for each, said in zip(self.messages, self.sentences, strict=True)
        ]

    @cached_property
    def offered_sentences(self) -> list[list[Offered]]:
        days = [message.said_at.date() for message in self.messages]
        return [[Offered.of(each.text, day) for each in said] for said, day in zip(self.sentences, days, strict=True)]

    @cached_property
    def users(self) -> tuple[int, ...]:
        return tuple(place for place, each in enumerate(self.messages) if each.is_users)

    @cached_property
    def people(self) -> frozenset[str]:
        return frozenset(each.author for each in self.messages if each.is_users and each.author)

    @cached_property
    def offered_by_users(self) -> Offered:
        return Offered.joined(self.offered[place] for place in self.users)

    @cached_property
    def offered_by_all(self) -> Offered:
        return Offered.joined(self.offered)

    def doubt_details(self, text: str) -> Doubt | None:
        """Return the first detail of a summary or an episode that no message has, an assistant's included."""
        return self._missing((each for each in stated(text) if each.kind != LOANWORD), self.offered_by_all)

    def _missing(self, details: Iterable[Detail], offered: Offered) -> Doubt | None:
        authors = "\n".join(each.author for each in self.messages).casefold()
        found = (
            each
            for each in details
            if not (offered.has(each) and offered.has_unit(each)) and each.text.casefold() not in authors
        )
        return next((Doubt(each.kind, each.text) for each in found), None)

    def check(self, text: str, cited: Collection[int], *, speech: str = Speech.OWN) -> Verdict:
        """Return which messages support a statement about the user, and the doubt that it leaves.

        `cited` are the places that the model gave, `speech` the kind of speech that it gave.
        """
        if reports_talk(text) or speech in (Speech.ASSISTANT, Speech.TALK):
            return Verdict(tuple(cited), Doubt(Speech.TALK), falls=True)
        claim = Claim(text, self.people)
        support = {place: self._support(claim, place) for place in self.users}
        best = max(support.values(), default=0.0)
        lead = max((self._support(claim, place) for place in self._assistants), default=0.0) - best
        if best < MIN_SUPPORT and (lead >= ASSISTANT_LEAD or not set(cited) & set(self.users)):
            return Verdict(tuple(cited), Doubt(Speech.ASSISTANT), falls=True)
        places = self._places(claim, support, best, cited)
        doubt = Doubt(str(speech)) if speech != Speech.OWN else self._doubt(claim, places, best, lead)
        return Verdict(self._with_details(claim, places), doubt)

    @property
    def _assistants(self) -> Iterable[int]:
        return (place for place, each in enumerate(self.messages) if not each.is_users)

    def _support(self, claim: Claim, place: int) -> float:
        message = self.messages[place]
        terms = frozenset().union(*self.terms[place]) if message.is_users else _terms(message.text)
        return claim.support(terms, self.offered[place])

    def _places(
        self, claim: Claim, support: Mapping[int, float], best: float, cited: Collection[int]
    ) -> tuple[int, ...]:
        """Return the cited messages that support the statement as well as any, else the best one.

        What is about a person of a group stays with a cited message of that person.
        """
        kept = [place for place in cited if support.get(place, -1.0) >= KEPT_SHARE * best]
        kept = kept or [place for place in cited if self.messages[place].author in self._named(claim)]
        if kept or not support:
            return tuple(sorted(kept))
        nearest = min(cited, default=0)
        return (min(support, key=lambda place: (-support[place], abs(place - nearest))),)

    def _named(self, claim: Claim) -> set[str]:
        return {name for name in self.people if name.casefold() in claim.text.casefold()}

    def _with_details(self, claim: Claim, places: tuple[int, ...]) -> tuple[int, ...]:
        """Add the messages that have the details which the supporting ones lack."""
        added = set(places)
        known = Offered.joined(self.offered[place] for place in places)
        for detail in claim.details:
            if not known.has(detail) and len(added) < MAX_SOURCES:
                added.update([place for place in self.users if self.offered[place].has(detail)][:1])
        return tuple(sorted(added))

    def _doubt(self, claim: Claim, places: tuple[int, ...], best: float, lead: float) -> Doubt | None:
        said = "\n".join(self.messages[place].text for place in places)
        if self._is_copied(claim):
            return Doubt(COPIED)
        if are_other_languages(claim.text, self.language or said, is_tag=bool(self.language)):
            return Doubt(LANGUAGE)
        words = [each for each in claim.details if each.kind == LOANWORD]
        others = [each for each in claim.details if each.kind != LOANWORD]
        if missing := self._missing(others, self.offered_by_users) or self._missing(words, self.offered_by_all):
            return missing
        if is_unspaced(claim.text) != is_unspaced(said) and best < MIN_SUPPORT:
            return None if self.language else Doubt(UNSUPPORTED)  # in another script no words are shared
        if owns_a_person(claim.text) or best < MIN_SUPPORT or self._is_new_liking(claim, places):
            return Doubt(UNSUPPORTED)
        if max(self._support(claim, place) for place in places) < KEPT_SHARE * best:
            return Doubt(Speech.OTHER_PERSON)
        if lead >= ASSISTANT_LEAD:
            return Doubt(Speech.ASSISTANT)
        return next(filter(None, (self._doubt_speech(part, places) for part in claim.parts)), None)

    def _is_new_liking(self, claim: Claim, places: Sequence[int]) -> bool:
        """Return whether a statement is about a liking, and its messages are not."""
        if not _LIKING.search(claim.text.casefold()) or is_of_fiction(claim.text):
            return False
        texts = (each.text.casefold() for place in places for each in self.sentences[place])
        return not any(_SAID_LIKING.search(text) for text in texts)

    def _is_copied(self, claim: Claim) -> bool:
        """Return whether a statement is not understood without the conversation.

        It is a piece of a user's message, or in the first person, and names neither the user nor a participant; or a
        pronoun is all that it has.
        """
        if _POINTS.search(claim.text):
            return True
        if _NAMES_USER.search(claim.text) or self._named(claim):
            return False
        return _FIRST_PERSON.match(claim.text) is not None or squashed(claim.text) in self.offered_by_users.squashed

    def _doubt_speech(self, claim: Claim, places: Sequence[int]) -> Doubt | None:
        """Return the kind of the sentences that support a statement, if they are not the user's own statements."""
        found = [
            (sentence, terms, offered, self._doubt_source(claim, sentence, places))
            for place in places
            for sentence, terms, offered in zip(
                self.sentences[place], self.terms[place], self.offered_sentences[place], strict=True
            )
        ]
        own = [(terms, offered) for _each, terms, offered, doubt in found if doubt is None]
        whole = [(terms, offered) for _each, terms, offered, _doubt in found]
        if _joint_support(claim, own) < OWN_SHARE * _joint_support(claim, whole):
            doubts = ((claim.support(terms, offered), doubt) for _each, terms, offered, doubt in found if doubt)
            return max(doubts, key=lambda each: each[0])[1]
        sources = [each.text for each, _terms, _offered, doubt in found if doubt is None]
        return Doubt(DENIED) if _is_denied(claim, sources) else None

    def _doubt_source(self, claim: Claim, sentence: Sentence, places: Sequence[int]) -> Doubt | None:
        """Return the doubt about a sentence as the source of a statement."""
        if (sentence.speech is Speech.HYPOTHESIS and is_hedged(claim.text, sentence.text)) or (
            sentence.speech in (Speech.FICTION, Speech.ROLE_PLAY, Speech.QUOTATION) and is_of_fiction(claim.text)
        ):
            return None
        if sentence.speech is Speech.OTHER_PERSON and (not claim.is_about_user or is_of_relation(claim.text)):
            return None
        if sentence.speech is not Speech.OWN:
            return Doubt(sentence.speech)
        if not claim.is_about_user and not self._named(claim) and acts_instead(claim.text, sentence.text):
            return Doubt(Speech.OTHER_PERSON)
        authors = {self.messages[place].author for place in places} - {""}
        named = self._named(claim)
        if named and authors and not named & authors and not any(name in sentence.text for name in named):
            return Doubt(Speech.OTHER_PERSON, min(authors))
        person = spoken_about(sentence.text)
        if person is None or not claim.is_about_user or is_of_relation(claim.text):
            return None
        return None if person and person in fold(claim.text) else Doubt(Speech.OTHER_PERSON)


def _joint_support(claim: Claim, sources: Sequence[tuple[frozenset[str], Offered]]) -> float:
    """Return the support of a claim by several sentences together."""
    terms = frozenset[str]().union(*(terms for terms, _offered in sources))
    return claim.support(terms, Offered.joined(offered for _terms, offered in sources))


def _is_denied(claim: Claim, sentences: Iterable[str]) -> bool:
    """Return whether a clause negates the words of a statement, and the statement negates nothing.

    What is negated follows the English word and precedes the Japanese ending.
    """
    if not claim.is_about_user or is_hedged(claim.text) or _NEGATIVE.search(claim.text.casefold()):
        return False
    clauses = (part.casefold() for sentence in sentences for part in _CLAUSE.split(sentence))
    negated = ((part, match) for part in clauses if (match := _NEGATED.search(part)))
    parts = (
        part[match.end() :] if match[0].isascii() else _ADVERB.sub("", part[: match.start()]) for part, match in negated
    )
    return any(_is_said(part, claim) for part in parts)


def _is_said(negated: str, claim: Claim) -> bool:
    predicate = _PREDICATE.search(negated) if is_unspaced(negated) else None
    if predicate and predicate[1] not in claim.text.casefold():
        return False
    return Claim(negated).share(_terms(claim.text)) >= DENIED_SHARE


def _terms(text: str) -> frozenset[str]:
    return frozenset(analyse(text)) - GENERIC


def _is_among(term: str, terms: Collection[str]) -> bool:
    if term in terms or not term.startswith(COMPOUND):
        return term in terms
    return len(term) > 2 and all("".join(pair) in terms for pair in pairwise(term[1:]))


def _weight(term: str) -> float:
    """Return what a term counts: rare ones more, parts of Japanese words less."""
    idf = inverse_document_frequency(
        documents_with_term=common_terms().get(term_id(term), 0), documents=COMMON_DOCUMENTS
    )
    return idf * (GRAM_WEIGHT if is_unspaced(term) and not term.startswith(COMPOUND) else 1.0)

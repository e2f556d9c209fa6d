"""Whom a sentence is about: the speaker, or another person. Pure; other languages are tables in `other_languages`."""

import re
from typing import Final

from conversations.domain.statements import other_languages
from memoryhub.search.analysis import HAN, HIRAGANA, KATAKANA

KIN: Final = (
    "brother|sister|mother|father|mum|mom|dad|son|daughter|wife|husband|partner|girlfriend|boyfriend|uncle|aunt|cousin"
    "|grandm\\w+|grandf\\w+|grandson|granddaughter|niece|nephew|boss|manager|colleague|co-?worker|teammate|friend"
    "|neighbou?r|roommate|flatmate|landlord|landlady|lodger|tenant|parents|kids|children|in-laws"
)

_RELATION: Final = (
    f"{KIN}|teacher|doctor|client|customer|ceo|cto|student|boy|girl|man|woman|king|queen|knight|hero|heroine"
    f"|protagonist"
    "|character|ex|midwife|team lead|professor|supervisor|intern|trainee|apprentice|nanny|lawyer|therapist|dentist"
    "|coach"
    "|guest"
)

_RELATED: Final = re.compile(
    rf"\b(?:{KIN})\b|[姉妹兄弟母父妻夫娘]|息子|祖[父母]|叔[父母]|友[人達]|友だち|同僚|上司|部長|課長|社長|店長"
    rf"|先輩|後輩|旦那|奥さん"
)

_THIRD: Final = re.compile(
    rf"^(?:(?:and|but|so|well|also|then|yesterday|today|[a-z]{2, 10}ly),? )?(?:(?P<pronoun>he|she|they)\b"
    rf"|(?:my|our|the|a|this|her|his) (?:\w{{1,15}} ){{0,2}}?(?P<relation>{_RELATION})\b"
    r"|(?-i:(?P<name>[A-Z][a-z]{1,20})(?: [A-Z][a-z]{1,20})?(?= (?:is|was|has|had|will|can|loves?|likes?|lives?"
    r"|works?|said|says"
    r"|wrote|told|thinks|wants|hates|moved|got|just|never|always|\w{2,12}(?:ed|es))\b|['’]s (?:a|an|the|allergic"
    r"|moving|from)\b)))",
    re.IGNORECASE,
)

_THIRD_JAPANESE: Final = re.compile(
    "^(?:でも|そして|あと|昨日|今日|この前|ちなみに|実は)?、?(?:私の|うちの|僕の|俺の|わたしの)?"
    "(?P<head>彼女?|[あそ]の[子人]|嫁|婿|義理の[姉妹兄弟父母]|義[父母]|孫|姪|甥|いとこ|元?彼氏?|インターンの[子人]"
    "|[^、。]{2,12}の[子人方](?=[、はがも])|姉|妹|兄|弟|母|父|元?妻|元?夫|娘|息子|祖父|祖母|叔[父母]|友[人達]|友だち"
    "|同僚|上司|部長"
    "|課長|社長|店長"
    "|先輩|後輩|隣の人"
    f"|主人公|先生|大家|お客さん|旦那|奥さん|両親|(?:[{HAN}{KATAKANA}]{{1,6}}|[{HIRAGANA}]{{2,4}})(?:さん|くん|君"
    f"|ちゃん|氏|先生|様))"
    "(?:の.{1,6})?(?:、|は|が|も|って|によると|いわく|曰く)"
)

THEM: Final = re.compile(r"\b(?:he|she|they|him|her|his|them|their)\b|彼女?[はがのをに]")

_REPORTED: Final = re.compile(
    r"\b(?:told (?:me|us)|tells me|said|says|wrote|texted|thinks|claims|posted)(?: that)? (?:he|she|they)\b"
    "|^[^、。]{1,12}[がはも].{1,40}(?:って言|と言って|らしい|だそう)"
)

_NOT_A_NAME: Final = frozenset(
    [
        "i",
        "the",
        "this",
        "that",
        "it",
        "there",
        "we",
        "you",
        "what",
        "who",
        "how",
        "when",
        "where",
        "why",
        "my",
        "our",
        "his",
        "her",
        "their",
        "no",
        "yes",
        "ok",
        "okay",
        "today",
        "yesterday",
        "tomorrow",
        "work",
        "everything",
        "nothing",
        "someone",
        "everyone",
        "people",
        "life",
        "please",
        "thanks",
        "also",
        "just",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ]
)

FIRST: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|we|us|myself)\b|私|僕|俺|自分|わたし|ぼく|うち(?!の)")


_LOST: Final = re.compile(r"\blost (?:his|her|their|an?|the)\b|亡くし|失っ")


def is_of_relation(statement: str) -> bool:
    """Return whether a statement about the user names a relation, such as a brother, that the user did not lose."""
    lower = statement.casefold()
    if other_languages.USER_IS_SUBJECT.match(lower):
        return other_languages.RELATED.search(lower) is not None
    return _RELATED.search(lower) is not None and not _LOST.search(lower)


_OWNS_PERSON: Final = re.compile(rf"\b(?:owns?|bought|sold) (?:an?|the|their|his|her) (?:{KIN})\b(?!['’])")


def owns_a_person(statement: str) -> bool:
    """Return whether a statement makes property of a person, as small models do of "my neighbour"."""
    return _OWNS_PERSON.search(statement.casefold()) is not None


_SPEAKER_IS_SUBJECT: Final = re.compile(
    r"^(?:(?:and|but|so|well|also|then),? )?(?:i|we)(?:'\w{1,2})? |^(?:私|僕|俺)[はがも]"
)
_RELATION_ACTS: Final = re.compile(
    rf"^(?:the user's )?(?P<relation>{KIN}) (?!is\b|was\b|has\b|had\b|named\b|called\b)[a-z]"
    "|^(?:ユーザーの)?(?P<relative>[姉妹兄弟母父妻夫娘]|息子|友人|同僚|上司|旦那)[はがも]"
)


_NAME: Final = re.compile(r"(?:The )?(?P<name>[A-Z][a-z]{1,20})(?:['’]s)? (?=[a-z])")


def acts_instead(statement: str, sentence: str) -> bool:
    """Return whether a statement says of another person what a sentence says of its speaker, without that person."""
    said = sentence.casefold()
    if not _SPEAKER_IS_SUBJECT.match(said) or THEM.search(said):
        return False
    if match := _RELATION_ACTS.match(statement.casefold()):
        return (match["relation"] or match["relative"]) not in said
    name = match["name"].casefold() if (match := _NAME.match(statement)) else ""
    return name not in (*_NOT_A_NAME, "") and name not in said


_PRONOUNS: Final = frozenset(["彼", "彼女", "あの子", "あの人", "その子", "その人"])


def spoken_about(sentence: str) -> str | None:
    """Return whom a sentence is about, if its subject is another person than the speaker; "" for a pronoun."""
    if _REPORTED.search(sentence.casefold()):
        return ""
    if match := _THIRD_JAPANESE.match(sentence):
        head = match["head"]
        return None if FIRST.search(sentence[match.end() :].casefold()) else "" if head in _PRONOUNS else head
    if match := other_languages.THIRD.match(sentence):
        rest = sentence[match.end() :].casefold()
        return None if other_languages.FIRST.search(rest) else next(filter(None, match.groups())).casefold()
    if not (match := _THIRD.match(sentence)) or (match["name"] or "").casefold() in _NOT_A_NAME:
        return None
    if FIRST.search(sentence[match.end() :].casefold()):
        return None
    return (match["relation"] or match["name"] or "").casefold()

"""Analyse messages as queries: their terms, and how likely they need memories of the user. Pure.

Pasted code, courtesies and phrases of requests are no query terms. They are terms of stored texts: a stack trace is
found by its words.

"Who discovered penicillin?" shares its rarest word with the memory of an allergy and needs none. Function words tell
such messages apart: those on personal matters have "my", "we", "again" or "tomorrow", 「っけ」 or 「うちの」; general
questions and tasks on a given text have typical forms. English and Japanese; messages in other scripts count as
personal.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice, pairwise
from typing import Final, Self

from memoryhub.search.analysis import HAN, KATAKANA, analyse, fold, is_unspaced
from memoryhub.search.function_words import function_terms

_COURTESIES: Final = """
actual anyway ask bit bye cheer cool dear even fine forget good great guess hello help hey hi hope know let lot love
morn night nice ok okay pleas question quick realli remember remind sorri suppos sure tell thank thanks thing think
thx today way welcom well
"""
COURTESIES: Final = frozenset(_COURTESIES.split())
"""Stems of phrases of requests and greetings."""

_JAPANESE_COURTESIES: Final = re.compile(
    "おはよう(?:ございます)?|こんにち[はわ]|こんばん[はわ]|ありがとう(?:ござい(?:ます|ました))?"
    "|よろしく(?:お願い(?:します|いたします)?)?|お願い(?:します|いたします)?|お疲れ(?:様|さま)(?:です|でした)?"
    "|すみません|ごめん(?:なさい|ね)?|教えて(?:ください|くれる|ほしい)?|覚えて(?:る|ます)?"
    r"|で?した?っけ|だった?っけ|でしょうか|ください|思い?(?:ます|って)|けれど|かな(?=[、。！？!?\s]|$)|ちょっと|今日は|元気"
)

_WORD: Final = re.compile(r"[^\W\d_]{1,12}")
MAX_READ: Final = 1_000
"""Characters by which the language of a message is known."""

_FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE_START: Final = re.compile(
    r"\s*(?:at |File \"|Traceback|def |class |import |from \S+ import|return\b|const |let |var |function |#include"
    r"|SELECT |INSERT |UPDATE |FROM |WHERE |</?\w|[{}\[\]]|\d{4}-\d\d-\d\d[T ]\d\d:|\$ |//|INFO|ERROR|WARN"
    r"|DEBUG|\w*(?:Error|Exception)\b|/\*|\+\+\+|---|@@|\"\w+\"\s*:)"
)
_SYMBOL: Final = re.compile(r"[{}()\[\]<>=;|/\\_$#@*&^%~`\"+:\d]")
MIN_SYMBOL_SHARE: Final = 0.18
"""Minimum share of brackets, operators and digits in code and logs: they have 15 to 40 %, prose 2 to 5 %."""
MIN_CSV_COMMAS: Final = 3

MAX_EARLIER_TURNS: Final = 4
USER_TURN_WEIGHT: Final = 1.0
ASSISTANT_TURN_WEIGHT: Final = 0.5
TURN_DECAY: Final = 0.7
"""Weights of the terms of earlier turns: by role, times TURN_DECAY for each exchange in between."""

MAX_CHARACTERS: Final = 20_000
"""Of longer messages only the beginning and the end are read, where requests are."""


class MessageKind(IntEnum):
    """Kinds of messages, by ascending likelihood to need a memory."""

    TEXT_TASK = 0
    """A task on a text in the message, or a courtesy."""
    GENERAL = 1
    """A question of general knowledge or advice, or a writing task."""
    UNDETERMINED = 2
    """As 「防災訓練は何月?」, which may be meant of any town."""
    NAMED = 3
    """With a proper name."""
    PERSONAL = 4
    """About the user's own life or time."""


NEED_ODDS: Final = {
    MessageKind.TEXT_TASK: 0.05,
    MessageKind.GENERAL: 0.3,
    MessageKind.UNDETERMINED: 3.0,
    MessageKind.NAMED: 10.0,
    MessageKind.PERSONAL: None,
}
"""Odds of each kind to need a memory, for `fusion.FusionPolicy.need_odds`."""

MAX_PARTS: Final = 4
"""Most questions in a message that are searched separately."""

MAX_QUESTIONS: Final = 20
"""A message with more is a list of questions."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!])\s|(?<=[。！?？])|\n")
_QUESTION_ENDS: Final = ("?", "？", "か。")

_REQUEST: Final = re.compile(
    r"\b(?:(?:tell|give|show|help|teach|explain to|let|send|find|get) (?:me|us)"
    r"|how (?:do|can|could|should) (?:i|we)|where can (?:i|we)|(?:can|could|may) i (?:ask|get|have)"
    r"|i(?:['’]d| would) (?:like|love) (?:to know|you to)|i (?:need|want) you to|let['’]?s"
    r"|i(?:['’]m| am) (?:just )?(?:wondering|curious)|i (?:wonder|see|guess|think|understand|didn['’]?t know)"
    r"|ma[dk]es? (?:me|my day)|what i \w+)\b"
    r"|知りたい|わか(?:り|ら)|教えて(?:くれ|もら|ほし)",
    re.IGNORECASE,
)
"""Phrases with "I" or "me" that are not personal."""

_PERSONAL: Final = re.compile(
    r"\b(?:i|im|i['’](?:m|ve|ll|d)|ive|my|mine|me|myself|we|we['’](?:re|ve|ll|d)|our|ours|(?-i:us)|again|still|already"
    r"|today|tonight|tomorrow|yesterday|(?:last|next|this) (?:time|night|week|weekend|month|year|morning|evening"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|(?:as|than|the) (?:usual|always))\b"
    r"|私|わたし|僕|ぼく|俺|うち[のはにで]|[我わ]が家|自宅|自分|っけ|いつも|この前|このあいだ|この間|前回|以前"
    r"|昨日|今日|明日|明後日|今夜|今晩|今朝|[今来先毎][週月]|去年|来年|今度|今回|まだ|もう"
    r"|次(?:[はに]|の(?!文|コード|表|式|問|語|単語|中|うち|データ))"
    r"|だけど|んですけど|けど[、。]|んだよ|(?<!たく)さん(?!か)|先生|ちゃん|くん|君[のはが]|様[のはが]"
    r"|たい(?:[。、んので]|$)|ほしい|もらっ|くれ[るた]|親父|お袋|両親|父|母|妻|夫[のはがに]|[兄姉弟妹][のはがに]"
    r"|息子|娘|結局|だった|んでした",
    re.IGNORECASE,
)
_QUOTED_SENTENCE: Final = re.compile(
    r"(?<!\w)'[^'\n]{12,}'|\"[^\"\n]{6,}\"|“[^“”\n]{6,}”|‘[^‘’\n]{12,}’|「[^「」\n]{9,}」|『[^『』\n]{9,}』"
)
"""A quoted sentence; a word or two in quotation marks are a name."""

_QUOTED: Final = re.compile(
    r"(?<!\w)'[^'\n]{2,}'(?!\w)|\"[^\"\n]{2,}\"|“[^“”\n]{2,}”|‘[^‘’\n]{2,}’|「[^「」\n]+」|『[^『』\n]+』"
)
_HAS_TEXT: Final = re.compile(rf"{_QUOTED.pattern}|[:：]\s*\S")

_TASK: Final = re.compile(
    r"(?:^|[.!?:\n][ \t]?|\b(?:please|you|and) )(?:translate|summari[sz]e|proof-?read|rewrite|rephrase|paraphrase"
    r"|correct|classify|explain|define|describe|name|compare|convert|calculate|compute|simplify|solve|identify|extract|shorten"
    r"|reformat|expand|sort|count the|find the (?:mistake|error)|(?:put|make|turn) (?:this|it|these|the following)"
    r"|turn (?=['\"‘“])|fix the"
    r"|(?:write|compose|tell|make|give|generate) (?:me )?(?:an?|some|two|three|five|ten) (?:[\w-]+ ){0,3}"
    r"(?:poem|haiku|limerick|rhyme|story|tale|joke|song|essay|slogan|riddle|description|example|sentence|title|synonym"
    r"|query|function|regular expression|unit test|script))\b"
    r"|\b(?:how (?:do|would) (?:you|i|one) (?:say|write|spell)"
    r"|what(?:['’]s| is) .{0,60} in (?:english|german|french|spanish|italian|japanese|chinese|korean)"
    r"|is (?:this|the) (?:sentence|comma|word|spelling)|(?:which|what) tense"
    r"|to (?:passive|past|present) (?:voice|tense))\b"
    r"|訳[しすせお]|[英和]訳|要約|校正|誤字|添削|[英日中韓仏独]\w{0,3}語(?:に(?:して|直|す)|で(?:言|い|何|なん)|って|表現)"
    r"|[この次]の(?:文|コード|単語|英文)|以下の|短くして"
    r"|(?:ローマ字|ひらがな|カタカナ|関西弁|敬語|箇条書き|丁寧|過去形|未来形|受け身)に(?:して|直)"
    r"|(?:俳句|川柳|和歌|物語|標語|例文|短い文|怪談|タイトル)[をはが]|反対語|対義語|部首|主語",
    re.IGNORECASE,
)
"""Tasks on texts; with a quotation or a colon, on a text in the message."""

_FACT: Final = re.compile(
    r"\b(?:capital of|population of|time difference|differences? between|meaning of|stands? for|what does .{1,40} mean"
    r"|how (?:far|tall|deep|high|heavy|thick|fast) (?:is|are) (?!(?:my|our|the)\b)|(?:boiling|freezing|melting) point"
    r"|how (?:many|much) [\w ]{1,30}(?:is|are|do|does|makes?) (?:there )?(?:in )?"
    r"(?:an?|one|\d+|the (?:human|average)|it take)"
    r"|(?:average|typical|normal) \w+|life ?span|in the world|on earth|what(?:['’]s| is) the (?:plural|opposite|symbol)"
    r"|(?:what|which) (?:year|language|country|city|continent|planet|vitamins?)\b"
    r"(?=.{0,60}\b(?:was|spoken|produces?|has|first)\b)"
    r"|who (?:first )?(?:invented|discovered|wrote|painted|directed|composed|built|won|founded|designed)"
    r"|when (?:was|were|did) .{1,60}(?:first|invented|founded|built|born|start making))\b"
    r"|首都|人口|平均|全国|世界(?!地図)|日本(?:で(?:最|一番|いちばん)|最大|最古|一)|最初に.{0,8}[作発]|潜伏期間|旬[はの]|カロリー|栄養"
    r"|(?:1|１|一)(?:個|杯|人前|本|枚|ポンド|キロ|リットル|世帯)[はのあ]|\d(?:杯|人前|ポンド|g|グラム)の.{0,12}(?:たんぱく質|何グラム)"
    r"|から.{1,12}まで(?:の距離|は?何(?:キロ|時間))|の略|何桁|って何|花言葉|発祥|どこの国|どんな(?:病気|制度|仕組み|意味)|の原因|法律で|何でできて|になるには",
    re.IGNORECASE,
)
"""Questions for measures, definitions and facts; also with a proper name."""

_GENERAL: Final = re.compile(
    r"\b(?:definition of|history of|synonyms?|in general|generally|who (?:first )?\w+ed|what (?:causes?|makes|helps)"
    r"|why (?:is|are|do|does) (?!the\b|that\b|this\b|it\b)|how to|any tips|tips (?:for|on)|etiquette|best practices?"
    r"|how (?:do|does|is|are|did|can|should) (?:one|you|people|an?|\w+s)|what should (?:an?|one|people|be)"
    r"|what (?:is|are|was|were) (?:an?|some|good|safe|common) |what['’]s (?:an?|the best) "
    r"|(?:good|best|easiest) (?:way|time of|method)|which \w+ (?:are good|help|lower|improve))\b"
    r"|とは|って(?:なに|どういう)|意味|違い|仕組み|しくみ|歴史|由来|語源|一般[にの的]|普通[は、]|説明して"
    r"|[挙あ]げて|比べて|比較し|例文|なぜ|どうして|発明|発見|作者|作曲者"
    r"|コツ|選び方|やり方|始め方|育て方|保存方法|方法[はを]|対策|マナー|注意点|ポイント|大事なこと|を防ぐに|長持ち",
    re.IGNORECASE,
)
"""Questions of general knowledge and advice; not with a proper name."""

_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_KNOWN_SCRIPT: Final = re.compile(f"[A-Za-z\u3041-\u3096{KATAKANA}{HAN}]")


@dataclass(frozen=True, slots=True)
class Prose:
    """The prose of a message, shortened and without pasted code, and its terms without courtesies.

    A message of nothing but courtesies, `is_courtesy`, keeps all terms.
    """

    text: str
    terms: Collection[str]
    is_courtesy: bool

    @classmethod
    def of(cls, text: str) -> Self:
        text = shortened(text)
        prose = without_code(text)
        terms = _subject_terms(prose)
        return cls(prose, terms or analyse(text).keys(), not terms)


Turns = Sequence[tuple[str, Prose]]
"""Earlier turns as (role, prose), newest first."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """An analysed query text: its terms, those of earlier turns, and whether its script has spaces.

    `earlier` has weights in [0, 1] for `bm25.query_words`. `message_kind` is None for a search.
    """

    text: str
    terms: Collection[str]
    is_unspaced: bool
    earlier: Mapping[str, float] = field(default_factory=dict)
    message_kind: MessageKind | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(text, analyse(text), is_unspaced(text))

    @classmethod
    def of_message(cls, text: str, turns: Iterable[tuple[str, str]] | None = None) -> Self:
        """Analyse a message; `turns` are the earlier ones as (role, text), newest first, or None for a search."""
        prose = Prose.of(text)
        earlier = [(role, Prose.of(each)) for role, each in islice(turns or (), MAX_EARLIER_TURNS)]
        kind = None if turns is None else _message_kind(prose, earlier)
        return cls(text, prose.terms, is_unspaced(text), _earlier_terms(earlier), kind)


def question_parts(text: str) -> list[str]:
    """Return the questions of a message that asks from 2 to MAX_PARTS different ones, else nothing.

    Follow-ups such as "And why?", which have no terms, are no parts.
    """
    prose = without_code(shortened(text))
    questions = [each.strip() for each in _SENTENCE_END.split(prose) if each.endswith(_QUESTION_ENDS)]
    if len(questions) > MAX_QUESTIONS:
        return []
    parts = [question for question in dict.fromkeys(questions) if _subject_terms(question)]
    return parts if 2 <= len(parts) <= MAX_PARTS else []


def _subject_terms(prose: str) -> Collection[str]:
    """Return the terms of a text without courtesies, and without function words of its language."""
    terms = analyse(_JAPANESE_COURTESIES.sub(" ", prose)).keys() - COURTESIES
    return terms - function_terms(_WORD.findall(fold(prose[:MAX_READ])))


def _earlier_terms(turns: Turns) -> dict[str, float]:
    """Return the terms of the turns with their weights."""
    terms: dict[str, float] = {}
    for place, (role, prose) in enumerate(turns):
        share = (USER_TURN_WEIGHT if role == "user" else ASSISTANT_TURN_WEIGHT) * TURN_DECAY ** (place // 2)
        for term in prose.terms:
            terms[term] = max(share, terms.get(term, 0.0))
    return terms


def _message_kind(prose: Prose, turns: Turns) -> MessageKind:
    """Return the kind of a message: the highest of it and the user's earlier turns, unless it is a task on texts."""
    own = _own_kind(prose)
    if own <= MessageKind.GENERAL and _TASK.search(_without_quotations(prose)):
        return own
    return max([own, *(_own_kind(each) for role, each in turns if role == "user")])


def _without_quotations(prose: Prose) -> str:
    return _QUOTED_SENTENCE.sub(" ", prose.text)


def _own_kind(prose: Prose) -> MessageKind:
    words = _without_quotations(prose)
    if prose.is_courtesy or (words != prose.text and not _subject_terms(words)) or _is_text_task(prose):
        return MessageKind.TEXT_TASK
    if not _KNOWN_SCRIPT.search(words) or _is_personal(words):
        return MessageKind.PERSONAL
    if _TASK.search(words) or _FACT.search(words):
        return MessageKind.GENERAL
    if _NAME.search(words):
        return MessageKind.NAMED
    return MessageKind.GENERAL if _GENERAL.search(words) else MessageKind.UNDETERMINED


def _is_text_task(prose: Prose) -> bool:
    unquoted = _QUOTED.sub(" ", prose.text)
    has_text = _HAS_TEXT.search(prose.text)
    return bool(has_text and _TASK.search(unquoted) and not _is_personal(unquoted))


def _is_personal(words: str) -> bool:
    return bool(_PERSONAL.search(_REQUEST.sub(" ", words)))


def shortened(text: str) -> str:
    """Return the beginning and the end of a text that is longer than MAX_CHARACTERS."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 2]}\n{text[-MAX_CHARACTERS // 2 :]}"


def without_code(text: str) -> str:
    """Remove fenced blocks and runs of lines that look like code, logs or tables; keep text that is nothing else."""
    lines = _FENCED.sub("\n", text).split("\n")
    code = [False, *map(_looks_like_code, lines), False]
    runs = [one and other for one, other in pairwise(code)]
    kept = [line for line, before, after in zip(lines, runs[:-1], runs[1:], strict=True) if not (before or after)]
    prose = "\n".join(kept)
    return prose if prose.strip() else text


def _looks_like_code(line: str) -> bool:
    bare = line.strip()
    if not bare:
        return False
    indented = line.startswith(("    ", "\t"))
    table = bare.count(",") >= MIN_CSV_COMMAS and " " not in bare.replace(", ", ",")
    symbols = len(_SYMBOL.findall(bare)) / len(bare)
    return bool(indented or table or symbols > MIN_SYMBOL_SHARE or _CODE_START.match(line))

"""Judge by its wording how likely a message is to need what is remembered of a person. Pure: no Django, no database.

"Who discovered penicillin?" shares its rarest word with the memory of an allergy and needs none. The words that are
shared do not tell the two apart, but those that nobody searches for do: people who speak of their own affairs say
"my", "we", "again" or "tomorrow", 「っけ」 or 「うちの」; questions about the world and work on a text that is given
have forms of their own. English and Japanese; a message in another script is taken for a personal one.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from memoryhub.search.analysis import HAN, KATAKANA, shortened, subject_terms, without_code


class Wording(IntEnum):
    """Kinds of messages, the likelier to need a memory the higher."""

    GENERAL = 0
    """It asks about the world, wants work on a text that it brings along, or is a courtesy."""
    OPEN = 1
    """Nothing in it tells: 「防災訓練は何月?」 may be meant of any town."""
    NAMED = 2
    """It names somebody or something."""
    PERSONAL = 3
    """It speaks of the person's own life or time."""


NEED_ODDS: Final = {Wording.GENERAL: 0.3, Wording.OPEN: 3.0, Wording.NAMED: 10.0, Wording.PERSONAL: None}
"""The odds of each kind to need a memory, for `fusion.FusionPolicy.need`."""

_REQUEST: Final = re.compile(
    r"\b(?:(?:tell|give|show|help|teach|explain to|let|send|find|get) (?:me|us)"
    r"|how (?:do|can|could|should) (?:i|we)|where can (?:i|we)|(?:can|could|may) i (?:ask|get|have)"
    r"|i(?:['’]d| would) (?:like|love) (?:to know|you to)|i (?:need|want) you to|let['’]?s"
    r"|i(?:['’]m| am) (?:just )?(?:wondering|curious)|i (?:wonder|see|guess|think|understand|didn['’]?t know)"
    r"|ma[dk]es? (?:me|my day)|what i \w+)\b"
    r"|知りたい|わか(?:り|ら)|教えて(?:くれ|もら|ほし)",
    re.IGNORECASE,
)
"""What says "I" or "me" and speaks of nobody's life."""

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
_GIVEN: Final = re.compile(
    r"(?<!\w)'[^'\n]{12,}'|\"[^\"\n]{6,}\"|“[^“”\n]{6,}”|‘[^‘’\n]{12,}’|「[^「」\n]{9,}」|『[^『』\n]{9,}』"
)
"""A quoted sentence. A word or two in quotation marks are a name."""

_TASK: Final = re.compile(
    r"(?:^|[.!?:\n][ \t]?|\b(?:please|you|and) )(?:translate|summari[sz]e|proof-?read|rewrite|rephrase"
    r"|paraphrase|correct|classify|explain|define|describe|name|compare|convert|calculate|compute|simplify|solve|identify|extract"
    r"|turn this|fix the)\b|訳し|要約|校正|誤字|添削|[英日]\w{0,3}語に(?:して|直)|この文|次の文|以下の",
    re.IGNORECASE,
)
_WORLD: Final = re.compile(
    r"\b(?:differences? between|meaning of|definition of|history of|synonyms?|in general|generally"
    r"|who (?:first )?(?:\w+ed|wrote|built|won)|what (?:causes?|makes)"
    r"|why (?:is|are|do|does) (?!the\b|that\b|this\b|it\b)"
    r"|how (?:do|does|is|are|did|can) (?:one|you|people|an?|\w+s)|what (?:is|are|was|were) (?:an?|some) )\b"
    r"|とは|って(?:何|なに|どういう)|意味|違い|仕組み|しくみ|歴史|由来|語源|一般[にの的]|普通[は、]|説明して"
    r"|[挙あ]げて|比べて|比較し|例文|なぜ|どうして|発明|発見|作者|作曲者",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_KNOWN_SCRIPT: Final = re.compile(f"[A-Za-z\u3041-\u3096{KATAKANA}{HAN}]")


def wording(text: str, turns: Iterable[tuple[str, str]] = ()) -> Wording:
    """Return the kind of a message.

    `turns` are those before it, as (role, text): what a message leaves open the user's turns tell, which are part of
    what is searched for; but not of work on a given text.
    """
    prose = _prose(text)
    own = _wording(prose)
    if own is Wording.GENERAL and _TASK.search(prose):
        return own
    return max([own, *(_wording(_prose(each)) for role, each in turns if role == "user")])


def _prose(text: str) -> str:
    """Return what a message says in its own words."""
    return _GIVEN.sub(" ", without_code(shortened(text)))


def _wording(prose: str) -> Wording:
    if not subject_terms(prose):
        return Wording.GENERAL
    if not _KNOWN_SCRIPT.search(prose) or _PERSONAL.search(_REQUEST.sub(" ", prose)):
        return Wording.PERSONAL
    if _TASK.search(prose):
        return Wording.GENERAL
    if _NAME.search(prose):
        return Wording.NAMED
    return Wording.GENERAL if _WORLD.search(prose) else Wording.OPEN

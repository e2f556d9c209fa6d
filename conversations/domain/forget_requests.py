"""Recognise that a person asks for something to be forgotten, in English and Japanese (SPEC C9). Pure.

Only a request about the person or something private counts: "forget my phone number", not "don't forget the milk",
"forget Python, use Rust" or "I forgot my keys". Words decide, sentence by sentence; a miss is answered as usual.
"""

import re
from typing import Final

MAX_LENGTH: Final = 600
"""Characters of a message that is read; longer ones are pasted texts."""

MAX_SENTENCE: Final = 200

_SENTENCE: Final = re.compile(r"[.!?;\n。！？]+")
_LEAD: Final = re.compile(
    r"(?:(?:please|hey|hi|ok|okay|well|actually|no|so|and|also|oh|just|now|then|kindly|thanks|sorry|but|can you"
    r"|could you|would you|will you|you can|you may|you should|you must|you have to|i need you to|i want you to"
    r"|i(?:'d| would) like you to|i ask you to|i asked you to)[ ,:—-]+)*"
)
_NOT: Final = r"(?:do not|don't|dont|never|stop|no longer) (?:ever )?"
_FORGET: Final = re.compile(
    rf"(?:(?:forget|unlearn) (?:about )?|{_NOT}(?:remember|remembering|memori[sz]e|memori[sz]ing) )(?P<what>.+)"
)
_NOT_KEEP: Final = re.compile(
    rf"{_NOT}(?:keep|keeping|store|storing|save|saving|record|recording|retain|retaining|note|noting) (?P<what>.+)"
)
_ERASE: Final = re.compile(
    r"(?:delete|erase|remove|wipe|clear|purge) (?:(?P<what>.+?) (?:from|in|out of) (?:your|the long-term) memory"
    r"|(?P<known>(?:everything|all|anything|whatever|what) (?:that )?you (?:know|remember|(?:have )?(?:stored|saved))"
    r"|(?:all |any |the |your )?(?:memory|memories) (?:of|about) (?:me|my|us|our)).*)"
)
_OWN: Final = re.compile(r"\b(?:my|our|me|mine|us|i|i'm|i've|i'd|myself)\b")
_PRIVATE: Final = re.compile(
    r"(?:that|this|the|those|these|my|our) (?:[\w-]+ )?(?:passwords?|address(?:es)?|phone|numbers?|e-?mails?"
    r"|birthdays?|salar(?:y|ies)|names?|diagnos[ie]s|pin|conversation|chat|appointment|illness|medication)\b"
)
_TOLD: Final = re.compile(r"\b(?:i|we) (?:just |have |'ve )?(?:told|said|mentioned|shared|wrote|gave)\b")
_DISREGARD: Final = re.compile(
    r"(?:my |the |that )?(?:last|previous|earlier|first) (?:message|question|instruction|prompt|request|answer)"
    r"|what i (?:just )?(?:said|asked|wrote)$|(?:it|that|this|me)$"
)
_MEANT_OTHERWISE: Final = re.compile(
    r"^(?:to|it,?|that,|how|why|when|whether|the fact|for (?:a|the) )\b|,? (?:i meant|use|try|instead)\b"
)

# Only the verbs: what is to be forgotten stands before them.
_JA_ERASE: Final = re.compile(
    r"(?:の記憶を|の記憶は|のメモリーを|のメモリを|記憶から|メモリーから|メモリから)(?:消し|消去し|削除し|取り除い|除い)て"
)
_JA_FORGET: Final = re.compile(
    r"忘れて(?:ください|下さい|くださ|くれ|ほしい|欲しい|もらえ|もらい|いただ|頂|ね|よ?$)|忘れるように|忘れること$"
    r"|覚えないで|覚えておかないで|覚えなくて(?:いい|良い|大丈夫|結構)|記憶しないで|記憶に残さないで"
)
_JA_NOT_KEEP: Final = re.compile(r"保存しないで|記録しないで|残さないで|記録に残さないで")
_JA_BETWEEN: Final = (
    "もう", "全部", "すべて", "全て", "どうか", "ぜひ", "今すぐ", "きれいに", "あなたの", "君の",
    "について", "に関して", "の件", "を", "は", "も",
)  # fmt: skip
"""Words between what is to be forgotten and the verb."""
_JA_PRIVATE: Final = re.compile(
    r"私|僕|俺|わたし|ぼく|自分|うち|我が家|電話|番号|住所|氏名|名前|パスワード|暗証|誕生日|生年月日|給料|年収|収入|病気|病名"
    r"|診断|通院|薬|メール|アドレス|会話|話した|言った|伝えた|教えた|勤務先|会社名|家族|妻|夫|彼女|彼氏|娘|息子|口座|年齢|体重"
)


def request_to_forget(message: str) -> str:
    """Return what a message asks to be forgotten, in its words; "" where it asks for nothing of the kind."""
    if len(message) > MAX_LENGTH:
        return ""
    for sentence in _SENTENCE.split(message):
        text = " ".join(sentence.replace("’", "'").split())[:MAX_SENTENCE]
        if text and (what := _english(text.lower()) or _japanese(text)):
            return what
    return ""


def _english(sentence: str) -> str:
    lead = _LEAD.match(sentence)
    asked = sentence[lead.end() :] if lead else sentence
    if match := _ERASE.match(asked):
        return (match["what"] or match["known"]).strip(" ,")
    if match := _NOT_KEEP.match(asked):  # files and changes are saved as well
        what = match["what"].strip(" ,")
        is_private = _PRIVATE.match(what) or _TOLD.search(what) or what.endswith(("in memory", "in your memory"))
        return what if is_private else ""
    if match := _FORGET.match(asked):
        what = match["what"].strip(" ,")
        if _MEANT_OTHERWISE.search(what) or _DISREGARD.fullmatch(what):
            return ""
        is_private = _PRIVATE.match(what) or _OWN.search(what) or what.startswith("everything")
        return what if is_private else ""
    return ""


def _japanese(sentence: str) -> str:
    for pattern in (_JA_ERASE, _JA_FORGET, _JA_NOT_KEEP):
        if not (match := pattern.search(sentence)):
            continue
        what = sentence[: match.start()].rpartition("、")[2]
        while word := next((word for word in _JA_BETWEEN if what.endswith(word)), ""):
            what = what.removesuffix(word)
        is_told = pattern is _JA_ERASE or (pattern is _JA_FORGET and what.endswith(("こと", "話", "情報")))
        if what and (is_told or _JA_PRIVATE.search(what)):
            return what
    return ""

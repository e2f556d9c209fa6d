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
_QUOTED: Final = re.compile(r"[「『\"“][^「『“」』\"”]*[」』\"”]|(?<!\w)'[^']*'(?!\w)")
"""Quoted words, which are another's or a text to work on."""

_VERB: Final = re.compile(
    r"\b(?P<forget>forgett?|foget|forgetting|unlearn|unlearning)\b"
    r"|\b(?P<erase>delete|erase|remove|wipe|purge|clear|scrub)\b"
    r"|\b(?P<not>do not|don't|dont|never|stop|no longer|not|didn't|shouldn't)\b"
    r" (?:ever |again |keep |please |want you to |want u to )*"
    r"(?P<kept>remember|remembering|memori[sz]e|memori[sz]ing|know|knowing|mention|mentioning|keep|keeping"
    r"|store|storing|save|saving|record|recording|retain|retaining|note|noting)\b"
)
_ASKED: Final = re.compile(
    r"(?:^|\b(?:please|pls|plz|just|also|so|now|then|kindly|and|but|hey|hi|ok|okay|well|actually|no|oh|again|anyway)"
    r"|\b(?:can|could|would|will) (?:you|u)(?: please| just| kindly)?|\bwould you mind"
    r"|\byou (?:can|may|should|must|have to|need to)"
    r"|\b(?:want|like|need|ask|asked|request|prefer|rather)(?: that)?(?: you| u)(?: to| should)?"
    r"|\bi(?:'d| would) rather you|\bi(?: do)?)$"
)
"""What is before the verb of a request."""

_OWN: Final = re.compile(r"\b(?:my|our|me|mine|us|i|i'm|i've|i'd|myself)\b")
_PRIVATE: Final = re.compile(
    r"\b(?:that|this|the|those|these|my|our) (?:[\w-]+ )?(?:passwords?|address(?:es)?|phone|numbers?|e-?mails?"
    r"|birthdays?|salar(?:y|ies)|names?|diagnos[ie]s|pin|conversation|chat|appointment|illness|medication|allergy"
    r"|job)\b"
)
_TOLD: Final = re.compile(
    r"\b(?:i|we) (?:just |have |ever |'ve )*(?:told|said|mentioned|shared|wrote|gave)\b"
    r"|\b(?:about|of) (?:me|my|us|our)\b"
    r"|\b(?:you|u)(?: have|'ve)? (?:know|remember|stored|saved|have on)\b"
    r"|\bmy (?:personal )?(?:data|information|info)\b"
    r"|\b(?:your|long-term) memory\b|\bin memory$|\bmemor(?:y|ies) (?:about|abt|of)\b"
    r"|\b(?:notes|records?) you (?:have|keep)\b"
)
_DISREGARD: Final = re.compile(
    r"(?:my |the |that )?(?:last|previous|earlier|first) (?:message|question|instruction|prompt|request|answer)"
    r"|what i (?:just )?(?:said|asked|wrote)$|(?:it|that|this|me)$"
)
_MEANT_OTHERWISE: Final = re.compile(
    r"^(?:to|it,?|that,|how|why|when|whether|the fact|for (?:a|the) )\b|,? (?:i meant|use|try|instead|rewrite)\b"
    r"|^(?:my|the|our) (?:code|draft|text|essay|example|question|idea|plan|list)\b|^-"
)

_FROM_MEMORY: Final = re.compile(r",? (?:from|in|out of) (?:your|the|long-term) memory.*$")

_JA_VERB: Final = re.compile(
    r"(?P<forget>(?:お)?(?:忘れ|わすれ)(?=て|と|るように|ること$|ください|下さい|いただ|頂))"
    r"|(?P<keep>(?:覚え|記憶し|記憶に残さ|保存し|記録し|記録に残さ|残さ)(?:て(?:おか|い)?)?な(?=いで|くて))"
    r"|(?P<erase>(?:消し|消去し|削除し|除い|取り除い)(?=て|と))"
)
_JA_ASKED: Final = re.compile(
    r"(?:て|と|いで|くて)?(?:おいて|いて)?(?:ください|下さい|くださ|くれ|ほしい|欲しい|もらえ|もらい|もらっ|いただ|頂|ね|よ|を?お願い|$"
    r"|いい|良い|大丈夫|結構|るように|ること$)"
)
_JA_REPORTED: Final = re.compile(r"(?:と|って)(?:言|頼|書|思|聞|命|伝え|お願いし)")
_JA_MEMORY: Final = re.compile(r"記憶|メモリ|覚え")
_JA_TOPIC: Final = re.compile(r"こと|話|件|情報|データ|個人")
_JA_BETWEEN: Final = (
    "もう",
    "全部",
    "ぜんぶ",
    "すべて",
    "全て",
    "どうか",
    "ぜひ",
    "今すぐ",
    "きれいに",
    "あなたの",
    "君の",
    "記憶から",
    "メモリーから",
    "メモリから",
    "の記憶",
    "のメモリー",
    "のメモリ",
    "という",
    "について",
    "に関して",
    "に関する",
    "の件",
    "を",
    "は",
    "も",
    "、",
)
"""Words between what is to be forgotten and the verb."""
_JA_PRIVATE: Final = re.compile(
    r"私|僕|俺|わたし|ぼく|自分|うち|我が家|電話|番号|住所|氏名|名前|本名|パスワード|暗証|誕生日|生年月日|給料|年収|収入|病気|病名"
    r"|診断|通院|薬|メール|アドレス|会話|話した|言った|伝え|教えた|勤務先|勤め先|会社|家族|妻|夫|彼女|彼氏|娘|息子|妹|弟|姉|兄|母|父"
    r"|口座|年齢|体重|住んで|転職|離婚|アレルギー|個人情報|飼って"
)


def request_to_forget(message: str) -> str:
    """Return what a message asks to be forgotten, in its words; "" where it asks for nothing of the kind."""
    if len(message) > MAX_LENGTH:
        return ""
    for sentence in _SENTENCE.split(_QUOTED.sub("…", message)):
        text = " ".join(sentence.replace("’", "'").split())[:MAX_SENTENCE]
        if text and (what := _english(text.lower()) or _japanese(text)):
            return what
    return ""


def _english(sentence: str) -> str:
    for match in _VERB.finditer(sentence):
        before, what = sentence[: match.start()].strip(" ,:—-"), sentence[match.end() :].strip(" ,")
        what = what.removeprefix("about ")
        asked = _ASKED.search(before)
        speaks_of_itself = asked is not None and asked[0] in ("i", "i do") and "want" not in match[0]
        is_other = not match["erase"] and (_MEANT_OTHERWISE.search(what) or _DISREGARD.fullmatch(what))
        is_gerund = bool(match["forget"]) and match["forget"].endswith("ing") and not before.endswith(("mind", "stop"))
        if asked is None or speaks_of_itself or is_other or is_gerund:
            continue
        if _is_about_the_user(match, what):
            return _FROM_MEMORY.sub("", what)
    return ""


def _is_about_the_user(match: re.Match[str], what: str) -> bool:
    """Return whether a request to forget or erase something is about the user; files are erased as well."""
    if match["erase"]:
        return bool(_TOLD.search(what))
    if match["forget"] or match["kept"].startswith(("remember", "memori", "know", "mention")):
        return bool(_PRIVATE.search(what) or _OWN.search(what)) or what.startswith("everything")
    return bool(_PRIVATE.search(what) or _TOLD.search(what))


def _japanese(sentence: str) -> str:
    for match in _JA_VERB.finditer(sentence):
        after = sentence[match.end() :]
        if not _JA_ASKED.match(after) or _JA_REPORTED.search(after):
            continue
        what = _without_ending(sentence[: match.start()])
        is_topic = bool(_JA_TOPIC.search(what))
        is_private = bool(_JA_PRIVATE.search(what))
        in_memory = bool(_JA_MEMORY.search(sentence[: match.start()]))
        if match["erase"]:  # files are erased as well
            is_meant = in_memory or (is_private and is_topic)
        elif match["keep"] and not in_memory and not match["keep"].startswith(("覚え", "記憶")):  # and stored
            is_meant = is_private
        else:
            is_meant = is_private or is_topic
        if what and is_meant:
            return what
    return ""


def _without_ending(before: str) -> str:
    """Return what is before a verb without particles and adverbs, after the last comma with words behind it."""
    what = before
    while word := next((word for word in _JA_BETWEEN if what.endswith(word)), ""):
        what = what.removesuffix(word)
    parts = what.split("、")
    while len(parts) > 1 and parts[-1].endswith(("から", "ので", "が", "けど")):
        parts.pop()
    return parts[-1]

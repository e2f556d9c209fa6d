"""Recognise that a person asks for something to be forgotten, in English and Japanese (SPEC C9). Pure.

Only a request about the person or something private counts: "forget my phone number", not "don't forget the milk",
"forget Python, use Rust" or "I forgot my keys". Words decide at once, sentence by sentence (`request_to_forget`). What
they miss is answered as usual; a model may read it afterwards (`forget_judging`).
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
    r"\b(?P<forget>fo?r?ge?tt?|forgetting|forgot|unlearn|unlearning|un-?remember)\b"
    r"|\b(?P<erase>delete|erase|remove|wipe|purge|clear|scrub|scrap|discard|drop|strike|get rid of|nuke|lose|take"
    r"|removing|deleting|erasing|deleted|erased|removed|wiped)\b"
    r"|\b(?P<not>do not|don't|dont|never|stop|no longer|not|didn't|shouldn't"
    r"|no need to|(?:don't|do not) (?:need|have) to"
    r"|needn't|need not)"
    r"\b (?:ever |again |keep |please |want you to |want u to )*"
    r"(?P<kept>remember|remembering|memori[sz]e|memori[sz]ing|know|knowing|mention|mentioning|keep|keeping"
    r"|(?:hold|hang|holding|hanging) on ?to|store|storing|save|saving|record|recording|retain|retaining|note|noting|log"
    r"|bring up|write down|use|remembered|kept|stored|retained|saved|recorded|noted)\b"
)
_WISH: Final = (
    r"\bi(?:'d| would)? (?:prefer|rather|wish|appreciate it|love it|like it|be (?:grateful|glad|happy|happier))"
    r"(?: if| that)? (?:you|u)(?:'d| would| could)?"
    r"|\b(?:great|nice|better|good|best|kind|helpful) if (?:you|u)(?:'d| would| could)?"
)
_ASKED: Final = re.compile(
    r"(?:^|\b(?:please|pls|plz|just|also|so|now|then|kindly|and|but|hey|hi|ok|okay|well|actually|no|oh|again|anyway)"
    r"|\b(?:can|could|would|will) (?:you|u)(?: please| just| kindly)?|\bwould you mind"
    r"|\byou (?:can|may|should|must|have to|need to)"
    r"|\b(?:want|like|need|ask|asked|asking|request|prefer|rather)(?: that)?(?: you| u)(?: to| should)?"
    r"|\bpossible (?:to|for you to)|\b(?:ok|okay|fine|alright|possible) if (?:you|u)"
    r"|\b(?:make|be) sure(?: to| that you| you)?"
    r"|[,:;–—-]"
    r"|\bi(?:'d| would) rather you|\bi(?: do)?|\bthere(?:'s| is)|\byou|(?:" + _WISH + r"))$"
)
"""What is before the verb of a request."""

_KEPT: Final = re.compile(
    r"\b(?:your|from|in) (?:[\w-]+ )?(?:memory|memories|notes?|records?|data|head)\b|\bthe record\b|\bh[eo]ld on to\b"
    r"|\bon (?:file|record)\b|\b(?:remembered|stored|retained|kept|no (?:memory|record|idea))\b|\boff the record\b"
    r"|\bbetween us\b|\b(?:c[oa]me|coming|pop) up\b|\bbring(?:ing)? (?:it |that |this |[a-z]+ )?up\b|\bhang on to\b"
    r"|\bun-know\b|\byou (?:have|keep|hold|saved|stored|don't know|not know)\b"
    r"|\b(?:details|information|info|data|stuff) (?:about|on) my\b"
)
_AWAY: Final = re.compile(
    r"\b(?:not|\w{1,9}n't|dont|never|no|stop|without|nothing|vanish\w*|gone|disappear\w*|eras\w+|delet\w+|remov\w+"
    r"|wip\w+|purg\w+|scrub\w*|redact\w*|get rid|lose|clear\w*|tak\w+|leave\w*|stays?|expunge\w*|strike|out of|off|quit"
    r"|hate|confidential|let go|blank|un-know|toss|throw)\b"
)
_NOT_ASKED: Final = re.compile(
    r"^(?:so |and |but |hey |ok |okay )*(?:how|what|why|where|when|who|which|do|does|did|is|are|was|have|has)\b"
    r"(?! i (?:told|said|wrote))|\b(?:do(?:n't| not)|never) forget\b"
    r"|\b(?:i|we|he|she|they) (?:\w{1,20} )?(?:forgot|forget|forgets|can't remember|don't remember|cannot remember)\b"
)
"""Parts of a request in any order of words: something kept and its removal, in one sentence."""
_PRETEND: Final = re.compile(
    r"\b(?:pretend|act (?:as if|like)|imagine)(?: that)? (?:i|we) (?:never|had never|hadn't|didn't|did not)(?: ever)? "
    r"(?:told|tell|said|say|mentioned|mention|shared|share|wrote|write|brought up|bring up)\b(?P<what>.*)$"
)
_REFERS_BACK: Final = re.compile(
    r"(?:it|that|this|those|them|all of (?:it|that|this)|all that|this one|that one)"
    r"(?: all| on file| down| plz| pls| though| too| again| anywhere| ever| please| now| then| ok"
    r"| okay| for me| thanks| from (?:(?:your|the) )?(?:long-term )?(?:memory|notes?|records?))*$"
)
_TOLD_BEFORE: Final = re.compile(
    r"\byou knowing\b|\b(?:i|we) (?:just |have |ever |had |already |'ve |shouldn't have |should not have )*"
    r"(?:told|tell|said|mentioned|shared|wrote|gave|given|brought up)\b|\bsharing my\b"
    r"|\b(?:you|u) (?:still |always |keep |even )*(?:think|know|remember|believe|bring|mention|have)\b"
    r"|\babout my\b|\bmy\b.{1,80}\bsecret\b"
)
"""Mentions of earlier messages, to which "forget that" may refer."""

_OWN: Final = re.compile(r"\b(?:my|our|me|mine|us|i|i'm|i've|i'd|myself|let's)\b")
_PRIVATE: Final = re.compile(
    r"\b(?:that|this|the|those|these|my|our) (?:[\w-]+ )?(?:passwords?|add?ress(?:es)?|phone|numbers?|e-?mails?"
    r"|birthdays?|salar(?:y|ies)|names?|diagnos[ie]s|pin|conversation|chat|appointment|illness|medication|allergy"
    r"|job)\b"
)
_TOLD: Final = re.compile(
    r"\b(?:i|we) (?:just |have |ever |'ve )*(?:told|said|mentioned|shared|wrote|gave)\b"
    r"|\b(?:about|of) (?:me|my|us|our)\b"
    r"|\b(?:you|u)(?: have|'ve)? (?:know|remember|stored|saved|have on)\b"
    r"|\bmy (?:personal )?(?:data|information|info)\b"
    r"|\byour (?:[\w-]+ )?(?:memory|records?|notes?|files?|data)\b|\b(?:long-term|from) memory\b"
    r"|\b(?:information|data|info|details?|records?|notes?|stuff|memory|memories)"
    r" (?:on|about|abt|of|regarding) (?:me|my|us|our)\b"
    r"|\byou (?:keep|have|hold) (?:on|about) (?:me|us)\b|\b(?:yesterday's|this|our|that|last) (?:conversation|chat)\b"
    r"|\bin memory$|\bmemor(?:y|ies) (?:about|abt|of)\b"
    r"|\b(?:notes|records?) you (?:have|keep)\b"
)
_OWN_MATTER: Final = re.compile(
    r"my (?:[\w']+ )?(?:passwords?|add?ress|phone|phone number|numbers?|birthday|salary|name|diagnosis|pin"
    r"|illness|medication|allergy|job|weight|age)(?: please| pls| now| again)?$"
    r"|(?:everything|anything|all) (?:about|regarding|i ever (?:said|told)|i(?:'ve)? (?:said|told))\b"
    r"|the (?:fact|part|bit|thing|stuff|info|information|memory|memories)"
    r" (?:that i\b|that my\b|about (?:my|me|our|us)\b|of my\b)"
)
"""What is deleted of a memory, though the memory is not named."""
_DISREGARD: Final = re.compile(
    r"(?:my |the |that )?(?:last|previous|earlier|first) (?:message|question|instruction|prompt|request|answer)"
    r"|what i (?:just )?(?:said|asked|wrote)$|(?:it|that|this|me)$"
)
_MEANT_OTHERWISE: Final = re.compile(
    r"^(?:to|it,?|that,|i asked|how|why|when|whether|the fact|for (?:a|the) )\b"
    r"|,? (?:i meant|use|try|instead|rewrite)\b"
    r"|^(?:my|the|our) (?:code|draft|text|essay|example|question|idea|plan|list)\b|^-"
)

_FROM_MEMORY: Final = re.compile(r",? (?:from|in|out of) (?:(?:your|the|long-term) )?(?:memory|records?|notes?)\b.*$")
_ELSEWHERE: Final = re.compile(
    r"\b(?:in|from|on|of|to|out of|with) (?:the|this|that|these|those|my|his|her|our|their|an?) (?:[\w-]+ ){0,2}"
    r"(?:e-?mails?|stor(?:y|ies)|text|code|script|files?|folder|form|lists?|tables?|database|phone|essay|draft|picture|photos?"
    r"|image|letter|posts?|page|document|summary|calendar|contacts|repo|branch|app|website|account|browser|speech|report"
    r"|slides?|invite|board|sheet|film|movie|book|song|paragraph|function|class)\b"
)
"""Where something is that is not the assistant's memory."""
_REPORTED: Final = re.compile(
    r"\b(?!(?:i|we|you|u|have|had|never|just|already|also)\b)[\w']{1,20} (?:said|says|told|tells|asked|asks|wants"
    r"|wanted|wrote)\b"
    r"|\b(?:don't|do not|didn't|never) (?:\w{1,20} )?(?:want|need|like|wish)(?:ed)? (?:you|u) to$"
)
"""What another asks for, or the user does not want."""

_JA_VERB: Final = re.compile(
    r"(?P<forget>(?:お)?(?:忘れ|わすれ)(?=て|と|ろ|ちゃって|るように|ること$|ください|下さい|いただ|頂)|(?:聞か|言わ)?なかったことにし(?=て))"
    r"|(?P<keep>(?:覚え|記憶し|記憶に残さ|保存し|記録し|記録に残さ|残さ|メモし)(?:て(?:おか|い)?)?な(?=いで|くて)"
    r"|(?:覚え|記憶し|保存し|記録し|残し)て(?:おく|いる)?必要は?(?=な|あり)"
    r"|(?:覚え|記憶し|保存し|記録し|(?:記録に)?残[さら])ない(?=よう)|覚えてい?て(?=ほしくない|欲しくない))"
    r"|(?P<erase>(?:消し|消去し|削除し|抹消し|破棄し|リセットし|除い|取り除い|外し|抜い)(?=て|と)|(?:消去|削除|抹消|破棄)(?:を|の|で)?(?=お願い|おねがい|希望)"
    r"|消せ(?=る|ます)|取り消し(?=ます))"
)
_JA_ASKED: Final = re.compile(
    r"(?:て|と|いで|くて)?(?:おいて|いて)?(?:ください|下さい|くださ|くれ|ほしい|欲しい|もらえ|もらい|もらっ|いただ|頂|ね|よ|を?お願い|を?おねがい|希望し|ろ|ちゃって(?=$|ね|よ|くだ|いい)|ほしくない|欲しくない"
    r"|よう(?:に|にし|お願い|にお願い|$)|(?:ます|る)か?$|[笑wｗ🙏]*$"
    r"|(?:い?い|良い|大丈夫|結構|ない|ありません)"
    r"(?:です|でしょう|よ|ね|から|ので|けど|かな|ん|[、 ]|$)|るように|ること$)"
)
_JA_REPORTED: Final = re.compile(
    r"(?:と|って)(?:言|頼|書|思|聞|命|伝え|お願いし)|みたい|らしい|ようだ|(?:くない|文|返信|処理|方法|場合)"
)
_JA_MEMORY: Final = re.compile(r"記憶|メモリ|覚え|記録から|保存され")
_JA_KEPT: Final = re.compile(
    r"(?:記憶(?!喪失)|メモリ|データから|頭の中|あなたの中)(?=.{0,40}(?:消|けし|削除|抹消|ない|なく|なし|外|除|残すな|やめ|どけ|抜|捨て))"
    r"|(?:な|無)かったこと|白紙|まっさら|内緒|オフレコ|知らない(?:って)?こと|リセット|水に流"
    r"|(?:触れ|出さ|持ち出さ|言わ|話題にし|口にし|聞か|保持し)(?:ない|なく|ず)"
    r"|(?:覚え|おぼえ|記録|保存|残[さし]|控え)[^。、]{0,8}(?:ない|なく|必要|いら|要ら|消)"
    r"|(?:言った|話した|教えた|伝えた)[^。]{0,14}(?:消|削除|なし)"
    r"|(?:登録|残って|保存|覚えて(?=た|る|い))[^。]{0,16}(?:消|削除|忘れて)"
)
_JA_WISH: Final = re.compile(
    r"[てでと](?:ください|下さい|くださ|くれ|ほし|欲し|もらえ|もらい|もらって|いただ|頂|おいて|おく)|ないで(?:$|ね|よ|、)|お願い|おねがい"
    r"|希望|なくて(?:い|よ|大丈夫)|必要は?な|いりません|いらない|要らない|って$|てね$|といて|ように(?:$|ね|し|お)|にしたい$|嫌です|やめて|(?<!どう)して$|ろ$|ちゃって|すなよ$|くんない"
)
_JA_NOT_ASKED: Final = re.compile(
    r"忘れ(?:ず|ない|た|物|ちゃった|っぽ|そう|てしま|てい|がち)|(?:と|って)(?:言|頼|書|思|聞|命|伝え)[わいっまれ]|みたい|らしい|方法|するには"
    r"|とき|時に|場合|ファイル|写真|メール|文章|段落|行|コード|表|フォルダ|アプリ|アカウント|履歴|予定|リスト|スマホ|パソコン|画像"
    r"|テーブル|資料|本文|下書き|タスク|会議|議事録|小説|教えて(?:く|ほ|も)|覚えてくれ"
)
_JA_ANY: Final = re.compile(r"こと|話|件|やつ|情報|のは?|全部|すべて|[そこあ]れ|いま|今の|さっき")
"""Parts of a request in any order of words: something kept, a wish, and something private or mentioned before."""

_JA_TOPIC: Final = re.compile(r"こと|(?<!会)話|件|やつ|情報|データ|個人|記録|相談|について|に関")
_JA_TOLD: Final = re.compile(r"(?:話し|言っ|教え|伝え|お伝えし|送っ|書い|って(?:話|言|こと))")
_JA_THAT: Final = re.compile(r"(?:今|いま|さっき|あ|そ|こ)(?:の|れ)|ただの")
_JA_MATTERS: Final = ("の話", "のこと", "の件")
_JA_MINE: Final = re.compile(
    r"(?:私|わたし|僕|ぼく|俺|うち)の(?:住所|電話番号|番号|名前|本名|誕生日|年齢|体重|パスワード|メールアドレス|職業|年収)$"
)
_JA_SOURCE: Final = re.compile(r"[^、]{1,12}から")
_JA_BETWEEN: Final = (
    "やっぱり",
    "あれ",
    "それ",
    "これ",
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
    r"|持病|妊娠|出産|手術|入院|障害|うつ|鬱|宗教|信仰|借金|学歴|成績|身長|血液型|国籍|浮気|恋人|恋愛|元カレ|元彼|元カノ|結婚|既婚|独身"
    r"|流産|不妊|治療|検査|逮捕|ベジタリアン|会社|上司|友達|友人|引っ越し|マイナンバー|パスポート|免許|あだ名|子ども|子供|口座|年齢|体重|住んで|転職|離婚|アレルギー|個人情報|飼って"
)


_ALL: Final = re.compile(
    r"(?=.*\b(?:me|us|myself|you|u)\b)"
    r"(?:absolutely )?(?:everything|anything|all(?: of it| that| the things| (?:the |your |of your )?memor(?:y|ies))?)"
    r"(?: (?:that )?(?:you|u)(?: have|'ve)?(?: ever)? (?:know|knew|remember|remembered|have|stored|saved|learned"
    r"|learnt))*(?: (?:about|abt|on|of) (?:me|us|myself))?$"
    r"|(?:all )?(?:of )?my (?:personal )?(?:data|information|info|memories)$"
    r"|(?:今まで|これまで|今)?の?(?:あなたが|君が)?(?:私|わたし|僕|ぼく|俺|自分)(?:自身)?(?:に関する|に関して|について|の)"
    r"(?:知っている|覚えている|保存している)?(?:こと|記憶|情報|データ|個人情報)?(?:を|は)?(?:すべて|全て|全部)?$|(?:私|僕|俺)$"
)


def request_to_forget(message: str) -> str:
    """Return what a message asks to be forgotten, in its words; "" where it asks for nothing of the kind."""
    if len(message) > MAX_LENGTH:
        return ""
    before = ""
    for sentence in _SENTENCE.split(_QUOTED.sub("…", message)):
        text = " ".join(sentence.replace("’", "'").split())[:MAX_SENTENCE]
        if text and (what := _english(text.lower(), before.lower()) or _japanese(text, before)):
            return what
        before = text or before
    return ""


def asks_for_all(what: str) -> bool:
    """Return whether what is to be forgotten is all that is known of the user."""
    return _ALL.match(what) is not None


def _english(sentence: str, said_before: str) -> str:
    if sentence.startswith(("why ", "when ", "where ")) or "forgive and forget" in sentence:
        return ""
    for match in _VERB.finditer(sentence):
        before, what = sentence[: match.start()].rstrip(), sentence[match.end() :].strip(" ,")
        what = what.removeprefix("about ")
        asked = _ASKED.search(before)
        if asked is None or _REPORTED.search(before) or not _is_asked(match, asked[0], before):
            continue
        if _REFERS_BACK.match(what.replace(",", "")):
            earlier = f"{said_before} {before[: asked.start()]}".strip(" ,:—-")
            if (match["kept"] or "").startswith(_STORING) or _was_told(earlier):
                return earlier or what
        if (
            match["kept"]
            and (but := re.match(r"(?:it|this|that),? but (?P<rest>.+)", what))
            and _OWN.search(but["rest"])
        ):
            return but["rest"]
        is_other = not match["erase"] and (_MEANT_OTHERWISE.search(what) or _DISREGARD.fullmatch(what))
        if not is_other and _is_about_the_user(match, what):
            return _FROM_MEMORY.sub("", what)
    return _otherwise_asked(sentence, said_before)


def _otherwise_asked(sentence: str, said_before: str) -> str:
    """Return what is asked in other words than those of a verb with its object."""
    if (match := _PRETEND.search(sentence)) and (what := match["what"].strip(" ,")) and not what.startswith("that"):
        return what
    if not (_KEPT.search(sentence) and _AWAY.search(sentence)) or _NOT_ASKED.search(sentence):
        return ""
    if _REPORTED.search(sentence) or _ELSEWHERE.search(sentence):
        return ""
    if _OWN.search(sentence):
        return sentence
    return f"{said_before} {sentence}" if _OWN.search(said_before) else ""


def _was_told(text: str) -> bool:
    """Return whether a text mentions an earlier message about the user."""
    told = _TOLD_BEFORE.search(text)
    return told is not None and bool(_OWN.search(text[: told.start()] + text[told.end() :]) or "my " in told[0] + text)


_STORING: Final = ("remember", "memori", "stor", "sav", "record", "retain", "not", "log")
"""Beginnings of verbs with which "don't … it" is a request by itself; "don't mention it" is none."""

_PAST: Final = frozenset(
    ("forgot", "deleted", "erased", "removed", "wiped", "remembered", "kept", "stored", "retained", "saved", "recorded")
)
"""Verbs of requests such as "I'd prefer if you forgot it"."""


def _is_asked(match: re.Match[str], asked: str, before: str) -> bool:
    """Return whether the verb behind such words is a request, not a statement."""
    word = match[0]
    if word.split()[-1] in _PAST:
        return bool(re.search(_WISH + "$", before))
    if asked in ("there is", "there's", "you"):
        return "need" in word or "have to" in word
    if asked in ("i", "i do"):
        return "want" in word
    return not word.endswith(("forgetting", "removing", "deleting", "erasing")) or before.endswith(("mind", "stop"))


def _is_about_the_user(match: re.Match[str], what: str) -> bool:
    """Return whether a request to forget or erase something is about the user; files are erased as well."""
    if _ELSEWHERE.search(what):
        return False
    first, told = what.split(", ")[0], bool(_TOLD.search(what))
    if match["erase"]:
        return told or bool(_OWN_MATTER.match(first))
    if match["forget"] or match["kept"].startswith(("remember", "memori", "know", "mention", "bring")):
        is_own = bool(_PRIVATE.search(what) or _OWN.search(first))
        return is_own or (what.startswith("everything") and not what.startswith("everything to"))
    return told or bool(_PRIVATE.search(what))


def _japanese(sentence: str, said_before: str) -> str:
    for match in _JA_VERB.finditer(sentence):
        after = sentence[match.end() :]
        if not _JA_ASKED.match(after) or _JA_REPORTED.search(after):
            continue
        before = sentence[: match.start()]
        what = _without_ending(before)
        if not what and _JA_TOLD.search(said_before):
            before = what = said_before
        in_memory, is_private = bool(_JA_MEMORY.search(before)), bool(_JA_PRIVATE.search(what))
        is_topic = bool(_JA_TOPIC.search(before)) or (not match["erase"] and bool(_JA_THAT.match(before)))
        source = _JA_SOURCE.search(before)
        if (
            match["erase"]
            and source
            and not _JA_MEMORY.search(source[0])
            and not source[0].endswith(("たから", "いから"))
        ):
            continue  # from another place
        if match["erase"]:  # files are erased as well
            is_told = bool(_JA_TOLD.search(before)) or what.endswith(_JA_MATTERS)
            is_meant = in_memory or (is_private and is_topic) or ((is_private or is_topic) and is_told)
            is_meant = is_meant or (is_private and _JA_MINE.match(what) is not None)
        elif match["keep"] and not in_memory and not match["keep"].startswith(("覚え", "記憶")):  # and stored
            is_meant = is_private or bool(_JA_THAT.match(before)) or what.endswith(_JA_MATTERS)
        else:
            is_meant = is_private or is_topic
        if is_meant and (what or _JA_THAT.match(before)):
            return what or before
    is_asked = _JA_KEPT.search(sentence) and _JA_WISH.search(sentence) and not _JA_NOT_ASKED.search(sentence)
    about = f"{said_before} {sentence}".strip()
    return about if is_asked and (_JA_PRIVATE.search(about) or _JA_ANY.search(sentence)) else ""


def _without_ending(before: str) -> str:
    """Return what is before a verb without particles and adverbs, after the last comma with words behind it."""
    what = before
    while word := next((word for word in _JA_BETWEEN if what.endswith(word)), ""):
        what = what.removesuffix(word)
    parts = what.split("、")
    while len(parts) > 1 and parts[-1].endswith(("から", "ので", "が", "けど")):
        parts.pop()
    return parts[-1]

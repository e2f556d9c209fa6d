"""Statements that only report a conversation, and answers that take up what was asked or proposed. Pure."""

import re
from typing import Final

from conversations.domain.messages import is_question

_AGREEMENT: Final = re.compile(
    r"^(?:yes|yeah|yep|yup|sure|ok|okay|right|exactly|correct|true|absolutely|definitely|perfect|great|good idea"
    r"|sounds (?:good|great)"
    r"|agreed|let'?s (?:do|go|take|use)|i'?ll (?:do|take|go|use|try)|that'?s (?:it|right|the one|me|a good)|please do"
    r"|do that|deal|fine"
    r"|go ahead|the (?:first|second|third|last) one"
    r"|はい|うん|ええ|そう(?:です|だ|し|ね)|その通り|そのとおり|いいですね|いいね|了解|わかりました|分かりました"
    r"|お願い|それで|それに|それが"
    r"|もちろん|正解|賛成|決まり|ぜひ|ですね)",
    re.IGNORECASE,
)

_REFUSAL: Final = re.compile(r"\b(?:no|not|but|don'?t|rather|instead|nah)\b|いや|でも|けど|違|ない|やめ", re.IGNORECASE)

_PROPOSAL: Final = re.compile(
    r"\?|\b(?:you (?:could|can|might|should)|shall|let'?s|i(?:'d| would)? (?:suggest|recommend)|how about|why not"
    r"|then)\b"
    "|？|いかが|どうでしょう|ませんか|ましょう|おすすめ|ほうがいい|といい"
)

MAX_AGREEMENT: Final = 80
"""Characters; a longer message repeats what it agrees to."""

_TALK: Final = re.compile(
    r"^(?:the )?(?:user|speaker|customer)s? (?:has |have |is |was |just )?(?:(?:requested|requests|asked for"
    r"|wants) (?:an? |the |some |more |another )?(?:\w+ )?(?:limericks?|poems?|haikus?"
    r"|story|stories|recipes?|lists?|summary|translation|explanation|examples?|code|script|draft|jokes?|help)\b"
    r"|(?:asked|asks|asking|inquired|enquired"
    r"|wondered) "
    r"(?:the (?:assistant|ai|bot) )?(?:about|how|what|why|when|where|which|who|whether|if|for (?:an? |the |some "
    r"|more )?(?:information|help|advice"
    r"|tips|explanation|recipe|example|details|clarification|recommendations?|suggestions?)|a question|questions)"
    r"|(?:said|says|say) (?:hello|hi|good ?bye|bye|good (?:morning|night|evening)|thanks?|thank you|yes|no|ok)"
    r"|(?:thanked|greeted|greets|thanks|apologi[sz]ed|agreed with the assistant|confirmed that the assistant"
    r"|acknowledged)\b"
    r"|(?:wants?|wanted|would like|wishes) to (?:know|understand|learn) (?:about|how|what|why|when|where|which"
    r"|whether|if|more)"
    r"|(?:discussed|talked|chatted|spoke|conversed|interacted|communicat\w+) (?:about|with|to|how)?"
    r"|(?:looking for|seeking|requesting|requested|requests) (?:an? |the |some |more )?(?:information|help|advice"
    r"|assistance|explanation|clarification)"
    r"|(?:ended|started|began|opened|closed) (?:the|a) (?:conversation|chat|talk|session)"
    r"|(?:mentioned|told|informed|shared with) the assistant (?:that they asked|about the conversation))"
    "|^(?:ユーザー?|利用者|話し手)(?:は|が)、?.{0,60}(?:について(?:質問|尋ね|聞い|たずね|話し|相談)|質問し[たて]"
    "|質問をし|を?尋ね[たて]|か(?:どうか)?を?(?:聞|尋|たず)"
    "|知りたが|(?:挨拶|お礼|感謝|別れ).{0,8}(?:し|言|述べ|伝え)|さようなら|ありがとう|会話を(?:始|終|し)|と挨拶"
    "|教えて(?:ほしい|もらい|くれ)"
    r"|(?:作|書|訳|教え|説明|要約|翻訳|添削).{0,6}(?:よう|て).{0,4}(?:頼|依頼|お願い|求め))",
    re.IGNORECASE,
)

_WISH: Final = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|responses?|always|never|from now on|in future|style|tone|emojis?|sentences|concise"
    r"|briefly)\b"
    "|回答|返事|返答|いつも|今後|敬語|口調|絵文字|簡潔|短く"
)

_REQUEST: Final = re.compile(r"\b(?:tell me|let me know|check)\b|(?:確認し|教え|知らせ)て(?:ください|くださ)")

_DETAIL_ASKED: Final = re.compile(
    r"\b(?:what|which|where|when|who|whom|whose|how)\b|何|どこ|いつ|誰|どの|どちら|どれ|いくつ|いくら|どう|は[?？]$"
)

_REQUESTED: Final = re.compile("(?:て|ないで|ください)[。！!]?$")

_PLACEHOLDER: Final = re.compile(
    r"<[\w ./-]{1,40}>|〈[^〉]{1,20}〉|＜[^＞]{1,20}＞|\[(?:name|city|date|place)\]", re.IGNORECASE
)


def reports_talk(statement: str) -> bool:
    """Return whether a statement only reports the conversation or repeats a request, or is a form not filled in."""
    if _PLACEHOLDER.search(statement) or is_question(statement):
        return True
    is_request = _REQUESTED.search(statement) is not None and not statement.startswith("ユーザ")
    return (is_request or _TALK.search(statement) is not None) and _WISH.search(statement) is None


def asks_for_detail(sentence: str) -> bool:
    """Return whether a sentence asks what, where or when, so that a short answer to it states its words."""
    if _REQUEST.search(sentence.casefold()):
        return True
    return is_question(sentence) and _DETAIL_ASKED.search(sentence.casefold()) is not None


def agrees(text: str, before: str) -> bool:
    """Return whether a message takes up a proposal, or answers a question, of the message before it."""
    if not _PROPOSAL.search(before.casefold()):
        return False
    return len(text) <= MAX_AGREEMENT and _AGREEMENT.match(text.strip()) is not None and not _REFUSAL.search(text)

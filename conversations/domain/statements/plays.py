"""Words of stories and role plays, and of their end. Pure; English and Japanese."""

import re
from typing import Final

_FICTION_WORDS: Final = (
    r"\b(?:novels?|novella|thrillers?|narrator|main figure|tale|sitcom|short story|story|stories|fairy tale"
    r"|fiction\w*|fan ?fic\w*|protagonist|main character"
    r"|characters?|hero(?:ine)?|villain|screenplay|script|chapter|scene|plot(?! \d)|poem|lyrics|campaign|musical"
    r"|movie|film|comic|manga|limerick|haiku|sonnet|ballad|radio play|theatre play)\b"
    "|小説|物語|主人公|登場人物|脚本|台本|キャラ|悪役|語り手|探偵の|寝かしつけに話す|短編|長編|童話|昔話|歌詞|漫画"
    "|ストーリー|ここまでの場面|場面の続き|次の場面|(?:この|その)場面[。はを]"
    "|ヒロイン|シナリオ"
    "|フィクション|二次創作|川柳|俳句|短歌|ラジオドラマ|第[一二三1-9]章"
)

FICTION: Final = re.compile(_FICTION_WORDS)

ROLE_PLAY: Final = re.compile(
    r"\brole[- ]?play|\b(?:pretend|let'?s play|act as|i(?:'ll| will|'m going to) (?:play|be the|act)|you(?:'re"
    r"| are) now"
    r"|play(?:ing)? the (?:role|part)|in (?:this|our) (?:game|scene))\b|\bin character\b|\bd ?& ?d\b|\bttrpg\b"
    r"|\b(?:be|play) (?:my|an?|the) [\w-]{3,20}(?=[,.;]| and i\b| who\b| for me)|\bi'?d? ?(?:would )?(?:like"
    r"|want) to rehearse\b"
    r"|^(?:ok(?:ay)?,? )?(?:so,? )?(?:new )?scene:"
    r"|\b(?:dungeon|game) master\b|\bsimulate\b|\bi(?:'m| am) (?:an? |the |your )(?:angry |new )?(?:patient|customer"
    r"|guest|caller)\b"
    r"|\byou(?:'re| are) (?:the|an?|my) (?!best|great|good|star|genius|life|legend|only|gem|big|lot|bit)\w{3,20}\b"
    r"(?=[,.;]| and i| who|$)"
    "|^(?:場面|シーン|舞台)は|ロールプレイ|なりきって|さんになって、|(?:先生|店員|上司|面接官|客|役)になって|役を(?:や|演|し)|の役で"
    "|演じ(?:ます|て|る)|ごっこ|芝居|設定で(?:話|会話|お願い|いき"
    "|やり)|になったつもり"
    "|trpg|ゲームマスター|あなた[がは][^。、]{1,15}(?:役|マスター|店主|面接官)"
    "|あなた[がは][^。、]{1,12}(?:者|員|師|官|長|主|先生|客|王)(?:です|だ|で)|この(?:ゲーム|遊び)で|として振る舞"
    "|のふりを"
)

_REHEARSAL: Final = re.compile(r"\brehears|\bpracti[sc]|練習|稽古")

BACK: Final = re.compile(
    r"\b(?:end of (?:the )?(?:role[- ]?play|game|scene|story)|out of character|stop here|in truth|that'?s enough|ooc"
    r"|back to (?:reality|real life|work)"
    r"|in real life"
    r"|(?:game|role[- ]?play) over|seriously now|stop(?:ping)? the role[- ]?play|for real)\b"
    "|ロールプレイ(?:は)?(?:終|ここまで|おわ|以上)|ごっこは(?:終|おわ)|ここからは?(?:現実|本当|本題)|現実の?話"
    "|実際の私|素に戻|閑話休題|ここまで[。、]|本当は|実際は|おしまい"
)


def is_of_fiction(statement: str) -> bool:
    """Return whether a statement names a story, a role play or a song as its subject."""
    lower = statement.casefold()
    return any(pattern.search(lower) for pattern in (FICTION, ROLE_PLAY, _REHEARSAL))


OPENS: Final = re.compile(
    r"\b(?:you(?:'re| are|'ll be| be| play)|you as|ur|u r)\b(?! (?:right|welcome|good|kidding|so|not|great))"
    r"[^?\n]{2,60}"
    r"\b(?:i(?:'m| am|'ll be| be| play)|me as|im)\b"
    r"|\bi(?:'m| am|'ll be| be| play) (?:an?|the|your|calling)\b[^?\n]{2,60}"
    r"\byou(?:'re| are|'ll be| be| play) (?:an?|the|my)\b"
    r"|\bye be\b[^?\n]{2,40}\bi be\b"
    r"|\b(?:answer|reply|respond|talk|speak|write back) (?:to me )?(?:as|like) (?:my|an?|the|if you were)\b"
    r"|\b(?:mock|practi[cs]e|trial|fake) (?:interview|call|date|talk|conversation|negotiation|exam|pitch|time|run)\b"
    r"|\btry (?:it|this|that) (?:out )?on you\b|\bmake[- ]believe\b|\bimprov\b|\byou ask,? (?:and )?i(?:'ll)? answer\b"
    r"|\b(?:my|our) (?:new |next |own )?(?:character|pc|oc)\b|\bdnd\b"
    "|(?:私|僕|俺|こちら)は[^。]{1,20}[、。][^。]{0,2}(?:あなた|君|きみ|そちら|そっち)は"
    "|あなた[はが][^。]{1,20}[。、][^。]{0,4}(?:私|僕|俺|こちら)[はが]"
    "|(?:模擬|疑似)(?:面接|商談|電話|会話|試験)|(?:電話|面接|接客|会話|商談|スピーチ)[^。]{0,6}練習"
    "|(?:そちら|あなた|君)が[^。]{1,12}(?:質問|聞い)[^。]{0,6}(?:私|僕|こちら)が|言ってみて(?:も)?いい|キャラができ|新しいキャラ|自キャラ"
)
"""Roles that a message gives to both, a rehearsal, or a character of the player's own."""

STAGE_DIRECTION: Final = re.compile(r"^\s*[*＊（(][^*＊()（）]{3,80}[*＊）)]")
"""The beginning of an answer in a role: an action between asterisks."""

LEAVES: Final = re.compile(
    r"\b(?:lo+l|haha\w*|phew|gotta (?:run|go)|that (?:was |really )?help(?:s|ed|ful)|you'?re good at this|love it"
    r"|bed ?time|(?:that|this) was (?:fun|great|good|cool)|(?:the|a) real \w+|my (?:son|daughter|kids?) loves?"
    r"|in reality|made (?:most |all |some )?(?:of )?(?:that|it|this) up)\b"
    r"|(?:^|\s)[:;]-?[)dp](?:\s|$)|\bthank you\. i miss\b"
    "|もう寝る|楽しかった|おもしろかった|あはは|ははは|ふう|助かっ|うまい|ほんとは|本物|作り話|なつかし"
    "|練習(?:したかった|になった|終わり)|[(（]笑"
)
"""Words outside a role: laughter, relief, thanks for the rehearsal."""

RETRACTS: Final = re.compile(
    r"\b(?:made (?:most |all |some |half )?(?:of )?(?:that|it|this) up|none of (?:that|it|this) (?:is|was) true"
    r"|(?:that|it) was all (?:invented|made up|fiction))\b"
    "|作り話|全部(?:うそ|嘘|架空)|でっちあげ|架空の(?:話|設定)"
)
"""Words that take back what was said before."""

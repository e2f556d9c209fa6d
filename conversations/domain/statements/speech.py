"""Kinds of speech in a person's messages: own statements, questions, hypotheses, jokes, stories, roles, quotations.

Pure. Words and signs of the message decide, sentence by sentence; English and Japanese. A sentence that no rule matches
is the person's own statement.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from conversations.domain.messages import is_question
from conversations.domain.passages import sentences
from memoryhub.search.analysis import HAN, HIRAGANA, KATAKANA


class Speech(StrEnum):
    """Kind of speech that a statement is drawn from; the values are those of a model's answer."""

    OWN = "own_statement"
    QUESTION = "question"
    HYPOTHESIS = "hypothesis"
    JOKE = "joke"
    FICTION = "fiction"
    ROLE_PLAY = "role_play"
    QUOTATION = "quotation"
    OTHER_PERSON = "other_person"
    ASSISTANT = "assistant"
    TALK = "talk"


DROPPED: Final = frozenset({Speech.ASSISTANT, Speech.TALK})
"""What no person needs to look at: the assistant's own words, and reports of the conversation itself."""


@dataclass(frozen=True)
class Spoken:
    """A message as evidence; `said_at` is by the speaker's clock."""

    text: str = field(repr=False)
    is_users: bool
    said_at: datetime
    author: str = field(default="", repr=False)


@dataclass(frozen=True)
class Sentence:
    text: str = field(repr=False)
    speech: Speech


_HYPOTHESIS: Final = re.compile(
    r"\bif (?:i|we)\b(?! (?:ask|say|write|send|paste|tell|type|forget|remember|recall)\b)|\bif only\b|\bi wish\b"
    r"|\bassum(?:e|ing)\b|\bas (?:if|though)\b|\b(?:i|we) dream(?:t|ed)\b|\bsuppos(?:e|ing)\b|\bimagine\b|\bwhat if\b"
    r"|\blet'?s (?:say|assume|imagine)\b|\bhypothetical|\bin theory\b"
    r"|\bsay (?:i|we) (?:had|was|were|got|did|won)\b|\bfor (?:example|instance)\b|\be\.g\.|\bsome ?day\b|\bmaybe (?:i"
    r"|we)\b|\bperhaps (?:i|we)\b|\b(?:i|we) might\b"
    r"|\bnot decided\b|\b(?:thinking|thought) (?:of|about)\b|\bconsidering\b|\bwonder(?:ing)? (?:if|whether)\b"
    r"|\bwere i\b"
    r"|\bi would have\b|\bif\b.{1,60}\bwould\b|\bwould\b.{1,60}\bif\b|\b(?:only|just) dreaming\b"
    r"|もしも?|仮に|例えば|たとえば|としたら|とすれば|だとすると|たらなあ|たらいいの[にな]|ばいいのに|かもしれ"
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
_JOKE: Final = re.compile(
    r"\b(?:joking|kidding)\b|\bpulling your leg\b|\bhaha no\b|\bjust messing\b|\bnot serious\b|\bjk\b|\bas a joke\b"
    r"|\bapril fool|(?:^|\s)/s\b"
    "|冗談|なんちゃって|うそうそ|嘘(?:です|だよ|だけど)|うそ(?:です|だよ)|ジョーク"
)
_FICTION_WORDS: Final = (
    r"\b(?:novels?|novella|thrillers?|narrator|main figure|tale|sitcom|short story|story|stories|fairy tale"
    r"|fiction\w*|fan ?fic\w*|protagonist|main character"
    r"|characters?|hero(?:ine)?|villain|screenplay|script|chapter|scene|plot|poem|lyrics|campaign|musical"
    r"|movie|film|comic|manga|limerick|haiku|sonnet|ballad|radio play|theatre play)\b"
    "|小説|物語|主人公|登場人物|脚本|台本|キャラ|悪役|語り手|探偵の|寝かしつけに話す|短編|長編|童話|昔話|歌詞|漫画"
    "|ストーリー"
    "|ヒロイン|シナリオ"
    "|フィクション|二次創作|川柳|俳句|短歌|ラジオドラマ|第[一二三1-9]章"
)
_FICTION: Final = re.compile(_FICTION_WORDS)
_ROLE_PLAY: Final = re.compile(
    r"\brole[- ]?play|\b(?:pretend|let'?s play|act as|i(?:'ll| will|'m going to) (?:play|be the|act)|you(?:'re"
    r"| are) now"
    r"|play(?:ing)? the (?:role|part)|in (?:this|our) (?:game|scene))\b|\bin character\b|\bd ?& ?d\b|\bttrpg\b"
    r"|\b(?:be|play) (?:my|an?|the) [\w-]{3,20}(?=[,.;]| and i\b| who\b| for me)|\bi'?d? ?(?:would )?(?:like"
    r"|want) to rehearse\b"
    r"|\b(?:dungeon|game) master\b|\bsimulate\b|\bi(?:'m| am) (?:an? |the |your )(?:angry |new )?(?:patient|customer"
    r"|guest|caller)\b"
    r"|\byou(?:'re| are) (?:the|an?|my) (?!best|great|good|star|genius|life|legend|only|gem|big|lot|bit)\w{3,20}\b"
    r"(?=[,.;]| and i| who|$)"
    "|ロールプレイ|なりきって|さんになって、|(?:先生|店員|上司|面接官|客|役)になって|役を(?:や|演|し)|の役で"
    "|演じ(?:ます|て|る)|ごっこ|芝居|設定で(?:話|会話|お願い|いき"
    "|やり)|になったつもり"
    "|trpg|ゲームマスター|あなた[がは][^。、]{1,15}(?:役|マスター|店主|面接官)"
    "|あなた[がは][^。、]{1,12}(?:者|員|師|官|長|主|先生|客|王)(?:です|だ|で)|この(?:ゲーム|遊び)で|として振る舞"
    "|のふりを"
)
_REHEARSAL: Final = re.compile(r"\brehears|\bpracti[sc]|練習|稽古")
_BACK: Final = re.compile(
    r"\b(?:end of (?:the )?(?:role[- ]?play|game|scene|story)|out of character|stop here|in truth|that'?s enough|ooc"
    r"|back to (?:reality|real life|work)"
    r"|in real life"
    r"|(?:game|role[- ]?play) over|seriously now|stop(?:ping)? the role[- ]?play|for real)\b"
    "|ロールプレイ(?:は)?(?:終|ここまで|おわ|以上)|ごっこは(?:終|おわ)|ここからは?(?:現実|本当|本題)|現実の?話"
    "|実際の私|素に戻|閑話休題|ここまで[。、]|本当は|実際は|おしまい"
)
_INTRODUCES: Final = re.compile(
    r"\b(?:e-?mails?|mail|message|letter|article|document|text|notes?|quote|passage|paragraph|post|tweet|review"
    r"|transcript"
    r"|cv|resume|advert\w*|wrote|writes|says|said|translate|proofread|summari[sz]e|rewrite|correct|paste[ds]?|log"
    r"|output|bio)\b"
    "|経歴|紹介文|履歴|名簿|メール|文章|本文|記事|手紙|資料|文書|議事録|翻訳|訳して|要約|添削|校正|引用|以下|次の文"
    "|下記|投稿|ログ|原稿"
    "|コピペ|貼り"
)
_MAIL_START: Final = re.compile(
    r"^(?:(?:from|to|cc|subject|sent|date): |-{2,}.{0,20}(?:original|forwarded|begin)|on .{6,60} wrote:"
    r"|(?:dear|hi|hello|hey) [A-Z][\w .'-]{0,40}[,:]?$|(?:差出人|宛先|件名|送信者|日時)[:：]|拝啓|前略"
    r"|[^\s、。]{1,20}(?:様|各位|御中|殿)[、,]?$|.{0,20}お世話になって)",
    re.IGNORECASE,
)
_MAIL_END: Final = re.compile(
    r"^(?:(?:best|kind|warm)(?: regards| wishes)?|regards|sincerely|yours\b.{0,20}|cheers|thanks|敬具|草々|以上"
    r"|よろしくお願い.{0,20})"
    r"[,.。、!]?$|^-{3,}\W*(?:end|終)?",
    re.IGNORECASE,
)
_COLON: Final = re.compile(r"[:：](?=\s+[^\s“\"「『]|[^\x00-\x7f「『“]|$)")
_SCRIPT_LINE: Final = re.compile(r"(?-i:[A-Z][A-Z .'-]{1,30}: |(?:INT|EXT)\. )|[^\s「」、。]{1,8}「[^「」]{4,500}」$")
"""A line of a play: a name in capitals, or a name before Japanese quotation marks that end with the line."""

_OF_SELF: Final = re.compile(
    r"\b(?:about me|myself|my (?:name|address|data|details|profile))\b|自己紹介|私について|私の"
)
_STATES: Final = re.compile(
    r"\b(?:i|i'm|i've|my|we|our|sitting|working|living)\b|(?:ます|です|ました|でした|んで|けど|ので|から|てて|だけど"
    r"|[いただるたんの]が)$"
)
MIN_STATED: Final = 12
"""Characters before a comma of a question that may state something."""

MAX_SIGNATURE: Final = 30
"""Characters of the line below a mail's closing words."""

_INLINE_QUOTE: Final = re.compile(
    r"[“\"]([^“”\"]{2,1000})[”\"]|[「『]([^「」『』]{2,1000})[」』]|(?<![\w])'([^']{12,500})'(?!\w)"
)
_CLAUSE_WORDS: Final = 4
_CLAUSE_CHARACTERS: Final = 12
"""From this size on, quoted words are a sentence, not a title or a name."""

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
_KIN: Final = (
    "brother|sister|mother|father|mum|mom|dad|son|daughter|wife|husband|partner|girlfriend|boyfriend|uncle|aunt|cousin"
    "|grandm\\w+|grandf\\w+|grandson|granddaughter|niece|nephew|boss|manager|colleague|co-?worker|teammate|friend"
    "|neighbou?r|roommate|flatmate|landlord|landlady|lodger|tenant|parents|kids|children|in-laws"
)
_RELATION: Final = (
    f"{_KIN}|teacher|doctor|client|customer|ceo|cto|student|boy|girl|man|woman|king|queen|knight|hero|heroine"
    f"|protagonist"
    "|character|ex|midwife|team lead|professor|supervisor|intern|trainee|apprentice|nanny|lawyer|therapist|dentist"
    "|coach"
    "|guest"
)
_RELATED: Final = re.compile(
    rf"\b(?:{_KIN})\b|[姉妹兄弟母父妻夫娘]|息子|祖[父母]|叔[父母]|友[人達]|友だち|同僚|上司|部長|課長|社長|店長"
    rf"|先輩|後輩|旦那|奥さん"
)
_THIRD: Final = re.compile(
    rf"^(?:(?:and|but|so|well|also|then|yesterday|today),? )?(?:(?P<pronoun>he|she|they)\b"
    rf"|(?:my|our|the|a|this|her|his) (?:\w{{1,15}} ){{0,2}}?(?P<relation>{_RELATION})\b"
    r"|(?-i:(?P<name>[A-Z][a-z]{1,20})(?: [A-Z][a-z]{1,20})?(?= (?:is|was|has|had|will|can|loves?|likes?|lives?"
    r"|works?|said|says"
    r"|wrote|told|thinks|wants|hates|moved|got|just|never|always|\w{2,12}(?:ed|es))\b|['’]s (?:a|an|the|allergic"
    r"|moving|from)\b)))",
    re.IGNORECASE,
)
_THIRD_JAPANESE: Final = re.compile(
    "^(?:でも|そして|あと|昨日|今日|この前|ちなみに|実は)?、?(?:私の|うちの|僕の|俺の|わたしの)?"
    "(?P<head>彼女?|嫁|婿|義理の[姉妹兄弟父母]|義[父母]|孫|姪|甥|いとこ|元?彼氏?|インターンの[子人]"
    "|[^、。]{2,12}の[子人方](?=[、はがも])|姉|妹|兄|弟|母|父|元?妻|元?夫|娘|息子|祖父|祖母|叔[父母]|友[人達]|友だち"
    "|同僚|上司|部長"
    "|課長|社長|店長"
    "|先輩|後輩|隣の人"
    f"|主人公|先生|大家|お客さん|旦那|奥さん|両親|(?:[{HAN}{KATAKANA}]{{1,6}}|[{HIRAGANA}]{{2,4}})(?:さん|くん|君"
    f"|ちゃん|氏|先生|様))"
    "(?:の.{1,6})?(?:、|は|が|も|って|によると|いわく|曰く)"
)
_THEM: Final = re.compile(r"\b(?:he|she|they|him|her|his|them|their)\b|彼女?[はがのをに]")
_REPORTED: Final = re.compile(
    r"\b(?:told (?:me|us)|tells me|said|says|wrote|texted|thinks|claims|posted)(?: that)? (?:he|she|they)\b"
    "|^[^、。]{1,12}[がはも].{1,40}(?:って言|と言って|らしい|だそう)"
)
_STORY_WORD: Final = re.compile(f"[A-Z][a-z]{{2,20}}|[{HAN}{KATAKANA}]{{2,12}}")
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
_FIRST: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|we|us|myself)\b|私|僕|俺|自分|わたし|ぼく|うち(?!の)")
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
    r"\b(?:what|which|where|when|who|whom|whose|how)\b|何|どこ|いつ|誰|どの|どちら|どれ|いくつ|いくら|どう"
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


def is_hedged(statement: str) -> bool:
    return _HEDGED.search(statement.casefold()) is not None


def is_of_fiction(statement: str) -> bool:
    """Return whether a statement names a story, a role play or a song as its subject."""
    lower = statement.casefold()
    return any(pattern.search(lower) for pattern in (_FICTION, _ROLE_PLAY, _REHEARSAL))


def is_of_relation(statement: str) -> bool:
    """Return whether a statement about the user names a relation, such as a brother."""
    return _RELATED.search(statement.casefold()) is not None


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


def spoken_about(sentence: str) -> str | None:
    """Return whom a sentence is about, if its subject is another person than the speaker; "" for a pronoun."""
    if _REPORTED.search(sentence.casefold()):
        return ""
    if match := _THIRD_JAPANESE.match(sentence):
        head = match["head"]
        return None if _FIRST.search(sentence[match.end() :].casefold()) else "" if head in ("彼", "彼女") else head
    if not (match := _THIRD.match(sentence)) or (match["name"] or "").casefold() in _NOT_A_NAME:
        return None
    if _FIRST.search(sentence[match.end() :].casefold()):
        return None
    return (match["relation"] or match["name"] or "").casefold()


def sentences_of(messages: Sequence[Spoken]) -> list[list[Sentence]]:
    """Return the sentences of each message of a person with their kinds; of an assistant's, none.

    A role play lasts until a message ends it; sentences about the persons of a story belong to the story.
    """
    found, plays, told = list[list[Sentence]](), False, ""
    for message in messages:
        if not message.is_users:
            found.append([])
            continue
        parts = list(_told_on(_classified(message.text), told))
        told += "\n".join(
            each.text for each in parts if each.speech in (Speech.FICTION, *[Speech.QUOTATION] * bool(told))
        )
        starts = next((place for place, each in enumerate(parts) if _ROLE_PLAY.search(each.text.casefold())), None)
        ends = next((place for place, each in enumerate(parts) if _BACK.search(each.text.casefold())), None)
        first = 0 if plays else len(parts) if starts is None else starts
        last = len(parts) if ends is None or (starts is not None and starts > ends) else ends
        plays = (plays or starts is not None) and last == len(parts)
        found.append(
            [Sentence(each.text, Speech.ROLE_PLAY) if first <= n < last else each for n, each in enumerate(parts)]
        )
    return found


def _told_on(sentences: Iterable[Sentence], told: str) -> Iterator[Sentence]:
    """Yield a message's sentences; those that continue the story in `told` are fiction."""
    goes_on = False
    for sentence in sentences:
        is_open = sentence.speech is Speech.OWN and not _FIRST.search(sentence.text.casefold())
        words = (match[0] for match in _STORY_WORD.finditer(sentence.text))
        is_told = told and (_THEM.search(sentence.text.casefold()) or any(word in told for word in words))
        goes_on = sentence.speech is Speech.FICTION or bool(is_open and (goes_on or is_told))
        yield Sentence(sentence.text, Speech.FICTION) if goes_on and is_open else sentence


def _classified(text: str) -> Iterator[Sentence]:
    parts = list(_parts(text))
    jokes = [place for place, each in enumerate(parts) if _JOKE.search(each.text.casefold())]
    last_joke = max(jokes, default=-1)
    for place, each in enumerate(parts):
        is_joke = place <= last_joke and each.speech in (Speech.OWN, Speech.HYPOTHESIS)
        yield Sentence(each.text, Speech.JOKE) if is_joke else each


def _parts(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a message; what follows a heading with a colon is of the kind that this announces."""
    tells, quotes = False, Speech.OWN
    for line, quoting in _lines(text):
        quotes = quoting if quoting in (Speech.FICTION, Speech.OWN) and not line else quotes
        rest, quoted = _without_quotes(line)
        kind = Speech.QUOTATION if quotes is Speech.OWN else quotes
        yield from (Sentence(sentence, kind) for each in quoted for sentence in sentences(each))
        for own in _clauses(rest):
            speech = quotes if quotes is not Speech.OWN else quoting if quoting is not Speech.OWN else _kind(own)
            if speech is Speech.OWN and tells and not _FIRST.search(own.casefold()):
                speech = Speech.FICTION
            yield Sentence(own, speech)
            tells = tells or (speech is Speech.FICTION)
        if quotes is Speech.OWN and line.endswith((":", "：")):
            quotes = _introduced(line.casefold())


def _clauses(line: str) -> Iterator[str]:
    """Yield the sentences of a line; what precedes the last comma of a question is a separate one."""
    for sentence in sentences(line):
        stated, comma, asked = re.sub(r"[,、](?=[^,、]*$)", "\0", sentence, count=1).partition("\0")
        if comma and is_question(sentence) and len(stated) >= MIN_STATED and _STATES.search(stated.casefold()):
            yield from (stated, asked.strip())
        else:
            yield sentence


def _introduced(heading: str) -> Speech:
    """Return the kind of what follows a heading with a colon."""
    if _BACK.search(heading) or _OF_SELF.search(heading):
        return Speech.OWN
    if _FICTION.search(heading):
        return Speech.FICTION
    return Speech.QUOTATION if _INTRODUCES.search(heading) else Speech.OWN


def _lines(text: str) -> Iterator[tuple[str, Speech]]:
    """Yield the lines of a text with their kinds, own or of a mail or play; an empty one where a mail ends.

    A colon divides a line, unless in an address or before quoted words.
    """
    in_mail = has_closed = False
    for line in filter(str.strip, text.splitlines()):
        bare = line.strip()
        if has_closed:
            in_mail = has_closed = False
            if len(bare) <= MAX_SIGNATURE and not is_question(bare):
                continue
        starts = _MAIL_START.match(bare) is not None
        in_mail = in_mail or starts
        speech = Speech.QUOTATION if in_mail or bare.startswith((">", "＞", "| ")) else Speech.OWN
        speech = Speech.FICTION if speech is Speech.OWN and _SCRIPT_LINE.match(bare) else speech
        parts = [bare] if speech is not Speech.OWN else _COLON.sub(":\0", bare, count=1).split("\0")
        yield from ((part, speech) for part in parts if part.strip())
        if in_mail and not starts and _MAIL_END.match(bare):
            has_closed = True
            yield "", Speech.OWN


def _without_quotes(line: str) -> tuple[str, list[str]]:
    """Return a line without the sentences that it quotes, and these."""
    quoted = list[str]()

    def take(match: re.Match[str]) -> str:
        inner = next(filter(None, match.groups()))
        if len(inner.split()) < _CLAUSE_WORDS and not (not inner.isascii() and len(inner) >= _CLAUSE_CHARACTERS):
            return match[0]
        quoted.append(inner)
        return " "

    return _INLINE_QUOTE.sub(take, line), quoted


def _kind(sentence: str) -> Speech:
    lower = sentence.casefold()
    if _HYPOTHESIS.search(lower):
        return Speech.HYPOTHESIS
    if _ASKED_OF_ASSISTANT.search(lower):
        return Speech.OWN
    if is_question(sentence) and (_ASKED_OF_SELF.match(lower) or not _OWN_IN_QUESTION.search(lower)):
        return Speech.QUESTION
    if _FICTION.search(lower):
        return Speech.FICTION
    return Speech.OWN

"""Text in a message that is not the person's own: mails, plays, quotations, what a heading announces. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from conversations.domain.messages import is_question
from conversations.domain.statements.kinds import Speech
from conversations.domain.statements.persons import FIRST
from conversations.domain.statements.plays import BACK, FICTION

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

MAX_SIGNATURE: Final = 30
"""Characters of the line below a mail's closing words."""

_INLINE_QUOTE: Final = re.compile(
    r"(\{[^{}\n]{12,1000}\})|[“\"]([^“”\"]{2,1000})[”\"]|[「『]([^「」『』]{2,1000})[」』]|(?<![\w])'([^']{12,500})'(?!\w)"
)

_CLAUSE_WORDS: Final = 4

_CLAUSE_CHARACTERS: Final = 12
"""From this size on, quoted words are a sentence, not a title or a name."""


def introduced(heading: str) -> Speech:
    """Return the kind of what follows a heading with a colon."""
    if BACK.search(heading) or _OF_SELF.search(heading):
        return Speech.OWN
    if FICTION.search(heading):
        return Speech.FICTION
    return Speech.QUOTATION if _INTRODUCES.search(heading) else Speech.OWN


_ABOUT_A_TEXT: Final = re.compile(
    r"\b(?:translat\w+|proofread|summari[sz]e|summary|rewrite|rephrase|reword|shorten|polish|edit|grammar|wording"
    r"|tone|sounds?|voice|first pass|drafts?|feedback|reads? well|scam|phishing|ch\. ?\d|chapter|verse|paragraph"
    r"|(?:does|do|did) (?:this|that|it) mean|(?:this|these|the following|below)(?= ?[:?]?$)|is (?:this|that)\b"
    r"|(?:fix|check|correct|improve|explain|read|look at|reply to|answer) (?:this|these|it|the))\b"
    "|これ|この(?:文|メール|手紙|通知)|次の文|以下|読んで|訳し|英語に|日本語に|直して|添削|要約|まとめて|校正|詐欺"
    "|どういう意味|文にして|整えて|冒頭|の返事"
)
"""Words of a request about a text in a separate paragraph."""

MAX_REQUEST: Final = 160
MAX_ASIDE: Final = 100
LONGER: Final = 1.5
_OF_WRITER: Final = re.compile(rf"{FIRST.pattern}|\b(?:my|our|mine|ours)\b|自己|うちの")
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|hiya|good (?:morning|evening|afternoon)|morning|evening|thanks|thank you|ok|okay|well|wow|great"
    r"|long day|update|news|cheers|best|bye|love|おはよう|こんにちは|こんばんは|やあ|どうも|ありがとう|はい|お疲れ"
    r"|ただいま|では|よろしく)\w{0,4}\b.{0,20}$|\W*$"
)
_BLANK_LINE: Final = re.compile(r"\n[ \t\r]*\n")
_ASKS_FOR_TEXT: Final = re.compile(
    r"\b(?:share|paste|send|post|show|upload|copy)\b.{0,25}\b(?:text|it|message|letter|e-?mail|report|document|wording|draft)\b"
    "|(?:文面|文章|本文|全文|内容|原文|手紙|メール)を?.{0,6}(?:見せて|送って|貼って|お送り|教えて)"
)
_FIELD: Final = re.compile(r"(?:^|[.。;；\n] ?)(?:[A-Z][A-Za-z ]{2,24}|[^\s。、：:]{2,10})[:：](?!//)")
MIN_PASTED: Final = 60


def is_pasted_answer(text: str, before: str) -> bool:
    """Return whether a message is the text that the message before it asked for."""
    is_long = len(text) >= MIN_PASTED or len(_FIELD.findall(text)) > 1
    return is_long and _ASKS_FOR_TEXT.search(before.casefold()) is not None


def pasted(text: str) -> Speech:
    """Return the kind of a message that is a form of several fields, which people paste."""
    return Speech.QUOTATION if len(_FIELD.findall(text)) >= 3 and not _OF_SELF.search(text.casefold()) else Speech.OWN


def paragraphs(text: str) -> Iterator[tuple[str, Speech]]:
    """Yield the paragraphs of a message; those next to a short request about a text are that text."""
    is_mail = any(_MAIL_START.match(line.strip()) for line in text.splitlines())  # `lines_of` knows where it ends
    parts = [text] if is_mail else [part for part in _BLANK_LINE.split(text) if part.strip()]
    ends = [parts[0], parts[-1]] if len(parts) > 1 else []
    rest = max(map(len, parts), default=0)
    request = next((part for part in ends if _is_request(part) or _is_aside(part, rest)), None)
    for part in parts:
        is_material = request is not None and part is not request
        kind = Speech.FICTION if is_material and FICTION.search((request or "").casefold()) else Speech.QUOTATION
        yield part, kind if is_material else Speech.OWN


def _is_aside(paragraph: str, longest: int) -> bool:
    """Return whether a short paragraph next to a longer one is not about the writer, and no greeting."""
    lower = paragraph.casefold().strip()
    is_short = len(paragraph) <= MAX_ASIDE and longest >= LONGER * len(paragraph)
    return is_short and not _OF_WRITER.search(lower) and not _GREETING.match(lower)


def _is_request(paragraph: str) -> bool:
    lower = paragraph.casefold()
    return len(paragraph) <= MAX_REQUEST and _ABOUT_A_TEXT.search(lower) is not None and not _OF_SELF.search(lower)


def lines_of(text: str) -> Iterator[tuple[str, Speech]]:
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


def without_quotes(line: str) -> tuple[str, list[str]]:
    """Return a line without the sentences and the data in braces that it quotes, and these."""
    quoted = list[str]()

    def take(match: re.Match[str]) -> str:
        inner = next(filter(None, match.groups()))
        if (
            not match[1]
            and len(inner.split()) < _CLAUSE_WORDS
            and not (not inner.isascii() and len(inner) >= _CLAUSE_CHARACTERS)
        ):
            return match[0]
        quoted.append(inner)
        return " "

    return _INLINE_QUOTE.sub(take, line), quoted

"""No text stops a server: every regular expression and every reader of untrusted text takes linear time."""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from io import BytesIO

import pytest

from conversations.domain import content, messages, passages
from conversations.domain.prompt import _attributed
from conversations.domain.statements import details, kinds, languages, speech, talk
from conversations.domain.statements.grounding import Evidence
from memoryhub.admin import diff, policy_form
from memoryhub.embeddings.hashing import _vectors
from memoryhub.importexport.foreign import json_stream
from memoryhub.importexport.foreign.formats import activity_html, coding_agents, gemini, markdown, openwebui
from memoryhub.llm import tokens
from memoryhub.llm.documents import parse_document, without_thoughts
from memoryhub.llm.errors import BadAnswer
from memoryhub.look_alikes import looks
from memoryhub.privacy.screening import screen
from memoryhub.search.analysis import analyse, fold
from memoryhub.search.query_text import QueryText
from memoryhub.validators import text_problem
from strength.domain import duplicates, extraction, usage_detection
from summaries.admin.documents import rendered_markdown
from summaries.domain import compaction, documents, entries, projects, routing, word_router
from summaries.domain.faults import fault_of
from summaries.domain.summaries import Call, SpokenMessage
from tests.unit.patterns import collected, units
from tests.unit.timing import growth_problem

PATTERNS, LOCAL = collected()
READER_SECONDS = 0.2
CONSTANT_SECONDS = {"front matter": 2.5}
"""Readers that take up to this for a short text: PyYAML reads brackets until Python's limit of recursion."""

KNOWN_LOCAL = {
    "memoryhub.admin.policy_form: f'\\\\b({names})\\\\b'": "names of fields, applied to a sentence of ours",
    "memoryhub.llm.tokens: f'(?<={script}) +'": "two letters, timed below as script_sizes",
    "memoryhub.privacy.shapes: _after(prefix) + tail": "constants, collected",
    "memoryhub.privacy.shapes: pattern": "constants, collected",
    "strength.domain.duplicates: f\"(?:{'|'.join(sorted(set(alternatives.split()), key=len, reverse=True))})*+\"":
        "a constant, collected",
    "strength.domain.duplicates: pattern": "constants, collected",
    "strength.domain.extraction: f'{before}{re.escape(words)}{behind}'": "a topic's words, timed below",
    "summaries.domain.compaction: f'\\\\s*\\\\[\\\\[kept-(\\\\d{{1,6}})-{re.escape(code)}\\\\]\\\\]'": "matched at line starts",
    "summaries.domain.routing: re.sub('\\\\\\\\{(\\\\w+)\\\\\\\\}', '(?P<\\\\1>\\\\\\\\S+)', pattern)": "a sentence of ours, timed below",
}  # fmt: skip

SAID_AT = datetime(2026, 3, 1, tzinfo=UTC)
ENGLISH = languages.Writing("en", "en")


def _parsed(text: str) -> object:
    with suppress(BadAnswer):
        return parse_document(text, {"type": "object"})
    return None


READERS: dict[str, Callable[[str], object]] = {
    "folded answers": openwebui.without_details,
    "HTML": gemini.html_text,
    "dates of a log": activity_html.parse_date,
    "log": lambda text: list(activity_html.activities(BytesIO(activity_html.CELL + text.encode()))),
    "analyse": analyse,
    "fold": fold,
    "message query": lambda text: QueryText.of_message(text, [("user", text)]),
    "count_raw": tokens.count_raw,
    "raw_counts": tokens.raw_counts,
    "script_sizes": tokens.script_sizes,
    "embedding": lambda text: _vectors([text], 256),
    "text_problem": text_problem,
    "screen": screen,
    "visible": content.visible,
    "looks": looks,
    "one_line": content.one_line,
    "quoted": content.quoted,
    "label": content.label.__wrapped__,
    "sections": content.sections_of,
    "attributed": lambda text: _attributed((content.text_block(text),), "Anna", ["Anna", "Ben"]),
    "sentences": passages.sentences,
    "passages": lambda text: passages.passages(text, {"tea": 1.0, "a": 0.5}, limit=1_000),
    "is_question": messages.is_question,
    "days": lambda text: messages.past_days_asked(text, today=date(2026, 3, 1)),
    "without_names": lambda text: messages.without_names(text, ["Anna", "a", "あ"]),
    "inline_diff": lambda text: diff.inline_diff(text, text[: len(text) // 2] + "b" + text[len(text) // 2 :]),
    "side_by_side": lambda text: diff.side_by_side(text, text[1:] + "b"),
    "shared_words": lambda text: diff.shared_words(text, text[:100]),
    "backticks": policy_form.backticks_as_code,
    "markdown": rendered_markdown,
    "Markdown line": lambda text: markdown.Line.parsed("fact", text),
    "transcript": coding_agents._without_noise,
    "front matter": lambda text: markdown._frontmatter(f"---\n{text[:-2]}\n---\n"),
    "tags": lambda text: markdown.usable_tags([text]),
    "JSON": lambda text: list(json_stream.elements(BytesIO(text.encode()))),
    "JSON list": lambda text: list(json_stream.elements(BytesIO(f"[{text}".encode()))),
    "fingerprint": duplicates.fingerprint,
    "wording": duplicates.wording_digest,
    "mentions": lambda text: extraction._mentions(text, "a" * 100),
    "without_memories": extraction.without_memories,
    "details": lambda text: list(details.stated(text)),
    "offered": lambda text: details.Offered.of(text, date(2026, 3, 1)),
    "speech": lambda text: speech.sentences_of([kinds.Spoken(text, True, SAID_AT)]),
    "language": lambda text: languages.language_of(text),
    "reports talk": talk.reports_talk,
    "support": lambda text: Evidence((kinds.Spoken(text, True, SAID_AT),)).check("The user has a dog.", [0]),
    "statement": lambda text: Evidence((kinds.Spoken("I live in Otaru.", True, SAID_AT),)).check(text, [0]),
    "thoughts": without_thoughts,
    "answer": lambda text: _parsed(text),
    "summary": lambda text: fault_of(
        text, Call("", (), (SpokenMessage(1, "user", "", text[:5_000], SAID_AT),)), most_tokens=100_000, written=ENGLISH
    ),
    "usage": lambda text: usage_detection.used_by_words(text, [usage_detection.Offered(1, text)], query=text[:50]),
    "usage passages": usage_detection.passages,
    "proposed name": projects.propose_name,
    "name": projects.is_name,
    "reason": routing.reason_parts,
    "similarity": lambda text: word_router.similarity(text, text[:1_000]),
    "entry words": entries.EntryWords.of,
    "blocks": compaction.blocks_of,
    "title": documents.title_of,
    "line digest": documents.line_digest,
}
"""What reads texts that anybody may have written, by name."""

UNITS = (
    " ", "\r", "\n", "\r\n", "\t", "\u2028", "\x1c", "a", "A", "a ", "a1", "1", "1.", "1 ", "é", "a\u0301", "\u0301\u0323", "\u0301", "あ", "ア",
    "ー", "漢", "漢字", "かん漢", "っ", "한", "ก", "Ω", "👍", "👨\u200d", "\ufe0f", "\u200b", ".", "。", "?", ",", "-", "- a\n", "\n- ",
    "* ", "  - a\n", "> ", ">", "#", "# ", "\n# a\n", " #a", "(", ")", "[", "]", "![", "](", "[a](", "[a]: b\n", "[[", "<", "<a ",
    "<!--", "</", "&", "&#", "`", "``", "```\n", "~~~\n", "*", "**a", "*a_", "_", "a_", "\\", "|", "a|b\n", "|-|\n", '"', "'", "a'",
    "「", "」", "{", '{"a":', '["', '"\\', "http://a.", "@a", "<remembered-", "<system-reminder>", "Its words are those of a and of ",
    "[Anna] ", "\n[Anna", "[kept-1-", "が", "です", "ない", "毎日", "十", "1時", "\x00", "\u3000", "most ", "not ", "I am ",
    "sk-", "eyJa.", "password=", "password: a", "the password is a1b2", "token=token", "authorization:", "://a:", "&key=", ".",
    "-----BEGIN PRIVATE KEY-----", "パスワードは", "SK0123456789abcdef0123456789abcdef",
)  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    used = PATTERNS[name]
    problems = []
    for method in sorted(used.methods):
        call = _calling(used.pattern, method)
        problems += [f"{method}: {found}" for unit in units(used.pattern) if (found := growth_problem(call, unit))]
    assert not problems, problems[:5]


def _calling(pattern: re.Pattern[str] | re.Pattern[bytes], method: str) -> Callable[[str], object]:
    def call(text: str) -> object:
        found = getattr(pattern, method)(text if isinstance(pattern.pattern, str) else text.encode())
        return [None for _ in found] if method == "finditer" else found

    return call


def test_a_pattern_that_a_call_makes_is_known() -> None:
    assert set(LOCAL) == set(map(_as_unparsed, KNOWN_LOCAL))


def _as_unparsed(name: str) -> str:
    """Return a name with its expression as this Python's `ast.unparse` writes it."""
    module, expression = name.split(": ", 1)
    return f"{module}: {ast.unparse(ast.parse(expression, mode='eval'))}"


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_linear_time(name: str) -> None:
    seconds = CONSTANT_SECONDS.get(name, READER_SECONDS)
    problems = [found for unit in UNITS if (found := growth_problem(READERS[name], unit, seconds=seconds))]
    assert not problems, problems[:5]


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [(r"\d+(?:\.\d+)+", "1"), (r"(^|[\n\r])([^\S\n]*)\[", "\r"), (r"<a>.*?</a>", "<a>"), ("(a|aa)+$", "a")],
)
def test_what_takes_longer_is_found(pattern: str, unit: str) -> None:
    assert unit in units(re.compile(pattern))
    assert growth_problem(_calling(re.compile(pattern), "finditer"), unit)

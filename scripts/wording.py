"""Count words of roundabout English per 1,000 words in prose, comments, docstrings and screens; fail above the limit.

Each has a plain counterpart, such as "states" for "says". Code in Markdown and tags in templates are skipped.
"""

import argparse
import ast
import re
import sys
import tokenize
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Final

LIMIT: Final = 3
"""Hits per 1,000 words. A text of fewer than SHORT words may have one more, rounded up."""
SHORT: Final = 300

WORDS: Final = re.compile(
    r"\b(whose|whence|who(?:m)?ever|(?:some|no|any|every)body|stand(?:s|ing)?|stood|tells?|told|says?|said|goes|go|went"
    r"|gone|beside|lies?|lay|lain|likings?|of (?:its|his|their|one's) own|giv(?:e|es|ing) way|gave way|anew|meanwhile"
    r"|to the letter)\b",
    re.IGNORECASE,
)
ALLOWED: Final = re.compile(r"\bGo\b(?! (?:on|to|by|with))|\bstand-?alone\b|\bstand-by\b|\bgo-live\b|\bno-go\b")
"""The language Go, and technical terms."""

MARKDOWN_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
TEMPLATE_CODE: Final = re.compile(r"<(script|style)\b.*?</\1>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
BLOCK_COMMENT: Final = re.compile(r"/\*(.*?)\*/|(?<!:)//([^\n]*)", re.DOTALL)
TEMPLATE_COMMENT: Final = re.compile(r"\{#(.*?)#\}|\{% comment %\}(.*?)\{% endcomment %\}", re.DOTALL)
SQL_COMMENT: Final = re.compile(r"--(?! name:| fragment:)([^\n]*)")
TRANSLATED: Final = re.compile(r"\{%-?\s*(?:translate|trans)\s+\"([^\"]*)\"")
GETTEXT: Final = {
    "_",
    "gettext",
    "gettext_lazy",
    "gettext_noop",
    "ngettext",
    "ngettext_lazy",
    "pgettext",
    "pgettext_lazy",
}


def comments(text: str) -> str:
    tokens = tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__)
    return "\n".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)


def docstrings(text: str) -> str:
    expressions = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    values = [each.value for each in expressions if isinstance(each, ast.Constant)]
    return "\n".join(value for value in values if isinstance(value, str))


def matches(pattern: re.Pattern[str]) -> Callable[[str], str]:
    """Return a reader of the groups of a pattern."""
    return lambda text: "\n".join(group for match in pattern.finditer(text) for group in match.groups() if group)


def messages(text: str) -> str:
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    values = [each for call in calls if getattr(call.func, "id", "") in GETTEXT for each in call.args]
    return "\n".join(str(each.value) for each in values if isinstance(each, ast.Constant))


READERS: Final[Mapping[str, Mapping[str, Callable[[str], str]]]] = {
    "prose": {".md": lambda text: MARKDOWN_CODE.sub(" ", text)},
    "comments": {
        ".py": comments,
        ".sql": matches(SQL_COMMENT),
        ".html": matches(TEMPLATE_COMMENT),
        ".js": matches(BLOCK_COMMENT),
        ".css": matches(BLOCK_COMMENT),
    },
    "docstrings": {".py": docstrings},
    "screens": {
        ".py": messages,
        ".html": lambda text: "\n".join(
            [TEMPLATE_CODE.sub(" ", TEMPLATE_COMMENT.sub(" ", text)), *TRANSLATED.findall(text)]
        ),
    },
}


def check(text: str) -> tuple[list[str], int, bool]:
    """Return the hits of a text, its number of words, and whether the hits are too many."""
    hits = [hit[0] for hit in WORDS.finditer(ALLOWED.sub(" ", text))]
    words = len(re.findall(r"[A-Za-z]+(?:['’-]\w+)*", text))
    most = words * LIMIT / 1000
    return hits, words, len(hits) > (most if words >= SHORT else ceil(1 + most))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count words of roundabout English per 1,000 words.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sort", choices=[*READERS, "all"], default="all")
    arguments, failed = parser.parse_args(), False
    for sort in READERS if arguments.sort == "all" else [arguments.sort]:
        for file in (each for each in arguments.files if each.suffix in READERS[sort]):
            hits, words, is_bad = check(READERS[sort][file.suffix](file.read_text(encoding="utf-8")))
            failed = failed or is_bad
            if hits:
                rate = f"{1000 * len(hits) / words:.1f} in 1,000"
                sys.stdout.write(f"{file} ({sort}): {rate}{', too many' if is_bad else ''}: {', '.join(hits)}\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()

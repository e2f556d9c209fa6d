"""Formats of other systems' exports, one module each: `recognises` an archive, and `read`s it into records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryhub.importexport.foreign.archives import Archive
from memoryhub.importexport.foreign.formats import (
    chatgpt,
    claude,
    coding_agents,
    deepseek,
    gemini,
    grok,
    letta,
    librechat,
    markdown,
    mem0,
    mistral,
    openwebui,
    table,
)
from memoryhub.importexport.foreign.records import LocatedRecord


@dataclass(frozen=True)
class Format:
    """A foreign format; `label` is its name on screens. With `names_users` each record names its user."""

    label: str
    recognises: Callable[[Archive], bool]
    read: Callable[[Archive, datetime], Iterator[LocatedRecord]]
    names_users: bool = False


TABLE: Final = "table"

FORMATS: Final[dict[str, Format]] = {
    "deepseek": Format("DeepSeek", deepseek.recognises, deepseek.read),
    "chatgpt": Format("ChatGPT", chatgpt.recognises, chatgpt.read),
    "claude": Format("Claude", claude.recognises, claude.read),
    "openwebui": Format("Open WebUI", openwebui.recognises, openwebui.read, names_users=True),
    "librechat": Format("LibreChat", librechat.recognises, librechat.read),
    "gemini": Format("Gemini", gemini.recognises, gemini.read),
    "grok": Format("Grok", grok.recognises, grok.read),
    "mistral": Format("Le Chat (Mistral)", mistral.recognises, mistral.read),
    "coding-agents": Format("Claude Code, CLAUDE.md", coding_agents.recognises, coding_agents.read),
    "markdown": Format("Markdown", markdown.recognises, markdown.read),
    "letta": Format("Letta", letta.recognises, letta.read),
    "mem0": Format("mem0", mem0.recognises, mem0.read, names_users=True),
    TABLE: Format("CSV, JSON Lines", table.recognises, table.read, names_users=True),
}
"""By name; the first that recognises an archive reads it."""


def format_labels() -> str:
    return ", ".join(sorted(format.label for format in FORMATS.values()))


def format_of(archive: Archive) -> str:
    """Return the name of an archive's format, "" where it is unknown; of named columns a table's."""
    if archive.columns:
        return TABLE
    return next((name for name, format in FORMATS.items() if format.recognises(archive)), "")

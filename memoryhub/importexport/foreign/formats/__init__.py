"""Formats of other systems' exports, one module each: `recognises` an archive, and `read`s it into records."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from memoryhub.importexport.foreign.archives import Archive
from memoryhub.importexport.foreign.formats import (
    chatgpt,
    claude,
    coding_agents,
    deepseek,
    gemini,
    grok,
    hindsight,
    honcho,
    letta,
    librechat,
    markdown,
    mem0,
    mistral,
    openwebui,
    table,
)
from memoryhub.importexport.foreign.records import LocatedRecord


class Reader(Protocol):
    """A module of a format; `SIGN` is that by which an archive of it is recognised."""

    @property
    def SIGN(self) -> str: ...  # noqa: N802 - a constant of the module

    def recognises(self, archive: Archive) -> bool: ...

    def read(self, archive: Archive, now: datetime) -> Iterator[LocatedRecord]: ...


@dataclass(frozen=True)
class Format:
    """A foreign format; `label` is its name on screens. With `names_users` each record names its user."""

    label: str
    reader: Reader
    names_users: bool = False


TABLE: Final = "table"

FORMATS: Final[dict[str, Format]] = {
    "honcho": Format("Honcho", honcho, names_users=True),
    "hindsight": Format("Hindsight", hindsight, names_users=True),
    "deepseek": Format("DeepSeek", deepseek),
    "chatgpt": Format("ChatGPT", chatgpt),
    "claude": Format("Claude", claude),
    "openwebui": Format("Open WebUI", openwebui, names_users=True),
    "librechat": Format("LibreChat", librechat),
    "gemini": Format("Gemini", gemini),
    "grok": Format("Grok", grok),
    "mistral": Format("Le Chat (Mistral)", mistral),
    "coding-agents": Format("Claude Code, CLAUDE.md", coding_agents),
    "markdown": Format("Markdown", markdown),
    "letta": Format("Letta", letta),
    "mem0": Format("mem0", mem0, names_users=True),
    TABLE: Format("CSV, JSON Lines", table, names_users=True),
}
"""By name; the first that recognises an archive reads it."""


def format_labels() -> str:
    return ", ".join(sorted(format.label for format in FORMATS.values()))


def format_of(archive: Archive) -> str:
    """Return the name of an archive's format, "" where it is unknown; of named columns a table's."""
    if archive.columns:
        return TABLE
    return next((name for name, format in FORMATS.items() if format.reader.recognises(archive)), "")

"""Forms of other systems' exports, one module each: what recognises an archive, and what reads it into records."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryhub.importexport.archives import Archive
from memoryhub.importexport.forms import chatgpt, claude, coding_agents, letta, markdown, mem0
from memoryhub.importexport.records import Located


@dataclass(frozen=True)
class Form:
    """A foreign form. `names_users` says whether it says whose each record is; others need --user."""

    recognises: Callable[[Archive], bool]
    read: Callable[[Archive, datetime], Iterator[Located]]
    names_users: bool = False


FORMS: Final[dict[str, Form]] = {
    "chatgpt": Form(chatgpt.recognises, chatgpt.read),
    "claude": Form(claude.recognises, claude.read),
    "coding-agents": Form(coding_agents.recognises, coding_agents.read),
    "markdown": Form(markdown.recognises, markdown.read),
    "letta": Form(letta.recognises, letta.read),
    "mem0": Form(mem0.recognises, mem0.read, names_users=True),
}
"""By name; the first that recognises an archive reads it."""


def form_of(archive: Archive) -> str:
    """Return the name of the form of an archive, "" where nobody knows it."""
    return next((name for name, form in FORMS.items() if form.recognises(archive)), "")

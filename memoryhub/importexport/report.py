"""What an import made, found there already, and refused; ids, counts and our own words, never a text. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

MOST_NOTES: Final = 1_000
"""As many lines are told one by one; the rest is counted."""


@dataclass(frozen=True)
class Note:
    """One line, or one entry of a list, that was not simply made, and why."""

    line: int
    what: str
    why: str
    entry: int = 0

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        entry = f"entry {self.entry}" if self.entry else ""
        return f"{', '.join(filter(None, (entry, line))).capitalize()}: {self.what}: {self.why}"


@dataclass
class Report:
    """Counts by table, or by sort of thing, and a note for each line that a person may want to look at."""

    made: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)
    entry: int = 0
    """Of the list that is read, the one that is at work; 0 where lines are told."""

    def know(self, line: int, what: str, why: str = "") -> None:
        """Count what is there already; with a reason, tell of it."""
        self.known[what] += 1
        if why:
            self._note(line, what, why)

    def refuse(self, line: int, what: str, why: str) -> None:
        """Count and tell what cannot be taken."""
        self.refused[what] += 1
        self._note(line, what, why)

    def tell(self, line: int, what: str, why: str) -> None:
        """Tell of something that was made otherwise than asked."""
        self._note(line, what, why)

    def _note(self, line: int, what: str, why: str) -> None:
        self.reasons[why] += 1
        if len(self.notes) < MOST_NOTES:
            self.notes.append(Note(line, what, why, self.entry))

"""Names of projects, the catalog that a router reads, and events with their daily totals (SPEC P2, P8). Pure."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from memoryhub.errors import DomainError, Message, _, format_lazy, ngettext_lazy
from memoryhub.search.analysis import limit_combining_marks

MAX_NAME_LENGTH: Final = 64
MAX_DESCRIPTION_LENGTH: Final = 300
RESERVED_NAMES: Final = frozenset({"auto", "catalog", "events", "route", "routes"})
"""Names with a meaning of their own in URLs and contexts."""

WINDOWS_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)
"""Names that are devices on Windows, whatever their extension."""

_KEBAB: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WORD: Final = re.compile(r"[a-z0-9]+")
_STAND_IN: Final = re.compile(r"(?:detail-)?project-[0-9a-f]{8}(?:-[0-9]+)?(?:\.md)?")

ENTRY_TOKENS: Final = 30
CATALOG_TOKENS: Final = 3_000
"""Tokens of a line of the catalog at least, and of a whole one: a hundred projects come to about 3,000 tokens."""


class EventKind(StrEnum):
    READ = "read"
    ROUTE = "route"
    CORRECT = "correct"
    UPDATE = "update"
    COMPACT = "compact"
    RESTORE = "restore"
    SYNC = "sync"
    EXPORT = "export"
    CREATE = "create"
    ARCHIVE = "archive"
    REACTIVATE = "reactivate"
    MERGE = "merge"
    MOVE = "move"
    DELETE = "delete"
    UNDO = "undo"


class ProjectStatus(StrEnum):
    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"


class BadProjectName(DomainError, ValueError):
    """The text cannot be a project's name; `proposal` is a valid one derived from it."""

    code = "invalid_project_name"
    field = "name"

    def __init__(self, why: Message, proposal: str) -> None:
        self.proposal = proposal
        self.members = {"proposed_name": proposal}
        super().__init__(format_lazy(_("{why} It could be called {proposal}."), why=why, proposal=repr(proposal)))


def check_name(name: str) -> None:
    """Raise BadProjectName, with a proposal, for an invalid name."""
    why = _name_problem(name)
    if why:
        raise BadProjectName(why, propose_name(name))


def is_name(name: str) -> bool:
    return not _name_problem(name)


def _name_problem(name: str) -> Message:
    if not name:
        return _("A project needs a name.")
    if len(name) > MAX_NAME_LENGTH:
        return format_lazy(_("A project's name has at most {most} characters."), most=MAX_NAME_LENGTH)
    if not _KEBAB.fullmatch(name):
        return _("A project's name is of small letters a to z and digits, its words joined by single hyphens.")
    if name in RESERVED_NAMES or name in WINDOWS_DEVICES:
        return _("This name is reserved.")
    return ""


def propose_name(text: str) -> str:
    """Return a name that `check_name` accepts for a text in any script: its Latin words, else a short digest.

    The same text gets the same name. Kana are spelt in Latin letters; a kanji has too many readings to guess one.
    """
    words = _WORD.findall(_latin(text))
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word[:MAX_NAME_LENGTH]
        if len(longer) > MAX_NAME_LENGTH:
            break
        name = longer
    if len(name) < 2:
        name = f"project-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return name if is_name(name) else f"{name}-project"


def is_generated_name(name: str) -> bool:
    return bool(_STAND_IN.fullmatch(name))


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number appended where it is taken."""
    others = set(taken)
    number, free = 2, name
    while free in others:
        ending = f"-{number}"
        free, number = name[: MAX_NAME_LENGTH - len(ending)].rstrip("-") + ending, number + 1
    return free


# Hiragana next to kanji are endings and particles: 引っ越し計画 does not become "shi".
_OKURIGANA: Final = re.compile("(?<=[\u3005\u3400-\u9fff])[ぁ-ゖ]++|(?<![ぁ-ゖ])[ぁ-ゖ]++(?=[\u3005\u3400-\u9fff])")


def _latin(text: str) -> str:
    folded = unicodedata.normalize("NFKC", limit_combining_marks(text)).casefold()
    katakana = "".join(chr(ord(each) + 0x60) if "ぁ" <= each <= "ゖ" else each for each in _OKURIGANA.sub(" ", folded))
    spelt = _KANA.sub(lambda match: _HEPBURN[match[0]], katakana).replace("ー", "")
    spelt = re.sub(r"ッ([a-z])", lambda match: ("t" if match[1] == "c" else match[1]) + match[1], spelt)
    bare = unicodedata.normalize("NFKD", spelt)
    return "".join(each for each in bare if not unicodedata.combining(each))


def _hepburn() -> dict[str, str]:
    rows = {
        "アイウエオ": "a i u e o", "カキクケコ": "ka ki ku ke ko", "サシスセソ": "sa shi su se so",
        "タチツテト": "ta chi tsu te to", "ナニヌネノ": "na ni nu ne no", "ハヒフヘホ": "ha hi fu he ho",
        "マミムメモ": "ma mi mu me mo", "ヤユヨ": "ya yu yo", "ラリルレロ": "ra ri ru re ro", "ワヲン": "wa o n",
        "ガギグゲゴ": "ga gi gu ge go", "ザジズゼゾ": "za ji zu ze zo", "ダヂヅデド": "da ji zu de do",
        "バビブベボ": "ba bi bu be bo", "パピプペポ": "pa pi pu pe po", "ァィゥェォ": "a i u e o",
        "ャュョ": "ya yu yo", "ヴ": "vu",
    }  # fmt: skip
    spelt = {kana: latin for row, sounds in rows.items() for kana, latin in zip(row, sounds.split(), strict=True)}
    for kana, latin in [*spelt.items()]:
        if len(latin) > 1 and latin[-1] == "i" and kana not in "ィ":
            stem = latin[:-1]
            bare = stem if stem in ("sh", "ch", "j") else f"{stem}y"
            spelt |= {kana + small: bare + sound for small, sound in zip("ャュョ", "auo", strict=True)}
    spelt |= {"シェ": "she", "ジェ": "je", "チェ": "che"}
    spelt |= {"ティ": "ti", "ディ": "di", "トゥ": "tu", "ドゥ": "du"}
    spelt |= {f"フ{small}": f"f{sound}" for small, sound in zip("ァィェォ", "aieo", strict=True)}
    spelt |= {f"ヴ{small}": f"v{sound}" for small, sound in zip("ァィェォ", "aieo", strict=True)}
    spelt |= {f"ウ{small}": f"w{sound}" for small, sound in zip("ィェォ", "ieo", strict=True)}
    return spelt


_HEPBURN: Final = _hepburn()
_KANA: Final = re.compile("|".join(sorted(_HEPBURN, key=len, reverse=True)))


def one_line(text: str) -> str:
    """Return a text without line breaks, control characters and runs of blanks."""
    clean = "".join(" " if unicodedata.category(each) in ("Cc", "Zl", "Zp") else each for each in text)
    return " ".join(clean.split())


@dataclass(frozen=True)
class CatalogEntry:
    name: str
    description: str


def catalog(projects: Iterable[CatalogEntry], count: Callable[[str], int], *, most: int = CATALOG_TOKENS) -> str:
    """Return the numbered list of projects, a line each (SPEC P2).

    Where it is longer than `most` tokens, each line is cut to its share of them, at least ENTRY_TOKENS.
    """
    heads = [
        (f"{number}. **{each.name}**", one_line(each.description)) for number, each in enumerate(projects, start=1)
    ]
    lines = [f"{head} - {description}" if description else head for head, description in heads]
    if count("\n".join(lines)) <= most:
        return "\n".join(lines)
    share = max(ENTRY_TOKENS, most // len(lines))
    return "\n".join(
        whole if not description or count(whole) <= share else f"{head} - {_cut(head, description, share, count)}"
        for whole, (head, description) in zip(lines, heads, strict=True)
    )


def _cut(head: str, description: str, most: int, count: Callable[[str], int]) -> str:
    """Return as much of the description as fits, at least one character."""
    lengths = range(1, len(description) + 1)
    fitting = bisect_left(lengths, True, key=lambda length: count(f"{head} - {description[:length]}…") > most)
    return f"{description[: max(1, fitting)].rstrip()}…"


MAX_DAY_PROJECTS: Final = 5
_DAY_COUNTS: Final[Mapping[str, Any]] = {
    EventKind.READ: ngettext_lazy("%(count)d read", "%(count)d reads", "count"),
    EventKind.ROUTE: ngettext_lazy("%(count)d message routed", "%(count)d messages routed", "count"),
    EventKind.CORRECT: ngettext_lazy("%(count)d correction", "%(count)d corrections", "count"),
    EventKind.UPDATE: ngettext_lazy("%(count)d update", "%(count)d updates", "count"),
    EventKind.COMPACT: ngettext_lazy("%(count)d compaction", "%(count)d compactions", "count"),
}
_OTHER_EVENTS: Final = ngettext_lazy("%(count)d other event", "%(count)d other events", "count")
_DAY_OUTCOMES: Final[Mapping[str, Any]] = {EventKind.ROUTE: _("message routed"), EventKind.COMPACT: _("compaction")}


@dataclass(frozen=True)
class EventCount:
    day: date
    project: str
    kind: str
    outcome: str
    times: int
    tokens: int


@dataclass(frozen=True)
class DayTotals:
    """Totals of one day; `tokens` are those that were read into prompts or by clients."""

    day: date
    kinds: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    projects: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0


def totals_by_day(counts: Iterable[EventCount]) -> list[DayTotals]:
    days: dict[date, list[EventCount]] = {}
    for each in counts:
        days.setdefault(each.day, []).append(each)
    return [_totals(day, days[day]) for day in sorted(days, reverse=True)]


def _totals(day: date, counts: Iterable[EventCount]) -> DayTotals:
    kinds: Counter[str] = Counter()
    outcomes: Counter[tuple[str, str]] = Counter()
    projects: Counter[str] = Counter()
    tokens = 0
    for each in counts:
        kinds[each.kind] += each.times
        outcomes[each.kind, each.outcome] += each.times
        if each.project:
            projects[each.project] += each.times
        tokens += each.tokens if each.kind == EventKind.READ else 0
    return DayTotals(day, kinds, outcomes, dict(projects.most_common()), tokens)


def describe_day(day: DayTotals, *, outcome_labels: Mapping[str, Any] | None = None) -> str:
    """Describe a day in the active language; outcomes without a label are named by their codes."""
    labels = outcome_labels or {}
    done = [text % {"count": day.kinds[kind]} for kind, text in _DAY_COUNTS.items() if day.kinds.get(kind)]
    if others := sum(times for kind, times in day.kinds.items() if kind not in _DAY_COUNTS):
        done.append(_OTHER_EVENTS % {"count": others})
    if day.tokens:
        done.append(_("{tokens} tokens read").format(tokens=f"{day.tokens:,}"))
    outcomes = [
        f"{label} {labels.get(outcome, outcome)} {times}"
        for kind, label in _DAY_OUTCOMES.items()
        for (of, outcome), times in sorted(day.outcomes.items())
        if of == kind and outcome
    ]
    busiest = [f"{name} {times}" for name, times in list(day.projects.items())[:MAX_DAY_PROJECTS]]
    comma = str(_(", "))
    text: str = _("{day}: {done}.").format(
        day=day.day.isoformat(), done=comma.join(done) or _("no activity in projects")
    )
    text += _(" Outcomes: {listed}.").format(listed=comma.join(outcomes)) if outcomes else ""
    return text + (_(" Most with: {listed}.").format(listed=comma.join(busiest)) if busiest else "")

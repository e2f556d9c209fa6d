"""Daily totals of project events, and their description in English and Japanese (SPEC P8). Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from summaries.domain.projects import EventKind

COUNTED: Final = (EventKind.READ, EventKind.ROUTE, EventKind.CORRECT, EventKind.UPDATE, EventKind.COMPACT)
SHOWN_PROJECTS: Final = 5


@dataclass(frozen=True)
class EventCount:
    """Number of events of one kind and outcome in a day, and their tokens."""

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

    def times(self, kind: EventKind) -> int:
        return self.kinds.get(kind, 0)


@dataclass(frozen=True, slots=True)
class _Words:
    kinds: Mapping[EventKind, tuple[str, str]]
    nothing: str
    tokens: str
    outcomes: str
    projects: str
    comma: str
    colon: str
    end: str
    number: str


_WORDS: Final[Mapping[str, _Words]] = {
    "en": _Words(
        kinds={
            EventKind.READ: ("read", "reads"),
            EventKind.ROUTE: ("message routed", "messages routed"),
            EventKind.CORRECT: ("correction", "corrections"),
            EventKind.UPDATE: ("update", "updates"),
            EventKind.COMPACT: ("compaction", "compactions"),
        },
        nothing="nothing was done with projects",
        tokens="{tokens:,} tokens read",
        outcomes="Outcomes: ",
        projects="Most with: ",
        comma=", ",
        colon=": ",
        end=".",
        number="{number} {word}",
    ),
    "ja": _Words(
        kinds={
            EventKind.READ: ("読み出し", "読み出し"),
            EventKind.ROUTE: ("振り分け", "振り分け"),
            EventKind.CORRECT: ("訂正", "訂正"),
            EventKind.UPDATE: ("更新", "更新"),
            EventKind.COMPACT: ("圧縮", "圧縮"),
        },
        nothing="プロジェクトの動きはありませんでした",
        tokens="読み出したトークン数{tokens:,}",
        outcomes="結果：",
        projects="多かったプロジェクト：",
        comma="、",
        colon="：",
        end="。",
        number="{word}{number}件",
    ),
}


def totals_by_day(counts: Iterable[EventCount]) -> list[DayTotals]:
    """Return the totals of each day with events, the latest first."""
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


def describe_day(day: DayTotals, *, language: str) -> str:
    """Return a day's totals as sentences: events, outcomes, and the busiest projects."""
    words = _WORDS.get(language, _WORDS["en"])
    done = [
        words.number.format(number=times, word=words.kinds[kind][times != 1])
        for kind in COUNTED
        if (times := day.times(kind))
    ]
    if day.tokens:
        done.append(words.tokens.format(tokens=day.tokens))
    parts = [f"{day.day:%Y-%m-%d}{words.colon}{words.comma.join(done) or words.nothing}{words.end}"]
    outcomes = [
        f"{words.kinds[kind][0]} {outcome} {times}"
        for kind in (EventKind.ROUTE, EventKind.COMPACT)
        for (of, outcome), times in sorted(day.outcomes.items())
        if of == kind and outcome
    ]
    busiest = [f"{name} {times}" for name, times in list(day.projects.items())[:SHOWN_PROJECTS]]
    for heading, each in ((words.outcomes, outcomes), (words.projects, busiest)):
        if each:
            parts.append(f"{heading}{words.comma.join(each)}{words.end}")
    return (" " if language != "ja" else "").join(parts)

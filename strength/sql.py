"""The formulas of `strength.domain.strength` as SQL, and the statements of `queries.sql` and `sleep.sql` that use them.

Each formula is a template over column names, with named parameters; `policy_values` gives those of a policy. One parity
test feeds both renderings the same cases.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from django.db import connection

from memoryhub.queries import load_queries
from strength.domain.policy import StrengthPolicy

LEVEL: Final = "(width_bucket({uses}, %(thresholds)s::int[]) - 1)"
"""`consolidation_level`: thresholds reached, the first of which is 0."""

A_DAY: Final = "(%(logarithms)s::float8[])[{level} + 1]"
"""The logarithm of the share of strength that is left after a day, by level."""

DAYS: Final = """CASE WHEN %(by_task)s
    THEN greatest(0, %(tasks)s - {decayed_at_task})::float8 / %(tasks_per_day)s
    ELSE greatest(0, date_part('epoch', %(now)s - {since})) / 86400 END"""
"""`days_of_decay`, from `since` until now, or over the tasks completed since."""

LEFT: Final = """CASE WHEN {strength} < 1e-200 THEN 0
    ELSE {strength} * exp(greatest(-200, least(200, {logarithm}))) END"""
"""`left_of`. PostgreSQL's power and products refuse what is too small for a float; this never is."""

DECAY: Final = "({days}) * {a_day}"
"""What `decayed` adds to `faded`: the logarithm of what so many days leave."""

DECAYED: Final = LEFT.format(strength="{strength}", logarithm=DECAY)
"""The strength of `decayed`."""

BY_CLOCK: Final = "least(0, ({clock})[{row}.consolidation_level + 1] - {row}.clock_then)"
"""`faded_by`; 0 for a row off the clock."""

OF_PERSPECTIVE: Final = LEFT.format(strength="{strength}", logarithm="{faded_now} - {faded_then}")
"""`perspective_strength`."""


def run_query(statement: str, values: Mapping[str, Any] | None = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def policy_values(policy: StrengthPolicy) -> dict[str, Any]:
    return {
        "thresholds": list(policy.consolidation_thresholds),
        "logarithms": [math.log(target) for target in policy.decay_targets],
        "by_task": policy.decay_clock == "task",
        "tasks_per_day": policy.expected_tasks_per_day,
        "archive_threshold": policy.archive_threshold,
        "most_active": policy.max_active_memories,
    }


# Index rows repeat these fields of a memory for searches to filter by. A test holds the list to the models.
FACETS: Final = (
    "kind", "namespace", "tags", "scope_level", "scope_domain", "scope_project", "status", "pinned",
    "valid_from", "valid_to", "created_at",
)  # fmt: skip

FADES_BY: Final = ("status", "pinned", "valid_from", "valid_to")
"""Rows of numbers repeat these fields, which decide whether a memory fades."""


def _columns(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


QUERIES: Final = load_queries(
    Path(__file__).with_name("queries.sql"),
    facets=", ".join(FACETS),
    fades_by=", ".join(FADES_BY),
    of_found=_columns("found", FACETS),
    of_memory=_columns("memory", FACETS),
    of_numbers=_columns("numbers", FADES_BY),
    of_fading=_columns("memory", FADES_BY),
    level_after_use=LEVEL.format(uses="access_count + 1"),
    perspective_now=OF_PERSPECTIVE.format(
        strength="perspective.strength", faded_now="numbers.faded", faded_then="perspective.faded"
    ),
    perspective_after_use=OF_PERSPECTIVE.format(
        strength="perspective.strength", faded_now="excluded.faded", faded_then="perspective.faded"
    ),
)

# What has begun to hold since the last sleep was not there for the tasks that were counted since.
_DAYS = f"""CASE WHEN numbers.pinned OR (%(by_task)s AND numbers.valid_from > numbers.last_decay_at) THEN 0 ELSE {
    DAYS.format(
        decayed_at_task="numbers.decayed_at_task", since="greatest(numbers.last_decay_at, numbers.valid_from)"
    )
} END"""
_A_DAY = A_DAY.format(level="numbers.consolidation_level")
# What the clock has taken so far, and what it will have taken after this night.
_BY_NOW = BY_CLOCK.format(clock="%(clock)s::float8[]", row="numbers")
_BY_NEXT = BY_CLOCK.format(clock="%(next)s::float8[]", row="numbers")
_TONIGHT = f"CASE WHEN clock_then IS NULL THEN {DECAY.format(a_day=_A_DAY, days=_DAYS)} ELSE {_BY_NEXT} END"


def _as_python_writes(column: str) -> str:
    text = f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"')"
    return f"replace({text}, '.000000', '')"


SLEEP_QUERIES: Final = load_queries(
    Path(__file__).with_name("sleep.sql"),
    level=LEVEL.format(uses="numbers.access_count"),
    by_now=_BY_NOW,
    by_next=_BY_NEXT,
    tonight=_TONIGHT,
    left_by_now=LEFT.format(strength="strength", logarithm=_BY_NOW),
    left_tonight=LEFT.format(strength="strength", logarithm=_TONIGHT),
    decayed=DECAYED.format(strength="numbers.strength", a_day=_A_DAY, days=_DAYS),
    valid_from_as_text=_as_python_writes("memory.valid_from"),
    valid_to_as_text=_as_python_writes("memory.valid_to"),
)

"""The formulas of `strength.domain.strength` as SQL, and the statements of `queries.sql` and `sleep.sql` that use them.

Each formula is a template over column names. `state` is the row of the actor's clock, `numbers` that of a memory; where
an actor has no clock yet, strengths are as they are stored. One parity test feeds both renderings the same cases.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from django.db import connection
from django.db.models import FloatField, Func

from memoryhub.db.prepared import prepared_cursor
from memoryhub.db.queries import load_queries
from memoryhub.search.query import relevance_formula
from strength.domain.memories import CURATED_FIELDS
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import MIN_STRENGTH, Clock

LEVEL: Final = "(width_bucket({uses}, %(thresholds)s::int[]) - 1)"
"""`consolidation_level`: thresholds reached, the first of which is 0."""

NOW: Final = """CASE WHEN {strength} < 1e-200 THEN 0
    ELSE {strength} * exp(greatest(-200, least(0, {clock} - {mark}))) END"""
"""`strength_now`. PostgreSQL's products refuse what is too small for a float; this never is."""

MARK: Final = """coalesce(state.clock[{level} + 1] + ({rates})[{level} + 1] * CASE WHEN {by_task}
    THEN greatest(0, {task} - state.clock_task)::float8
    ELSE greatest(0, date_part('epoch', {at} - state.clock_at)) / 86400 END, 0)"""
"""`Clock.mark`."""


SLACK: Final = 1e-9
"""Beyond what rounds differently: what the index finds due is compared with the threshold itself."""


class StrengthNow(Func):
    """A memory's strength now, over its stored strength, its mark, its level, and its actor's clock."""

    output_field = FloatField()

    def as_sql(self, compiler: Any, connection: Any, *_options: Any, **_context: Any) -> tuple[str, tuple[Any, ...]]:
        strength, mark, level, clock = (compiler.compile(each)[0] for each in self.get_source_expressions())
        return f"({NOW.format(strength=strength, mark=mark, clock=f'({clock})[{level} + 1]')})", ()


def run_query(statement: str, values: Mapping[str, Any] | None = None, *, server_prepared: bool = False) -> list[Any]:
    """Execute a statement and return its rows; `server_prepared` as in `PreparedQuery`."""
    with prepared_cursor() if server_prepared else connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def execute_all(statements: str, values: Mapping[str, Any]) -> int:
    """Execute statements in one round trip; return the row count of the last."""
    with connection.cursor() as cursor:
        cursor.execute(statements, values)
        while cursor.nextset():
            pass
        return int(cursor.rowcount)


def policy_values(policy: StrengthPolicy) -> dict[str, Any]:
    clock = Clock().with_rates(policy)
    return {"thresholds": list(policy.consolidation_thresholds), "rates": list(clock.rates), "by_task": clock.by_task}


def due_of(policy: StrengthPolicy) -> float:
    """Return the `due` of a memory at the archive threshold, where the clock has not advanced yet."""
    return math.log(max(policy.archive_threshold, MIN_STRENGTH)) + SLACK


# Fields of a memory that index rows copy, for filters of searches. A test compares the list with the models.
FACETS: Final = (
    "kind", "namespace", "tags", "scope_level", "scope_domain", "scope_project", "status", "pinned",
    "valid_from", "valid_to", "created_at",
)  # fmt: skip


def _columns(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def _of_numbers(template: str, **names: str) -> str:
    level = names.get("level", "numbers.consolidation_level")
    columns = {
        "strength": "numbers.strength",
        "mark": "numbers.mark",
        "level": level,
        "clock": f"state.clock[{level} + 1]",
        "rates": "state.rates",
        "by_task": "state.by_task",
        "at": "numbers.began_at",
        "task": "numbers.began_task",
    }
    return template.format(**{**columns, **names})


def _of_perspective(clock: str = "state.clock[numbers.consolidation_level + 1]") -> str:
    return NOW.format(strength="perspective.strength", mark="perspective.mark", clock=clock)


_NOW: Final = _of_numbers(NOW)
_BEFORE: Final = _of_numbers(NOW, clock="(coalesce(state.clock_before, state.clock))[numbers.consolidation_level + 1]")
_LEVEL: Final = LEVEL.format(uses="numbers.access_count")
_LEVEL_AFTER: Final = LEVEL.format(uses="(numbers.access_count + %(uses)s)")
# A given strength is valid from now on; decay starts with the memory's validity.
_STATED: Final = {
    "at": "CASE WHEN stated.strength IS NULL THEN numbers.began_at ELSE greatest(numbers.began_at, %(now)s) END",
    "task": "CASE WHEN stated.strength IS NULL THEN numbers.began_task ELSE coalesce(state.tasks_completed, 0) END",
}
_BEGUN: Final = {
    "at": "greatest(numbers.began_at, memory.valid_from, %(since)s::timestamptz)",
    "task": "coalesce(state.tasks_completed, 0)",
}

# For undoing a sleep that changed levels by new thresholds.
_LEVEL_BACK: Final = (
    "(CASE WHEN %(former_thresholds)s::int[] IS NULL OR numbers.slept_in IS DISTINCT FROM %(number)s"
    f" THEN numbers.consolidation_level ELSE {_LEVEL.replace('thresholds', 'former_thresholds')} END)"
)

# Strength that undoing the latest sleep restores: the recorded loss for rows changed since, else the computed one.
_TAKEN: Final = f"CASE WHEN numbers.slept_in = state.runs THEN numbers.taken ELSE ({_BEFORE}) - ({_NOW}) END"

# As Python writes it: without fractions at full seconds, else a revision would look like a change.
_ISO: Final = (
    """replace(to_char(memory.{name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), '.000000', '')"""
)

# A whole number has one decimal in Python's JSON, and none in PostgreSQL's.
_CONFIDENCE: Final = """CASE WHEN memory.confidence IN (0, 1) THEN to_jsonb(memory.confidence::numeric(2, 1))
    ELSE to_jsonb(memory.confidence) END"""
_AS_JSON: Final = {"valid_from": _ISO, "valid_to": _ISO, "confidence": _CONFIDENCE}

_SNAPSHOT: Final = ", ".join(
    f"'{name}', {_AS_JSON.get(name, 'memory.{name}').format(name=name)}" for name in CURATED_FIELDS
)

FRAGMENTS: Final = {
    # What `revisions.snapshot` returns.
    "snapshot": f"jsonb_build_object({_SNAPSHOT})",
    "in_profile": """(memory.status = 'active' AND NOT memory.pinned
        AND (memory.valid_from IS NULL OR memory.valid_from <= %(now)s)
        AND (memory.valid_to IS NULL OR memory.valid_to > %(now)s)
        AND (memory.scope_level <> 'project' OR %(project)s = '' OR memory.scope_project IN ('', %(project)s)))""",
    # Pinned, inactive, expired and not yet valid memories do not decay. The clock may be ahead of a late change.
    "fades": """(memory.status = 'active' AND NOT memory.pinned
        AND (memory.valid_to IS NULL OR memory.valid_to > greatest(%(now)s, state.clock_at))
        AND (memory.valid_from IS NULL OR memory.valid_from <= greatest(%(now)s, state.clock_at)))""",
    "strength_now": _NOW,
    "strength_before": _BEFORE,
    "perspective_now": _of_perspective(),
    "mark": _of_numbers(MARK),
    "level": _LEVEL,
    "taken": _TAKEN,
    # Columns for stopping decay, or storing the current strength, without an event.
    "current_strength": f"strength = {_NOW}, slept_in = state.runs, taken = coalesce({_TAKEN}, 0)",
}

QUERIES: Final = load_queries(
    Path(__file__).with_name("queries.sql"),
    **FRAGMENTS,
    facets=", ".join(FACETS),
    of_found=_columns("found", FACETS),
    of_memory=_columns("memory", FACETS),
    level_after=_LEVEL_AFTER,
    mark_after=_of_numbers(MARK, level=f"({_LEVEL_AFTER})", **_STATED),
    stated_at=_STATED["at"],
    stated_task=_STATED["task"],
    begun_at=_BEGUN["at"],
    begun_task=_BEGUN["task"],
    mark_begun=_of_numbers(MARK, **_BEGUN),
    perspective_of_seen=_of_perspective("(SELECT clock_then FROM changed WHERE memory_id = perspective.memory_id)"),
    perspective_of_changed=_of_perspective("changed.clock_then"),
    relevance=relevance_formula(similarity="similarity", words="word_score", weight="weight", low="low", high="high"),
)

# The profiles of several actors; each row of `owner` has an actor and the profile's size.
_PROFILE: Final = (
    QUERIES["profile_memories"].replace("%(actor_id)s", "owner.actor_id").replace("%(limit)s", "owner.most_shown")
)

SLEEP_QUERIES: Final = load_queries(
    Path(__file__).with_name("sleep.sql"),
    **FRAGMENTS,
    profile=_PROFILE,
    level_back=_LEVEL_BACK,
    mark_back=_of_numbers(MARK, level=_LEVEL_BACK),
)

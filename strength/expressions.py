"""The formulas of `strength.domain.strength` rendered for the database; one parity test feeds both the same cases.

Each is a piece of SQL over column names, with parameters by name; `policy_values` gives those of a policy.
"""

import math
from typing import Any, Final

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
"""`faded_by`; 0 for a row beside the clock."""

OF_PERSPECTIVE: Final = LEFT.format(strength="{strength}", logarithm="{faded_now} - {faded_then}")
"""`perspective_strength`."""


def policy_values(policy: StrengthPolicy) -> dict[str, Any]:
    """Return a policy as the parameters of these pieces."""
    return {
        "thresholds": list(policy.consolidation_thresholds),
        "logarithms": [math.log(target) for target in policy.decay_targets],
        "by_task": policy.decay_clock == "task",
        "tasks_per_day": policy.expected_tasks_per_day,
        "archive_threshold": policy.archive_threshold,
        "most_active": policy.max_active_memories,
    }

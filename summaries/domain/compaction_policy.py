"""When a project's documents are rewritten shorter, and how much shorter (SPEC P7)."""

from dataclasses import dataclass

from memoryhub.tenancy.domain import Policy, number, whole


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy(Policy):
    """The values that an agent or a user may override; documents are counted by o200k."""

    model_context_window: int = 200_000
    compaction_trigger: float = 0.10
    compaction_target: float = 0.60

    CHECKS = {
        "model_context_window": whole(4_000, 10_000_000),
        "compaction_trigger": number(0, 1, above=True),
        "compaction_target": number(0.1, 0.95),
    }

    @property
    def limit(self) -> int:
        """Return how many tokens a document may have before it is compacted."""
        return int(self.model_context_window * self.compaction_trigger)

    @property
    def target(self) -> int:
        """Return how many tokens it may have afterwards."""
        return int(self.limit * self.compaction_target)

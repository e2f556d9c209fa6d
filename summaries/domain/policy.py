"""Policies of summaries (SPEC U2, U3), of projects in contexts (P3, P5) and of compaction (P7).

An agent or a user may override each value.
"""

from dataclasses import dataclass
from typing import Final

from memoryhub.tenancy.domain import Policy, number, one_of, switch, whole

OFF: Final = "off"
AUTO: Final = "auto"


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy(Policy):
    """Triggers and size of session summaries; tokens are counted as the summarising model counts them."""

    summarizes: bool = True
    summary_trigger_message_count: int = 20
    summary_trigger_interval_seconds: int = 3600
    summary_max_messages: int = 100
    summary_max_tokens: int = 4000
    summary_output_limit: int = 500

    CHECKS = {
        "summarizes": switch(),
        "summary_trigger_message_count": whole(10, 10_000),
        "summary_trigger_interval_seconds": whole(300, 31_536_000),
        "summary_max_messages": whole(10, 1_000),
        "summary_max_tokens": whole(500, 1_000_000),
        "summary_output_limit": whole(100, 1_000),
    }


@dataclass(frozen=True, kw_only=True)
class ProjectPolicy(Policy):
    """Routing of messages to projects, and the share of projects in contexts; tokens are counted by o200k.

    `project_routing` `auto` also routes messages that name no project. `project_search_tokens` limits what contexts
    take of documents other than `MEMORY.md` and `pinned.md`; 0: nothing.
    """

    project_routing: str = OFF
    project_auto_create: bool = False
    routing_examples: int = 10
    routing_deadline_seconds: int = 20
    project_search_tokens: int = 1500

    CHECKS = {
        "project_routing": one_of(OFF, AUTO),
        "project_auto_create": switch(),
        "routing_examples": whole(0, 50),
        "routing_deadline_seconds": whole(1, 120),
        "project_search_tokens": whole(0, 20_000),
    }


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy(Policy):
    """Length from which documents are compacted, and their length afterwards; tokens are counted by o200k."""

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
        return int(self.model_context_window * self.compaction_trigger)

    @property
    def target(self) -> int:
        return int(self.limit * self.compaction_target)

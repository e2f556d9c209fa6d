"""Policies of summaries (SPEC U2, U3), of projects in contexts (P3, P5) and of compaction (P7).

An agent or a user may override each value.
"""

from dataclasses import dataclass
from typing import Final

from memoryhub.errors import _
from memoryhub.tenancy.policy import Policy, number, one_of, switch, whole

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

    TITLE = _("Session summaries")
    CHECKS = {
        "summarizes": switch().described(
            _("Automatic summaries"), _("sessions are summarised automatically; on request they are in any case")
        ),
        "summary_trigger_message_count": whole(10, 10_000).described(
            _("Messages until a summary"), _("a summary is due after so many messages since the last"), _("messages")
        ),
        "summary_trigger_interval_seconds": whole(300, 31_536_000).described(
            _("Time until a summary"), _("and after this time since the last, if there are new messages"), _("seconds")
        ),
        "summary_max_messages": whole(10, 1_000).described(
            _("Messages in one question"), _("the most messages in one question to the model"), _("messages")
        ),
        "summary_max_tokens": whole(500, 1_000_000).described(
            _("Tokens in one question"),
            _("the most tokens of such a question, its prompt included; longer conversations are rolled forward"),
            _("tokens"),
        ),
        "summary_output_limit": whole(100, 1_000).described(
            _("Longest summary"), _("the most tokens of a summary"), _("tokens")
        ),
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

    TITLE = _("Projects")
    CHECKS = {
        "project_routing": one_of({OFF: _("off"), AUTO: _("on")}).described(
            _("Routing of messages"), _("`auto`: contexts and chats that name no project are routed")
        ),
        "project_auto_create": switch().described(
            _("Automatic new projects"),
            _("a project that the router proposes is created at once, except for untrusted keys"),
        ),
        "routing_examples": whole(0, 50).described(
            _("Corrections as examples"), _("the most corrections that the router's model is shown"), _("corrections")
        ),
        "routing_deadline_seconds": whole(1, 120).described(
            _("Deadline of routing"),
            _("how long the router's model may take; after that, messages are routed by words"),
            _("seconds"),
        ),
        "project_search_tokens": whole(0, 20_000).described(
            _("Project documents in a context"),
            _("the most tokens of other documents than `MEMORY.md` and `pinned.md` in a context"),
            _("tokens"),
        ),
    }


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy(Policy):
    """Length from which documents are compacted, and their length afterwards; tokens are counted by o200k."""

    model_context_window: int = 200_000
    compaction_trigger: float = 0.10
    compaction_target: float = 0.60

    TITLE = _("Compaction of documents")
    CHECKS = {
        "model_context_window": whole(4_000, 10_000_000).described(
            _("The model's context window"),
            _("how many tokens the agent's model reads at most; documents are measured by it"),
            _("tokens"),
        ),
        "compaction_trigger": number(0, 1, above=True).described(
            _("Start of compaction"),
            _("the share of that window from which `MEMORY.md` and `timeline.md` are compacted"),
        ),
        "compaction_target": number(0.1, 0.95).described(
            _("Size after compaction"), _("the share of that limit which is left at most")
        ),
    }

    @property
    def limit(self) -> int:
        return int(self.model_context_window * self.compaction_trigger)

    @property
    def target(self) -> int:
        return int(self.limit * self.compaction_target)

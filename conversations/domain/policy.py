"""The settings of a context, their defaults and their ranges (SPEC X2), checked in one place.

User overrides agent overrides default; a call's options override all. Where the values are stored,
and what an HTTP error looks like, is not known here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from conversations.domain.client_talk import Unstored
from conversations.domain.layers import BY_NAME, PRECEDENCE
from conversations.domain.statements.languages import AUTO, is_setting
from memoryhub.errors import _, format_lazy
from memoryhub.tenancy.policy import Check, Input, Policy, PolicyError, number, one_of, switch, text, whole, words

AUTO_PLACEMENT: Final = "auto"
BEFORE_HISTORY: Final = "before_history"
WITH_USER_MESSAGE: Final = "with_user_message"

PLACEMENTS: Final = {
    AUTO_PLACEMENT: _("chosen automatically"),
    BEFORE_HISTORY: _("before the history"),
    WITH_USER_MESSAGE: _("with the message"),
}

OF_SESSION: Final = "session"
OF_USER: Final = "user"

WORKING_MEMORY_SCOPES: Final = {OF_USER: _("of all sessions of the user"), OF_SESSION: _("of the session alone")}

MIN_TOKENS_LIMIT: Final = 1_000
MAX_TOKENS_LIMIT: Final = 2**53
"""The largest whole number up to which a float is exact; beyond, the product with the margin is noise."""

MAX_SYSTEM_PROMPT_LENGTH: Final = 1_000_000
"""As a bound only: an agent's own prompt passes through here too, and must not be refused twice."""

MAX_INSTRUCTIONS: Final = 2_000
"""Characters of an operator's instructions for extraction, or for summaries."""

CACHED_GROWTH_FACTOR: Final = 3
"""By so many times its limit a cached conversation grows before it is cut back to its limit."""

MIN_PROFILE_TOKENS: Final = 400
"""Size of the profile where its share is less, about 20 memories."""

SHARE_TOLERANCE: Final = 1e-9
"""0.7 + 0.2 + 0.1 may come out a hair above 1."""

_SHARE: Final = number(0, 1, above=True)


def _are_valid_shares(value: Any) -> bool:
    """Return whether value is None or shares of known layers that sum to at most 1."""
    if value is None:
        return True
    if not isinstance(value, Mapping) or not set(value) <= set(PRECEDENCE):
        return False
    if not all(_SHARE.holds(share) for share in value.values()):
        return False
    return math.fsum(value.values()) <= 1 + SHARE_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class ContextPolicy(Policy):
    """Limits and options of a context, changed by `validated`; `layer_budgets` is None, or shares by layer."""

    system_prompt: str = ""
    working_memory_limit: int = 10
    working_memory_scope: str = OF_USER
    semantic_memory_limit: int = 5
    recall_limit: int = 100
    recall_share: float = 0.9
    profile_max_tokens: int = 10_000
    profile_share: float = 0.05
    semantic_relevance_floor: float = 0.1
    recall_relevance_floor: float = 0.02
    max_tokens: int = 100_000
    token_safety_margin: float = 0.8
    memory_placement: str = AUTO_PLACEMENT
    layer_budgets: Mapping[str, float] | None = None
    include_pinned: bool = True
    include_semantic_memory: bool = True
    include_profile: bool = True
    include_recall: bool = True
    include_project: bool = True
    include_session_summary: bool = True
    include_clock: bool = True
    include_relevance: bool = False
    include_tools: bool = True
    cache: bool = False

    TITLE = _("Contexts")
    CHECKS = {
        "system_prompt": text(MAX_SYSTEM_PROMPT_LENGTH).described(
            _("System prompt"), _("the operator's words; empty: the agent's `system_prompt`")
        ),
        "working_memory_limit": whole(1, 50).described(_("Latest turns"), _("latest turns in a context"), _("turns")),
        "working_memory_scope": one_of(WORKING_MEMORY_SCOPES).described(
            _("Sessions of the latest turns"),
            _("`user`: a short session gets turns of earlier ones too, from any channel; `session`: it does not"),
        ),
        "semantic_memory_limit": whole(1, 20).described(
            _("Related memories"), _("best related memories in a context"), _("memories")
        ),
        "recall_limit": whole(0, 200).described(
            _("Earlier messages"), _("best earlier messages in a context"), _("messages")
        ),
        "recall_share": _SHARE.described(
            _("Share of earlier messages"), _("the part of the usable token limit that earlier messages may fill")
        ),
        "profile_max_tokens": whole(0, 20_000).described(
            _("Size of the profile"), _("most tokens of the user's profile, whatever its share"), _("tokens")
        ),
        "profile_share": _SHARE.described(
            _("Share of the profile"),
            _(
                "the part of the usable token limit that the profile may fill, at least 400 tokens; while all memories "
                "of a user fit, all are in each context"
            ),
        ),
        "semantic_relevance_floor": number(0, 1).described(
            _("Lowest relevance of memories"),
            _("the best memory must reach it, and others also a third of the best one's"),
        ),
        "recall_relevance_floor": number(0, 1).described(
            _("Lowest relevance of earlier messages"),
            _("the best earlier message must reach it, and others a twentieth of it"),
        ),
        "max_tokens": whole(MIN_TOKENS_LIMIT, MAX_TOKENS_LIMIT).described(
            _("Token limit"), _("how many tokens the model reads at most"), _("tokens")
        ),
        "token_safety_margin": number(0.5, 0.95).described(
            _("Usable part of the token limit"),
            _("how much of the token limit a context may fill; the rest is kept free for the estimate’s error"),
        ),
        "memory_placement": one_of(PLACEMENTS).described(
            _("Place of the remembered block"),
            _("position of the remembered block; `auto`: with the message if `cache` is on, else before the history"),
        ),
        "layer_budgets": Check(
            _are_valid_shares,
            format_lazy(
                _("null, or shares above 0 that sum to at most 1, by layer: {layers}"), layers=", ".join(PRECEDENCE)
            ),
            Input.PARTS,
            parts={name: BY_NAME[name].label for name in PRECEDENCE},
        ).described(_("Shares of the layers"), _("shares of the limit by layer")),
        "include_pinned": switch().described(_("Pinned memories"), _("pinned memories in contexts")),
        "include_semantic_memory": switch().described(
            _("Related memories in contexts"), _("related memories in contexts")
        ),
        "include_profile": switch().described(
            _("Profile"), _("what is known about the user in contexts, for any message")
        ),
        "include_recall": switch().described(_("Earlier messages in contexts"), _("earlier messages in contexts")),
        "include_project": switch().described(_("Project memory"), _("project memory in contexts")),
        "include_session_summary": switch().described(_("Session summaries"), _("session summaries in contexts")),
        "include_clock": switch().described(_("Date and time"), _("the date and time before the message")),
        "include_relevance": switch().described(
            _("Relevance in the text"), _("the relevance of memories and earlier messages is written after them")
        ),
        "include_tools": switch().described(
            _("Calls of tools"), _("tool calls and their results as blocks; otherwise a line for each")
        ),
        "cache": switch().described(
            _("Contexts for caches"),
            _("contexts start with the same text in each turn, so that providers can cache them"),
        ),
    }

    def validated(self, /, **overrides: Any) -> Self:
        """Return this policy with checked overrides.

        Raises PolicyError naming every wrong key; unlike `from_overrides`, which is given the values
        of all policies together, an unknown key is one.
        """
        unknown = format_lazy(_("unknown; one of {known}"), known=", ".join(self.CHECKS))
        errors = {
            key: format_lazy(_("must be {allowed}"), allowed=self.CHECKS[key].allowed)
            if key in self.CHECKS
            else unknown
            for key, value in overrides.items()
            if key not in self.CHECKS or not self.CHECKS[key].holds(value)
        }
        if errors:
            raise PolicyError(errors)
        return replace(self, **overrides)

    OPERATOR_ONLY = frozenset({"system_prompt"})

    @property
    def most_turns(self) -> int:
        """Return the most turns of a session that a conversation has; with caching on it grows before it is cut."""
        return self.working_memory_limit + (self._step if self.cache else 0)

    @property
    def _step(self) -> int:
        return CACHED_GROWTH_FACTOR * self.working_memory_limit

    def window_start(self, seq: int) -> int:
        """Return the first shown `seq` of a session with `seq` as its `working_memory_limit`-th latest message.

        With caching on a multiple of a step, so that the conversation begins with the same message for many turns. No
        state is kept: the numbers alone decide.
        """
        return seq // self._step * self._step if self.cache else seq

    @property
    def placement(self) -> str:
        """Return the place of the remembered block: with the message where the history is to be cached."""
        if self.memory_placement != AUTO_PLACEMENT:
            return self.memory_placement
        return WITH_USER_MESSAGE if self.cache else BEFORE_HISTORY

    @property
    def profile_tokens(self) -> int:
        """Return the most tokens of the profile: its share of the limit, which small models get more of."""
        return min(self.profile_max_tokens, max(MIN_PROFILE_TOKENS, int(self.profile_share * self.token_limit)))

    @property
    def recall_tokens(self) -> int:
        return int(self.recall_share * self.token_limit)

    @property
    def has_stable_block(self) -> bool:
        """Return whether pinned memories and profile have a separate block before the history, to be cached."""
        return self.cache and self.placement == WITH_USER_MESSAGE

    @property
    def token_limit(self) -> int:
        """The most tokens a context may have: `int(max_tokens * token_safety_margin)`.

        The float product, cut off: 80000 for the defaults, but 56999 for 100000 × 0.57, as any client
        that computes the same expression gets. Rounding or decimals would differ from it by one.
        """
        return int(self.max_tokens * self.token_safety_margin)


MAX_DAYS: Final = 36_500


@dataclass(frozen=True, kw_only=True)
class SessionPolicy(Policy):
    """Idle time after which a session counts as ended (SPEC C5)."""

    session_idle_minutes: int = 60

    TITLE = _("Sessions")
    CHECKS = {
        "session_idle_minutes": whole(1, 43_200).described(
            _("Idle time"), _("after this time without a message a session is ended automatically"), _("minutes")
        )
    }


@dataclass(frozen=True, kw_only=True)
class WritingPolicy(Policy):
    """Language and instructions of models that write memories, summaries and entries of projects."""

    memory_language: str = AUTO
    extraction_instructions: str = ""
    summary_instructions: str = ""

    TITLE = _("Texts by models")
    CHECKS = {
        "memory_language": Check(is_setting, _("auto, agent, or a language tag such as en or pt-BR")).described(
            _("Language of memories"),
            _(
                "`auto`: memories, summaries and entries of projects are in the language of the messages that they "
                "come from; `agent`: in the agent's"
            ),
        ),
        "extraction_instructions": text(MAX_INSTRUCTIONS).described(
            _("Instructions for memories"),
            _("the operator's own rules, after those of the prompt, for what is remembered"),
        ),
        "summary_instructions": text(MAX_INSTRUCTIONS).described(
            _("Instructions for summaries"), _("the operator's own rules, after those of the prompt, for summaries")
        ),
    }
    OPERATOR_ONLY = frozenset({"extraction_instructions", "summary_instructions"})


@dataclass(frozen=True, kw_only=True)
class RetentionPolicy(Policy):
    """Days after which what was said is deleted (SPEC C8); 0: it is kept."""

    message_retention_days: int = 0
    session_retention_days: int = 0
    receipt_retention_days: int = 0
    retention_takes_memories: bool = False

    TITLE = _("Retention")
    CHECKS = {
        "message_retention_days": whole(0, MAX_DAYS).described(
            _("Messages"), _("messages are deleted after this time, by their own dates; 0: they are kept"), _("days")
        ),
        "session_retention_days": whole(0, MAX_DAYS).described(
            _("Sessions"),
            _("a session is deleted with its summary this long after its last message; 0: it is kept"),
            _("days"),
        ),
        "receipt_retention_days": whole(0, MAX_DAYS).described(
            _("Receipts"),
            _("receipts without an expectation are deleted after this time; 0: after that of the whole server"),
            _("days"),
        ),
        "retention_takes_memories": switch().described(
            _("With memories"),
            _("whether memories, summaries and project entries that rest on these messages alone are deleted as well"),
        ),
    }


@dataclass(frozen=True, kw_only=True)
class ChatPolicy(Policy):
    """Options of a chat call (SPEC B1, B3); without `chat_memory` the message is sent without a context."""

    chat_max_output_tokens: int = 4096
    chat_memory: bool = True
    chat_cache: bool = True
    chat_deadline_seconds: int = 120
    unstored_tags: tuple[str, ...] = (
        "additional_data", "attached_files", "environment_context", "environment_details", "system-reminder",
        "subagent_notification", "system_reminder", "turn_aborted", "user_instructions", "user_shell_command",
        "workspace_info",
    )  # fmt: skip
    unstored_openings: tuple[str, ...] = (
        "# AGENTS.md instructions",  # Codex
        "Another language model started to solve this problem and produced a summary",  # Codex
    )
    task_openings: tuple[str, ...] = (
        "### Task:",  # Open WebUI: titles, tags, suggested questions
        "Provide a concise, 5-word-or-less title for the conversation",  # LibreChat
        "Analyze this conversation and provide: 1. The detected language of the conversation",  # LibreChat
        "Hold on, before you continue I need you to write me a checkpoint of everything so far.",  # LibreChat
        "Hold on again, update your checkpoint.",  # LibreChat
        "Summarize this session for continuation.",  # Cline
        "Summarize the conversation so far, as described in the prompt instructions.",  # Cline, Roo Code
        "<role> Context Extraction Assistant </role>",  # LangChain's summaries of conversations
    )

    TITLE = _("Chat")
    CHECKS = {
        "chat_max_output_tokens": whole(1, 200_000).described(
            _("Longest answer"), _("the longest answer; a longer one is cut, and so refused"), _("tokens")
        ),
        "chat_memory": switch().described(
            _("Answers with memory"),
            _("whether messages are sent with their context; if not, with the system prompt only"),
        ),
        "chat_cache": switch().described(
            _("Chat for caches"),
            _("whether contexts of chats start with the same text in each turn, so that providers can cache them"),
        ),
        "chat_deadline_seconds": whole(5, 600).described(
            _("Deadline of an answer"),
            _("how long an answer may take, from the question to its last word"),
            _("seconds"),
        ),
        "unstored_tags": words().described(
            _("Tags of programs"),
            _(
                "what a program wraps in these tags inside a user's message is shown to the model, but not stored "
                "(only where the program keeps the conversation)"
            ),
        ),
        "unstored_openings": words().described(
            _("Notes of programs"),
            _(
                "a part of a user's message that begins like this is a program's: it is shown to the model, but not "
                "stored (only where the program keeps the conversation)"
            ),
        ),
        "task_openings": words().described(
            _("Tasks of programs"),
            _(
                "a question that begins like this is a program's, such as a title or a summary of its conversation: it "
                "is answered by the model alone, and not stored (only where the program keeps the conversation)"
            ),
        ),
    }

    def context_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's options with `cache` as in the policy, unless they set it or the block's place."""
        has_place = "memory_placement" in options
        return {**({"cache": True} if self.chat_cache and not has_place else {}), **options}

    @property
    def unstored(self) -> Unstored:
        return Unstored(self.unstored_tags, self.unstored_openings)


_OF_AGENTS: Final = ("system_prompt", "layer_budgets", "semantic_relevance_floor", "recall_relevance_floor")

CALL_OPTIONS: Final = tuple(name for name in ContextPolicy.CHECKS if name not in _OF_AGENTS)
"""What one call may set: the operator's words, shares and floors belong to the agent."""

DEFAULT_POLICY: Final = ContextPolicy()

"""When a session is summarised, and how much goes into it and comes out (SPEC U2, U3)."""

from dataclasses import dataclass

from memoryhub.tenancy.domain import Policy, switch, whole


@dataclass(frozen=True, kw_only=True)
class SummaryPolicy(Policy):
    """The values that an agent or a user may override; tokens are counted as the summarising model counts them."""

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

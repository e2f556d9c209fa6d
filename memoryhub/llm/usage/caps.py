"""Calls and daily caps of agents: pure rules, no Django, no clock (SPEC A9)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final
from uuid import UUID

from memoryhub.errors import _, format_lazy
from memoryhub.llm.tokens import Script
from memoryhub.tenancy.policy import Check, Policy, number, whole

OK: Final = "ok"
"""The outcome of a call that was answered; any other is an error's code."""

DEMO_PROVIDER: Final = "demo"
"""The provider of calls that came with the demo; nobody made or paid for them."""


DAY_SECONDS: Final = 86_400
MAX_HEADER_NUMBER: Final = 999_999_999_999_999
"""Greatest integer of a structured field (RFC 9651)."""


def _or_null(check: Check) -> Check:
    return replace(
        check,
        holds=lambda value: value is None or check.holds(value),
        allowed=format_lazy(_("null, or {allowed}"), allowed=check.allowed),
    )


@dataclass(frozen=True, kw_only=True)
class BudgetPolicy(Policy):
    """Daily caps of an agent's background work (a day of its zone); null means unlimited."""

    daily_spend_cap: float | None = None
    daily_token_cap: int | None = None

    TITLE = _("Spending")
    FOR_USERS = False
    CHECKS = {
        "daily_spend_cap": _or_null(number(0)).described(
            _("Cap of a day's spending"), _("US dollars, where prices are known; `null`: any amount"), _("US dollars")
        ),
        "daily_token_cap": _or_null(whole(0)).described(
            _("Cap of a day's tokens"), _("tokens read and written; `null`: any number"), _("tokens")
        ),
    }
    OPERATOR_ONLY = frozenset(CHECKS)

    @property
    def has_cap(self) -> bool:
        return self.daily_spend_cap is not None or self.daily_token_cap is not None


@dataclass(frozen=True, kw_only=True)
class UserBudgetPolicy(Policy):
    """Daily cap of the tokens of one user (a day of the agent's zone); null means unlimited."""

    user_daily_token_cap: int | None = None

    TITLE = _("Tokens of a user")
    CHECKS = {
        "user_daily_token_cap": _or_null(whole(0)).described(
            _("Cap of a user's tokens in a day"),
            _("tokens read and written for the user; then chat is refused until the next day. `null`: any number"),
            _("tokens"),
        )
    }
    OPERATOR_ONLY = frozenset(CHECKS)


@dataclass(frozen=True, slots=True)
class TokenQuota:
    """Tokens of a day that a key or a user may use, and has used; the next day begins in `seconds`."""

    name: str
    limit: int
    used: int
    seconds: int

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.limit

    @property
    def policy(self) -> str:
        """Return the item of the header `RateLimit-Policy`."""
        return f'"{self.name}";q={min(self.limit, MAX_HEADER_NUMBER)};qu="tokens";w={DAY_SECONDS}'

    @property
    def state(self) -> str:
        """Return the item of the header `RateLimit`."""
        remaining = min(max(0, self.limit - self.used), MAX_HEADER_NUMBER)
        return f'"{self.name}";r={remaining};t={self.seconds}'


@dataclass(frozen=True, slots=True)
class Spent:
    """Usage of a day: US dollars where prices are known, and tokens in and out."""

    cost: Decimal = Decimal(0)
    tokens: int = 0


def reached_cap(policy: BudgetPolicy, spent: Spent) -> str | None:
    """Return the name of the cap that is used up, or None; a cap of 0 is used up from the start."""
    if policy.daily_spend_cap is not None and spent.cost >= Decimal(str(policy.daily_spend_cap)):
        return "daily_spend_cap"
    if policy.daily_token_cap is not None and spent.tokens >= policy.daily_token_cap:
        return "daily_token_cap"
    return None


@dataclass(frozen=True, slots=True)
class Payer:
    """Agent charged for a call; `actor_id` is None where no actor is concerned, `key_id` where no key asked."""

    agent_id: str = ""
    actor_id: UUID | None = None
    key_id: UUID | None = None


NOBODY: Final = Payer()
"""The operator's own calls, such as filling a new embedding space."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a request by our own count.

    `estimated_tokens` is the calibrated estimate; `by_script` are raw counts of o200k_base. `is_plain` means that
    nothing but these texts was sent, so that the provider's count can be used for calibration.
    """

    estimated_tokens: int
    by_script: Mapping[Script, int]
    messages: int = 0
    is_plain: bool = False

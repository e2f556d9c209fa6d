"""Prices, calls and daily caps of agents: pure rules, no Django, no clock (SPEC A9)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Self
from uuid import UUID

from memoryhub.errors import _, format_lazy
from memoryhub.llm.tokens import Script
from memoryhub.tenancy.domain import Check, Policy, number, whole

OK: Final = "ok"
"""The outcome of a call that was answered; any other is an error's code."""

MILLION: Final = Decimal(1_000_000)
SMALLEST_COST: Final = Decimal("0.00000001")
MOST_DOLLARS: Final = 100_000


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
            _("Cap of a day's spending"),
            _("US dollars, where prices are known; `null`: any amount"),
            _("US dollars"),
        ),
        "daily_token_cap": _or_null(whole(0)).described(
            _("Cap of a day's tokens"), _("tokens read and written; `null`: any number"), _("tokens")
        ),
    }
    OPERATOR_ONLY = frozenset(CHECKS)

    @property
    def has_cap(self) -> bool:
        return self.daily_spend_cap is not None or self.daily_token_cap is not None


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


NEEDED_PRICES: Final = frozenset({"input", "output"})
CACHE_PRICES: Final = frozenset({"cache_read", "cache_write"})


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; `cache_read` and `cache_write` are of input that went through a cache."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


@dataclass(frozen=True)
class PriceList:
    """Prices by the beginning of a model's name; the longest that fits holds."""

    prices: Mapping[str, Price] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read `{"model": {"input": 3, "output": 15}}`; raises ValueError saying what is wrong where."""
        try:
            entries = json.loads(text, parse_float=Decimal)
        except ValueError:
            raise ValueError("it is not JSON") from None
        if not isinstance(entries, dict):
            raise ValueError("it is not a JSON object of models")
        prices = {name.strip().lower(): _price(name, entry) for name, entry in entries.items()}
        return cls(MappingProxyType(prices))

    def price_of(self, model: str) -> Price | None:
        name = model.strip().lower().rsplit("/", 1)[-1]
        fitting = [prefix for prefix in self.prices if name.startswith(prefix)]
        return self.prices[max(fitting, key=len)] if fitting else None

    def cost(
        self,
        model: str,
        *,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Decimal | None:
        """Return what so many tokens cost in US dollars, or None where the model has no price.

        The cache's tokens are among the input tokens.
        """
        price = self.price_of(model)
        if price is None:
            return None
        plain = input_tokens - cache_read_tokens - cache_write_tokens
        cached = price.cache_read * cache_read_tokens + price.cache_write * cache_write_tokens
        exact = (price.input * plain + cached + price.output * output_tokens) / MILLION
        return exact.quantize(SMALLEST_COST)


def _price(name: str, entry: Any) -> Price:
    if not name.strip():
        raise ValueError("a model has no name")
    if not isinstance(entry, dict) or not NEEDED_PRICES <= set(entry) <= NEEDED_PRICES | CACHE_PRICES:
        raise ValueError(
            f"{name!r} needs `input` and `output`, may have `cache_read` and `cache_write`, and no more"
        )
    for value in entry.values():
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= MOST_DOLLARS:
            raise ValueError(f"the prices of {name!r} must be numbers from 0 to {MOST_DOLLARS}")
    cached = dict.fromkeys(CACHE_PRICES, entry["input"])  # where nobody says otherwise
    return Price(**{part: Decimal(value) for part, value in {**cached, **entry}.items()})


@dataclass(frozen=True, slots=True)
class Payer:
    """Agent charged for a call; `actor_id` is None where no actor is concerned."""

    agent_id: str = ""
    actor_id: UUID | None = None


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

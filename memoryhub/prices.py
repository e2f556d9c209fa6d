"""Prices of models, as `MEMORYHUB_LLM_PRICES` gives them (SPEC A9). Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Self

MILLION: Final = Decimal(1_000_000)
SMALLEST_COST: Final = Decimal("0.00000001")
MAX_DOLLARS: Final = 100_000
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
        raise ValueError(f"{name!r} needs `input` and `output`, may have `cache_read` and `cache_write`, and no more")
    for value in entry.values():
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= MAX_DOLLARS:
            raise ValueError(f"the prices of {name!r} must be numbers from 0 to {MAX_DOLLARS}")
    cached = dict.fromkeys(CACHE_PRICES, entry["input"])  # default
    return Price(**{part: Decimal(value) for part, value in {**cached, **entry}.items()})

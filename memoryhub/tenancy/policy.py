"""Actor ids, and the values that agents and users may override: pure rules, no Django."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Self
from uuid import UUID, uuid5

from memoryhub.errors import Message, _, format_lazy
from memoryhub.look_alikes import looks
from memoryhub.zones import is_zone, zone_named

ACTOR_NAMESPACE = UUID("5b0f7a52-6c0e-5d0a-9a52-0a6c1d9f7e11")
MAX_AGENT_ID = 255
AGENT_ID_PATTERN = re.compile(rf"\A[-a-zA-Z0-9_]{{1,{MAX_AGENT_ID}}}\Z")
MAX_USER_ID = 255
MAX_WORDS: Final = 200
MAX_WORD_LENGTH: Final = 255


class Language(StrEnum):
    ENGLISH = "en"
    JAPANESE = "ja"


class Trust(StrEnum):
    """Trusted texts may enter contexts without a curator's approval (SPEC M10)."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


class Strategy(StrEnum):
    """A long-term strategy, by the name under which agents enable it (SPEC L2)."""

    SEMANTIC = "semantic"
    USER_PREFERENCE = "user_preference"
    SUMMARY = "summary"
    EPISODIC = "episodic"
    REFLECTION = "reflection"


STRATEGIES = tuple(each.value for each in Strategy)


class PolicyError(ValueError):
    """Policy overrides that cannot be used; `errors` maps each wrong key to what is wrong with it."""

    def __init__(self, errors: Mapping[str, Message]) -> None:
        self.errors = dict(errors)
        super().__init__("; ".join(f"{key}: {message}" for key, message in self.errors.items()))


@lru_cache(maxsize=4096)
def actor_id(agent_id: str, user_id: str = "") -> UUID:
    """Return the key of an agent's (or an agent's user's) actor; known without a look-up (SPEC A2)."""
    return uuid5(ACTOR_NAMESPACE, json.dumps([agent_id, user_id], ensure_ascii=False, separators=(",", ":")))


class Input(StrEnum):
    """Kind of form field for a policy's value."""

    SWITCH = "switch"
    WHOLE = "whole"
    NUMBER = "number"
    CHOICE = "choice"
    LINE = "line"
    PROSE = "prose"
    WORDS = "words"
    PARTS = "parts"


@dataclass(frozen=True)
class Check:
    """Validation of a policy value, with texts for error messages, forms and the reference.

    `holds` tests a value; `allowed` describes the valid ones. `choices` are the allowed words and their labels; `parts`
    the labels of the numbers in a mapping, or with `is_list` in a list. `described` sets title, meaning and unit.
    """

    holds: Callable[[Any], bool]
    allowed: Message
    input: Input = Input.LINE
    low: float | None = None
    high: float | None = None
    choices: Mapping[str, Message] = field(default_factory=dict)
    parts: Mapping[str, Message] = field(default_factory=dict)
    is_list: bool = False
    title: Message = ""
    meaning: Message = ""
    unit: Message = ""

    def described(self, title: Message, meaning: Message, unit: Message = "") -> "Check":
        return replace(self, title=title, meaning=meaning, unit=unit)


def whole(low: int, high: int | None = None) -> Check:
    """A whole number from `low` to `high` (no upper end when `high` is None)."""
    return Check(
        lambda value: _is_whole(value) and low <= value <= (high if high is not None else value),
        format_lazy(_("a whole number from {low} to {high}"), low=low, high=high)
        if high is not None
        else format_lazy(_("a whole number, {low} or more"), low=low),
        Input.WHOLE,
        low,
        high,
    )


def number(low: float, high: float | None = None, *, above: bool = False) -> Check:
    """A finite number from `low` (excluded when `above`) to `high`."""
    maximum = float("inf") if high is None else high
    if high is None:
        allowed = _("a number above {low}") if above else _("a number from {low}")
    else:
        allowed = _("a number above {low} to {high}") if above else _("a number from {low} to {high}")

    def holds(value: Any) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return (low < value if above else low <= value) and value <= maximum and value < 1e12  # false for NaN

    description = format_lazy(allowed, low=f"{low:g}", high="" if high is None else f"{high:g}")
    return Check(holds, description, Input.NUMBER, low, high)


def one_of(choices: Sequence[str] | Mapping[str, Message]) -> Check:
    """One of some words; a mapping gives their labels."""
    return Check(
        lambda value: value in choices if isinstance(value, str) else False,
        format_lazy(_("one of {choices}"), choices=", ".join(choices)),
        Input.CHOICE,
        choices=choices if isinstance(choices, Mapping) else {word: word for word in choices},
    )


def words() -> Check:
    return Check(
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) <= MAX_WORDS
            and all(isinstance(word, str) and 0 < len(word) <= MAX_WORD_LENGTH for word in value)
        ),
        _("a list of at most 200 texts of 1 to 255 characters"),
        Input.WORDS,
    )


def switch() -> Check:
    return Check(lambda value: isinstance(value, bool), _("true or false"), Input.SWITCH)


def text(max_length: int) -> Check:
    return Check(
        lambda value: isinstance(value, str) and len(value) <= max_length,
        format_lazy(_("a text of at most {most} characters"), most=max_length),
        Input.PROSE,
        high=max_length,
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Policy:
    """Base of the frozen dataclasses that hold policy values; CHECKS has one rule per overridable field."""

    TITLE: Message = ""
    CHECKS: Mapping[str, Check] = {}
    # Values that decide trust and prompts; a user's client must not change them.
    OPERATOR_ONLY: frozenset[str] = frozenset()
    # True if users may override the agent's values.
    FOR_USERS: bool = True
    # Recommended ranges, narrower than the allowed ones; `doctor` warns outside them.
    RECOMMENDED: Mapping[str, tuple[float, float]] = {}

    @classmethod
    def keys(cls) -> frozenset[str]:
        return frozenset(cls.CHECKS)

    @classmethod
    def from_overrides(cls, *layers: Mapping[str, Any]) -> Self:
        """Return the defaults overridden by each layer in turn (agent, then user, then call).

        Keys of other policies are ignored here (`check_overrides` refuses keys nobody knows).
        Raises PolicyError naming every value that is out of its range.
        """
        merged = {key: value for layer in layers for key, value in layer.items() if key in cls.CHECKS}
        errors = {
            key: format_lazy(_("must be {allowed}"), allowed=cls.CHECKS[key].allowed)
            for key, value in merged.items()
            if not cls.CHECKS[key].holds(value)
        }
        if errors:
            raise PolicyError(errors)
        frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()}
        return cls(**frozen)

    def unusual(self) -> dict[str, Message]:
        return {
            key: format_lazy(
                _("is {value}; {low} to {high} is recommended"),
                value=f"{getattr(self, key):g}",
                low=f"{low:g}",
                high=f"{high:g}",
            )
            for key, (low, high) in self.RECOMMENDED.items()
            if not low <= getattr(self, key) <= high
        }

    def values(self) -> dict[str, Any]:
        return {key: _plain(getattr(self, key)) for key in self.CHECKS}

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
        defaults = type(self)().values()
        return {key: value for key, value in self.values().items() if value != defaults[key]}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class TrustPolicy(Policy):
    """Sources that need a curator's approval (SPEC M10)."""

    untrusted_channels: tuple[str, ...] = ()
    confidence_floor: float = 0.5

    TITLE = _("Trust in sources")
    CHECKS = {
        "untrusted_channels": words().described(
            _("Untrusted channels"),
            _(
                "memories from these channels (in any case or width of letters) wait for a curator, and their "
                "messages are not recalled elsewhere"
            ),
        ),
        "confidence_floor": number(0, 1).described(
            _("Lowest confidence"), _("a memory written with a lower confidence is pending until a curator approves it")
        ),
    }
    OPERATOR_ONLY = frozenset(CHECKS)

    def trust(self, *, channel: str, source_is_trusted: bool) -> Trust:
        """Return the trust of a text from `channel`, written through a key that is trusted or not."""
        is_trusted = source_is_trusted and not self.doubts(channel)
        return Trust.TRUSTED if is_trusted else Trust.UNTRUSTED

    def doubts(self, channel: str) -> bool:
        """Return whether a channel is untrusted, or looks like one that is."""
        return any(looks(channel) & looks(each) for each in self.untrusted_channels)


@dataclass(frozen=True)
class SecretsPolicy(Policy):
    """Treatment of passwords, keys and tokens in texts that are stored (SPEC M13)."""

    secrets: str = "redact"

    KEEP: ClassVar = "keep"
    REVIEW: ClassVar = "review"
    TITLE = _("Secrets")
    CHECKS = {
        "secrets": one_of(
            {"redact": _("replace them"), REVIEW: _("keep them, and ask a curator"), KEEP: _("keep them")}
        ).described(
            _("Passwords, keys and tokens"),
            _(
                "`redact`: a mark is stored in place of a secret. `review`: the text is stored; its memory waits for a "
                "curator, its message is not recalled elsewhere. `keep`: the text is stored. Except with `keep`, a "
                "sentence that states a password is treated as with `review`"
            ),
        )
    }
    OPERATOR_ONLY = frozenset(CHECKS)


@dataclass(frozen=True)
class ZonePolicy(Policy):
    """Time zone in which days begin and dates are written, unless a message states its own offset."""

    time_zone: str = "UTC"

    TITLE = _("Time")
    CHECKS = {
        "time_zone": Check(is_zone, _("the name of a time zone, such as Asia/Tokyo")).described(
            _("Time zone"),
            _(
                "for days and dates in prompts, summaries, contexts, digests, timelines, nights and daily caps (for "
                "caps, the agent's)"
            ),
        )
    }

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.time_zone)

"""Triggers of a summary: by count, by time, at the end, by hand (SPEC U2)."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.tenancy.policy import PolicyError, Trust
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import Trigger, lowest_trust, trigger

POLICY = SummaryPolicy()
TWENTY = POLICY.summary_trigger_message_count
HOUR = POLICY.summary_trigger_interval_seconds


def standing(new: int, *, seconds: float = 0, ended: bool = False, **rest: bool) -> dict[str, Any]:
    return {"new_messages": new, "seconds_since": seconds, "has_ended": ended, **rest}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (standing(19), None),
        (standing(20), Trigger.COUNT),
        (standing(21), Trigger.COUNT),
        (standing(500), Trigger.COUNT),
        (standing(1, seconds=HOUR - 1), None),
        (standing(1, seconds=HOUR), Trigger.INTERVAL),
        (standing(0, seconds=10 * HOUR), None),
        (standing(5, seconds=-HOUR), None),
        (standing(20, seconds=-HOUR), Trigger.COUNT),
        (standing(1, ended=True), Trigger.END),
        (standing(0, ended=True), None),
        (standing(1, ended=True, has_summary=False), None),
        (standing(1, seconds=HOUR, has_summary=False), None),
        (standing(2, ended=True, has_summary=False), Trigger.END),
        (standing(1, has_summary=False, is_asked_for=True), Trigger.ASKED),
        (standing(0, is_asked_for=True), Trigger.ASKED),
        (standing(50, ended=True, seconds=HOUR, is_asked_for=True, is_locked=True), None),
    ],
)
def test_when_a_summary_is_due(given: dict[str, Any], expected: Trigger | None) -> None:
    assert trigger(POLICY, **given) is expected


def test_switched_off_only_who_asks_gets_one() -> None:
    off = SummaryPolicy(summarizes=False)
    assert trigger(off, **standing(500, seconds=HOUR, ended=True)) is None
    assert trigger(off, **standing(0, is_asked_for=True)) is Trigger.ASKED


@dataclass
class Talk:
    """A session and the summaries made of it, whose clock may go anywhere."""

    said: int = 0
    covered: int = 0
    written_at: float = 0.0
    summaries: list[tuple[Trigger, range]] = field(default_factory=list)

    def look(self, now: float, policy: SummaryPolicy, *, ended: bool = False) -> None:
        new, since = self.said - self.covered, now - self.written_at
        why = trigger(policy, **standing(new, seconds=since, ended=ended))
        if why is not None:
            self.summaries.append((why, range(self.covered + 1, self.said + 1)))
            self.covered, self.written_at = self.said, now


turns = st.lists(st.tuples(st.integers(1, 60), st.floats(-7_200, 7_200)), max_size=60)


@given(turns, st.integers(10, 40), st.integers(300, 7_200))
def test_whatever_the_turns_and_the_clock_each_message_is_in_one_summary_and_none_is_missed(
    batches: list[tuple[int, float]], count: int, interval: int
) -> None:
    policy = SummaryPolicy(summary_trigger_message_count=count, summary_trigger_interval_seconds=interval)
    talk, now = Talk(), 0.0
    for said, passed in batches:
        talk.said += said
        now += passed  # backwards as well
        before = len(talk.summaries)
        talk.look(now, policy)
        talk.look(now, policy)  # a second job for the same turn finds nothing to do
        assert len(talk.summaries) - before <= 1
        assert talk.said - talk.covered < count, "twenty new messages never wait for the next turn"
    talk.look(now, policy, ended=True)

    covered = [seq for _, seqs in talk.summaries for seq in seqs]
    assert covered == list(range(1, talk.said + 1))
    assert all(len(seqs) >= count for why, seqs in talk.summaries if why is Trigger.COUNT)


@given(st.integers(1, 200))
def test_turns_of_two_are_summarised_every_ten_turns(turns: int) -> None:
    talk = Talk()
    for _ in range(turns):
        talk.said += 2
        talk.look(0, POLICY)
    assert [len(seqs) for _, seqs in talk.summaries] == [TWENTY] * (turns // 10)


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("summary_trigger_message_count", 10, None),
        ("summary_trigger_interval_seconds", 300, None),
        ("summary_max_messages", 10, None),
        ("summary_max_tokens", 500, None),
        ("summary_output_limit", 100, 1000),
    ],
)
def test_values_out_of_range_are_refused(key: str, low: int, high: int | None) -> None:
    assert SummaryPolicy.from_overrides({key: low}).values()[key] == low
    for wrong in (low - 1, *([high + 1] if high else [])):
        with pytest.raises(PolicyError):
            SummaryPolicy.from_overrides({key: wrong})


def test_a_summary_is_as_trusted_as_its_least_trusted_source() -> None:
    assert lowest_trust([]) is Trust.TRUSTED
    assert lowest_trust([Trust.TRUSTED, "trusted"]) is Trust.TRUSTED
    assert lowest_trust([Trust.TRUSTED, "trusted", "untrusted"]) is Trust.UNTRUSTED
    assert lowest_trust([Trust.UNTRUSTED, "trusted"]) is Trust.UNTRUSTED

"""One deadline for all attempts, on a clock that only the test moves."""

from collections.abc import Callable

import pytest

from memoryhub.llm.errors import BadAnswer, ProviderError, ProviderRejected, ProviderTimeout, ProviderUnavailable
from memoryhub.llm.remote import Budget, Clock, call_with_retries, retry_after_seconds

BUDGET = Budget(deadline_seconds=60, attempt_timeout_seconds=20)


class Play:
    """A provider that fails as told, each attempt taking some seconds, and the clock it is measured by."""

    def __init__(self, *failures: ProviderError, seconds: float = 1.0) -> None:
        self.failures = list(failures)
        self.seconds = seconds
        self.now = 0.0
        self.timeouts: list[float] = []
        self.pauses: list[float] = []

    def attempt(self, timeout: float) -> str:
        self.timeouts.append(timeout)
        self.now += min(self.seconds, timeout)
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def run(self, budget: Budget = BUDGET) -> str:
        return call_with_retries(budget, self.attempt, Clock(now=lambda: self.now, sleep=self.sleep))


def unavailable(wait: float | None = None) -> ProviderUnavailable:
    return ProviderUnavailable("away", code="overloaded", retry_after_seconds=wait)


def test_a_first_success_is_returned_at_once() -> None:
    play = Play()

    assert play.run() == "answer"
    assert (play.timeouts, play.pauses) == ([20], [])


def test_pauses_grow() -> None:
    play = Play(unavailable(), unavailable())

    assert play.run() == "answer"
    assert play.pauses == [0.5, 1.0]


def test_an_attempt_gets_no_more_than_is_left() -> None:
    play = Play(unavailable(), unavailable(), seconds=20)

    assert play.run(Budget(deadline_seconds=50, attempt_timeout_seconds=20)) == "answer"
    assert play.timeouts == [20, 20, 8.5]


@pytest.mark.parametrize(
    "error",
    [
        ProviderRejected("no", code="rejected"),
        BadAnswer("what", code="not_finite", permanent=True),
        unavailable(wait=10.1),
    ],
)
def test_what_waiting_does_not_help_is_raised_at_once(error: ProviderError) -> None:
    play = Play(error)

    with pytest.raises(type(error)) as caught:
        play.run()
    assert caught.value is error
    assert len(play.timeouts) == 1


def test_a_pause_beyond_the_deadline_is_not_made() -> None:
    play = Play(unavailable(wait=5), seconds=2)

    with pytest.raises(ProviderUnavailable):
        play.run(Budget(deadline_seconds=6, attempt_timeout_seconds=6))
    assert play.pauses == []


def test_the_last_error_is_raised() -> None:
    last = ProviderTimeout("slow", code="timeout")

    with pytest.raises(ProviderTimeout) as caught:
        Play(unavailable(), unavailable(), last).run()
    assert caught.value is last


def test_no_time_left_is_a_timeout() -> None:
    with pytest.raises(ProviderTimeout):
        Play().run(Budget(deadline_seconds=0, attempt_timeout_seconds=1))


SENT = "Wed, 21 Oct 2026 07:28:00 GMT"
HEADERS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "3"}, 3.0),
    ({"retry-after": "3", "retry-after-ms": "250"}, 0.25),
    ({"retry-after": "1e9"}, 3600.0),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "soon"}, None),
    ({"date": SENT, "retry-after": "Wed, 21 Oct 2026 07:28:03 GMT"}, 3.0),
    ({"date": SENT, "retry-after": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.0),
    ({"date": SENT, "retry-after": "Wed, 21 Oct 2026 07:28:03 -0000"}, None),
    ({"retry-after": SENT}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), HEADERS)
def test_retry_after_seconds(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


@pytest.mark.parametrize(
    ("make", "permanent"),
    [
        (lambda: ProviderUnavailable("m", code="c"), False),
        (lambda: ProviderTimeout("m", code="c"), False),
        (lambda: ProviderRejected("m", code="c"), True),
        (lambda: BadAnswer("m", code="c"), False),
        (lambda: ProviderUnavailable("m", code="c", permanent=True), True),
        (lambda: ProviderRejected("m", code="c", permanent=False), False),
    ],
)
def test_an_error_says_whether_it_is_permanent(make: Callable[[], ProviderError], permanent: bool) -> None:
    assert make().permanent is permanent

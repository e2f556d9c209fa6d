"""Pauses grow over a day; then, or where the receiver is gone, the endpoint is disabled."""

from datetime import UTC, datetime, timedelta

import pytest

from memoryhub.webhooks.domain.retries import GIVE_UP_AFTER, PAUSES, after_failure, is_delivered

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "expected"), [(200, True), (204, True), (299, True), (302, False), (500, False), (None, False)]
)
def test_delivered_is_what_was_answered_with_success(status: int | None, expected: bool) -> None:
    assert is_delivered(status) is expected


def test_pauses_grow_and_the_last_attempt_is_after_a_day() -> None:
    at, failures, since, attempts = NOW, 0, None, 0
    while True:
        after = after_failure(failures=failures, failing_since=since, status=500, now=at)
        attempts += 1
        failures, since = after.failures, after.failing_since
        if after.retry_at is None:
            break
        assert after.retry_at - at <= PAUSES[min(failures - 1, len(PAUSES) - 1)]
        at = after.retry_at
    assert at - NOW == GIVE_UP_AFTER
    assert 10 <= attempts <= 20


def test_receiver_that_is_gone_is_disabled_at_once() -> None:
    assert after_failure(failures=0, failing_since=None, status=410, now=NOW).retry_at is None


def test_late_failure_is_the_last() -> None:
    after = after_failure(failures=3, failing_since=NOW - timedelta(days=2), status=None, now=NOW)
    assert (after.failures, after.retry_at) == (4, None)

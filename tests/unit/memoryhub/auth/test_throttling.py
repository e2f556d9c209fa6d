"""Calls in the last minute: as a list of their moments would say, to the second, and across processes."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.auth.throttling import WINDOW_SECONDS, CallCounter, Window, limit_headers

GAPS = st.lists(st.one_of(st.just(0.0), st.floats(0, 2), st.floats(0, 90)), max_size=80)


@given(GAPS, st.integers(1, 6))
def test_lets_in_as_many_as_fit_into_a_minute(gaps: list[float], most: int) -> None:
    window, now, allowed = Window(), 1_000_000.0, list[float]()
    for gap in gaps:
        now += gap
        recent = [each for each in allowed if int(each) > int(now) - WINDOW_SECONDS]
        wait = window.count(now, most).wait
        assert (wait == 0) == (len(recent) < most)
        if wait:
            assert int(now + wait) >= int(recent[0]) + WINDOW_SECONDS
            assert wait <= WINDOW_SECONDS
        else:
            allowed.append(now)


def test_a_refused_call_is_let_in_after_the_wait_it_was_told() -> None:
    window = Window()
    for second in range(3):
        assert window.count(100.5 + second, 3).wait == 0
    wait = window.count(103.2, 3).wait
    assert window.count(103.2 + wait, 3).wait == 0
    assert window.count(103.2 + wait, 3).wait > 0


def test_a_clock_that_is_set_back_forgets_nothing() -> None:
    window = Window()
    assert window.count(1_000.0, 1).wait == 0
    assert window.count(400.0, 1).wait > 0


def test_a_clock_that_was_years_ahead_keeps_nobody_out() -> None:
    window = Window()
    assert window.count(1.8e9, 2).wait == 0
    assert [window.count(1.7e9 + second, 2).is_exceeded for second in range(3)] == [False, False, True]
    assert window.count(1.7e9 + WINDOW_SECONDS + 1, 2).wait == 0


@pytest.mark.parametrize("left", [b"", b"torn", bytes(8 * WINDOW_SECONDS)])
def test_a_file_that_is_not_whole_begins_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "one").write_bytes(left)
    counter = CallCounter(tmp_path)
    assert [counter.count("one", now=5.0, limit=2).is_exceeded for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("is_shared", [True, False])
def test_callers_are_counted_apart(tmp_path: Path, is_shared: bool) -> None:
    counter = CallCounter(tmp_path if is_shared else None)
    assert [counter.count("one", now=5.0, limit=2).is_exceeded for _ in range(3)] == [False, False, True]
    assert not counter.count("other", now=5.0, limit=2).is_exceeded


def test_processes_lose_no_call(tmp_path: Path) -> None:
    calls = (
        "import sys; from pathlib import Path; import django; django.setup();"
        "from memoryhub.auth.throttling import CallCounter;"
        "counter = CallCounter(Path(sys.argv[1]));"
        "print(sum(not counter.count('one', now=5.0, limit=700).is_exceeded for _ in range(300)))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", calls, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert sum(int(process.communicate(timeout=300)[0]) for process in processes) == 700


def test_a_quota_reports_what_is_left_until_the_oldest_call_leaves() -> None:
    window = Window()
    told = [window.count(now, 3) for now in (100.0, 110.0, 159.4, 159.4, 160.0)]
    assert [(quota.remaining, math.ceil(quota.seconds), quota.is_exceeded) for quota in told] == [
        (2, 60, False), (1, 50, False), (0, 1, False), (0, 1, True), (0, 10, False),
    ]  # fmt: skip
    assert limit_headers([told[0]]) == {"RateLimit-Policy": '"key";q=3;w=60', "RateLimit": '"key";r=2;t=60'}


def test_calls_at_other_hosts_count_until_the_next_exchange() -> None:
    window = Window()
    assert window.count(100.0, 5).is_exchange_due
    assert not window.count(100.9, 5).is_exchange_due
    window.exchange(2)
    assert (window.total, window.count(101.0, 5).remaining, window.count(101.0, 5).is_exceeded) == (2, 0, True)
    window.exchange(0)
    assert window.count(102.0, 5).remaining == 1

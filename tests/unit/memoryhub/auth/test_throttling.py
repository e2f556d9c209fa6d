"""Calls in the last minute: as a list of their moments would say, to the second, and across processes."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.auth.throttling import WINDOW_SECONDS, CallCounter, Window

GAPS = st.lists(st.one_of(st.just(0.0), st.floats(0, 2), st.floats(0, 90)), max_size=80)


@given(GAPS, st.integers(1, 6))
def test_lets_in_as_many_as_fit_into_a_minute(gaps: list[float], most: int) -> None:
    window, now, allowed = Window(), 1_000_000.0, list[float]()
    for gap in gaps:
        now += gap
        recent = [each for each in allowed if int(each) > int(now) - WINDOW_SECONDS]
        wait = window.count(now, most)
        assert (wait == 0) == (len(recent) < most)
        if wait:
            assert int(now + wait) >= int(recent[0]) + WINDOW_SECONDS
            assert wait <= WINDOW_SECONDS
        else:
            allowed.append(now)


def test_a_refused_call_is_let_in_after_the_wait_it_was_told() -> None:
    window = Window()
    for second in range(3):
        assert window.count(100.5 + second, 3) == 0
    wait = window.count(103.2, 3)
    assert window.count(103.2 + wait, 3) == 0
    assert window.count(103.2 + wait, 3) > 0


def test_a_clock_that_is_set_back_forgets_nothing() -> None:
    window = Window()
    assert window.count(1_000.0, 1) == 0
    assert window.count(400.0, 1) > 0


def test_a_clock_that_was_years_ahead_keeps_nobody_out() -> None:
    window = Window()
    assert window.count(1.8e9, 2) == 0
    assert [window.count(1.7e9 + second, 2) > 0 for second in range(3)] == [False, False, True]
    assert window.count(1.7e9 + WINDOW_SECONDS + 1, 2) == 0


@pytest.mark.parametrize("left", [b"", b"torn", bytes(8 * WINDOW_SECONDS)])
def test_a_file_that_is_not_whole_begins_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "one").write_bytes(left)
    counter = CallCounter(tmp_path)
    assert [counter.count("one", now=5.0, limit=2) > 0 for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("is_shared", [True, False])
def test_callers_are_counted_apart(tmp_path: Path, is_shared: bool) -> None:
    counter = CallCounter(tmp_path if is_shared else None)
    assert [counter.count("one", now=5.0, limit=2) > 0 for _ in range(3)] == [False, False, True]
    assert counter.count("other", now=5.0, limit=2) == 0


def test_processes_lose_no_call(tmp_path: Path) -> None:
    calls = (
        "import sys; from pathlib import Path; import django; django.setup();"
        "from memoryhub.auth.throttling import CallCounter;"
        "counter = CallCounter(Path(sys.argv[1]));"
        "print(sum(counter.count('one', now=5.0, limit=700) == 0 for _ in range(300)))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", calls, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert sum(int(process.communicate(timeout=300)[0]) for process in processes) == 700

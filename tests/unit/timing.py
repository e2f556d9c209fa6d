"""Processor time of calls, compared with a fixed computation: a machine that is busy or slow fails no test."""

import gc
import time
from collections.abc import Callable
from typing import Final

LENGTH: Final = 10_000
MAX_SECONDS: Final = 0.01
MAX_RATIO: Final = 2.5
MEASURABLE_SECONDS: Final = 0.002
QUIET_REFERENCE_SECONDS: Final = 0.008
_CONFIRMING_RUNS: Final = 15
ENDING: Final = "\x00!"
"""What no pattern ends with, so that each attempt fails at the end of the repeats."""


def growth_problem(call: Callable[[str], object], unit: str, *, seconds: float = MAX_SECONDS) -> str | None:
    """Return what is wrong with the time of a call on repeats of a unit; None where it is linear and short.

    Starts with short texts, so that an exponential one is found soon. Processor time of this thread, the shortest of
    several runs: what else the machine does counts little. The limit is one of a quiet machine: a call that exceeds it
    is compared with a fixed computation, timed beside it.
    """
    for length in (16, 32, 64, 256, 1024):
        if is_over(_time(call, unit, length, limit=seconds), seconds):
            return f"over {seconds * 1000:.0f} ms for {length} characters of {unit!r}"
    if _time(call, unit, LENGTH // 8, limit=seconds / 80) < seconds / 80:
        return None  # quadratic, it would take less than the limit at the full length
    half = _time(call, unit, LENGTH // 2, limit=seconds)
    whole = half if is_over(half, seconds) else _time(call, unit, LENGTH, limit=seconds)
    if is_over(whole, seconds):
        return f"over {seconds * 1000:.0f} ms for {LENGTH} characters of {unit!r}: {whole * 1000:.0f} ms"
    if whole > MEASURABLE_SECONDS and whole > MAX_RATIO * half:
        runs = [(_time(call, unit, LENGTH // 2), _time(call, unit, LENGTH)) for _ in range(_CONFIRMING_RUNS)]
        half, whole = map(min, zip(*runs, strict=True))
        if whole > MAX_RATIO * half:
            return f"{whole / half:.1f} times as long for twice the text of {unit!r}"
    return None


def time_problem(call: Callable[[], object], *, seconds: float) -> str | None:
    """Return what is wrong with the time of a call; None where its shortest run is within the limit of a quiet machine."""
    taken = _shortest(call, seconds)
    return f"{taken:.2f} s, over {seconds} s" if is_over(taken, seconds) else None


def is_over(taken: float, seconds: float) -> bool:
    """Return whether processor time exceeds the limit of a quiet machine by more than this machine is slower now."""
    return taken > seconds and taken > seconds * _reference_seconds() / QUIET_REFERENCE_SECONDS


def _reference_seconds() -> float:
    """Return the seconds of a fixed computation in plain Python, which tell how slow this machine is now."""
    return min(_time(lambda text: [text[at : at + 2] for at in range(len(text))], "a", 100_000) for _ in range(5))


def _time(call: Callable[[str], object], unit: str, length: int, *, limit: float | None = None) -> float:
    """Return the seconds of a call on repeats of a unit."""
    text = (unit * (length // len(unit) + 1))[:length] + ENDING
    return _shortest(lambda: call(text), limit)


def _shortest(call: Callable[[], object], limit: float | None) -> float:
    """Return the seconds of a call; of up to three where one takes longer than the limit."""
    best = float("inf")
    gc.disable()  # a collection walks all objects of the tests
    try:
        for _ in range(3):
            begin = time.thread_time()
            call()
            best = min(best, time.thread_time() - begin)
            if limit is None or best <= limit or best > 20 * limit:
                break
    finally:
        gc.enable()
    return best

"""Callers take turns: no caller has more than its share of a process, and none waits behind another's queue."""

import os
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from memoryhub.db.turns import ACTIVE_SECONDS, BURST, MAX_DEBT, PACE, Activity, TooManyRequests, Turns
from memoryhub.runtime.processes import wait_until


class Callers:
    """Requests that each take a turn in a thread; `running` names their callers in the order in which they began."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.running = turns, list[str]()
        self.threads = list[threading.Thread]()

    def wait(self, *callers: str) -> None:
        """Start requests that have to wait, one after another."""
        for caller in callers:
            before = self.waiting
            self.threads.append(threading.Thread(target=self._run, args=(caller,)))
            self.threads[-1].start()
            assert wait_until(lambda known=before: self.waiting > known, timeout_seconds=10)

    def _run(self, caller: str) -> None:
        self.turns.take(caller)
        self.running.append(caller)

    @property
    def waiting(self) -> int:
        return sum(map(len, list(self.turns._queues.values())))

    def began(self, count: int) -> list[str]:
        assert wait_until(lambda: len(self.running) >= count, timeout_seconds=10)
        return self.running


@pytest.fixture
def callers() -> Iterator[Callers]:
    """Three places, two of one caller; each look at the clock is a minute later, so that only running ones are active."""
    clock = map((60.0).__mul__, count(1)).__next__
    callers = Callers(Turns(places=3, each=2, waiting=2, clock=clock, worked=lambda: 0.0, activity=Activity()))
    yield callers
    for thread in callers.threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_caller_has_its_share_and_others_the_rest(callers: Callers) -> None:
    turns = callers.turns
    turns.take("busy")
    turns.take("busy")
    callers.wait("busy")
    turns.take("other")  # at once, as a place is left
    turns.give_back("other", turns._worked())
    assert callers.running == [], "the place that is left is for others"
    turns.give_back("busy", turns._worked())
    assert callers.began(1) == ["busy"]


def test_the_caller_of_which_fewest_run_is_next(callers: Callers) -> None:
    turns = callers.turns
    for caller in ("busy", "busy", "slow"):
        turns.take(caller)
    callers.wait("busy", "busy", "new", "newer")
    turns.give_back("busy", turns._worked())
    assert callers.began(1) == ["new"]
    turns.give_back("slow", turns._worked())
    assert callers.began(2) == ["new", "newer"]
    turns.give_back("new", turns._worked())
    turns.give_back("newer", turns._worked())
    assert callers.running == ["new", "newer"], "one of each while there is another"
    turns.give_back("busy", turns._worked())
    assert callers.began(4) == ["new", "newer", "busy", "busy"]


def test_what_exceeds_the_queue_is_refused_and_the_queue_is_kept(callers: Callers) -> None:
    turns = callers.turns
    turns.take("busy")
    turns.take("busy")
    callers.wait("busy", "busy")
    with pytest.raises(TooManyRequests):
        turns.take("busy")
    assert callers.waiting == 2
    turns.take("other")
    turns.give_back("other", turns._worked())
    for number in (1, 2):
        turns.give_back("busy", turns._worked())
        callers.began(number)


def test_a_request_that_goes_on_is_never_refused(callers: Callers) -> None:
    turns = callers.turns
    for _ in range(2):
        turns.take("busy")
    callers.wait("busy", "busy")
    turns.give_back("busy", turns._worked())  # as before a call of a model
    callers.began(1)
    going_on = threading.Thread(target=turns.take, args=("busy",), kwargs={"again": True})
    callers.threads.append(going_on)
    going_on.start()
    assert wait_until(lambda: callers.waiting == 2, timeout_seconds=10)
    for number in (2, 2):
        turns.give_back("busy", turns._worked())
        callers.began(number)
    assert turns._queues == {}


def test_active_callers_divide_the_share_until_a_second_after_their_key_was_accepted() -> None:
    now = [10.0]
    callers = Callers(Turns(places=6, each=4, waiting=9, clock=lambda: now[0], worked=lambda: 0.0, activity=Activity()))
    turns = callers.turns
    turns.take("light")
    turns.give_back("light", turns._worked())
    turns.note("light")
    turns.note("busy")
    for _ in range(2):
        turns.take("busy")
    callers.wait("busy", "busy", "busy")
    assert callers.running == [], "half of four"
    now[0] = 11.5
    turns.give_back("busy", turns._worked())
    assert callers.began(3) == ["busy"] * 3
    for thread in callers.threads:
        thread.join(10)


def test_a_caller_that_worked_for_long_pauses_while_others_are_active() -> None:
    now, worked = [10.0], [0.0]
    turns = Turns(places=6, each=4, waiting=9, clock=lambda: now[0], worked=lambda: worked[0], activity=Activity())
    callers = Callers(turns)
    since = turns.take("busy")
    worked[0] += 2 * BURST
    turns.give_back("busy", since)
    turns.take("busy")  # at once, as it is alone
    turns.give_back("busy", worked[0])
    for name in ("busy", "light"):
        turns.note(name)
    turns.take("light")
    assert turns.pause("light") == 0
    assert turns.pause("busy") == pytest.approx(BURST / PACE)
    callers.wait("busy")
    assert callers.running == []
    now[0] += BURST / PACE
    assert callers.began(1) == ["busy"], "without another request that ends"
    for thread in callers.threads:
        thread.join(10)


def test_what_a_body_costs_is_charged_before_it_is_read() -> None:
    turns = Turns(places=6, each=4, waiting=9, clock=lambda: 10.0, activity=Activity())
    turns.charge("busy", MAX_DEBT + 1)
    turns.note("busy")
    assert turns.pause("busy") == 0, "it is alone"
    turns.note("light")
    assert turns.pause("busy") == pytest.approx((MAX_DEBT - BURST) / PACE)


def test_processes_know_of_each_others_callers() -> None:
    activity = Activity()
    activity.note("here", 10.0)
    child = os.fork()
    if not child:
        activity.note("there", 10.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert activity.count(10.5) == 2
    assert activity.count(10.0 + ACTIVE_SECONDS) == 0

"""Halving what a model cannot deal with."""

from collections.abc import Sequence

import pytest

from memoryhub.llm.client import A_TIMEOUT, MAX_BAD_ATTEMPTS, complete_in_halves
from memoryhub.llm.errors import BadAnswer, ProviderRejected

IMPATIENT = MAX_BAD_ATTEMPTS - 1


class Model:
    """Answers with the items; refuses whatever holds the bad one."""

    def __init__(self, error: Exception, bad: int = 1) -> None:
        self.asked: list[list[int]] = []
        self._error, self._bad = error, bad

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.asked.append(list(items))
        if self._bad in items:
            raise self._error
        return list(items)


def refusal() -> ProviderRejected:
    return ProviderRejected("refused", code="refused")


def test_a_refusal_is_halved_down_to_the_item_which_is_skipped() -> None:
    model = Model(refusal())
    items, answer, error = complete_in_halves([1, 2, 3, 4, 5], model, bad_attempts=0)
    assert model.asked == [[1, 2, 3, 4, 5], [1, 2], [1]]
    assert (list(items), answer, getattr(error, "code", None)) == ([1], None, "refused")


def test_the_half_before_the_bad_item_is_answered() -> None:
    assert complete_in_halves([1, 2, 3, 4], Model(refusal(), bad=3), bad_attempts=0) == ([1, 2], [1, 2], None)


@pytest.mark.parametrize(("timeouts", "size"), [(1, 4), (2, 2), (3, 1), (30, 1)])
def test_each_attempt_that_ended_by_a_deadline_halves_what_is_asked(timeouts: int, size: int) -> None:
    items = list(range(2, 10))
    assert complete_in_halves(items, Model(refusal()), bad_attempts=timeouts * A_TIMEOUT)[0] == items[:size]


def test_a_request_refused_for_its_form_fails_the_attempt() -> None:
    with pytest.raises(ProviderRejected):
        complete_in_halves([1, 2], Model(ProviderRejected("form", code="invalid_request")), bad_attempts=IMPATIENT)


def test_unusable_answers_are_halved_after_the_patient_attempts_only() -> None:
    model = Model(BadAnswer("bad", code="bad_answer"))
    with pytest.raises(BadAnswer):
        complete_in_halves([1, 2], model, bad_attempts=IMPATIENT - 1)
    assert complete_in_halves([1, 2], model, bad_attempts=IMPATIENT)[1] is None


def test_nothing_is_skipped_where_the_control_is_answered_badly_as_well() -> None:
    model = Model(BadAnswer("bad", code="bad_answer"))
    with pytest.raises(BadAnswer):
        complete_in_halves([1], model, bad_attempts=IMPATIENT, control=lambda: model([1]))

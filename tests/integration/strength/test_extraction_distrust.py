"""A model that often fails the checks: all that it draws waits, until it does better or a person says so (SPEC L6)."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition
from strength.actions.distrust import diagnose, recent_failures
from strength.models import Memory
from tests.fakes.llm_server import LLMServer
from tests.integration.strength.conftest import BY, NOW
from tests.integration.strength.talking import Model, item, read, talk

pytestmark = pytest.mark.django_db

NAMES = [f"{first}{second}lin" for first in "BDFGK" for second in ("a", "e", "i", "o", "u")]
JOBS = (
    "nurse", "baker", "pilot", "farmer", "tailor", "plumber", "lawyer", "dentist", "painter", "barber", "joiner",
    "florist", "jeweller", "optician",
)  # fmt: skip


@pytest.fixture
def draws(actor: Actor, llm: LLMServer) -> Callable[..., Memory]:
    """Return a function that lets a model draw one statement from one message, true or with a name that nobody said."""
    days = iter(range(len(JOBS)))

    def draw(*, is_true: bool, channel: str = "web") -> Memory:
        day = next(days)
        at, name, job = NOW + timedelta(days=day), NAMES[day], JOBS[day]
        talk(actor, f"My friend {name} works as a {job} now.", channel=channel, at=at)
        Model(llm, {"facts": [item(f"The user's friend {name if is_true else 'Zorro'} works as a {job}.")]})
        read(actor, now=at + timedelta(hours=1))
        return Memory.objects.of([actor.id]).latest("created_at")

    return draw


def reason(memory: Memory) -> str | None:
    doubt = memory.revisions.get(number=1).beside.get("doubt")
    return doubt[0] if doubt else None


def test_what_is_true_waits_once_much_else_failed_and_no_longer_afterwards(
    actor: Actor, draws: Callable[..., Memory]
) -> None:
    first = [draws(is_true=True), draws(is_true=True)]
    assert [each.status for each in first] == ["active", "active"]
    wrong = [draws(is_true=False) for _ in range(2)]
    assert [(each.status, reason(each)) for each in wrong] == [("pending", "name")] * 2

    held = draws(is_true=True)
    assert (held.status, reason(held)) == ("pending", "unreliable"), "two of five failed"
    later = draws(is_true=True)
    assert (later.status, reason(later)) == ("active", None), "two of six: what waits for the model alone passed"


def test_an_approval_is_a_pass_and_a_rejection_a_failure(actor: Actor, draws: Callable[..., Memory]) -> None:
    wrong = [draws(is_true=False) for _ in range(2)]
    right = [draws(is_true=True) for _ in range(2)]
    for memory in wrong:
        apply_transition(memory=memory, verb="approve", by=BY, reason="", now=NOW + timedelta(days=20))
    assert draws(is_true=True).status == "active"
    for memory in right:
        memory.refresh_from_db()
        apply_transition(memory=memory, verb="reject", by=BY, reason="", now=NOW + timedelta(days=20))
    assert recent_failures(actor) == [False, True, True, False, False]
    assert reason(draws(is_true=True)) is None, "two of six"
    assert reason(draws(is_true=False)) == "name"
    assert reason(draws(is_true=True)) is None, "three of eight"
    assert reason(draws(is_true=False)) == "name"
    assert reason(draws(is_true=True)) == "unreliable", "four of ten"


def test_what_strangers_say_does_not_keep_the_users_own_from_being_learnt(
    actor: Actor, draws: Callable[..., Memory]
) -> None:
    actor.agent.policy = {"untrusted_channels": ["slack"]}
    actor.agent.save()
    wrong = [draws(is_true=False, channel="slack") for _ in range(5)]
    assert {each.trust for each in wrong} == {"untrusted"}
    assert draws(is_true=True).status == "active"
    assert recent_failures(actor) == [False]


def test_doctor_names_a_model_that_often_fails(draws: Callable[..., Memory]) -> None:
    def found() -> list[tuple[str, str]]:
        return [(each.level, each.detail.partition(";")[0]) for each in diagnose()]

    for _ in range(3):
        draws(is_true=True)
    draws(is_true=False)
    assert found() == []
    draws(is_true=True)
    assert found() == [("ok", "1 of the last 5 statements failed a check or were rejected")]
    for _ in range(2):
        draws(is_true=False)
    assert found() == [("warning", "3 of the last 7 statements failed a check or were rejected")]

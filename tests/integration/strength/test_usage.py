"""Two stages of reinforcement: being found counts, being used strengthens, once per task (SPEC S2, S3, S9)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.models import Message
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition, report_use
from strength.actions.revisions import strength_history, thin_history
from strength.actions.usage import NotUsable, apply_impact, mark_candidates, set_strengths, use_memories, use_memory
from strength.domain.strength import Impact, PointKind
from strength.models import Memory, StrengthPoint, UseReport
from tests.conftest import client_with_key
from tests.factories.values import NewMessageFactory
from tests.integration.strength.conftest import BY, NOW, Sleep, Write, numbers

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
UNTRUSTED = Principal(kind=PrincipalKind.KEY, id="k", name="k", is_trusted=False)


def a_message(actor: Actor) -> Message:
    """Return a message that memories may come from."""
    session, _ = open_session(actor=actor, session_id=None, channel="web", by=BY, now=NOW)
    batch = [NewMessageFactory.build(created_at=None)]
    return add_messages(session=session, batch=batch, by=BY, now=NOW).messages[0]


def test_a_repetition_within_a_minute_is_no_use(write: Write) -> None:
    memory, uses = write("likes tea"), []
    for seconds in (59, 60, 90, 121):
        assert write("Likes tea.", at=NOW + timedelta(seconds=seconds)) == memory
        uses.append(numbers(memory).access_count)
    assert uses == [0, 1, 1, 2]
    write("likes tea", at=NOW + timedelta(seconds=122), has_idempotency_key=True)
    assert numbers(memory).access_count == 3


def test_being_found_counts_and_does_not_strengthen(write: Write) -> None:
    memory = write("tea")
    mark_candidates(memories=[memory])
    row = numbers(memory)
    assert (row.candidate_count, row.access_count, row.strength, row.last_accessed_at) == (1, 0, 1.0, None)


def test_only_searches_commit_without_waiting_for_the_disk(write: Write) -> None:
    def mode() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return str(cursor.fetchone()[0])

    memory = write("tea")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit = 'local'")
    mark_candidates(memories=[memory])
    assert mode() == "local", "what was reported is acknowledged"
    mark_candidates(memories=[memory], by_search=True)
    assert (mode(), numbers(memory).candidate_count) == ("off", 2)


def test_being_used_strengthens(write: Write) -> None:
    memory = write("tea")
    for _ in range(5):
        use_memories(memories=[memory], perspective="cost", task=None, by=BY, now=NOW)
    row = numbers(memory)
    assert (row.access_count, row.consolidation_level, row.last_accessed_at) == (5, 1, NOW)
    assert row.strength == pytest.approx(1.5)
    assert memory.perspectives.get().strength == pytest.approx(0.75)


def test_a_task_counts_once_for_each_memory(write: Write) -> None:
    one, other = write("tea"), write("coffee")
    assert use_memories(memories=[one], perspective=None, task="t", by=BY, now=NOW) == 1
    assert use_memories(memories=[one, other], perspective="cost", task="t", by=BY, now=NOW) == 1
    assert use_memories(memories=[one, one], perspective=None, task="u", by=BY, now=NOW) == 1
    assert (numbers(one).access_count, numbers(other).access_count) == (2, 1)
    assert UseReport.objects.count() == 3


def test_impacts_add_their_value_and_a_share_of_strength(write: Write) -> None:
    memory = write("tea")
    for impact, value in ((Impact.USER_POSITIVE, 2.0), (Impact.TASK_SUCCESS, 1.5), (Impact.PREVENTED_ERROR, 2.0)):
        before = numbers(memory)
        apply_impact(memories=[memory], impact=impact, by=BY, now=NOW)
        assert numbers(memory).impact_score == pytest.approx(before.impact_score + value)
        assert numbers(memory).strength == pytest.approx(before.strength + value * 0.2)


def test_what_waits_or_was_refused_does_not_grow(write: Write) -> None:
    waiting = write("tea", confidence=0.1)
    assert use_memories(memories=[waiting], perspective=None, task=None, by=BY, now=NOW) == 0
    with pytest.raises(NotUsable, match="pending"):
        use_memory(memory=waiting, perspective=None, task=None, by=BY, now=NOW)
    rejected = apply_transition(memory=waiting, verb="reject", by=BY, reason="", now=NOW)
    assert apply_impact(memories=[rejected], impact=Impact.TASK_SUCCESS, by=BY, now=NOW) == 0
    assert numbers(waiting).strength == 1.0


def test_an_untrusted_key_strengthens_nothing_that_is_believed(write: Write) -> None:
    memory = write("tea")
    for act in (
        lambda: use_memories(memories=[memory], perspective=None, task=None, by=UNTRUSTED, now=NOW),
        lambda: apply_impact(memories=[memory], impact=Impact.TASK_SUCCESS, by=UNTRUSTED, now=NOW),
        lambda: set_strengths(memories=[memory], strengths={memory.pk: 9}, by=UNTRUSTED, now=NOW),
    ):
        with pytest.raises(Forbidden):
            act()
    assert numbers(memory).strength == 1.0


def test_history_has_few_rows_and_ends_with_what_is(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea")
    for day in range(20):
        at = NOW + day * DAY
        if day % 4 == 0:
            for _ in range(10):
                use_memories(memories=[memory], perspective=None, task=None, by=BY, now=at)
        if day == 10:
            apply_impact(memories=[memory], impact=Impact.USER_POSITIVE, by=BY, now=at)
        sleep_at(at + timedelta(hours=12))
    assert StrengthPoint.objects.count() == 6

    points = strength_history(memory=memory, now=NOW + 20 * DAY)

    assert points == sorted(points, key=lambda point: point.at)
    kinds = [point.kind for point in points]
    assert (kinds[0], kinds[-1], kinds.count(PointKind.SLEPT)) == (PointKind.CREATED, PointKind.NOW, 20)
    assert points[0].strength == pytest.approx(1.0)
    last_night = [point for point in points if point.kind is PointKind.SLEPT][-1]
    assert last_night.strength == pytest.approx(points[-1].strength, rel=1e-6)
    assert points[-1].strength == numbers(memory).strength


@pytest.mark.parametrize("is_thinned", [False, True])
def test_a_history_begins_with_what_began_first(write: Write, sleep_at: Sleep, is_thinned: bool) -> None:
    memory = write("tea")
    days = (0, 3) if is_thinned else (0, 0)
    use_memories(memories=[memory], perspective=None, task=None, by=BY, now=NOW + timedelta(hours=1))
    apply_impact(memories=[memory], impact=Impact.USER_POSITIVE, by=BY, now=NOW + timedelta(hours=2))
    if is_thinned:
        sleep_at(NOW + DAY)
    later = NOW + days[1] * DAY + timedelta(hours=3)
    use_memories(memories=[memory], perspective=None, task=None, by=BY, now=later)
    if is_thinned:
        thin_history(now=NOW + 500 * DAY, limit=100)
    assert StrengthPoint.objects.count() == 2
    points = strength_history(memory=memory, now=NOW + 5 * DAY)
    assert points[0].strength == pytest.approx(1.0)
    assert [point.kind for point in points if point.kind != PointKind.SLEPT] == [
        PointKind.CREATED,
        PointKind.IMPACT,
        PointKind.USED,
        PointKind.NOW,
    ]


def test_history_of_long_ago_keeps_a_point_a_month(write: Write) -> None:
    memory = write("tea")
    for day in range(0, 62):
        use_memories(memories=[memory], perspective=None, task=None, by=BY, now=NOW + day * DAY)
    before = strength_history(memory=memory, now=NOW + 62 * DAY)

    removed = thin_history(now=NOW + 500 * DAY, limit=100)

    kept = [(str(row.day), row.times) for row in StrengthPoint.objects.order_by("day")]
    assert (removed, kept) == (59, [("2026-03-31", 31), ("2026-04-30", 30), ("2026-05-01", 1)])
    after = strength_history(memory=memory, now=NOW + 62 * DAY)
    assert (after[0].strength, after[-1].strength) == (before[0].strength, before[-1].strength)
    assert thin_history(now=NOW + 500 * DAY, limit=100) == 0


# Reports about archived memories


def test_use_brings_back_what_a_sleep_archived_and_never_lowers(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    weak, strong = write("weak", strength=0.05), write("strong", strength=2.0)
    by_person = write("put away")
    apply_transition(memory=by_person, verb="archive", by=BY, reason="", now=NOW)
    actor.agent.policy = {"max_active_memories": 1}
    actor.agent.save()
    write("stronger", strength=3.0)
    sleep_at(NOW + timedelta(days=1))
    rows = list(Memory.objects.select_related("actor__agent").filter(status="archived"))
    assert {each.pk for each in rows} == {weak.pk, strong.pk, by_person.pk}
    before = numbers(strong).strength
    report: Any = {"perspective": None, "task": None, "by": BY, "now": NOW + timedelta(days=2)}
    assert {each.pk for each in report_use(memories=rows, **report)[0]} == {weak.pk, strong.pk}
    assert numbers(weak).strength == pytest.approx(0.6)
    assert numbers(strong).strength == pytest.approx(before + 0.1)
    assert Memory.objects.get(pk=by_person.pk).status == "archived"


def test_use_of_what_was_archived_is_refused_by_policy(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    actor.agent.policy = {"archived_use": "refuse"}
    actor.agent.save()
    weak = write("weak", strength=0.05)
    sleep_at(NOW + timedelta(days=1))
    client = client_with_key()
    answer = client.post(f"/api/v1/memories/{weak.pk}/used", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
    assert client.post("/api/v1/memories/used", {"ids": [str(weak.pk)]}).json()["reinforced"] == 0

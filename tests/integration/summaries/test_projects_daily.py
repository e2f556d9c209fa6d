"""Daily report of projects, in figures and in words (SPEC P8)."""

from datetime import UTC, date, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.tenancy.models import Actor
from summaries.actions.projects import daily_totals, note_event
from summaries.domain.projects import EventKind
from tests.integration.summaries.project_files import a_project

pytestmark = pytest.mark.django_db


def told(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("digest", *arguments, stdout=out)
    return out.getvalue().splitlines()


@pytest.fixture
def actor(db: None) -> Actor:
    """Return a user with whose projects this and that was done."""
    project = a_project()
    happened: list[tuple[EventKind, int, str, int]] = [
        (EventKind.READ, 700, "read", 1),
        (EventKind.READ, 800, "read", 23),
        (EventKind.ROUTE, 0, "high", 2),
        (EventKind.CORRECT, 0, "corrected", 3),
        (EventKind.UPDATE, 90, "append", 4),
        (EventKind.COMPACT, 90, "refused", 5),
    ]
    for kind, tokens, outcome, hour in happened:
        at = datetime(2026, 3, 1, hour, 59, 59, 999_999, tzinfo=UTC)
        note_event(actor=project.actor, project=project, kind=kind, tokens=tokens, outcome=outcome, now=at)
    note_event(actor=project.actor, project=project, kind=EventKind.READ, now=datetime(2026, 3, 2, tzinfo=UTC))
    actor_for_writing(command("test"), "kana", "mika", now=datetime(2026, 3, 1, tzinfo=UTC))
    return project.actor


def test_sums_are_of_one_actor_and_one_day(actor: Actor) -> None:
    days = daily_totals(actor_id=actor.pk, first=date(2026, 3, 1), last=date(2026, 3, 2))
    assert [(day.day, day.kinds.get(EventKind.READ, 0), day.tokens) for day in days] == [
        (date(2026, 3, 2), 1, 0),
        (date(2026, 3, 1), 2, 1500),
    ]
    assert days[1].outcomes["compact", "refused"] == 1 and days[1].projects == {"otaru": 6}
    assert daily_totals(actor_id=actor.pk, first=date(2026, 3, 1), last=date(2026, 3, 2), project="x") == []


def test_a_day_is_told_in_the_agents_language(actor: Actor) -> None:
    assert told("--day", "2026-03-01") == [
        "kana/hiroki 2026-03-01: 2 reads, 1 message routed, 1 correction, 1 update, 1 compaction, 1,500 tokens read. "
        "Outcomes: message routed high 1, compaction refused 1. Most with: otaru 6."
    ]
    actor.agent.language = "ja"
    actor.agent.save()
    assert told("--day", "2026-03-01", "--agent", "kana", "--user", "hiroki") == [
        "kana/hiroki 2026-03-01：読み出し2件、振り分け1件、訂正1件、更新1件、圧縮1件、読み出したトークン数1,500。"
        "結果：振り分け high 1、圧縮 refused 1。多かったプロジェクト：otaru 6。"
    ]
    assert told("--day", "2026-03-01", "--agent", "kana", "--user", "mika") == [
        "kana/mika 2026-03-01：プロジェクトの動きはありませんでした。"
    ]


def test_an_agent_alone_means_all_its_users(actor: Actor) -> None:
    note_event(
        actor=a_project("nemuro", user_id="mika").actor,
        project=None,
        kind=EventKind.READ,
        now=datetime(2026, 3, 1, 9, tzinfo=UTC),
    )

    lines = told("--day", "2026-03-01", "--agent", "kana")

    assert [line.split()[0] for line in lines] == ["kana/hiroki", "kana/mika"]


def test_nothing_is_told_of_those_with_whom_nothing_was_done(actor: Actor) -> None:
    assert told("--day", "2026-04-01") == ["Nothing was done with projects on 2026-04-01."]
    assert [line.startswith("Nothing was done") for line in told()] == [True]
    with pytest.raises(CommandError, match="--day must be a day"):
        told("--day", "yesterday")


def test_sums_are_asked_for_over_rest(actor: Actor, client: Any) -> None:
    answer = client.get("/api/v1/projects/events/daily?agent_id=kana&user_id=hiroki&days=366")
    assert answer.status_code == 200

"""A machine's clock may be years off, or be set back; a request still has an answer."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.api import views

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)
CLOCKS = (
    *(NOW + timedelta(days=days) for days in (-20_000, -1, 20_000)),
    datetime(1, 1, 1, 12, tzinfo=UTC),
    datetime(9999, 12, 31, 12, tzinfo=UTC),
)
WHO = ({"user_id": "u"}, {"user_id": "u", "dry_run": True}, {"all_users": True})


@pytest.mark.parametrize("who", WHO, ids=str)
@pytest.mark.parametrize("moments", list(permutations(CLOCKS, 2)))
def test_a_sleep_has_an_answer_at_any_clock(
    client: Any, monkeypatch: pytest.MonkeyPatch, moments: tuple[datetime, ...], who: dict[str, Any]
) -> None:
    class Clock(datetime):
        at = NOW

        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return cls.at

    monkeypatch.setattr(views, "datetime", Clock)
    monkeypatch.setattr(timezone, "now", lambda: Clock.at)
    for Clock.at in (NOW, *moments):
        memory = {"agent_id": "a", "user_id": "u", "content": f"Likes tea of {Clock.at.isoformat()}"}
        assert client.post("/api/v1/memories", memory, format="json").status_code == 201
        assert client.post("/api/v1/sleep-runs", {"agent_id": "a", **who}, format="json").status_code == 201

"""The screen of written profiles: lines with their memories, edit, lock, rewrite, compare, restore, delete."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memoryhub.jobs.models import Job
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition
from strength.models import Memory, Profile, ProfileVersion
from tests.integration.admin.conftest import boss, form_of, list_of, page_of, staff
from tests.integration.strength.conftest import NOW
from tests.integration.strength.test_profiles import ANN, JOINED, LIKINGS, actor, likings

__all__ = ["actor", "boss", "likings", "staff"]

pytestmark = pytest.mark.django_db


def press(browser: Client, button: str, **values: Any) -> str:
    """Press a button of the profile's page and return what the page then tells."""
    address = reverse(f"admin:strength_profile_{button}", args=[Profile.objects.get().pk])
    assert browser.get(address).status_code == 405, "a GET changes nothing"
    answer = browser.post(address, values, follow=True)
    assert answer.status_code == 200
    return " ".join(str(message) for message in answer.context["messages"])


def test_each_line_links_its_memories_and_tells_whether_it_is_shown(boss: Client, likings: list[Memory]) -> None:
    page = page_of(Profile.objects.get())
    said = boss.get(page).content.decode()
    assert all(page_of(each) in said and each.content in said for each in likings)
    assert JOINED in said and "not shown" not in said
    apply_transition(memory=likings[0], verb="archive", by=ANN, reason="", now=NOW)
    assert "not shown" in boss.get(page).content.decode()
    listed = boss.get(list_of(Profile), {"q": "bergamot"}).content.decode()
    assert JOINED in listed and JOINED not in boss.get(list_of(Profile), {"q": "gold"}).content.decode()


def test_an_edit_locks_and_a_version_is_compared_and_restored(boss: Client, likings: list[Memory]) -> None:
    page = page_of(Profile.objects.get())
    values = form_of(boss.get(page))
    text = "Loves citrus scents, bergamot and green tea\r\n<script>alert(1)</script>"
    assert boss.post(page, {**values, "text": text, "reason": "he loves them"}).status_code == 302
    profile = Profile.objects.get()
    assert profile.locked and [len(line.sources) for line in profile.written] == [3, 0]
    said = boss.get(page).content.decode()
    assert "<script>alert" not in said and "he loves them" in said and "no memory: a person wrote it" in said
    compared = boss.get(page_of(profile, "compare"), {"from": 1, "to": 2}).content.decode()
    assert "<ins" in compared and "<del" in compared
    late = boss.post(page, {**values, "text": "Too late."})
    assert late.status_code == 200 and "was changed while you edited it" in late.content.decode()
    assert "Version 1 was restored" in press(boss, "restore", number="1", version="2", exactly="1")
    profile.refresh_from_db()
    assert (profile.text, profile.locked, profile.version) == (JOINED, False, 3)
    assert "No version 77 of this profile" in press(boss, "restore", number="77", version="3")


def test_locked_unlocked_and_written_anew(boss: Client, likings: list[Memory]) -> None:
    assert "locked" in press(boss, "lock", locked="1", version="1")
    assert "unlock it first" in press(boss, "rewrite")
    assert "changed since" in press(boss, "lock", locked="0", version="1")
    assert "unlocked" in press(boss, "lock", locked="0", version="2")
    assert "rewritten" in press(boss, "rewrite")
    assert Job.objects.get(kind="write_profile", state="queued").payload == {"is_asked_for": True}
    agent = Actor.objects.get(user_id="hiroki").agent
    agent.policy = {}
    agent.save()
    assert "Written profiles are off" in boss.get(page_of(Profile.objects.get())).content.decode()


def test_deleted_with_its_versions(boss: Client, likings: list[Memory]) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [str(Profile.objects.get().pk)], "post": "yes"}
    assert boss.post(list_of(Profile), chosen, follow=True).status_code == 200
    assert not Profile.objects.exists() and not ProfileVersion.objects.exists()
    assert Memory.objects.filter(content__in=LIKINGS).count() == 3


def test_who_may_only_look_presses_nothing(staff: Any, likings: list[Memory]) -> None:
    profile = Profile.objects.get()
    looker = staff("view_profile")
    said = looker.get(page_of(profile)).content.decode()
    assert JOINED in said and "lock-form" not in said and LIKINGS[0] not in said, "no texts of memories"
    for button in ("lock", "rewrite", "restore"):
        address = reverse(f"admin:strength_profile_{button}", args=[profile.pk])
        assert looker.post(address, {"locked": "1", "number": "1"}).status_code == 403

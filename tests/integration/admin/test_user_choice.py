"""Users are chosen from those that an agent has; a form asks before it creates another."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memoryhub.auth.access import actor_for_writing
from memoryhub.tenancy.models import Actor
from strength.models import Memory, SleepRun
from summaries.models import Project
from tests.integration.admin.conftest import BY, NOW, SECRET_USER, Hub, form_of, list_of

KNOWN = '<option value="ken">kana</option>'
ASKED = "Create the new user kenn"


@pytest.fixture(autouse=True)
def ken(hub: Hub) -> None:
    actor_for_writing(BY, "kana", "ken", now=NOW)


def memory(user: str) -> tuple[str, dict[str, Any]]:
    return list_of(Memory, "add"), {"agent": "kana", "user_id": user, "content": f"Likes tea, {user or 'nobody'}"}


def project(user: str) -> tuple[str, dict[str, Any]]:
    return list_of(Project, "add"), {"agent": "kana", "user_id": user, "name": "tea-shop", "description": ""}


def users() -> set[str]:
    return set(Actor.objects.filter(agent_id="kana").values_list("user_id", flat=True))


@pytest.mark.parametrize("made", [memory, project])
def test_an_unknown_user_is_asked_about_and_then_created(boss: Client, made: Any) -> None:
    before = users()
    address, values = made("kenn")
    values = {**form_of(boss.get(address)), **values}
    shown = boss.post(address, values).content.decode()
    assert users() == before and "Similar: ken." in shown and ASKED in shown and KNOWN in shown
    other = boss.post(address, {**values, "new_user": "ken"}).content.decode()
    assert users() == before and ASKED in other, "the tick was for another user"
    boss.post(address, {**values, "new_user": "kenn"})
    assert users() == {*before, "kenn"}


@pytest.mark.parametrize("user", ["", "ken", SECRET_USER])
def test_known_users_and_the_agent_itself_are_not_asked_about(boss: Client, user: str) -> None:
    before, (address, values) = users(), memory(user)
    boss.post(address, {**form_of(boss.get(address)), **values})
    assert Memory.objects.filter(content__startswith="Likes tea", actor__user_id=user).exists()
    assert users() | {""} == before | {""}


def test_a_sleep_creates_nobody(boss: Client) -> None:
    address = reverse("admin:strength_sleeprun_begin")
    assert KNOWN in boss.get(address).content.decode()
    shown = boss.post(address, {"agent": "kana", "user_id": "kenn", "verb": "preview"}).content.decode()
    assert "Similar: ken." in shown and ASKED not in shown and not SleepRun.objects.exists()


def test_an_import_asks_by_its_checkbox_also_in_pieces(boss: Client) -> None:
    address, before = reverse("importer"), users()
    assert KNOWN in boss.get(address).content.decode()

    def sent(**more: str) -> Any:
        file = SimpleUploadedFile("memories.csv", b"content\nLikes tea\n")
        return boss.post(address, {"agent_id": "kana", "user_id": "kenn", "file": file, **more})

    assert "Tick “New user” to create it." in sent().content.decode() and users() == before
    assert sent(in_pieces="1").json()["problems"] == [
        "The agent has no such user yet. Similar: ken. Tick “New user” to create it."
    ]
    assert sent(new_user="on").status_code == 302 and users() == {*before, "kenn"}


def test_of_many_users_none_is_offered(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryhub.admin.user_choice.MAX_OFFERED", 1)
    assert KNOWN not in boss.get(list_of(Memory, "add")).content.decode()

"""An export that somebody has forged: it vouches for nothing where it is not trusted, and names no file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from conversations.models import Message, Session
from memoryhub.tenancy.models import Actor, Agent
from strength.models import Memory
from summaries.models import Document, Summary
from tests.factories.planting import API, plant_first
from tests.integration.memoryhub.importexport.conftest import (
    dumped,
    empty_the_installation,
    exported,
    objects,
    of_lines,
    run,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("llm")]
Save = Callable[[bytes], Path]


def test_untrusted_import_believes_nothing_that_the_file_says(client: APIClient, saved: Save) -> None:
    planted = plant_first()
    file = saved(exported())
    empty_the_installation()

    told = run("import", file, "--untrusted")

    assert "is nothing that an untrusted export may bring." in told
    assert Memory.objects.exists() and Session.objects.exists() and Summary.objects.exists()
    assert set(Memory.objects.values_list("trust", "status", "pinned")) == {("untrusted", "pending", False)}
    assert set(Message.objects.values_list("trust", flat=True)) == {"untrusted"}
    assert set(Summary.objects.values_list("trust", flat=True)) == {"untrusted"}
    assert not Document.objects.exists()
    assert set(Agent.objects.values_list("system_prompt", flat=True)) == {""}
    assert not Actor.objects.exclude(policy={}).exists()
    sent = client.post(f"{API}/context", {**planted.names, "message": "green tea", "project": "tea-house"})
    marks = (planted.user_mark, planted.agent_mark)
    assert not [mark for mark in marks if mark in str(sent.json()["messages"]) + str(sent.json()["system"])]


@pytest.mark.parametrize("name", ["../../../pwn.md", "/etc/passwd", "detail-../x.md", "detail-a.md\n", "NOTES.md"])
def test_documents_are_called_as_documents_are(client: APIClient, saved: Save, name: str) -> None:
    plant_first()
    lines = objects(exported())
    for line in lines:
        if line.get("table") == "summaries_document":
            line["row"]["name"] = name
    file = saved(of_lines([dumped(line) for line in lines]))
    empty_the_installation()

    with pytest.raises(CommandError, match="a row of summaries_document has a name that cannot be used"):
        run("import", file)
    assert not Document.objects.exists()

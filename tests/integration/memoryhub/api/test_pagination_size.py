"""A page ends where its rows are too long, in both directions."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from memoryhub.api import pagination
from memoryhub.auth.principals import command
from memoryhub.importexport.foreign import uploads
from tests.factories.planting import API, made

READ = re.compile(r"FROM .conversations_message.*LIMIT (\d+)", re.DOTALL)

pytestmark = pytest.mark.django_db


def test_a_page_ends_where_its_rows_are_too_long(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGE_CHARACTERS", 20_000)
    session = made(client.post(f"{API}/sessions", {"agent_id": "kana"}))["id"]
    batch = [{"role": "user", "content": f"{number} " + "word " * 1_000} for number in range(12)]
    made(client.post(f"{API}/sessions/{session}/messages", {"messages": batch}))
    address, forth = f"{API}/sessions/{session}/messages?limit=500", list[int]()
    while address:
        page = made(client.get(address))
        assert 1 <= len(page["results"]) <= 4
        forth += [each["seq"] for each in page["results"]]
        address = page["next"]
    assert sorted(forth) == list(range(1, 13))
    back = [[each["seq"] for each in page["results"]]]
    while page["previous"]:
        page = made(client.get(page["previous"]))
        back.insert(0, [each["seq"] for each in page["results"]])
    assert [seq for seqs in back for seq in seqs] == forth


def test_one_row_that_is_too_long_is_a_page(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGE_CHARACTERS", 10)
    for text in ("one " * 50, "two " * 50):
        made(client.post(f"{API}/memories", {"agent_id": "kana", "content": text}))
    first = made(client.get(f"{API}/memories?agent_id=kana"))
    assert len(first["results"]) == 1 and len(made(client.get(first["next"]))["results"]) == 1


def test_the_files_that_an_agents_imports_wait_with_are_limited(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, tmp_path: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(uploads, "uploads_folder", lambda: tmp_path)
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 100)
    rows = [
        made(client.post(f"{API}/imports", {"agent_id": "kana", "user_id": user, "file_name": "a.json"}))
        for user in ("hiroki", "aoi")
    ]
    by = command("test")
    for row, size, is_refused in ((rows[0], 60, False), (rows[1], 60, True), (rows[1], 40, False)):
        found = uploads.Import.objects.get(pk=row["id"])
        if is_refused:
            with pytest.raises(uploads.CannotImport, match="100"):
                uploads.append_chunk(row=found, offset=0, data=b"x" * size, by=by)
        else:
            uploads.append_chunk(row=found, offset=0, data=b"x" * size, by=by)


def test_of_long_rows_not_many_more_are_read_than_a_page_has(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGE_CHARACTERS", 20_000)
    monkeypatch.setattr(pagination, "FIRST_PORTION", 3)
    session = made(client.post(f"{API}/sessions", {"agent_id": "kana"}))["id"]
    batch = [{"role": "user", "content": f"{number} " + "word " * 1_000} for number in range(30)]
    made(client.post(f"{API}/sessions/{session}/messages", {"messages": batch}))
    with CaptureQueriesContext(connection) as asked:
        page = made(client.get(f"{API}/sessions/{session}/messages?limit=500"))
    assert [each["seq"] for each in page["results"]] == [1, 2, 3]
    limits = [limit for query in asked.captured_queries for limit in READ.findall(str(query["sql"]))]
    assert limits == ["3", "3"]

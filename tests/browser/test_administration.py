"""Agents, keys, jobs, and the books."""

import re
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conversations.models import Session
from memoryhub.auth.models import ApiKey
from memoryhub.importexport.foreign.models import Import
from memoryhub.importexport.foreign.uploads import uploaded_file
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from memoryhub.tenancy.models import Agent
from tests.browser.chromium import expect
from tests.browser.stage import Stage, page_of
from tests.browser.steps import confirm, press
from tests.factories.foreign_exports import write_export

RELEASE = "release-assistant"


@pytest.mark.slow
def test_a_policy_value_is_refused_beside_its_field_and_what_was_typed_stays(page: Any, stage: Stage) -> None:
    page.goto(f"/admin/memoryhub/agent/{RELEASE}/change/")
    page.locator("#id_name").fill("Tidepool's assistant")
    page.locator("summary", has_text="Contexts").click()
    page.get_by_label("Latest turns", exact=True).fill("-3")
    press(page, "Save and continue editing")
    field = page.locator("#value_working_memory_limit")
    expect(field.get_by_text("a whole number from 1 to 50").last).to_be_visible()
    expect(field.get_by_text("This must be")).to_be_visible()
    expect(page.locator("#id_name")).to_have_value("Tidepool's assistant")
    expect(page.get_by_label("Latest turns", exact=True)).to_have_value("-3")
    assert Agent.objects.get(pk=RELEASE).name == "Release assistant"
    page.get_by_label("Latest turns", exact=True).fill("9")
    press(page, "Save and continue editing")
    agent = Agent.objects.get(pk=RELEASE)
    assert (agent.name, agent.policy["working_memory_limit"]) == ("Tidepool's assistant", 9)


def test_a_key_is_issued_shown_once_and_revoked(page: Any, stage: Stage) -> None:
    page.goto("/admin/memoryhub/apikey/add/")
    page.locator("#id_name").fill("for the tests")
    page.get_by_role("button", name="in 90 days").click()
    press(page, "Save")
    text = page.locator("#issued-key").input_value()
    key = ApiKey.objects.get(name="for the tests")
    assert text.startswith(f"mh_{key.prefix}_")
    assert key.expires_at is not None and 90 <= (key.expires_at - key.created_at).total_seconds() / 86_400 <= 91
    page.goto(page_of(key))
    assert text not in page.content()
    page.get_by_role("button", name=re.compile("Revoke this key")).click()
    page.wait_for_load_state()
    confirm(page, "the test is over")
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_dead_job_is_sent_back(page: Any, stage: Stage) -> None:
    job = Job.objects.get(state="dead")
    page.goto("/admin/memoryhub/job/?state__exact=dead")
    page.locator("#result_list .action-select").first.check()
    page.locator("select[name=action]").first.select_option("retry")
    page.get_by_role("button", name=re.compile("^(Run|Go)")).first.click()
    page.wait_for_load_state()
    confirm(page, "the embedder is back")
    job.refresh_from_db()
    assert job.state == "queued"


@pytest.mark.slow
def test_the_books_tell_what_was_done_and_spent(page: Any, stage: Stage) -> None:
    page.goto("/admin/memoryhub/ledgerentry/")
    expect(page.locator("#result_list")).to_contain_text("a-model")
    page.goto("/admin/memoryhub/auditentry/")
    page.locator("#result_list a[href*='/change/']").first.click()
    expect(page).to_have_url(re.compile(r"/auditentry/.+/change/"))


def test_a_file_goes_up_in_pieces_is_previewed_imported_and_undone(page: Any, stage: Stage, tmp_path: Path) -> None:
    path = write_export("chatgpt", tmp_path, count=3)
    page.goto("/admin/imports/")
    page.locator("#upload-form").evaluate("form => { form.dataset.piece = 1000; }")
    page.locator("#id_agent_id").fill(RELEASE)
    page.locator("#id_user_id").fill("moved-in")
    page.locator("#id_new_user").check()
    page.locator("#id_file").set_input_files(str(path))
    press(page, "Upload and preview")
    page.wait_for_url("**/admin/imports/*-*/")
    row = Import.objects.latest("created_at")
    assert (row.size, row.file_name) == (path.stat().st_size, "chatgpt.zip")
    for verb, told in (("", "previewed"), ("Import", "imported"), ("Undo this import", "undone")):
        if verb:
            page.get_by_role("button", name=verb, exact=True).click()
            page.wait_for_load_state()
        expect(page.get_by_role("status")).to_contain_text("being")
        job = Job.objects.filter(kind="import_file").latest("created_at")
        run(Offer(job.pk, "import_file"), worker=uuid4())
        page.get_by_role("link", name="Update the progress").click()
        expect(page.get_by_role("status")).to_contain_text(told)
        assert Session.objects.filter(channel="import:chatgpt").count() == (3 if told == "imported" else 0)
    expect(page.locator("table").first).to_contain_text("18")
    assert not page.get_by_role("button", name="Undo this import").count()


@pytest.mark.parametrize("chooser", ["#id_file", "#id_folder"])
def test_several_files_and_folders_go_up_as_a_zip(page: Any, stage: Stage, tmp_path: Path, chooser: str) -> None:
    folder = write_export("librechat", tmp_path, count=3)
    (folder / "茶.json").write_bytes((folder / "conversation-0.json").read_bytes())
    (folder / ".git").mkdir()
    (folder / ".git" / "config.json").write_text("{}")
    files = [str(each) for each in sorted(folder.glob("*.json"))]
    page.goto("/admin/imports/")
    page.locator(chooser).set_input_files(files if chooser == "#id_file" else str(folder))
    expect(page.locator("#id_agent_id")).to_have_value("")  # the theme writes a file's name to a text input
    page.locator("#id_agent_id").fill(RELEASE)
    page.locator("#id_user_id").fill("moved-in")
    page.locator("#id_new_user").check()
    press(page, "Upload and preview")
    page.wait_for_url("**/admin/imports/*-*/")
    row = Import.objects.latest("created_at")
    with uploaded_file(row) as path, zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        inside = "" if chooser == "#id_file" else "librechat/"
        assert sorted(archive.namelist()) == [f"{inside}{Path(each).name}" for each in files]
        assert archive.read(f"{inside}茶.json") == (folder / "茶.json").read_bytes()
    job = Job.objects.filter(kind="import_file").latest("created_at")
    run(Offer(job.pk, "import_file"), worker=uuid4())
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("LibreChat: previewed")
    expect(page.get_by_role("status")).to_contain_text("Recognised by: a `conversationId`")
    page.get_by_label("Format").select_option("mem0")
    page.get_by_role("button", name="Preview again").click()
    page.wait_for_load_state()
    row.refresh_from_db()
    assert row.format == "mem0"

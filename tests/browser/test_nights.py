"""Sleeps, merges and decisions: looked at first, done, and taken back."""

import re
from typing import Any

import pytest

from strength.actions.curation import delete_memory
from strength.domain.memories import Status
from strength.domain.sleep import MergeState, RunState
from strength.models import SleepRun, Tombstone
from tests.browser.chromium import expect
from tests.browser.stage import BY, Stage, page_of
from tests.browser.steps import choose, press

RELEASE = "release-assistant"


def test_a_sleep_is_previewed_done_and_undone(page: Any, stage: Stage) -> None:
    runs = SleepRun.objects.filter(actor__agent_id=RELEASE, actor__user_id="")
    page.goto("/admin/strength/sleeprun/")
    page.get_by_role("link", name=re.compile("Preview or start")).click()
    choose(page, "agent", RELEASE)
    press(page, "Preview")
    assert runs.get().dry_run
    expect(page.get_by_text("This is a preview", exact=False).first).to_be_visible()
    press(page, "Start now")
    run = runs.get(dry_run=False)
    assert run.state == RunState.DONE
    page.goto(page_of(run))
    page.get_by_role("link", name=re.compile("Undo")).click()
    press(page, "Undo this sleep run")
    run.refresh_from_db()
    assert run.state == RunState.UNDONE


def test_a_proposal_is_merged_and_parted_again(page: Any, stage: Stage) -> None:
    proposal = stage.proposal("The team meets on Tuesdays at ten.", "The team actually meets on Tuesdays at ten.")
    page.goto(page_of(proposal))
    press(page, "Merge")
    proposal.refresh_from_db()
    assert proposal.state == MergeState.MERGED
    page.goto(page_of(proposal))
    press(page, "Unmerge")
    proposal.refresh_from_db()
    assert proposal.state == MergeState.UNDONE
    assert {proposal.kept.status, proposal.absorbed.status} == {Status.ACTIVE}


def test_a_proposal_is_found_in_its_list_and_kept_apart(page: Any, stage: Stage) -> None:
    proposal = stage.proposal("The logo is a green wave.", "The logo is actually a green wave.")
    page.goto("/admin/strength/merge/")
    page.locator("#result_list tr", has_text="green wave").locator("a[href*='/change/']").first.click()
    press(page, "Keep apart")
    proposal.refresh_from_db()
    assert proposal.state == MergeState.DISMISSED


@pytest.mark.slow
def test_a_decision_is_lifted(page: Any, stage: Stage) -> None:
    memory = stage.remember("Maya dislikes Mondays.")
    delete_memory(memory=memory, expected_version=None, by=BY, reason="gossip", now=stage.now)
    decision = Tombstone.objects.latest("id")
    page.goto(page_of(decision))
    press(page, "Allow it again")
    assert not Tombstone.objects.filter(pk=decision.pk).exists()

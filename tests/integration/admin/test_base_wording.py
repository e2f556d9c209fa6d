"""How lists and pages word what they show: counts, empty lists, brackets and colons in both languages."""

from typing import Any

from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import translation

from memoryhub.admin.labels import principal_label
from memoryhub.auth.principals import PrincipalKind
from memoryhub.importexport.foreign.imports import new_import
from memoryhub.importexport.foreign.models import Import
from memoryhub.templatetags.wording import brackets
from strength.models import Memory, Merge, SleepRun
from summaries.admin.base import shown_name
from summaries.models import Project
from tests.integration.admin.conftest import BY, NOW, Hub, list_of

JAPANESE: Any = {"headers": {"accept-language": "ja"}}


def text_of(browser: Client, address: str, query: dict[str, str] | None = None, **options: Any) -> str:
    return browser.get(address, query or {}, **options).content.decode()


def test_a_narrowed_list_says_how_many_were_found_not_how_many_there_are(boss: Client, hub: Hub) -> None:
    hub.remember("Grows tomatoes on the balcony")
    narrowed = {"q": "tomatoes"}
    assert "1 found" in text_of(boss, list_of(Memory), narrowed)
    assert "該当1件" in text_of(boss, list_of(Memory), narrowed, **JAPANESE)
    everything = text_of(boss, list_of(Memory))
    assert "in all" in everything and " found" not in everything


def test_a_list_without_open_proposals_leads_to_the_decided_ones(boss: Client, hub: Hub) -> None:
    empty = text_of(boss, list_of(Merge))
    assert "Nothing is pending" in empty and 'href="?state=all"' in empty
    assert "There is nothing here yet" not in empty
    assert 'href="?state=all"' not in text_of(boss, list_of(Merge), {"state": "all"})


def test_empty_lists_say_what_fills_them_in_the_readers_language(boss: Client) -> None:
    assert "Agents write memories by the API" in text_of(boss, list_of(Memory))
    screens = [screen for screen in admin.site._registry.values() if getattr(screen, "empty_hint", "")]
    assert len(screens) > 10
    with translation.override("ja"):
        assert all(str(screen.empty_hint)[-1] == "。" for screen in screens)  # type: ignore[attr-defined]


def test_a_remark_in_brackets_has_those_of_the_language() -> None:
    assert principal_label("sue", PrincipalKind.CURATOR) == '<span class="hub-id"><bdi>sue</bdi></span> (person)'
    with translation.override("ja"):
        assert principal_label("sue", PrincipalKind.CURATOR) == '<span class="hub-id"><bdi>sue</bdi></span>（担当者）'


def test_an_erasure_counts_with_colons_of_the_language(boss: Client, hub: Hub) -> None:
    address = reverse("admin:memoryhub_actor_erase", args=[hub.actor.pk])
    assert "Memories: 1" in text_of(boss, address)
    assert "記憶：1" in text_of(boss, address, **JAPANESE)


def test_search_by_meaning_names_the_state_in_the_readers_language(boss: Client, hub: Hub) -> None:
    query = {"q": "matcha", "by": "meaning", "actor__agent__agent_id__exact": "kana"}
    page = text_of(boss, list_of(Memory), query, **JAPANESE)
    assert "状態：有効" in page and "「matcha」" in page


def test_a_preview_of_an_agent_with_one_user_opens_the_preview_itself(boss: Client, hub: Hub) -> None:
    sent = {"agent": "kana", "user_id": "", "all_users": "on", "verb": "preview"}
    response = boss.post(reverse("admin:strength_sleeprun_begin"), sent)
    run = SleepRun.objects.get()
    assert response["Location"] == reverse("admin:strength_sleeprun_change", args=[run.pk])


def test_an_import_shows_counts_once_there_are_some_and_its_file_as_it_is_called(boss: Client, hub: Hub) -> None:
    row = new_import(actor=hub.actor, file_name="export.json", format="chatgpt", names_users=False, by=BY, now=NOW)
    address = reverse("import_page", args=[row.pk])
    page = text_of(boss, address, **JAPANESE)
    assert "「export.json」の取り込み" in page and "Export.json" not in page
    assert "ChatGPT：" in page and "<table" not in page
    Import.objects.filter(pk=row.pk).update(report={"made": {"messages": 2}})
    assert "<table" in text_of(boss, address)


def test_a_remark_is_escaped_once() -> None:
    project = Project(name="project-0123abcd", description="R&D <Osaka>")
    assert shown_name(project) == "project-0123abcd (R&D <Osaka>)"
    assert brackets("R&D") == " (R&amp;D)"
    assert principal_label("R&D", PrincipalKind.KEY) == '<span class="hub-id"><bdi>R&amp;D</bdi></span> (API key)'

"""Curators keep an expectation from a receipt, see what broke it, and can take it back."""

from typing import Any

from django.test import Client
from django.urls import reverse

from conversations.models import Receipt
from strength.actions.curation import apply_transition
from strength.models import Expectation
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, page_of
from tests.integration.admin.test_dashboard import tile
from tests.integration.admin.test_playground import MAY, QUESTION, run


def keep(browser: Client, hub: Hub, **values: Any) -> Any:
    asked = {"receipt": str(hub.receipt.pk), "memory": str(hub.memory.pk), **values}
    return browser.post(reverse("keep_expectation"), asked, follow=True)


def archive(hub: Hub) -> None:
    apply_transition(
        memory=hub.memory, verb="archive", values={}, reason="", expected_version=None, by=BY, now=NOW
    )  # fmt: skip


def test_a_receipt_offers_it_and_a_broken_one_is_on_the_dashboard_with_what_changed(boss: Client, hub: Hub) -> None:
    offered = boss.get(page_of(hub.receipt)).content.decode()
    assert 'id="expect"' in offered and f'name="memory" value="{hub.memory.pk}"' in offered
    shown = keep(boss, hub).content.decode()
    assert "The expectation was added. The expectation is met now." in shown and hub.memory.content in shown
    kept = Expectation.objects.get()
    assert tile(boss, "Broken expectations").figure.number == 0
    archive(hub)
    shown = boss.post(page_of(kept, "check"), follow=True).content.decode()
    assert "The expectation is broken now." in shown and "Changes before it was broken" in shown
    assert tile(boss, "Broken expectations").figure.number == 1
    listed = boss.get(f"{list_of(Expectation)}?state__exact=broken").content.decode()
    assert hub.memory.content in listed and "is in it" in listed


def test_the_playground_keeps_one_with_one_click_and_the_receipt_of_its_run(boss: Client, hub: Hub) -> None:
    shown = run(boss, hub)
    text, token, receipts = shown.content.decode(), shown.context["run"], Receipt.objects.count()
    assert f'name="run" value="{token}"' in text and f'name="memory" value="{hub.memory.pk}"' in text
    other = hub.remember("Ice cream in Kyoto is best with matcha.")
    back = f"{reverse('playground')}?run={token}"
    for memory, where in ((hub.memory, ""), (other, "?unwanted=1")):
        asked = {"run": token, "memory": str(memory.pk), "next": back}
        done = boss.post(reverse("keep_expectation") + where, asked, follow=True)
        assert "The expectation was added." in done.content.decode() and done.redirect_chain[-1][0] == back
    first, second = Expectation.objects.order_by("created_at", "pk")
    assert first.is_wanted and not second.is_wanted and Receipt.objects.count() == receipts + 1
    assert first.receipt_id == second.receipt_id and first.receipt.query == QUESTION
    gone = boss.post(reverse("keep_expectation"), {"run": "a", "memory": str(other.pk)}, follow=True)
    assert "no longer exists" in gone.content.decode()


def test_a_receipt_that_the_playground_kept_is_used(boss: Client, hub: Hub) -> None:
    shown = run(boss, hub, keep="1")
    asked = {"run": shown.context["run"], "memory": str(hub.memory.pk)}
    boss.post(reverse("keep_expectation"), asked)
    assert Expectation.objects.get().receipt_id == shown.context["kept"].pk


def test_the_playground_keeps_none_without_the_permission_to_store_a_receipt(staff: Any, hub: Hub) -> None:
    reader = staff(*MAY, "add_expectation")
    shown = run(reader, hub)
    assert 'id="expect"' not in shown.content.decode()
    asked = {"run": shown.context["run"], "memory": str(hub.memory.pk)}
    assert reader.post(reverse("keep_expectation"), asked).status_code == 403


def test_its_page_speaks_of_it_in_japanese(boss: Client, hub: Hub) -> None:
    keep(boss, hub)
    shown = boss.get(page_of(Expectation.objects.get()), headers={"accept-language": "ja"}).content.decode()
    assert "満たされている" in shown and ">開く<" in shown and "継続中" not in shown


def test_it_is_deleted_and_brought_back(boss: Client, hub: Hub) -> None:
    keep(boss, hub, unwanted="1")
    [first] = Expectation.objects.all()
    assert not first.is_wanted and first.state == "broken"
    shown = boss.post(page_of(first, "withdraw"), follow=True).content.decode()
    assert "The expectation was deleted." in shown and not Expectation.objects.exists()
    again = f"{reverse('keep_expectation')}?receipt={hub.receipt.pk}&amp;memory={hub.memory.pk}&amp;unwanted=1"
    assert again in shown
    boss.post(again.replace("&amp;", "&"))
    assert not Expectation.objects.get().is_wanted


def test_what_cannot_be_kept_is_said(boss: Client, hub: Hub) -> None:
    assert boss.get(reverse("keep_expectation")).status_code == 405
    unknown = keep(boss, hub, receipt="0" * 32).content.decode()
    assert "This receipt no longer exists." in unknown
    strange = keep(boss, hub, memory="0" * 32).content.decode()
    assert "No such memory" in strange and not Expectation.objects.exists()


def test_who_may_only_read_is_offered_nothing(staff: Any, hub: Hub) -> None:
    reader = staff("view_receipt", "view_memory", "view_expectation")
    assert 'id="expect"' not in reader.get(page_of(hub.receipt)).content.decode()
    assert keep(reader, hub).status_code == 403

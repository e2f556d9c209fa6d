"""Messages and sessions are deleted from every page that shows them, after one that says what goes with them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from conversations.actions.sessions import open_session
from conversations.models import Message, Session
from memoryhub.auth.models import AuditEntry
from strength.models import Memory
from tests.integration.admin.conftest import BY, NOW, Hub, list_of, page_of


def timeline_page(session: Session) -> str:
    return reverse("admin:conversations_session_timeline", args=[session.pk])


def forget_page(session: Session) -> str:
    return reverse("admin:conversations_session_forget", args=[session.pk])


def test_chosen_messages_are_deleted_after_a_page_that_shows_what_goes_with_them(boss: Client, hub: Hub) -> None:
    told = hub.say("The salary is 84,300 dollars.", "Nothing else.")
    hub.remember("The salary is 84,300 dollars.", source_message_ids=(told[0].pk,))
    assert f'value="{told[0].pk}"' in boss.get(timeline_page(hub.session)).content.decode()
    asked = boss.get(forget_page(hub.session), {"_selected_action": [str(told[0].pk)]})
    text = asked.content.decode()
    assert "Messages: 1" in text and "Memories that rest on these messages alone: 1" in text
    assert "Nothing else." not in text
    memory = Memory.objects.get(content__contains="84,300")
    for page in (page_of(told[0]), page_of(memory)):
        assert f'href="{page}"' in text
    assert text.count(">The salary is 84,300 dollars.</bdi></a></li>") == 2
    assert Message.objects.filter(pk=told[0].pk).exists()
    posted = {"_selected_action": [str(told[0].pk)], "confirmed": "1", "reason": "a slip"}
    done = boss.post(forget_page(hub.session), posted, follow=True)
    shown, left = done.content.decode(), Message.objects.filter(session_id=hub.session.pk).count()
    assert "1 message was deleted. What rested on them: Memories that rest on these messages alone: 1." in shown
    assert done.context["message_count"] == left < Session.objects.get(pk=hub.session.pk).message_count
    first = Message.objects.filter(session_id=hub.session.pk).order_by("seq").first()
    assert first is not None and done.context["began_at"] == first.created_at
    listed = boss.get(list_of(Session)).context["cl"].result_list
    assert [row.stored for row in listed if row.pk == hub.session.pk] == [left]
    assert not Message.objects.filter(pk=told[0].pk).exists() and Message.objects.filter(pk=told[1].pk).exists()
    assert not Memory.objects.filter(content__contains="84,300").exists()
    assert AuditEntry.objects.filter(verb="delete", object_kind="session", reason="a slip").exists()


def test_a_whole_session_is_deleted_from_its_page(boss: Client, hub: Hub) -> None:
    asked = boss.get(forget_page(hub.session))
    text = asked.content.decode()
    assert "Delete this session" in text and Session.objects.filter(pk=hub.session.pk).exists()
    assert f'href="{page_of(hub.messages[0])}"' in text
    assert f'href="{page_of(hub.summary)}"' in text and f"{hub.summary.text[:20]}" in text
    done = boss.post(forget_page(hub.session), {"confirmed": "1"}, follow=True)
    assert done.status_code == 200
    assert not Session.objects.filter(pk=hub.session.pk).exists()


def test_texts_after_the_first_few_are_folded(boss: Client, hub: Hub) -> None:
    told = hub.say(*(f"Word {number} of the evening." for number in range(7)))
    asked = boss.get(forget_page(hub.session), {"_selected_action": [str(each.pk) for each in told]}).content.decode()
    assert all(f">Word {number} of the evening.<" in asked for number in range(7))
    assert "and 2 more" in asked and asked.index("and 2 more") < asked.index("Word 5")


def test_a_deletion_quotes_only_what_its_person_may_read(staff: Callable[..., Client], hub: Hub) -> None:
    [told] = hub.say("The salary is 84,300 dollars.")
    memory = hub.remember("Earns 84,300 dollars.", source_message_ids=(told.pk,))
    clerk = staff("view_session", "view_message", "delete_message")
    asked = clerk.get(forget_page(hub.session), {"_selected_action": [str(told.pk)]}).content.decode()
    assert "Memories that rest on these messages alone: 1" in asked and memory.content not in asked


def test_an_unusable_choice_deletes_no_session(boss: Client, hub: Hub) -> None:
    done = boss.post(forget_page(hub.session), {"_selected_action": ["nonsense"], "confirmed": "1"}, follow=True)
    assert "This session has no such messages." in done.content.decode()
    assert Session.objects.filter(pk=hub.session.pk).exists()


def test_a_curator_deletes_no_messages(staff: Callable[..., Client], hub: Hub) -> None:
    curator = staff("view_session", "view_message", "change_session")
    assert curator.get(forget_page(hub.session)).status_code == 403
    assert curator.post(forget_page(hub.session), {"confirmed": "1"}).status_code == 403
    assert Session.objects.filter(pk=hub.session.pk).exists()
    assert "forget-form" not in curator.get(timeline_page(hub.session)).content.decode()
    assert "forget_chosen" not in curator.get(list_of(Message)).content.decode()
    message = Message.objects.filter(session_id=hub.session.pk).first()
    assert message is not None and forget_page(hub.session) not in curator.get(page_of(message)).content.decode()
    chosen = {"action": "forget_chosen", "_selected_action": [str(message.pk)], "confirmed": "1"}
    curator.post(list_of(Message), chosen)
    assert Message.objects.filter(pk=message.pk).exists()


def test_a_messages_page_leads_to_its_deletion(boss: Client, staff: Callable[..., Client], hub: Hub) -> None:
    [told] = hub.say("The salary is 84,300 dollars.")
    address = f"{forget_page(hub.session)}?{urlencode({'_selected_action': told.pk, 'next': page_of(told)})}"
    assert escape(address) in boss.get(page_of(told)).content.decode()
    asked = boss.get(address).content.decode()
    assert "Messages: 1" in asked and f'href="{page_of(told)}"' in asked, "Cancel leads back"
    assert f'href="{page_of(hub.session)}"' in boss.get(forget_page(hub.session)).content.decode()
    without_sessions = staff("view_message", "delete_message")
    assert forget_page(hub.session) not in without_sessions.get(page_of(told)).content.decode()


def test_messages_of_several_sessions_are_deleted_from_the_list(boss: Client, hub: Hub) -> None:
    first, kept = hub.say("The salary is 84,300 dollars.", "Nothing else.")
    other, _ = open_session(actor=hub.actor, session_id=None, channel="slack", by=BY, now=NOW)
    [second] = hub.say("The rent is 2,150 dollars.", session=other)
    hub.remember("The rent is 2,150 dollars.", source_message_ids=(second.pk,))
    chosen: dict[str, Any] = {"action": "forget_chosen", "_selected_action": [str(first.pk), str(second.pk)]}
    asked = boss.post(list_of(Message), chosen).content.decode()
    assert "Messages: 2" in asked and "Memories that rest on these messages alone: 1" in asked
    assert Message.objects.filter(pk__in=[first.pk, second.pk]).count() == 2
    done = boss.post(list_of(Message), {**chosen, "confirmed": "1", "reason": "a slip"}, follow=True)
    assert "2 messages were deleted." in done.content.decode()
    assert list(Message.objects.filter(pk__in=[first.pk, second.pk, kept.pk])) == [kept]
    assert not Memory.objects.filter(content__contains="2,150").exists()
    assert AuditEntry.objects.filter(verb="delete", object_kind="session", reason="a slip").count() == 2
    again = boss.post(list_of(Message), {**chosen, "confirmed": "1"}, follow=True)
    assert "The selected rows no longer exist." in again.content.decode()

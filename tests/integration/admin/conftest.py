"""Rows made through the real actions, and people who look at them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from conversations.actions.chat import prepare_turn
from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.messages import add_messages
from conversations.actions.questions import Question
from conversations.actions.sessions import open_session
from conversations.domain.messages import NewMessage, Role
from conversations.models import Message, Receipt, Session
from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.actions import create_agent, issue_key
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Scope, command
from memoryhub.ids import new_id
from memoryhub.jobs.executor import run
from memoryhub.jobs.queue import Offer
from memoryhub.tenancy.models import Actor, Agent
from strength.actions.memories import NewMemory, write_memory
from strength.domain.memories import Kind
from strength.models import Memory
from summaries.actions.triggers import enqueue_summary
from summaries.models import Summary
from tests.database import prepared

BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"
SECRET_USER = "hiroki-tanaka-77"


@dataclass
class Hub:
    """A small hub with one of everything."""

    agent: Agent
    actor: Actor
    session: Session
    messages: list[Message]
    memory: Memory
    receipt: Receipt
    key: ApiKey
    summary: Summary

    def remember(self, content: str, **options: Any) -> Memory:
        """Write another memory of the same user."""
        return write_memory(actor=self.actor, new=NewMemory(content=content, **options), by=BY, now=NOW)[0]

    def say(self, *texts: str, session: Session | None = None) -> list[Message]:
        """Add what the user says to the session."""
        batch = [NewMessage(role=Role.USER, content=text) for text in texts]
        return add_messages(session=session or self.session, batch=batch, by=BY, now=NOW).messages

    def ask(self, message: str) -> Receipt:
        """Assemble a context and return its receipt."""
        tenant = tenant_for_reading(BY, self.agent.pk, self.actor.user_id)
        request = ContextRequest(message=message, session=self.session, options={})
        receipt = assemble_context(tenant=tenant, request=request, by=BY, now=NOW).receipt
        assert receipt is not None
        return receipt


@pytest.fixture
def hub(db: None) -> Hub:
    """Return a hub with an agent, a user, a session, a memory, a receipt and a key."""
    return prepared(("hub", settings.LLM.provider), make_hub)


def make_hub() -> Hub:
    agent = create_agent(agent_id="kana", values={"language": "ja", "domain": "home"}, by=BY, now=NOW)
    actor = actor_for_writing(BY, "kana", SECRET_USER, now=NOW)
    session, _ = open_session(actor=actor, session_id=None, channel="slack", title="Kyoto", by=BY, now=NOW)
    made = Hub(agent, actor, session, [], None, None, None, None)  # type: ignore[arg-type]
    made.messages = made.say("I moved to Kyoto last spring.", "抹茶アイスが好きです。")
    made.memory = made.remember(
        "Likes matcha ice cream", kind=Kind.PREFERENCE, source_message_ids=[made.messages[1].id], tags=["food, sweet"]
    )
    made.receipt = made.ask("matcha ice cream in Kyoto?")
    job_id = enqueue_summary(session=session, by=BY, now=NOW)
    run(Offer(job_id, "summarize"), worker=new_id())
    made.summary = Summary.objects.select_related("actor__agent").get()
    question = Question(message="Which ice cream?", session_id=session.pk, with_memory=False)
    prepare_turn(actor=actor, question=question, by=BY, now=NOW)
    made.key, _ = issue_key(name="laptop", scopes=[Scope.READ], by=BY, now=NOW - timedelta(days=1))
    return made


@pytest.fixture
def boss(db: None) -> Client:
    """Return a browser in which a superuser is logged in."""
    return logged_in(User.objects.create_superuser("boss", password="a long password"))


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Return a maker of browsers of people with the given permissions alone."""

    def make(*codenames: str) -> Client:
        user = User.objects.create_user("kei", password="a long password", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return logged_in(user)

    return make


def logged_in(user: User) -> Client:
    """Return a browser of this person; it sends no CSRF token unless a test asks for the check."""
    client = Client()
    client.force_login(user)
    return client


def page_of(row: Any, what: str = "change") -> str:
    """Return the address of a row's page."""
    opts = row._meta
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_{what}", args=[row.pk])


def list_of(model: Any, what: str = "changelist") -> str:
    """Return the address of a model's list."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{what}")


def with_browsers_line_ends(text: str) -> str:
    """Return a text as a browser sends what stands in a text area."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


def form_of(response: Any) -> dict[str, Any]:
    """Return what a browser would post back from a form's page."""
    form = response.context["adminform"].form
    values: dict[str, Any] = {}
    for name in form.fields:
        bound = form[name]
        value = bound.value()
        if isinstance(value, datetime):
            values[f"{name}_0"], values[f"{name}_1"] = value.strftime("%Y-%m-%d"), value.strftime("%H:%M:%S")
        elif value is True:
            values[name] = "on"
        elif value not in (None, False):
            values[name] = with_browsers_line_ends(value) if isinstance(value, str) else value
        if form.fields[name].show_hidden_initial:
            assert f'name="{bound.html_initial_name}"' in response.content.decode()
            values[bound.html_initial_name] = value or ""
    return values

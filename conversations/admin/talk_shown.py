"""Show on the talk page the messages of a conversation, what was remembered for one, and advice after errors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from conversations.actions.context import AssembledContext
from conversations.admin.context_breakdown import candidate_groups, prompt_preview, token_budget
from conversations.domain.layers import PINNED, SEMANTIC, SYSTEM, USER_MESSAGE
from conversations.domain.messages import NewMessage, TurnState
from conversations.domain.policy import ChatPolicy
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.admin.base import clock
from memoryhub.llm.client import NOT_CONFIGURED
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

MAX_MESSAGES: Final = 40
"""Latest messages of a conversation that the page shows."""

OPEN_LAYERS: Final = (PINNED, SEMANTIC)
"""The others are unfolded on request."""

BROKEN_OFF: Final = "broken_off"
ADVICE: Final[Mapping[str, Any]] = {
    "unauthorized": _("The model’s provider refuses the key. Correct the key in the settings, and restart."),
    "not_found": _("The provider has no such address or model. Correct the address or the model’s name, and restart."),
    "quota": _("The account at the provider has no credit left. Add credit there, or set another key."),
    "rate_limited": _("The provider limits the rate of calls. Wait a minute, then send the message again."),
    "timeout": _("The model did not answer in time. Send the message again, or allow more time in the agent’s policy."),
    "connection": _("The provider cannot be reached. Check the network and the address in the settings."),
    "refused": _("The model refuses to answer this message. Send another one."),
    "context_window": _("The context is too long for the model. Lower the token limit in the agent’s policy."),
    "no_context": _("No context could be assembled. Try the message in the playground."),
    BROKEN_OFF: _("The server was stopped before the answer was complete. Send the message again."),
    "not_configured": NOT_CONFIGURED,
}
"""What to do, by the code of an error."""

OTHER_ADVICE: Final = _("Send the message again. If that fails too, `manage.py doctor` tests the language model.")

Source = Receipt | AssembledContext | None
"""What a breakdown is made of: a stored receipt, or a context that is stored nowhere."""


@dataclass(frozen=True)
class Exchange:
    """A message on the page; `failure` says what to do where a question has no answer."""

    role: str
    text: str = field(repr=False)
    is_stored: bool = True
    receipt_id: Any = None
    model: str = ""
    is_open: bool = False
    failure: Any = ""


def advice_for(code: str, actor: Actor | None = None) -> str:
    """Return what to do after an error; after a timeout with the time that the actor's agent allows, as a link."""
    advice = str(ADVICE.get(code, OTHER_ADVICE))
    if code != "timeout" or actor is None:
        return advice
    seconds = effective_policy(ChatPolicy, actor.agent, actor).chat_deadline_seconds
    allowed = ngettext("now %(count)d second", "now %(count)d seconds", seconds) % {"count": seconds}
    href = f"{reverse('admin:memoryhub_agent_change', args=[actor.agent_id])}#value_chat_deadline_seconds"
    return format_html('{} <a class="hub-link" href="{}">{}</a>', advice, href, allowed)


def exchanges_of(session: Session | None, said: Sequence[NewMessage]) -> list[Exchange]:
    """Return the latest messages of a session, and after them what is stored nowhere."""
    unstored = [Exchange(each.role, each.content, is_stored=False) for each in said]
    return [*(_stored(session) if session else ()), *unstored]


def _stored(session: Session) -> Iterator[Exchange]:
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    latest = list(rows.order_by("-seq")[:MAX_MESSAGES])[::-1]
    of_session = ChatTurn.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    turns = of_session.filter(question_id__in=[row.pk for row in latest]).order_by("id")
    by_question = {turn.question_id: turn for turn in turns}
    models = {turn.answer_id: turn.model for turn in by_question.values()}
    for row in latest:
        turn, now = by_question.get(row.pk), clock()
        is_open = turn is not None and turn.state == TurnState.ANSWERING
        is_lost = turn is not None and is_open and turn.until < now
        has_failed = turn is not None and turn.state == TurnState.FAILED
        yield Exchange(
            role=row.role,
            text=row.content,
            receipt_id=turn and turn.receipt_id,
            model=models.get(row.pk, ""),
            is_open=is_open and not is_lost,
            failure=advice_for(BROKEN_OFF if is_lost else turn.error, session.actor)
            if turn and (has_failed or is_lost)
            else "",
        )


def latest_receipt(session: Session) -> Receipt | None:
    """Return the receipt of the latest question of a session."""
    turns = ChatTurn.objects.filter(actor_id=session.actor_id, session_id=session.pk, receipt__isnull=False)
    turn = turns.select_related("receipt").order_by("-id").first()
    return turn.receipt if turn else None


def remembered(request: HttpRequest, source: Source, *, back: str = "") -> dict[str, Any]:
    """Return the breakdown of a context; its memories have buttons where the page can return to `back`."""
    if source is None:
        return {}
    may_curate = bool(back) and request.user.has_perm("strength.change_memory")
    if isinstance(source, Receipt):
        items, total, limit = source.items, source.total_tokens, source.token_limit
    else:
        items, metadata = [item.as_json() for item in source.assembly.items], source.assembly.metadata
        total, limit = metadata.total_tokens, metadata.token_limit
    groups = [
        {**group, "is_open": group["layer"] in OPEN_LAYERS}
        for group in candidate_groups(items, may_curate=may_curate)
        if group["layer"] not in (SYSTEM, USER_MESSAGE)
    ]
    return {
        "groups": groups,
        "left_out": sum(group["offered"] - group["entered"] for group in groups),
        "budget": token_budget(items, total=total, limit=limit),
        "receipt": source if isinstance(source, Receipt) else None,
        "prompt": None if isinstance(source, Receipt) else prompt_preview(source.assembly),
        "may_curate": may_curate,
    }

"""Trial of an operator's instructions on a stored session (SPEC W3, L7): what models would write. Nothing is stored."""

from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from conversations.actions.instruction_trials import TRIALS
from conversations.admin.doubts import doubt_label
from conversations.admin.playground_form import session_label
from conversations.domain.policy import WritingPolicy
from conversations.models import Session
from memoryhub.admin.base import as_uuid, clock, principal, render_page
from memoryhub.admin.policy_form import field_of
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.policies import effective_policy
from memoryhub.unfold import Page

TEMPLATE: Final = "admin/conversations/playground/instructions.html"
OFFERED_SESSIONS: Final = 50
PERMISSIONS: Final = (
    "memoryhub.change_agent",
    "conversations.view_session",
    "conversations.view_message",
    "strength.view_memory",
    "summaries.view_summary",
)
"""Who may save instructions may try them, if they may read what a trial shows."""


def _tried() -> list[str]:
    """Return the policy values that can be tried, in the order of the policy."""
    return [name for name in WritingPolicy.CHECKS if name in TRIALS]


class InstructionsForm(forms.Form):
    """A session and the instructions to try on it."""

    session = forms.CharField(max_length=100, label=_("Session"), widget=UnfoldAdminSelectWidget())

    def __init__(self, *args: Any, chosen: Session | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _tried():
            check = WritingPolicy.CHECKS[name]
            self.fields[name] = field_of(check, required=False, label=check.title)
        latest = Session.objects.select_related("actor").order_by(F("last_message_at").desc(nulls_last=True), "-id")
        offered = {row.pk: row for row in [*([chosen] if chosen else []), *latest[:OFFERED_SESSIONS]]}
        widget: Any = self.fields["session"].widget
        widget.choices = [(str(pk), _label(row)) for pk, row in offered.items()]

    def clean_session(self) -> Session:
        session = _session_of(self.cleaned_data["session"])
        if session is None:
            raise ValidationError(_("There is no such session."))
        return session


def _label(session: Session) -> str:
    owner = f"{session.actor.agent_id} / {session.actor.user_id}" if session.actor.user_id else session.actor.agent_id
    return f"{owner}: {session_label(session.title or session.channel, session.started_at)}"


def _session_of(text: str) -> Session | None:
    key = as_uuid(text)
    return Session.objects.select_related("actor__agent").filter(pk=key).first() if key else None


def instructions(request: HttpRequest) -> HttpResponse:
    """Show the form, filled in from the policy of a session's user; a POST asks the models."""
    chosen = _session_of(request.POST.get("session", "") or request.GET.get("session", ""))
    initial = {"session": str(chosen.pk), **_saved(chosen)} if chosen else {}
    form = InstructionsForm(request.POST or None, initial=initial, chosen=chosen)
    context: dict[str, Any] = {"form": form, "session": chosen}
    if form.is_bound and form.is_valid():
        context["results"] = [_result(request, form, name) for name in _tried()]
    return render_page(request, TEMPLATE, title=_("Try instructions"), **context)


def _saved(session: Session) -> dict[str, str]:
    policy = effective_policy(WritingPolicy, session.actor.agent, session.actor)
    return {name: getattr(policy, name) for name in _tried()}


def _result(request: HttpRequest, form: InstructionsForm, name: str) -> dict[str, Any]:
    """Return what a trial gave, in a form that the template lists."""
    values, title = form.cleaned_data, WritingPolicy.CHECKS[name].title
    try:
        texts = TRIALS[name](values["session"], values[name], principal(request), clock())
    except ProviderError as error:
        return {"title": title, "problem": str(error)}
    waiting = sum(each.doubt is not None for each in texts)
    rows = [(each.text, each.doubt and doubt_label(each.doubt.reason, each.doubt.detail)) for each in texts]
    summary = ngettext("%(count)s text", "%(count)s texts", len(rows)) % {"count": len(rows)}
    if waiting:
        summary += gettext(", %(count)s of them would be pending") % {"count": waiting}
    return {"title": title, "rows": rows, "summary": summary}


PAGES = [Page("instructions/", "instructions", instructions, PERMISSIONS)]

"""The form of the playground: agent, user, session, message and the options of a context."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django import forms
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from conversations.domain.policy import CALL_OPTIONS, ContextPolicy
from conversations.domain.routing import UNNAMED
from conversations.models import Receipt
from memoryhub.admin.base import as_uuid, truncated
from memoryhub.admin.fields import ProseField
from memoryhub.admin.policy_form import SWITCH_CHOICES, field_of
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policy import Check, Input

NO_PROJECT: Final = "-"
AGENT_ITSELF: Final = _("none: the agent itself")
MAX_MESSAGE_LENGTH: Final = 100_000

ADVANCED_FIELDS: Final = ("perspective", *(name for name in CALL_OPTIONS if name != "max_tokens"))


def _text(label: Any, help_text: Any = "", *, longest: int = 255, suggestions: str = "") -> forms.CharField:
    attrs = {"dir": "auto", "autocomplete": "off", **({"list": suggestions} if suggestions else {})}
    return forms.CharField(
        required=False,
        max_length=longest,
        label=label,
        help_text=help_text,
        widget=UnfoldAdminTextInputWidget(attrs=attrs),
    )


def _choice(label: Any, choices: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        required=False, label=label, choices=choices, widget=UnfoldAdminSelectWidget(choices=choices)
    )


def _option(check: Check) -> forms.Field:
    """Return the field of a policy value for one context; what it allows is checked where the context is assembled."""
    choices = SWITCH_CHOICES if check.input is Input.SWITCH else check.choices
    if choices:
        return _choice(check.title, [("", _("as in the policy")), *choices.items()])
    return field_of(check, required=False, label=check.title)


class PlaygroundForm(forms.Form):
    """Agent, user, message and options of a context; an empty option takes the policy's value."""

    agent = forms.ChoiceField(label=_("Agent"), widget=UnfoldAdminSelectWidget())
    user = _text(_("User"), _("Empty: the agent itself."), suggestions="users")
    # A text field: the value is checked against the user later; the choices are only suggestions.
    session = forms.CharField(required=False, max_length=100, label=_("Session"), widget=UnfoldAdminSelectWidget())
    project = _text(
        _("Project"),
        _("A name; empty: as in the policy; auto: found by the message, which may call a model; -: none."),
        suggestions="projects",
    )
    message = ProseField(rows=3, max_length=MAX_MESSAGE_LENGTH, label=_("The user’s message"))
    format = _choice(_("Form"), [("anthropic", "Anthropic"), ("openai", "OpenAI"), ("text", _("Text"))])
    perspective = _text(_("Perspective"), longest=100)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields |= {name: _option(ContextPolicy.CHECKS[name]) for name in CALL_OPTIONS}
        self.sessions: list[tuple[str, str]] = []
        agents: Any = self.fields["agent"]
        agents.choices = [(pk, pk) for pk in Agent.objects.order_by("pk").values_list("pk", flat=True)]

    def clean_session(self) -> UUID | None:
        # Its owner is checked where the user is resolved.
        text = self.cleaned_data["session"].strip()
        key = as_uuid(text)
        if text and key is None:
            raise forms.ValidationError(_("This is not a session id."))
        return key

    def clean_format(self) -> str:
        return self.cleaned_data["format"] or "anthropic"

    def clean_project(self) -> str | None:
        name = self.cleaned_data["project"].strip()
        return None if name == NO_PROJECT else name or UNNAMED

    def options(self) -> dict[str, Any]:
        values = {name: self.cleaned_data[name] for name in CALL_OPTIONS}
        return {
            name: value == "true" if ContextPolicy.CHECKS[name].input is Input.SWITCH else value
            for name, value in values.items()
            if value not in (None, "")
        }

    def offer_users(self, users: Sequence[str]) -> None:
        """Make the user field a select of these users and the requested one."""
        requested = str(self["user"].value() or "")
        names = [*users, *([requested] if requested and requested not in users else [])]
        choices = [("", str(AGENT_ITSELF)), *((name, truncated(name, 60)) for name in names)]
        self.fields["user"].widget, self["user"].help_text = UnfoldAdminSelectWidget(choices=choices), ""

    def offer_sessions(self, sessions: Sequence[tuple[UUID, str, str, datetime]]) -> None:
        """Fill the choices of the session field with these sessions and the requested one."""
        choices = [(str(key), session_label(title or channel, at)) for key, title, channel, at in sessions]
        requested = str(self["session"].value() or "")
        if requested and requested not in dict(choices):
            choices.append((requested, requested))
        self.sessions = [("", str(_("none"))), *choices]
        self.fields["session"].widget.choices = self.sessions

    @property
    def main(self) -> list[Any]:
        return [self[name] for name in self.fields if name not in ADVANCED_FIELDS and name != "message"]

    @property
    def further(self) -> list[Any]:
        return [self[name] for name in ADVANCED_FIELDS]

    @property
    def is_open(self) -> bool:
        return any(self[name].value() or self[name].errors for name in ADVANCED_FIELDS)


def session_label(name: str, at: datetime) -> str:
    return f"{truncated(name, 60)} · {date_format(timezone.localtime(at), 'SHORT_DATE_FORMAT')}"


def receipt_settings(receipt: Receipt) -> dict[str, str]:
    request = receipt.metadata.get("asked", {})
    project = request.get("project", UNNAMED)
    options = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in request.get("options", {}).items()
        if name in CALL_OPTIONS
    }
    return {
        "agent": receipt.actor.agent_id,
        "user": receipt.actor.user_id,
        "session": str(receipt.session_id or ""),
        "message": receipt.query,
        "project": NO_PROJECT if project is None else project,
        "perspective": request.get("perspective") or "",
        "format": request.get("format", "anthropic"),
        **options,
    }

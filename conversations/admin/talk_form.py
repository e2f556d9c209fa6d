"""The form of the talk page: agent and user, or a conversation, and the message."""

import json
from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanWidget

from conversations.admin.playground_form import MAX_MESSAGE_LENGTH
from conversations.domain.messages import NewMessage, Role
from conversations.models import Session
from memoryhub.admin.fields import ProseField
from memoryhub.admin.user_choice import UserField, check_user
from memoryhub.auth.access import Tenant, tenant_for_reading
from memoryhub.auth.principals import Principal
from memoryhub.tenancy.models import Agent

MAX_SAID: Final = 100
"""Messages of a conversation that only the form holds."""

MAX_SAID_LENGTH: Final = 200_000


class SaidField(forms.CharField):
    """Messages that are stored nowhere, as pairs of role and text in JSON."""

    unusable = _("This conversation cannot be continued. Begin a new one.")

    def __init__(self) -> None:
        super().__init__(required=False, strip=False, max_length=MAX_SAID_LENGTH, widget=forms.HiddenInput())

    def clean(self, value: Any) -> list[NewMessage]:
        try:
            pairs = json.loads(super().clean(value) or "[]")
            said = [NewMessage(role=Role(role), content=str(text)) for role, text in pairs]
        except (TypeError, ValueError, RecursionError):
            raise forms.ValidationError(self.unusable) from None
        if len(said) > MAX_SAID or any(each.role not in (Role.USER, Role.ASSISTANT) for each in said):
            raise forms.ValidationError(self.unusable)
        return said


def said_as_json(said: Sequence[NewMessage]) -> str:
    """Return the latest messages as the field reads them, whole exchanges."""
    for start in range(max(0, len(said) - MAX_SAID), len(said), 2):
        text = json.dumps([[each.role, each.content] for each in said[start:]], ensure_ascii=False)
        if len(text) <= MAX_SAID_LENGTH:
            return text
    return "[]"


class TalkForm(forms.Form):
    """A message, and the agent and user to begin a conversation with; in a `session` both are known.

    Where it does not store, “Keep nothing” is set and cannot be changed.
    """

    agent = forms.ChoiceField(label=_("Agent"), widget=UnfoldAdminSelectWidget())
    user_id = UserField(help_text=_("Empty: the agent itself."))
    message = ProseField(rows=3, max_length=MAX_MESSAGE_LENGTH, label=_("Your message"))
    keeps_nothing = forms.BooleanField(
        required=False,
        label=_("Keep nothing"),
        help_text=_("The answer uses what is remembered, but no message is stored and nothing is learnt from it."),
        widget=UnfoldBooleanWidget(),
    )
    said = SaidField()

    def __init__(self, *args: Any, session: Session | None, by: Principal, stores: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.session, self.by, self.stores = session, by, stores
        self.tenant: Tenant | None = None
        if session is not None:
            del self.fields["agent"], self.fields["user_id"]
        else:
            agents: Any = self.fields["agent"]
            agents.choices = [(pk, pk) for pk in Agent.objects.order_by("pk").values_list("pk", flat=True)]
        if not stores:
            self.fields["keeps_nothing"].disabled = True
            self.initial = {**self.initial, "keeps_nothing": True}

    def clean(self) -> dict[str, Any]:
        """Find the owner of the conversation; a user who does not exist is asked about, or refused to keep nothing."""
        values = super().clean() or self.cleaned_data
        if self.session is not None:
            actor = self.session.actor
            self.tenant = Tenant(actor.agent_id, actor.user_id, actor.agent, actor)
        elif "agent" in values and "user_id" in values:
            self.tenant = tenant_for_reading(self.by, values["agent"], values["user_id"])
            values["user_id"] = self.tenant.user_id
            check_user(self, self.tenant.agent_id, creates=not values["keeps_nothing"])
            if values["keeps_nothing"] and self.tenant.actor is None and not self.errors:
                self.add_error("user_id", _("Nothing is stored for the agent itself yet. Choose a user."))
        return values

    @property
    def said_before(self) -> list[NewMessage]:
        """Return what was said and is stored nowhere; nothing where that is unusable."""
        try:
            return SaidField().clean(self["said"].value())
        except forms.ValidationError:
            return []

    def after(self, answer: str) -> "TalkForm":
        """Return the form of the next message, which holds this exchange as well."""
        values = self.cleaned_data
        exchange = [
            NewMessage(role=Role.USER, content=values["message"]),
            NewMessage(role=Role.ASSISTANT, content=answer),
        ]
        kept: dict[str, Any] = {name: values[name] for name in ("agent", "user_id", "keeps_nothing") if name in values}
        initial: dict[str, Any] = {**kept, "said": said_as_json([*values["said"], *exchange])}
        return TalkForm(initial=initial, session=self.session, by=self.by, stores=self.stores)

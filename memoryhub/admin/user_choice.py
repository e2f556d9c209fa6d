"""The user field of forms: it offers the known users, and asks before a new one is created."""

from difflib import get_close_matches
from typing import Any, Final

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from memoryhub.admin.base import truncated
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import MAX_USER_ID, actor_id

MAX_OFFERED: Final = 200
"""Of more users none is offered: the name is typed, and near ones are named."""
MAX_COMPARED: Final = 2_000
MAX_NEAR: Final = 3

NEW_USER: Final = "new_user"
"""Name of the checkbox to create the user; its value is the user."""


class UserInput(UnfoldAdminTextInputWidget):
    def __init__(self) -> None:
        super().__init__(attrs={"list": "known-users", "autocomplete": "off", "dir": "auto"})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        actors = Actor.objects.exclude(user_id="").order_by("agent_id", "user_id")
        users = list(actors.values_list("user_id", "agent_id")[: MAX_OFFERED + 1])
        options = format_html_join("", '<option value="{}">{}</option>', users if len(users) <= MAX_OFFERED else [])
        field = super().render(name, value, attrs, renderer)
        return format_html('{}<datalist id="known-users">{}</datalist>', field, options)


class UserField(forms.CharField):
    def __init__(self, **options: Any) -> None:
        options = {"label": _("User"), "widget": UserInput(), **options}
        super().__init__(required=False, max_length=MAX_USER_ID, **options)


def check_user(form: Any, agent_id: str, *, creates: bool = True) -> None:
    """Add a validation error for a user that the agent does not have yet, unless the form `creates` a confirmed one.

    A form without a checkbox NEW_USER of its own has it in the error.
    """
    user_id, is_always_asked = form.cleaned_data.get("user_id", ""), NEW_USER in form.fields
    if not user_id or Actor.objects.filter(pk=actor_id(agent_id, user_id)).exists():
        return
    if creates and form.data.get(NEW_USER) == ("on" if is_always_asked else user_id):
        return
    parts: list[Any] = [gettext("The agent has no such user yet.")]
    if near := _near_users(agent_id, user_id):
        parts.append(gettext("Similar: %(names)s.") % {"names": gettext(", ").join(near)})
    if creates and is_always_asked:
        parts.append(gettext("Tick “New user” to create it."))
    elif creates:
        label, question = (
            '<label class="block mt-2"><input type="checkbox" name="{}" value="{}"> {}</label>',
            gettext("Create the new user %(user)s"),
        )
        parts.append(format_html(label, NEW_USER, user_id, question % {"user": truncated(user_id, 60)}))
    form.add_error("user_id", format_html_join(" ", "{}", ((part,) for part in parts)))


def _near_users(agent_id: str, user_id: str) -> list[str]:
    users = Actor.objects.filter(agent_id=agent_id).exclude(user_id="").order_by("pk")
    folded = {name.casefold(): name for name in users.values_list("user_id", flat=True)[:MAX_COMPARED]}
    return [truncated(folded[name], 60) for name in get_close_matches(user_id.casefold(), folded, MAX_NEAR)]

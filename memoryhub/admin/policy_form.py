"""Forms generated from policies: a field for each value, with its meaning and range.

A field shows the effective value. Untouched fields keep what is stored, changed ones become overrides; a field that is
emptied, reset or set to the inherited value removes its override.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from memoryhub.admin.base import ActionForm
from memoryhub.admin.fields import LinesField, ObjectField, ProseField
from memoryhub.errors import format_lazy
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import effective_values, policy_classes
from memoryhub.tenancy.policy import MAX_WORD_LENGTH, MAX_WORDS, Check, Input, Policy

FIELD: Final = "policy_"
RESET: Final = "reset_"
SWITCH_CHOICES: Final[Mapping[str, Any]] = {"true": _("on"), "false": _("off")}
MAX_SHOWN: Final = 10**12
"""A higher upper bound is shown as none."""

EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


class PartsWidget(forms.MultiWidget):
    """Labelled numbers side by side."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts
        self._suffixes = [f"_{name}" for name in parts]
        super().__init__({name: UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"}) for name in parts})

    def decompress(self, value: Any) -> list[str]:
        if isinstance(value, Mapping):
            numbers = {str(name): number for name, number in value.items()}
            value = [numbers.get(name) for name in self.parts]
        texts = ["" if item is None else str(item) for item in value or ()]
        return (texts + [""] * len(self.parts))[: len(self.parts)]

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rows = zip(self.parts.values(), self._suffixes, self.widgets, self.decompress(value), strict=True)
        inputs = (
            (
                label,
                widget.render(
                    name + suffix, text, {**self.attrs, **(attrs or {}), "id": f"id_{name}{suffix}"}, renderer
                ),
            )
            for label, suffix, widget, text in rows
        )
        labelled = format_html_join("", '<label class="hub-value-part"><span>{}</span>{}</label>', inputs)
        return format_html('<div class="hub-value-parts">{}</div>', labelled)


class PartsField(forms.Field):
    """Numbers by name, or a list of them; empty ones are left out."""

    def __init__(self, check: Check, **kwargs: Any) -> None:
        self.parts, self.is_list = check.parts, check.is_list
        super().__init__(widget=PartsWidget(check.parts), **kwargs)

    def to_python(self, value: Any) -> Any:
        texts = dict(zip(self.parts, value or [], strict=False))
        numbers = {name: _number(text) for name, text in texts.items() if (text or "").strip()}
        return list(numbers.values()) if self.is_list else numbers or None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.widget.decompress(initial) != self.widget.decompress(data))


def _number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            pass
    raise ValidationError(_("Enter a number."), code="invalid")


def _choice(choices: Mapping[str, Any], **kwargs: Any) -> forms.Field:
    pairs = list(choices.items())
    return forms.ChoiceField(choices=pairs, widget=UnfoldAdminSelectWidget(choices=pairs), **kwargs)


def field_of(check: Check, **kwargs: Any) -> forms.Field:
    """Return the form field for a policy value."""
    if check.input is Input.SWITCH:
        return _choice(SWITCH_CHOICES, **kwargs)
    if check.input is Input.CHOICE:
        return _choice(check.choices, **kwargs)
    if check.input is Input.WHOLE:
        return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget(), **kwargs)
    if check.input is Input.NUMBER:
        widget = UnfoldAdminIntegerFieldWidget(attrs={"step": "any"})
        return forms.FloatField(widget=widget, **kwargs)
    if check.input is Input.WORDS:
        return LinesField(max_lines=MAX_WORDS, max_line_length=MAX_WORD_LENGTH, help_text="", **kwargs)
    if check.input is Input.PARTS:
        return PartsField(check, **kwargs)
    if check.input is Input.PROSE:
        return ProseField(rows=4, **kwargs)
    return forms.CharField(widget=UnfoldAdminTextInputWidget(), max_length=1_000, **kwargs)


def shown_value(check: Check, value: Any) -> str:
    """Format a policy value for display."""
    if value in EMPTY:
        return gettext("none")
    if isinstance(value, bool):
        return str(SWITCH_CHOICES[str(value).lower()])
    if check.input is Input.CHOICE:
        return str(check.choices.get(value, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{check.parts.get(str(name), name)} {part:g}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def backticks_as_code(text: Any) -> SafeString:
    """Render the parts between backticks as code."""
    pieces = re.split("`([^`]*)`", str(text))
    marked = (("<code>{}</code>" if index % 2 else "{}", piece) for index, piece in enumerate(pieces))
    return SafeString("".join(format_html(template, piece) for template, piece in marked))


def shown_meaning(check: Check) -> SafeString:
    """Return what a value means, with its choices as the field names them instead of as they are stored."""
    text = _form_text(check.meaning)
    for word, label in check.choices.items():
        text = text.replace(f"`{word}`", gettext("“%(words)s”") % {"words": label})
    return backticks_as_code(capfirst(text))


def shown_range(check: Check) -> SafeString:
    """Return the allowed range, where the field does not show it by itself."""
    if check.input in (Input.SWITCH, Input.CHOICE):
        return SafeString("")
    if check.input is Input.WHOLE and check.high is not None and check.high > MAX_SHOWN:
        return backticks_as_code(format_lazy(_("a whole number, {low} or more"), low=check.low))
    text = _form_text(check.allowed)
    names = "|".join(check.parts)
    return backticks_as_code(re.sub(rf"\b({names})\b", r"`\1`", text, flags=re.ASCII) if names else text)


def _form_text(text: Any) -> str:
    """Replace `null`, the API's term, by "empty"."""
    return re.sub(r"`?\bnull\b`?", gettext("empty"), str(text), flags=re.ASCII)


class PolicyForm(ActionForm):
    """A form with a field for every policy value, and the overrides as JSON for experts.

    `layers` gives the agent and the user whose values hold; the instance is the one whose overrides are edited.
    """

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version
        self.stored: dict[str, Any] = dict(self.instance.policy or {})
        agent, actor = self.layers()
        self.default, self.inherited = effective_values(None, None), effective_values(agent, None)
        if actor is None:
            self.inherited = self.default
        self.effective = effective_values(agent, actor)
        for _policy, key, check in self._values():
            value = self.effective[key]
            initial = str(value).lower() if check.input is Input.SWITCH else value
            field = field_of(check, required=False, label=check.title, initial=initial)
            self.fields[FIELD + key] = field
            field.widget.attrs["aria-describedby"] = f"about_{key}"
            if key in self.stored:
                label = format_lazy(_("Reset to: {value}"), value=shown_value(check, self.inherited[key]))
                self.fields[RESET + key] = forms.BooleanField(required=False, label=label, widget=UnfoldBooleanWidget())

    def layers(self) -> tuple[Agent | None, Actor | None]:
        raise NotImplementedError

    def _values(self) -> Iterator[tuple[type[Policy], str, Check]]:
        is_user = self.layers()[1] is not None
        for policy in policy_classes():
            if policy.FOR_USERS or not is_user:
                yield from ((policy, key, check) for key, check in policy.CHECKS.items())

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        policy = values.get("policy")
        if policy is not None:
            values["policy"] = self._overrides(policy if "policy" in self.changed_data else self.stored)
        return values

    def _overrides(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        overrides = dict(policy)
        for _policy, key, check in self._values():
            name = FIELD + key
            if self.cleaned_data.get(RESET + key):
                overrides.pop(key, None)
            elif name in self.cleaned_data and self._was_sent(name):
                value = self.cleaned_data[name]
                value = value == "true" if check.input is Input.SWITCH and value else value
                if value != self.effective[key]:
                    self._override(overrides, key, check, value)
        return overrides

    def _was_sent(self, name: str) -> bool:
        sent = self.fields[name].widget.value_from_datadict(self.data, self.files, self.add_prefix(name))
        return any(part is not None for part in sent) if isinstance(sent, list) else sent is not None

    def _override(self, overrides: dict[str, Any], key: str, check: Check, value: Any) -> None:
        is_empty = value in EMPTY
        if value == self.inherited[key] or (is_empty and not check.holds(value)):
            overrides.pop(key, None)
        elif check.holds(value):
            overrides[key] = value
        else:
            self.add_error(FIELD + key, format_lazy(_("This must be {allowed}."), allowed=_form_text(check.allowed)))

    @property
    def changed_policy(self) -> dict[str, Any]:
        """Return the overrides where they differ from what is stored, as values of an action."""
        policy = self.cleaned_data["policy"]
        return {} if policy == self.stored else {"policy": policy}

    @cached_property
    def groups(self) -> list[dict[str, Any]]:
        """Return the template's data of each policy."""
        groups: dict[type[Policy], dict[str, Any]] = {}
        for policy, key, check in self._values():
            row = self._row(key, check)
            group = groups.setdefault(policy, {"title": policy.TITLE, "rows": [], "changed": 0, "wrong": False})
            group["rows"].append(row)
            group["changed"] += row["is_changed"]
            group["wrong"] = group["wrong"] or bool(row["field"].errors)
        return list(groups.values())

    def _row(self, key: str, check: Check) -> dict[str, Any]:
        field: BoundField = self[FIELD + key]
        return {
            "key": key,
            "field": field,
            "about": f"about_{key}",
            "meaning": shown_meaning(check),
            "unit": check.unit,
            "allowed": shown_range(check),
            "is_changed": key in self.stored,
            "default": shown_value(check, self.default[key]),
            "value": shown_value(check, self.effective[key]),
            "of_agent": shown_value(check, self.inherited[key]) if self.inherited[key] != self.default[key] else "",
            "reset": self[RESET + key] if key in self.stored else None,
        }


def policy_json(help_text: Any) -> ObjectField:
    return ObjectField(label=_("Policy as JSON"), help_text=help_text)

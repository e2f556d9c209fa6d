"""Forms of memories: a new one with its owner, and an edit."""

from datetime import datetime
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from memoryhub.admin.base import ActionForm
from memoryhub.admin.curated import OwnerForm, VersionedForm
from memoryhub.admin.fields import LinesField, ObjectField, ProseField, text_values, within_calendar
from memoryhub.tenancy.namespaces import NamespaceError, expand_namespace
from memoryhub.tenancy.policy import actor_id
from strength.actions.curation import EDITABLE
from strength.actions.drafts import NewMemory
from strength.actions.tombstones import find_tombstone
from strength.admin.labels import DECISION_LABELS
from strength.domain.memories import MAX_CONTENT_LENGTH, MAX_CUES_LENGTH, MAX_TAGS, Kind, Labels, ScopeLevel
from strength.models import Memory, Tombstone


class MemoryValuesForm(ActionForm):
    content = ProseField(max_length=MAX_CONTENT_LENGTH, label=_("Content"))
    confidence = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        label=_("Confidence"),
        help_text=_("0 to 1; below the agent's floor a new memory is pending."),
    )
    tags = LinesField(max_lines=MAX_TAGS, max_line_length=100, label=_("Tags"))
    learnings = ObjectField(
        check=text_values(10_000), label=_("Learnings"), help_text=_("What was learnt, by perspective, as JSON.")
    )
    metadata = ObjectField(label=_("Metadata"), help_text=_("Metadata of the client, as a JSON object."))
    # With its initial value: a job may write cues, which is no version, while the form is open.
    cues = forms.CharField(
        required=False,
        show_hidden_initial=True,
        max_length=MAX_CUES_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        label=_("Cues"),
        help_text=_("Other words, with blanks between them, by which searches find it. Agents do not see them."),
    )

    class Meta:
        model = Memory
        fields = (
            "content", "namespace", "kind", "tags", "scope_level", "scope_domain", "scope_project", "pinned",
            "confidence", "learnings", "metadata", "valid_from", "valid_to", "cues",
        )  # fmt: skip

    def clean_valid_from(self) -> datetime | None:
        return within_calendar(self.cleaned_data["valid_from"])

    def clean_valid_to(self) -> datetime | None:
        return within_calendar(self.cleaned_data["valid_to"])


class NewMemoryForm(OwnerForm, MemoryValuesForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user_id"].help_text = _("Empty: a memory of the agent itself.")
        self.fields["namespace"].required = False
        self.fields["namespace"].help_text = _("Empty: the default of the kind, such as /notes/{actorId}/.")
        self.fields["scope_project"].help_text = _("Empty: the agent's current project.")
        self.fields["scope_domain"].help_text = _("Empty: the agent's domain.")

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        agent, content = values.get("agent"), values.get("content")
        if agent is not None and content and not self.data.get(OVERRIDE_TOMBSTONE):
            user_id = agent.fixed_user_id or values.get("user_id", "")
            tombstone = find_tombstone(actor_id=actor_id(agent.pk, user_id), text=content)
            if tombstone is not None:
                self.add_error("content", _tombstone_error(tombstone))
        return values

    def memory(self) -> NewMemory:
        # The admin's own Meta of this form names agent and user as well.
        values = {name: self.cleaned_data[name] for name in MemoryValuesForm.Meta.fields}
        values |= {name: values[name] or None for name in ("namespace", "scope_domain", "scope_project")}
        values |= {"kind": Kind(values["kind"]), "scope_level": ScopeLevel(values["scope_level"])}
        return NewMemory(**values)


OVERRIDE_TOMBSTONE: Final = "despite"
"""Checkbox to write a text despite its tombstone."""


def _tombstone_error(tombstone: Tombstone) -> SafeString:
    message = gettext("A text with this content was %(decision)s on %(day)s by %(who)s, and is blocked.") % {
        "decision": DECISION_LABELS[tombstone.decision],
        "day": date_format(localtime(tombstone.created_at), "DATE_FORMAT"),
        "who": tombstone.who_name,
    }
    return format_html(
        '{} <a class="hub-link" href="{}">{}</a><label class="block mt-2"><input type="checkbox" name="{}" value="1"> '
        "{}</label>",
        message,
        reverse("admin:strength_tombstone_change", args=[tombstone.pk]),
        gettext("See the decision"),
        OVERRIDE_TOMBSTONE,
        gettext("Write it anyway: programs may then write it, too"),
    )


class MemoryForm(VersionedForm, MemoryValuesForm):
    def values(self) -> dict[str, Any]:
        return self.changed_values(EDITABLE)


class LabelsForm(forms.Form):
    """New tags, kind and namespace of many memories; what is empty stays."""

    add_tags = LinesField(max_lines=MAX_TAGS, max_line_length=100, label=_("Add tags"))
    remove_tags = LinesField(max_lines=MAX_TAGS, max_line_length=100, label=_("Remove tags"))
    kind = forms.ChoiceField(
        choices=[("", _("unchanged")), *((kind.value, _(kind.value)) for kind in Kind)],
        required=False,
        widget=UnfoldAdminSelectWidget,
        label=_("Kind"),
    )
    namespace = forms.CharField(
        max_length=500,
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"dir": "auto"}),
        label=_("Namespace"),
        help_text=_("Empty: unchanged. {actorId} is filled in for each user, as in /notes/{actorId}/."),
    )

    def clean_namespace(self) -> str:
        namespace: str = self.cleaned_data["namespace"]
        if namespace:
            try:
                expand_namespace(namespace, agent_id="a", user_id="u")
            except NamespaceError as error:
                raise ValidationError(str(error)) from error
        return namespace

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if not self.errors and not any(values.values()):
            raise ValidationError(_("Name at least one tag, a kind or a namespace."))
        return values

    def summary(self) -> str:
        """Return what was filled in, field by field."""
        given = {**self.cleaned_data, "kind": gettext(self.cleaned_data["kind"]) if self.cleaned_data["kind"] else ""}
        words = {name: ", ".join(value) if isinstance(value, list) else value for name, value in given.items()}
        return "; ".join(f"{self.fields[name].label}: {value}" for name, value in words.items() if value)

    def labels(self) -> Labels:
        values = self.cleaned_data
        kind = Kind(values["kind"]) if values["kind"] else None
        return Labels(tuple(values["add_tags"]), tuple(values["remove_tags"]), kind, values["namespace"])

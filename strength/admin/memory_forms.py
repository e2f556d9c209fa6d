"""Forms of memories: a new one with its owner, and an edit."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from memoryhub.admin.base import ActionForm
from memoryhub.admin.curated import OwnerForm, VersionedForm
from memoryhub.admin.fields import LinesField, ObjectField, ProseField, text_values
from strength.actions.curation import EDITABLE
from strength.actions.memories import NewMemory
from strength.domain.memories import LONGEST_CONTENT, Kind, ScopeLevel
from strength.models import Memory


class MemoryValuesForm(ActionForm):
    content = ProseField(max_length=LONGEST_CONTENT, label=_("Content"))
    confidence = forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        label=_("Confidence"),
        help_text=_("0 to 1; below the agent's floor a new memory waits for approval."),
    )
    tags = LinesField(most=50, longest=100, label=_("Tags"))
    learnings = ObjectField(
        check=text_values(10_000),
        label=_("Learnings"),
        help_text=_("What was learnt, by perspective, as JSON."),
    )
    metadata = ObjectField(label=_("Metadata"), help_text=_("Values of the client's own, as a JSON object."))

    class Meta:
        model = Memory
        fields = (
            "content", "namespace", "kind", "tags", "scope_level", "scope_domain", "scope_project", "pinned",
            "confidence", "learnings", "metadata", "valid_from", "valid_to",
        )  # fmt: skip

    # The actions decide about the values, and say what is wrong with them.
    not_checked_as_stored = frozenset(field.name for field in Memory._meta.fields)


class NewMemoryForm(MemoryValuesForm, OwnerForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user_id"].help_text = _("Empty: a memory of the agent itself.")
        self.fields["namespace"].required = False
        self.fields["namespace"].help_text = _("Empty: the kind's own, such as /notes/{actorId}/.")
        self.fields["scope_project"].help_text = _("Empty: the agent's current project.")
        self.fields["scope_domain"].help_text = _("Empty: the agent's domain.")

    def memory(self) -> NewMemory:
        # The admin's own Meta of this form names agent and user as well.
        values = {name: self.cleaned_data[name] for name in MemoryValuesForm.Meta.fields}
        values |= {name: values[name] or None for name in ("namespace", "scope_domain", "scope_project")}
        values |= {"kind": Kind(values["kind"]), "scope_level": ScopeLevel(values["scope_level"])}
        return NewMemory(**values)


class MemoryForm(VersionedForm, MemoryValuesForm):
    """An edit: what is left unchanged keeps its stored value."""

    def values(self) -> dict[str, Any]:
        return self.changed_values(EDITABLE)

"""Screen of written profiles: lines with their source memories; edit, lock, rewrite, restore, delete."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import clock, excerpt, title_with_time
from memoryhub.admin.columns import UserFilter, column
from memoryhub.admin.curated import VersionedForm, WrittenTextAdmin, wide
from memoryhub.admin.fields import ProseField
from memoryhub.auth.access import Tenant
from memoryhub.tenancy.policies import effective_policy
from strength.actions.profiles import PROFILES, enqueue_profile, profile_entries
from strength.actions.search import standing_memories
from strength.admin.memory_detail import memory_links
from strength.domain.policy import ProfilePolicy
from strength.domain.profile import MAX_TEXT_LENGTH
from strength.models import Profile, ProfileVersion

LIST_EXCERPT_LENGTH: Final = 300


class ProfileForm(VersionedForm):
    text = ProseField(
        max_length=MAX_TEXT_LENGTH,
        label=_("Profile"),
        help_text=_(
            "One statement per line. A rewritten line keeps its memories. Editing locks the text: jobs do not rewrite "
            "it until you unlock it."
        ),
    )

    class Meta:
        model = Profile
        fields: Sequence[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["text"] = self.instance.text


@admin.register(Profile)
class ProfileAdmin(WrittenTextAdmin):
    empty_hint = _("A user’s preferences and facts are summarised here, where the policy of the agent asks for it.")
    version_model, version_field, stored_text = ProfileVersion, "profile", "lines"
    versions_name = _("versions of profiles")
    texts = PROFILES
    form: type[forms.ModelForm] = ProfileForm
    list_per_page = 30  # wide rows
    list_display = ("shown_text", "owner", "shown_generator", "shown_locked", "version", "updated_at")
    list_filter = ("generator", "locked", "actor__agent", UserFilter, "updated_at")
    list_select_related = ("actor",)
    search_fields = ("lines",)
    search_help_text = _("Words of a profile, or the id of one.")
    ordering = ("-id",)
    readonly_fields = ("id", "owner", "model", "written_by", "locked", "version", "written_at", "updated_at")
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (
            _("Creation"),
            {"fields": (("owner", "written_by", "model"), ("locked", "version"), ("written_at", "updated_at"), "id")},
        ),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/strength/profile/buttons.html"
    change_form_outer_after_template = "admin/strength/profile/lines.html"

    shown_text = column(
        _("profile"), lambda profile: wide(excerpt(" / ".join(profile.text[:LIST_EXCERPT_LENGTH].splitlines())) or "–")
    )

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.updated_at)

    def write_anew(self, row: Any, **values: Any) -> None:
        enqueue_profile(actor=row.actor, **values)

    # The page's context

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Profile.objects.select_related("actor__agent").get(pk=row.pk, actor_id=row.actor_id)
        actor, now = stored.actor, clock()
        lines = stored.written
        memories = memory_links(request, [key for line in lines for key in line.memory_ids])
        tenant = Tenant(actor.agent_id, actor.user_id, actor.agent, actor)
        _profile, entries = profile_entries(
            tenant=tenant, memories=standing_memories(actor, now=now), project=None, now=now
        )
        shown = {entry.line for entry in entries}
        return {
            "may_change": self.has_change_permission(request, row),
            "is_locked": stored.locked,
            "is_on": effective_policy(ProfilePolicy, actor.agent, actor).write_profile,
            "version": stored.version,
            "history": self.history_of(request, stored),
            "written_lines": [
                {
                    "text": line.text,
                    "is_shown": line in shown,
                    "memories": [memories[str(key)] for key in line.memory_ids],
                }
                for line in lines
            ],
        }

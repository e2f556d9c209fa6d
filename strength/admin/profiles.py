"""Screen of written profiles: lines with the memories that each rests on; edit, lock, rewrite, restore, delete."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    BooleanRadioFilter,
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.admin.base import (
    UserFilter,
    choice_displays,
    clock,
    coloured,
    excerpt,
    principal,
    title_with_time,
)
from memoryhub.admin.curated import VersionedForm
from memoryhub.admin.fields import ProseField
from memoryhub.admin.history import HistoryAdmin, address, restored_version, wide
from memoryhub.admin.labels import PRINCIPAL_KINDS
from memoryhub.admin.object_actions import (
    Done,
    object_action_urls,
    run_object_action,
    submitted_number,
    submitted_reason,
    submitted_text,
)
from memoryhub.auth.tenancy import Tenant, UnknownRow
from memoryhub.tenancy.policies import effective_policy
from strength.actions.profiles import (
    delete_profile,
    edit_profile,
    enqueue_profile,
    profile_entries,
    restore_profile,
)
from strength.actions.search import standing_of
from strength.admin.labels import GENERATOR_COLOURS, GENERATORS, PROFILE_VERBS
from strength.admin.memory_detail import memory_links
from strength.domain.policy import ProfilePolicy
from strength.domain.profile import LONGEST_TEXT
from strength.models import Profile, ProfileVersion

LISTED_CHARACTERS: Final = 300


class ProfileForm(VersionedForm):
    text = ProseField(
        max_length=LONGEST_TEXT,
        label=_("Profile"),
        help_text=_(
            "One statement a line. A line that you rewrite rests on the same memories; a text that you change is "
            "locked: no job rewrites it until you unlock it."
        ),
    )

    class Meta:
        model = Profile
        fields: Sequence[str] = ()

    # The actions decide about the values, and say what is wrong with them.
    not_checked_as_stored = frozenset(field.name for field in Profile._meta.fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["text"] = self.instance.text


@admin.register(Profile)
class ProfileAdmin(HistoryAdmin):
    form: type[forms.ModelForm] = ProfileForm
    list_per_page = 30  # wide rows
    list_display = ("shown_text", "owner", "shown_generator", "shown_locked", "version", "updated_at")
    list_filter = (
        ("generator", ChoicesDropdownFilter),
        ("locked", BooleanRadioFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("updated_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("lines",)
    search_help_text = _("Words of a profile, or the id of one.")
    ordering = ("-id",)
    readonly_fields = (
        "id", "owner", "model", "written_by", "locked", "version", "written_at", "updated_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (
            _("Creation"),
            {
                "fields": (
                    ("owner", "written_by", "model"),
                    ("locked", "version"),
                    ("written_at", "updated_at"),
                    "id",
                )
            },
        ),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/strength/profile/buttons.html"
    change_form_outer_after_template = "admin/strength/profile/lines.html"

    @admin.display(description=_("profile"))
    def shown_text(self, profile: Profile) -> str:
        return wide(excerpt(" / ".join(profile.text[:LISTED_CHARACTERS].splitlines())) or "–")

    shown_generator, written_by = choice_displays(
        "generator", GENERATORS, GENERATOR_COLOURS, description=_("written by")
    )

    @coloured({"locked": "warning"})
    @admin.display(description=_("locked"), ordering="locked")
    def shown_locked(self, profile: Profile) -> Any:
        return ("locked", _("locked")) if profile.locked else ""

    # Changes: every one of them through an action.

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.updated_at)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Profile:
        former = row.version
        saved = edit_profile(
            profile=row, values=form.changed_values(frozenset({"text"})),
            expected_version=form.cleaned_data["expected_version"], by=principal(request),
            reason=form.cleaned_data["reason"], now=clock(),
        )  # fmt: skip
        if saved.version != former:
            words = gettext("The text was saved, as version %(number)d, and locked.")
            undo = address("restore", saved, number=former, version=saved.version, exactly=1)
            self.offer_undo(request, words % {"number": saved.version}, undo)
        return saved

    def delete_model(self, request: HttpRequest, obj: Profile) -> None:
        with suppress(UnknownRow):
            reason = submitted_reason(request)
            delete_profile(
                profile=obj, expected_version=None, by=principal(request), reason=reason, now=clock()
            )

    def deleted_along(self, rows: Sequence[Profile]) -> Mapping[Any, int]:
        actors = [each.actor_id for each in rows]
        versions = ProfileVersion.objects.filter(actor_id__in=actors, profile__in=rows)
        return {_("versions of profiles"): versions.count()}

    def get_urls(self) -> list[URLPattern]:
        pages = {"lock": self.lock_view, "rewrite": self.rewrite_view}
        return [*object_action_urls(self, pages), *super().get_urls()]

    def lock_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        locked = submitted_text(request, "locked") == "1"

        def press(profile: Profile, reason: str) -> Done:
            former = profile.version
            saved = edit_profile(
                profile=profile, values={"locked": locked}, expected_version=submitted_number(request, "version"),
                by=principal(request), reason=reason, now=clock(),
            )  # fmt: skip
            words = gettext("It is locked.") if locked else gettext("It is unlocked.")
            undo = address("lock", saved, locked=0 if locked else 1, version=saved.version)
            return Done(words, undo=undo if saved.version != former else None)

        return run_object_action(self, request, object_id, press, logged="lock" if locked else "unlock")

    def rewrite_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def press(profile: Profile, reason: str) -> Done:
            enqueue_profile(actor=profile.actor, by=principal(request), now=clock())
            return Done(
                gettext(
                    "It will be written anew in the background. What it says now stays among its versions."
                )
            )

        return run_object_action(self, request, object_id, press, logged="rewrite")

    # Versions.

    def versions_of(self, row: Any, before: int, number: int) -> list[dict[str, Any]]:
        rows = ProfileVersion.objects.filter(actor_id=row.actor_id, profile_id=row.pk, number__lt=before)
        return [
            {
                "number": each.number,
                "verb": PROFILE_VERBS.get(each.verb, each.verb),
                "who": each.who_name,
                "who_kind": PRINCIPAL_KINDS[each.who_kind],
                "at": each.created_at,
                "why": each.reason,
                "is_now": each.number == row.version,
                "note": ", ".join([str(GENERATORS[each.generator]), *([each.model] if each.model else [])]),
                "what_changed": address("compare", row, **{"from": each.number - 1, "to": each.number}),
            }
            for each in rows.defer("lines")[:number]
        ]

    def text_at(self, row: Any, number: int) -> str | None:
        rows = ProfileVersion.objects.filter(actor_id=row.actor_id, profile_id=row.pk, number=number)
        version = rows.first()
        return version.text if version else None

    def restore(self, request: HttpRequest, row: Any, number: int, reason: str) -> Done:
        """Restore and lock a version; with `exactly`, restore its lock state too."""
        former = row.version
        done = restore_profile(
            profile=row, number=number, expected_version=submitted_number(request, "version"), by=principal(request),
            reason=reason, with_lock=bool(submitted_text(request, "exactly")), now=clock(),
        )  # fmt: skip
        return restored_version(done, number, former, exactly=1)

    # What the page tells besides the fields.

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Profile.objects.select_related("actor__agent").get(pk=row.pk, actor_id=row.actor_id)
        actor, now = stored.actor, clock()
        lines = stored.written
        memories = memory_links(request, actor.pk, [key for line in lines for key in line.memory_ids])
        tenant = Tenant(actor.agent_id, actor.user_id, actor.agent, actor)
        _profile, entries = profile_entries(
            tenant=tenant, standing=standing_of(actor, now=now), project=None, now=now
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

"""The memories' screens: a list to work through, and a page that tells a memory's whole story."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    BooleanRadioFilter,
    ChoicesDropdownFilter,
    FieldTextFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.access.actions import VersionMismatch
from memoryhub.access.domain import Forbidden
from memoryhub.access.tenancy import UnknownRow, actor_for_writing
from memoryhub.admin.base import (
    MOST_AT_ONCE,
    ActingAdmin,
    UserFilter,
    about,
    about_its_field,
    clock,
    excerpt,
    labelled,
    outdated,
    principal,
    whose,
)
from memoryhub.admin.pressing import Act, Done, each_of, posted, typed
from memoryhub.tenants.namespaces import NamespaceError
from strength.actions.curate import (
    TRANSITIONS,
    DuplicateMemory,
    WrongState,
    apply_transition,
    delete_memory,
    edit_memory,
    restore_revision,
)
from strength.actions.use import LEARNABLE, impact_memory, use_memory
from strength.actions.write import write_memory
from strength.admin.forms import MemoryForm, NewMemoryForm
from strength.admin.stories import story_of
from strength.admin.words import IMPACTS
from strength.domain.memories import MemoryRefused, Status
from strength.domain.strength import Impact
from strength.models import Memory, MemoryRevision

LONGEST_PERSPECTIVE = 100
STATUS_COLOURS = {"active": "success", "pending": "warning", "archived": "info", "rejected": "danger"}
VERB_LABELS = {
    "pin": _("Pin"),
    "unpin": _("Unpin"),
    "archive": _("Archive"),
    "reactivate": _("Reactivate"),
    "approve": _("Approve"),
    "reject": _("Reject"),
}


def _bulk(verb: str) -> Callable[..., None]:
    def act(model_admin: "MemoryAdmin", request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        model_admin.apply_to_each(request, queryset, verb)

    act.__name__ = verb
    labels = {
        "pin": _("Pin the selected memories"),
        "unpin": _("Unpin the selected memories"),
        "archive": _("Archive the selected memories"),
        "reactivate": _("Reactivate the selected memories"),
        "approve": _("Approve the selected memories"),
        "reject": _("Reject the selected memories"),
    }
    return admin.action(description=labels[verb], permissions=["change"])(act)


@admin.register(Memory)
class MemoryAdmin(ActingAdmin):
    """Memories: written, edited, curated and deleted through the actions alone."""

    form = MemoryForm
    add_form = NewMemoryForm
    list_display = (
        "shown_content",
        "kind",
        "owner",
        "shown_status",
        "shown_pinned",
        "strength",
        "uses",
        "created_at",
    )
    list_filter = (
        ("status", ChoicesDropdownFilter),
        ("kind", ChoicesDropdownFilter),
        ("pinned", BooleanRadioFilter),
        ("source", ChoicesDropdownFilter),
        ("trust", ChoicesDropdownFilter),
        ("scope_level", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("namespace", FieldTextFilter),
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor", "numbers")
    search_fields = ("content", "namespace")
    search_help_text = _("Words of a memory, its namespace, or its id.")
    ordering = ("-id",)
    long_text = "content"
    actions = tuple(_bulk(verb) for verb in TRANSITIONS)
    readonly_fields = ("id", "owner", "shown_status", "source", "channel", "trust", "locked", "version", "created_at",
                       "updated_at", "superseded_by", "supersedes")  # fmt: skip
    fieldsets = (
        (None, {"fields": ("content", "kind", "namespace", "tags")}),
        (
            _("State"),
            {"fields": (("owner", "shown_status"), ("pinned", "locked"), ("trust", "source"), "channel")},
        ),
        (_("Scope"), {"fields": ("scope_level", ("scope_domain", "scope_project"))}),
        (
            _("Validity"),
            {
                "fields": (
                    "valid_from",
                    "valid_to",
                    ("confidence", "superseded_by"),
                    "supersedes",
                    "learnings",
                )
            },
        ),
        (_("This change"), {"fields": ("reason", ("version", "created_at", "updated_at"), "id")}),
    )
    add_fieldsets = (
        (None, {"fields": (("agent", "user_id"), "content", ("kind", "pinned"), "namespace", "tags")}),
        (_("Scope"), {"fields": ("scope_level", ("scope_domain", "scope_project"))}),
        (_("Validity"), {"fields": ("valid_from", "valid_to", "confidence", "learnings")}),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/strength/memory/verbs.html"
    change_form_outer_after_template = "admin/strength/memory/story.html"
    refusals = {
        MemoryRefused: about_its_field,
        NamespaceError: about_its_field,
        DuplicateMemory: about("content"),
        VersionMismatch: outdated,
        WrongState: about(None),
        UnknownRow: about(None),
        Forbidden: about(None),
    }

    @admin.display(description=_("content"))
    def shown_content(self, memory: Any) -> str:
        """Return the memory's beginning."""
        return excerpt(memory.opening)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, memory: Memory) -> str:
        """Return whose memory it is."""
        return whose(memory.actor)

    @labelled(STATUS_COLOURS)
    @admin.display(description=_("status"), ordering="status")
    def shown_status(self, memory: Memory) -> str:
        """Return where the memory stands."""
        return memory.status

    @labelled({"pinned": "primary"})
    @admin.display(description=_("pinned"), ordering="pinned")
    def shown_pinned(self, memory: Memory) -> Any:
        """Return a label for pinned memories alone."""
        return ("pinned", _("pinned")) if memory.pinned else ""

    @admin.display(description=_("strength"), ordering="numbers__strength")
    def strength(self, memory: Any) -> str:
        """Return how strong it is, in short."""
        return f"{memory.numbers.strength:.2f}"

    @admin.display(description=_("uses"), ordering="numbers__access_count")
    def uses(self, memory: Any) -> int:
        """Return how often it was used."""
        return int(memory.numbers.access_count)

    # Changes: every one of them through an action.

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Memory:
        """Write the memory, or change what was changed."""
        by, now = principal(request), clock()
        if not change:
            agent, user_id = form.cleaned_data["agent"], form.cleaned_data["user_id"]
            actor = actor_for_writing(by, agent.pk, user_id, now=now)
            memory, is_new = write_memory(actor=actor, new=form.memory(), by=by, now=now)
            if not is_new:
                told = _(
                    "There was a memory with this text already; it was strengthened instead of written twice."
                )
                self.message_user(request, told, messages.WARNING)
            return memory
        return edit_memory(
            memory=row,
            values=form.values(),
            expected_version=form.cleaned_data["expected_version"],
            by=by,
            reason=form.cleaned_data["reason"],
            now=now,
        )

    def apply_to_each(self, request: HttpRequest, queryset: QuerySet[Memory], verb: str) -> None:
        """Do what the verb says to each memory; tell how many it was done to, and why not to the others."""
        rows = list(queryset.select_related("actor__agent")[: MOST_AT_ONCE + 1])
        if len(rows) > MOST_AT_ONCE:
            told = _("Choose at most %(most)d memories at once; nothing was changed.") % {
                "most": MOST_AT_ONCE
            }
            self.message_user(request, told, messages.ERROR)
            return
        by = principal(request)

        def act(memory: Memory) -> None:
            apply_transition(memory=memory, verb=verb, by=by, reason="", now=clock())

        done = each_of(self, request, rows, act, logged=verb)
        if done:
            told = ngettext("%(verb)s: %(count)d memory.", "%(verb)s: %(count)d memories.", done)
            self.message_user(request, told % {"verb": VERB_LABELS[verb], "count": done}, messages.SUCCESS)

    def delete_model(self, request: HttpRequest, obj: Memory) -> None:
        """Delete a memory; its text leaves the receipts as well. One that is gone already is deleted."""
        with suppress(UnknownRow):
            delete_memory(memory=obj, expected_version=None, by=principal(request), reason="", now=clock())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Memory]) -> None:
        """Delete memories one by one, so that each leaves its audit entry."""
        for memory in queryset.select_related("actor__agent"):
            self.delete_model(request, memory)

    def get_deleted_objects(self, objs: Iterable[Memory], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return the memories themselves: what hangs on them goes along and is nothing apart from them."""
        rows = list(islice(objs, MOST_AT_ONCE + 1))
        if len(rows) > MOST_AT_ONCE:
            told = _("Choose at most %(most)d memories at once; nothing was changed.") % {
                "most": MOST_AT_ONCE
            }
            return [], {}, set(), [told]
        needed = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return [str(memory) for memory in rows], {self.opts.verbose_name_plural: len(rows)}, needed, []

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with those that the page's buttons post to."""
        view = self.admin_site.admin_view
        return [
            path("<path:object_id>/curate/", view(self.curate_view), name="strength_memory_curate"),
            path("<path:object_id>/restore/", view(self.restore_view), name="strength_memory_restore"),
            path("<path:object_id>/use/", view(self.use_view), name="strength_memory_use"),
            path("<path:object_id>/impact/", view(self.impact_view), name="strength_memory_impact"),
            *super().get_urls(),
        ]

    def curate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Do what a button of the memory's page says."""
        verb = request.POST.get("verb", "")

        def act(memory: Memory, reason: str) -> Done:
            if verb not in TRANSITIONS:
                raise WrongState(gettext("There is no such button."))
            # The version that the page showed: an approval is bound to the text that was read (SPEC M10).
            apply_transition(
                memory=memory,
                verb=verb,
                by=principal(request),
                reason=reason,
                expected_version=_number(request.POST.get("version")),
                now=clock(),
            )
            return Done(gettext("Done: %(verb)s.") % {"verb": VERB_LABELS[verb]})

        return self._posted(request, object_id, act, logged=verb)

    def restore_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Bring back the values as they stood after a revision."""

        def act(memory: Memory, reason: str) -> Done:
            revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
            revision = revisions.filter(number=_number(request.POST.get("number")) or 0).first()
            if revision is None:
                raise UnknownRow(gettext("There is no such revision."))
            restore_revision(
                memory=memory,
                revision=revision,
                expected_version=_number(request.POST.get("version")),
                by=principal(request),
                reason=reason,
                now=clock(),
            )
            return Done(gettext("Revision %(number)d was restored.") % {"number": revision.number})

        return self._posted(request, object_id, act, logged="restore")

    def use_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Strengthen the memory: somebody says that it was used."""
        perspective = typed(request, "perspective")

        def act(memory: Memory, reason: str) -> Done:
            if len(perspective) > LONGEST_PERSPECTIVE:
                problem = gettext("A perspective has at most %(longest)d characters.")
                raise MemoryRefused("perspective", problem % {"longest": LONGEST_PERSPECTIVE})
            use_memory(
                memory=memory, perspective=perspective or None, task=None, by=principal(request), now=clock()
            )
            return Done(gettext("It was used, and is stronger by that."))

        return self._posted(request, object_id, act, logged="use")

    def impact_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Add an impact to the memory."""
        impact = request.POST.get("impact", "")

        def act(memory: Memory, reason: str) -> Done:
            if impact not in IMPACTS:
                raise WrongState(gettext("There is no such button."))
            impact_memory(memory=memory, impact=Impact(impact), by=principal(request), now=clock())
            return Done(gettext("Its impact was noted: %(impact)s.") % {"impact": IMPACTS[impact]})

        return self._posted(request, object_id, act, logged="impact")

    def _posted(self, request: HttpRequest, object_id: str, act: Act, *, logged: str) -> HttpResponse:
        """Do what a button posts and go back to the memory's page."""
        may = partial(self.has_change_permission, request)
        return posted(self, request, object_id, act, may=may, logged=logged)

    # What the page tells besides the fields.

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the fields nobody types; a memory that exists is pinned by its button, which knows the rules."""
        return self.readonly_fields if obj is None else (*self.readonly_fields, "pinned")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; who may only look is not asked for a reason."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name != "reason"]})
            for title, rest in fieldsets
        ]

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the memory's story, and the buttons that fit its state."""
        stored = (
            Memory.objects.of([row.actor_id])
            .with_numbers([row.actor_id])
            .select_related("actor__agent")
            .get(pk=row.pk)
        )
        may_change = self.has_change_permission(request, row)
        return {
            "verbs": _verbs(stored) if may_change else [],
            "may_restore": may_change,
            "may_report_use": may_change and Status(stored.status) in LEARNABLE,
            "version": stored.version,
            **story_of(request, stored, now=clock()),
        }


def _number(text: str | None) -> int | None:
    """Return a small number that a page posted, or None."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _verbs(memory: Memory) -> list[tuple[str, Any]]:
    """Return the buttons that change something in the memory's state."""
    shown = []
    for verb, transition in TRANSITIONS.items():
        changes = any(getattr(memory, name) != value for name, value in transition.sets.items())
        if Status(memory.status) in transition.allowed and changes:
            shown.append((verb, VERB_LABELS[verb]))
    return shown

"""Screens of merges: two memories side by side, and whether they are one."""

from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import DropdownFilter, RangeDateTimeFilter, RelatedDropdownFilter

from memoryhub.admin.base import (
    MOST_AT_ONCE,
    READ_FOR_EXCERPT,
    UserFilter,
    clock,
    excerpt,
    labelled,
    principal,
    whose,
)
from memoryhub.admin.differences import Piece, compared
from memoryhub.admin.pressing import ButtonsAdmin, Done, each_of, page_of
from strength.actions.curate import WrongState
from strength.actions.merging import dismiss_merge, merge, undo_merge
from strength.admin.shown import may_read_memories
from strength.admin.words import MERGE_COLOURS, MERGE_STATES, said
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.models import Memory, Merge

LONGEST_SHOWN: Final = 20_000
VERBS: Final = {"accept": merge, "dismiss": dismiss_merge, "undo": undo_merge}
LABELS: Final = {"accept": _("Merge"), "dismiss": _("Keep apart"), "undo": _("Part again")}
TOLD: Final = {
    "accept": _("The two are one now."),
    "dismiss": _("The two stay apart, and are not proposed again."),
    "undo": _("The two are apart again."),
}


class MergeStateFilter(DropdownFilter):
    """Shows what waits for a decision, unless asked for something else."""

    title = _("state")
    parameter_name = "state"
    all_option = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the states, and all of them."""
        return [*((state.value, MERGE_STATES[state]) for state in MergeState), ("all", _("all"))]

    def value(self) -> str:
        """Return the chosen state."""
        chosen: str = super().value() or MergeState.PROPOSED.value
        return chosen

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Filter to the chosen state."""
        return queryset if self.value() == "all" else queryset.filter(state=self.value())


@admin.register(Merge)
class MergeAdmin(ButtonsAdmin):
    """Proposals to merge, and what became of them; whoever may change them decides."""

    list_display = (
        "shown_likeness",
        "shown_kept",
        "shown_absorbed",
        "owner",
        "shown_state",
        "created_at",
        "decided_at",
    )
    list_filter = (
        MergeStateFilter,
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("kept__content", "absorbed__content")
    search_help_text = _("Words of one of the two, or the id of a merge or of a memory.")
    id_fields = ("pk", "kept_id", "absorbed_id")
    ordering = ("-created_at", "-id")
    actions = ("accept", "dismiss")
    fields = (
        ("owner", "state_in_words", "shown_likeness"),
        ("created_at", "decided_at", "decided_by"),
        "reason",
        "id",
    )
    readonly_fields = ("owner", "state_in_words", "shown_likeness")
    change_form_outer_before_template = "admin/strength/merge/sides.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Merge]:
        """Return the merges with the beginnings of both texts, for those who may read them."""
        rows: QuerySet[Merge] = super().get_queryset(request).defer("undo")
        if not may_read_memories(request):
            return rows
        return rows.annotate(
            kept_opening=Left("kept__content", READ_FOR_EXCERPT),
            absorbed_opening=Left("absorbed__content", READ_FOR_EXCERPT),
        )

    @admin.display(description=_("alike"), ordering="likeness")
    def shown_likeness(self, proposal: Merge) -> str:
        """Return how alike the two are."""
        return f"{100 * proposal.likeness:.0f}\N{NO-BREAK SPACE}%"

    @admin.display(description=_("stays"))
    def shown_kept(self, proposal: Any) -> str:
        """Return the beginning of the memory that stays."""
        return excerpt(getattr(proposal, "kept_opening", str(proposal.kept_id)))

    @admin.display(description=_("is absorbed"))
    def shown_absorbed(self, proposal: Any) -> str:
        """Return the beginning of the memory that goes."""
        return excerpt(getattr(proposal, "absorbed_opening", str(proposal.absorbed_id)))

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, proposal: Merge) -> str:
        """Return whose memories they are."""
        return whose(proposal.actor)

    @labelled(MERGE_COLOURS)
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, proposal: Merge) -> tuple[Any, Any]:
        """Return what became of it."""
        return said(MERGE_STATES, proposal.state)

    @admin.display(description=_("state"))
    def state_in_words(self, proposal: Merge) -> Any:
        """Return the state as the page shows it."""
        return self.shown_state(proposal)[1]

    # Decisions

    @admin.action(description=_("Merge the selected pairs"), permissions=["decide"])
    def accept(self, request: HttpRequest, queryset: QuerySet[Merge]) -> None:
        """Merge each of the selected pairs."""
        self._decide_each(request, queryset, "accept")

    @admin.action(description=_("Keep the selected pairs apart"), permissions=["decide"])
    def dismiss(self, request: HttpRequest, queryset: QuerySet[Merge]) -> None:
        """Keep each of the selected pairs apart."""
        self._decide_each(request, queryset, "dismiss")

    def _decide_each(self, request: HttpRequest, queryset: QuerySet[Merge], verb: str) -> None:
        rows = list(queryset[: MOST_AT_ONCE + 1])
        if len(rows) > MOST_AT_ONCE:
            told = _("Choose at most %(most)d pairs at once; nothing was changed.") % {"most": MOST_AT_ONCE}
            self.message_user(request, told, messages.ERROR)
            return
        by = principal(request)

        def act(proposal: Merge) -> None:
            VERBS[verb](proposal=proposal, by=by, reason="", now=clock())

        done = each_of(self, request, rows, act, logged=verb)
        if done:
            told = ngettext("%(verb)s: %(count)d pair.", "%(verb)s: %(count)d pairs.", done)
            self.message_user(request, told % {"verb": LABELS[verb], "count": done}, messages.SUCCESS)

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with the one that the buttons post to."""
        view = self.admin_site.admin_view(self.decide_view)
        return [path("<path:object_id>/decide/", view, name="strength_merge_decide"), *super().get_urls()]

    def decide_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Do what a button says; after a decision the next proposal is shown."""
        verb = request.POST.get("verb", "")

        def act(proposal: Merge, reason: str) -> Done:
            if verb not in VERBS:
                raise WrongState(gettext("There is no such button."))
            VERBS[verb](proposal=proposal, by=principal(request), reason=reason, now=clock())
            return Done(TOLD[verb], None if verb == "undo" else _next_after(proposal))

        return self.posted(request, object_id, act, logged=verb)

    # What a merge's page tells.

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return both memories and what can be decided about them."""
        stored = Merge.objects.with_memories().get(pk=row.pk)
        verbs = _verbs(stored) if self.has_decide_permission(request) else []
        reads = may_read_memories(request)
        pieces = compared(stored.kept.content, stored.absorbed.content) if reads else None
        kept, absorbed = pieces or (_whole(stored.kept.content), _whole(stored.absorbed.content))
        return {
            "sides": [
                _side(_("Stays"), stored.kept, stored.kept_version, kept, is_kept=True),
                _side(_("Is absorbed"), stored.absorbed, stored.absorbed_version, absorbed, is_kept=False),
            ],
            "reads_memories": reads,
            "is_compared": pieces is not None,
            "is_outdated": stored.state == MergeState.PROPOSED and not _is_as_compared(stored),
            "verbs": [(verb, LABELS[verb]) for verb in verbs],
        }


def _next_after(proposal: Merge) -> str:
    """Return the address of the next open proposal, of the same actor first; the list where there is none."""
    open_ = Merge.objects.filter(state=MergeState.PROPOSED).exclude(pk=proposal.pk).defer("undo")
    following = open_.filter(actor_id=proposal.actor_id).first() or open_.first()
    return page_of(following) if following else reverse("admin:strength_merge_changelist")


def _is_as_compared(proposal: Merge) -> bool:
    kept, absorbed = proposal.kept, proposal.absorbed
    versions = (kept.version, absorbed.version) == (proposal.kept_version, proposal.absorbed_version)
    return versions and kept.status == absorbed.status == Status.ACTIVE


def _verbs(proposal: Merge) -> list[str]:
    """Return the buttons that have a chance; whether one works is for the action to say."""
    if proposal.state == MergeState.PROPOSED:
        return ["accept", "dismiss"] if _is_as_compared(proposal) else ["dismiss"]
    if proposal.state == MergeState.MERGED and proposal.absorbed.status == Status.ARCHIVED:
        return ["undo"]
    return []


def _whole(text: str) -> list[Piece]:
    ending = "…" if len(text) > LONGEST_SHOWN else ""
    return [Piece(text[:LONGEST_SHOWN] + ending, own=False)]


def _side(title: Any, memory: Memory, version: int, pieces: list[Piece], *, is_kept: bool) -> dict[str, Any]:
    return {
        "title": title,
        "memory": memory,
        "numbers": memory.numbers,
        "pieces": pieces,
        "is_kept": is_kept,
        "sources": len(memory.sources.all()),
        "compared_version": version,
        "was_changed": memory.version != version,
    }

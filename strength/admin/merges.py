"""Screens of merge proposals: two memories side by side, merged or kept apart."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy
from django.views.decorators.http import require_POST
from unfold.contrib.filters.admin import DropdownFilter

from memoryhub.admin.base import (
    EXCERPT_SOURCE_LENGTH,
    MAX_SELECTED,
    OwnedMixin,
    as_uuid,
    clock,
    excerpt,
    title_with_time,
)
from memoryhub.admin.columns import UserFilter, age, column, label_displays
from memoryhub.admin.diff import Part, Row, side_by_side
from memoryhub.admin.object_actions import (
    Change,
    Confirmation,
    DecisionAdmin,
    Done,
    act_on_each,
    change_url,
    confirmation_page,
    count_sentences,
    object_action,
    report_done,
    report_skipped,
    submitted_change,
    submitted_text,
)
from memoryhub.ids import new_id
from memoryhub.tenancy.policies import effective_policy
from strength.actions.merges import dismiss_merge, is_reworded, is_unchanged, merge, reopen_merge, undo, undo_merge
from strength.actions.review import open_merges
from strength.admin.labels import MERGE_COLOURS, MERGE_STATE_LABELS, STATUS_LABELS
from strength.admin.memory_detail import may_read_memories
from strength.admin.review_team import commented, comments_context
from strength.domain.memories import Status, WrongState, merged_tags
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import MergeState, merged_numbers
from strength.models import Memory, Merge

ACTIONS: Final[Mapping[str, Callable[..., Merge]]] = {
    "accept": merge,
    "dismiss": dismiss_merge,
    "undo": undo_merge,
    "reopen": reopen_merge,
}
BUTTON_LABELS: Final = {"accept": _("Merge"), "dismiss": _("Keep apart"), "undo": _("Unmerge"), "reopen": _("Reopen")}
RESULT_TEXTS: Final = {
    "accept": _("The two memories were merged."),
    "dismiss": _("The two are kept apart and not proposed again."),
    "undo": _("The two memories were unmerged."),
    "reopen": _("Reopened: the pair is proposed again."),
}
CONFIRM_TEXTS: Final = {
    "accept": ngettext_lazy(
        "%(count)d pair becomes one memory: the other of the two is archived. This can be undone.",
        "%(count)d pairs become one memory each: the other of the two is archived. This can be undone.",
        "count",
    ),
    "dismiss": ngettext_lazy(
        "%(count)d pair is kept apart and not proposed again. This can be undone.",
        "%(count)d pairs are kept apart and not proposed again. This can be undone.",
        "count",
    ),
}
DECIDED_TEXT: Final = ngettext_lazy(
    "%(count)d is decided already and is left unchanged.",
    "%(count)d are decided already and are left unchanged.",
    "count",
)
OUTDATED_TEXT: Final = ngettext_lazy(
    "%(count)d was changed since the comparison and is left to the next sleep run.",
    "%(count)d were changed since the comparison and are left to the next sleep run.",
    "count",
)


class MergeStateFilter(DropdownFilter):
    title = _("state")
    parameter_name = "state"
    all_option = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [*((state.value, MERGE_STATE_LABELS[state]) for state in MergeState), ("all", _("all"))]

    def value(self) -> str:
        chosen: str = super().value() or MergeState.PROPOSED.value
        return chosen

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() == "all" else queryset.filter(state=self.value())


def _state_shown(proposal: Merge) -> tuple[str, Any]:
    """Return a proposal's state and its label; one that cannot be decided any more is out of date."""
    if proposal.state == MergeState.PROPOSED and not getattr(proposal, "is_open", True):
        return "outdated", _("out of date")
    return proposal.state, MERGE_STATE_LABELS[MergeState(proposal.state)]


@admin.register(Merge)
class MergeAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _("No pair is pending. Sleep runs propose memories that are nearly the same.")
    empty_query = "state=all"
    list_per_page = 45  # wide rows: a page stays under 350 KB
    list_display = (
        "shown_likeness",
        "shown_kept",
        "shown_absorbed",
        "owner",
        "shown_state",
        "created_at",
        "decided_at",
    )
    list_filter = (MergeStateFilter, "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("kept__content", "absorbed__content")
    search_help_text = _("Words of one of the two, or the id of a merge or of a memory.")
    id_fields = ("pk", "kept_id", "absorbed_id")
    ordering = ("-created_at", "-id")
    actions = ("accept", "dismiss")
    fields = (("owner", "state_in_words", "shown_likeness"), ("created_at", "decided_at", "decided_by"), "reason", "id")
    change_form_outer_before_template = "admin/strength/merge/decision.html"

    def title_of(self, row: Merge) -> str:
        return title_with_time(row._meta.verbose_name, row.created_at)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Merge]:
        rows: QuerySet[Merge] = super().get_queryset(request).defer("undo")
        rows = rows.annotate(is_open=Exists(open_merges(clock()).filter(pk=OuterRef("pk"))))
        if not may_read_memories(request):
            return rows
        return rows.annotate(
            kept_opening=Left("kept__content", EXCERPT_SOURCE_LENGTH),
            absorbed_opening=Left("absorbed__content", EXCERPT_SOURCE_LENGTH),
        )

    shown_likeness = column(
        _("words in common"), lambda proposal: f"{100 * proposal.likeness:.0f}\N{NO-BREAK SPACE}%", ordering="likeness"
    )
    shown_kept = column(_("stays"), lambda proposal: excerpt(getattr(proposal, "kept_opening", str(proposal.kept_id))))
    shown_absorbed = column(
        _("is merged into it"),
        lambda proposal: excerpt(getattr(proposal, "absorbed_opening", str(proposal.absorbed_id))),
    )
    shown_state, state_in_words = label_displays(_state_shown, MERGE_COLOURS, description=_("state"), ordering="state")

    # Decisions

    @admin.action(description=_("Merge the selected pairs"), permissions=["decide"])
    def accept(self, request: HttpRequest, queryset: QuerySet[Merge]) -> HttpResponse | None:
        return self._decide_selected(request, queryset, "accept")

    @admin.action(description=_("Keep the selected pairs apart"), permissions=["decide"])
    def dismiss(self, request: HttpRequest, queryset: QuerySet[Merge]) -> HttpResponse | None:
        return self._decide_selected(request, queryset, "dismiss")

    def _decide_selected(self, request: HttpRequest, queryset: QuerySet[Merge], verb: str) -> HttpResponse | None:
        rows = list(queryset.select_related("actor", "kept", "absorbed")[: MAX_SELECTED + 1])
        if len(rows) > MAX_SELECTED:
            text = _("Choose at most %(most)d pairs at once; nothing was changed.") % {"most": MAX_SELECTED}
            self.message_user(request, text, messages.ERROR)
            return None
        if not rows:
            self.message_user(request, _("One of the selected rows does not exist."), messages.ERROR)
            return None
        confirmation, keys = _confirmation(request, rows, verb), [row.pk for row in rows]
        if page := confirmation_page(self, request, confirmation, action=verb, keys=keys):
            return page
        change, batch = submitted_change(request), new_id()

        def act(proposal: Merge) -> None:
            ACTIONS[verb](proposal=proposal, batch=batch, **change)

        rows.sort(key=lambda row: row.pk)  # undo in reverse order of merging, independent of the list's order
        count = act_on_each(self, request, rows, act, logged=verb)
        if count:
            text = ngettext("Done: %(verb)s, %(count)d pair.", "Done: %(verb)s, %(count)d pairs.", count)
            undo = f"{reverse('admin:strength_merge_undo_batch')}?{urlencode({'batch': str(batch)})}"
            report_done(request, text % {"verb": BUTTON_LABELS[verb], "count": count}, undo=undo)
        return None

    def undo_batch_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        batch = as_uuid(submitted_text(request, "batch")) or new_id()
        result = undo(batch=batch, **submitted_change(request))
        for proposal in result.changed:
            self.log_change(request, proposal, "reopen")
        report_skipped(self, request, {str(error): len(rows) for error, rows in result.skipped})
        count = len(result.changed)
        text = ngettext(
            "Undone: %(count)d pair is proposed again.", "Undone: %(count)d pairs are proposed again.", count
        )
        self.message_user(request, text % {"count": count}, messages.SUCCESS if count else messages.WARNING)
        return HttpResponseRedirect(reverse("admin:strength_merge_changelist"))

    def get_urls(self) -> list[URLPattern]:
        undo_batch = self.admin_site.admin_view(require_POST(self.undo_batch_view))
        return [path("undo-many/", undo_batch, name="strength_merge_undo_batch"), *super().get_urls()]

    @object_action()
    def decide_view(self, request: HttpRequest, proposal: Merge, change: Change) -> Done:
        """Carry out a decision and show the next proposal, with an undo."""
        verb, keep_id = submitted_text(request, "verb"), as_uuid(submitted_text(request, "stays"))
        if verb not in ACTIONS:
            raise WrongState(_("Unknown action. Reload the page and try again."))
        options = {"keep_id": keep_id} if verb == "accept" else {}
        ACTIONS[verb](proposal=proposal, **options, **change)
        if verb not in ("accept", "dismiss"):
            return Done(RESULT_TEXTS[verb], logged=verb)
        undo = f"{reverse('admin:strength_merge_decide', args=[proposal.pk])}?verb=reopen"
        open_ = open_merges(clock()).exclude(pk=proposal.pk).defer("undo")
        next_proposal = open_.filter(actor_id=proposal.actor_id).first() or open_.first()
        to = change_url(next_proposal) if next_proposal else reverse("admin:strength_merge_changelist")
        return Done(RESULT_TEXTS[verb], to, undo, logged=verb)

    # The page's context

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = get_merge(row.pk, row.actor_id)
        verbs = _available_verbs(stored) if self.has_decide_permission(request) else []
        return {
            **pair_context(request, stored),
            "others": count_conflicting_merges(stored) if "accept" in verbs else {},
            "verbs": [(verb, BUTTON_LABELS[verb]) for verb in verbs],
            "may_merge": "accept" in verbs,
            **comments_context(request, stored),
        }

    @object_action()
    def comment_view(self, request: HttpRequest, proposal: Merge, change: Change) -> Done:
        return commented(request, proposal)


def _confirmation(request: HttpRequest, rows: list[Merge], verb: str) -> Confirmation:
    proposed = [row for row in rows if row.state == MergeState.PROPOSED]
    ready = [row for row in proposed if is_unchanged(row, clock())] if verb == "accept" else proposed
    reads = may_read_memories(request)
    return Confirmation(
        title=_("Merge these pairs?") if verb == "accept" else _("Keep these pairs apart?"),
        sentences=[
            CONFIRM_TEXTS[verb] % {"count": len(ready)},
            *count_sentences((DECIDED_TEXT, len(rows) - len(proposed)), (OUTDATED_TEXT, len(proposed) - len(ready))),
        ],
        examples=[excerpt(row.kept.content if reads else str(row.kept_id)) for row in ready],
        button=BUTTON_LABELS[verb],
        can_proceed=bool(ready),
    )


def _available_verbs(proposal: Merge) -> list[str]:
    """Return the verbs that the state allows; the action checks them again."""
    if proposal.state == MergeState.PROPOSED:
        return ["accept", "dismiss"] if is_unchanged(proposal, clock()) else ["dismiss"]
    if proposal.state == MergeState.MERGED and proposal.absorbed.status == Status.ARCHIVED:
        return ["undo"]
    return []


MAX_SHOWN_LENGTH: Final = 20_000


def get_merge(key: UUID, actor_id: UUID) -> Merge:
    return Merge.objects.with_memories().select_related("actor__agent").get(pk=key, actor_id=actor_id)


def pair_context(request: HttpRequest, merge: Merge) -> dict[str, Any]:
    kept, absorbed = merge.kept, merge.absorbed
    may_read = may_read_memories(request)
    compared = side_by_side(kept.content, absorbed.content) if may_read else None
    rows = compared or []
    if may_read and compared is None:
        rows = [Row(_uncompared_part(kept.content), _uncompared_part(absorbed.content))]
    policy = effective_policy(StrengthPolicy, merge.actor.agent, merge.actor)
    messages = {source.message_id for memory in (kept, absorbed) for source in memory.source_rows}
    return {
        "sides": [
            _side_context(kept, merge.kept_version, is_kept=True),
            _side_context(absorbed, merge.absorbed_version, is_kept=False),
        ],
        "rows": rows,
        "reads_memories": may_read,
        "is_compared": compared is not None,
        "is_cut": may_read and max(len(kept.content), len(absorbed.content)) > MAX_SHOWN_LENGTH,
        "is_outdated": merge.state == MergeState.PROPOSED and not is_unchanged(merge, clock()),
        "merged": {
            "numbers": merged_numbers(
                kept.numbers.as_numbers(kept.state), absorbed.numbers.as_numbers(absorbed.state), policy
            ),
            "sources": len(messages),
            "tags": merged_tags(kept.tags, absorbed.tags),
        },
    }


def _uncompared_part(text: str) -> list[Part]:
    ending = "…" if len(text) > MAX_SHOWN_LENGTH else ""
    return [Part(text[:MAX_SHOWN_LENGTH] + ending, own=False)]


def count_conflicting_merges(merge: Merge) -> dict[str, int]:
    """Count the other open proposals that a merge would withdraw, by which of the two memories is kept."""
    open_ = Merge.objects.filter(actor_id=merge.actor_id, state=MergeState.PROPOSED).exclude(pk=merge.pk)
    conditions = {
        "as_proposed": Q(kept_id=merge.absorbed_id) | Q(absorbed_id=merge.absorbed_id),
        "turned": Q(kept_id=merge.kept_id) | Q(absorbed_id=merge.kept_id),
    }
    return open_.aggregate(**{name: Count("pk", filter=condition) for name, condition in conditions.items()})


def _side_context(memory: Memory, version: int, *, is_kept: bool) -> dict[str, Any]:
    return {
        "memory": memory,
        "status": STATUS_LABELS.get(memory.status, memory.status),
        "numbers": memory.numbers.as_numbers(memory.state),
        "is_kept": is_kept,
        "age": age(memory.created_at, clock()),
        "place": "one" if is_kept else "other",
        "sources": len(memory.source_rows),
        "compared_version": version,
        "was_changed": is_reworded(memory, version),
    }

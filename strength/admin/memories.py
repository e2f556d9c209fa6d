"""Screens of memories: the list with its row buttons and bulk actions, and the page of one memory."""

import json
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import escape, format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from conversations.actions.what_if import Effect
from conversations.admin.what_if import effect_context, effect_page, may_see_contexts
from memoryhub.admin.base import as_uuid, clock, excerpt, principal, render_page, title_with_time, truncated
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.curated import CuratedAdmin, without_fields
from memoryhub.admin.labels import verb_label
from memoryhub.admin.object_actions import (
    NEXT,
    Change,
    Done,
    change_url,
    next_url,
    object_action,
    row_page,
    row_view,
    run_object_action,
    submitted_change,
    submitted_number,
    submitted_reason,
    submitted_text,
)
from memoryhub.auth.access import UnknownRow, actor_for_writing
from memoryhub.errors import DomainError
from strength.actions.curation import (
    RELABEL,
    TRANSITIONS,
    apply_transition,
    delete_memory,
    edit_memory,
    plan_many,
    reactivated_strength,
    require_version,
    restore_revision,
)
from strength.actions.memories import write_memory
from strength.actions.merges import undo_merge
from strength.actions.review import UnusableView, delete_view, open_merges, save_view
from strength.actions.revisions import undo_revision
from strength.actions.usage import LEARNABLE, impact_memory, use_memory
from strength.actions.what_if import EDIT, VERBS, what_if
from strength.admin.bulk import DELETE, LABELS, batch_view, bulk_action, undo_batch_view
from strength.admin.labels import FIELD_LABELS, IMPACT_LABELS, STATUS_COLOURS, STATUS_LABELS
from strength.admin.memory_detail import memory_context, retrieval_page
from strength.admin.memory_forms import MemoryForm, NewMemoryForm
from strength.admin.memory_list import (
    ROW_KEYS,
    MemoryList,
    SummariesFilter,
    list_context,
    order_by_results,
    owner_chips,
    pin_button,
    requested_search,
    row_buttons,
    saved_query,
    score_cell,
    search_semantically,
    state_chip,
    strength_bar,
)
from strength.admin.review_team import commented
from strength.admin.tombstones import tombstones_of, with_former_text
from strength.admin.what_if import VERB_LABELS, heading
from strength.domain.memories import FIRST_APPROVAL_VERB, MemoryRefused, Status, WrongState
from strength.domain.strength import Impact
from strength.models import Memory, MemoryRevision, Merge
from strength.models.memory import STRENGTH_OF_MEMORY

PAGE_KEYS: Final = {**ROW_KEYS, "reject": "r"}
MAX_PERSPECTIVE_LENGTH: Final = 100
FULL_TEXT: Final = "whole"
"""Value of `?text=` of a memory's page: the form holds the text however long it is."""

FROM_ROW: Final = "row"
"""Field posted by a list row's buttons: they return to their row."""

LONG_FIELDS: Final = ("content", "learnings", "metadata")
MAX_FORM_FIELD_BYTES: Final = 60_000
"""Escaped bytes of a field (a `"` has six); longer fields are read-only, above the form."""


@admin.register(Memory)
class MemoryAdmin(CuratedAdmin):
    empty_hint = _(
        "Agents write memories by the API, and conversations are extracted into them. The + button "
        "above adds one by hand."
    )
    form = MemoryForm
    add_form = NewMemoryForm
    list_display = ("star", "shown_content", "chips", "kind", "strength", "uses", "created_at", "row_buttons")
    list_filter = (
        "status",
        "kind",
        "pinned",
        "source",
        "trust",
        "scope_level",
        "actor__agent",
        UserFilter,
        SummariesFilter,
        "namespace",
        "created_at",
    )
    list_select_related = ("actor__sleep_state", "numbers")
    list_per_page = 30  # rows are larger than in other lists
    list_display_links = ("shown_content",)
    list_before_template = "admin/strength/memory/list_head.html"
    list_after_template = "admin/strength/memory/row_form.html"
    search_fields = ("content", "namespace")
    search_help_text = _("Words of a memory, its namespace, or its id.")
    ordering = ("-id",)
    long_text = "content"
    actions = tuple(bulk_action(verb) for verb in (*TRANSITIONS, RELABEL, "merge", "export", DELETE))
    readonly_fields = ("id", "owner", "state_in_words", "source", "channel", "trust", "shown_lock", "version",
                       "created_at", "updated_at", "superseded_by", "supersedes")  # fmt: skip
    # The page shows the first and the last, and collapses the others.
    fieldsets = (
        (None, {"fields": ("content",)}),
        (None, {"fields": ("kind", "namespace", "tags", "cues")}),
        (
            _("State"),
            {"fields": (("owner", "state_in_words"), ("pinned", "shown_lock"), ("trust", "source"), "channel")},
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
                    "metadata",
                )
            },
        ),
        (_("Versions"), {"fields": (("version", "created_at", "updated_at"), "id")}),
        (None, {"fields": ("reason",)}),
    )
    add_fieldsets = (
        (None, {"fields": (("agent", "user_id"), "content", ("kind", "pinned"), "namespace", "tags", "cues")}),
        (_("Scope"), {"fields": ("scope_level", ("scope_domain", "scope_project"))}),
        (_("Validity"), {"fields": ("valid_from", "valid_to", "confidence", "learnings", "metadata")}),
    )
    editing_fields = frozenset({"content", "reason"})

    class Media:
        js = ("memoryhub/keys.js", "memoryhub/memories.js")

    def title_of(self, row: Memory) -> str:
        return title_with_time(row.get_kind_display(), row.created_at)

    shown_content = column(
        _("content"), lambda memory: format_html("{}{}", state_chip(memory), excerpt(memory.opening))
    )
    state_in_words = choice_displays("status", STATUS_LABELS, STATUS_COLOURS, description=_("status"))[1]
    row_buttons = column(_("actions"), row_buttons)
    star = column("\N{WHITE STAR}", pin_button, ordering="pinned")
    chips = column(_("owner"), owner_chips, ordering="actor")
    shown_score = column(_("score"), lambda memory: score_cell(getattr(memory, "found", None)))

    @admin.display(description=_("locked"))
    def shown_lock(self, memory: Memory) -> str:
        if not memory.locked:
            return gettext("no")
        return gettext("yes: a person edited the text, and jobs do not rewrite it")

    strength = column(_("strength"), lambda memory: strength_bar(memory.strength), ordering=STRENGTH_OF_MEMORY)
    uses = column(_("uses"), lambda memory: int(memory.numbers.access_count), ordering="numbers__access_count")

    # Changes, each by an action

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Memory:
        by, now = principal(request), clock()
        if not change:
            agent, user_id = form.cleaned_data["agent"], form.cleaned_data["user_id"]
            actor = actor_for_writing(by, agent.pk, user_id, now=now)
            memory, is_new = write_memory(actor=actor, new=form.memory(), by=by, now=now)
            if not is_new:
                text = _("A memory with this text exists already; it was strengthened instead of written twice.")
                self.message_user(request, text, messages.WARNING)
            return memory
        former = Memory.objects.get(pk=row.pk, actor_id=row.actor_id)  # the form has modified the row
        either = Q(kept=former) | Q(absorbed=former)
        proposals = open_merges(now).filter(either, actor_id=former.actor_id).count()
        edited = edit_memory(
            memory=row,
            values=form.values(),
            expected_version=form.cleaned_data["expected_version"],
            **submitted_change(request),
        )
        if edited.version != former.version:
            message: Any = gettext("The memory was saved.")
            if proposals:
                dropped = ngettext(
                    "%(count)d merge proposal was about its former version, and is dropped.",
                    "%(count)d merge proposals were about its former version, and are dropped.",
                    proposals,
                )
                message = f"{message} {dropped % {'count': proposals}}"
            text = with_former_text(request, message, edited, former)
            self.offer_undo(request, text, undo_url(request, edited))
        return edited

    def delete_model(self, request: HttpRequest, obj: Memory) -> None:
        by, reason = principal(request), submitted_reason(request)
        with suppress(UnknownRow):
            delete_memory(memory=obj, expected_version=None, by=by, reason=reason, now=clock())

    # The list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[MemoryList]:
        return MemoryList

    def get_list_display(self, request: HttpRequest) -> list[str]:
        columns = list(super().get_list_display(request))
        query = requested_search(request)
        if query is not None and query.agent_id:
            columns.insert(columns.index("shown_content") + 1, "shown_score")
        return columns

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search semantically if requested for an agent, otherwise by words or id."""
        query = requested_search(request)
        if query is None or not query.agent_id:
            return super().get_search_results(request, queryset, search_term)
        results = search_semantically(request, query, by=principal(request), now=clock())
        request.meaning = results  # type: ignore[attr-defined]
        return order_by_results(queryset, results), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list; the context above it needs the results of a semantic search."""
        answer: Any = super().changelist_view(request, extra_context)
        changelist = (getattr(answer, "context_data", None) or {}).get("cl")
        if changelist is not None:
            changelist.above = list_context(request, changelist)
        return answer  # type: ignore[no-any-return]

    def may_see_agents(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memoryhub.view_agent"))

    # Buttons, and fragments loaded on demand

    def get_urls(self) -> list[URLPattern]:
        undo_batch = self.admin_site.admin_view(require_POST(partial(undo_batch_view, self)))
        batch = self.admin_site.admin_view(partial(batch_view, self))
        return [
            path("batch/<uuid:batch>/", batch, name="strength_memory_batch"),
            path("views/", self.admin_site.admin_view(require_POST(self.views_view)), name="strength_memory_views"),
            path("undo/", undo_batch, name="strength_memory_undo_batch"),
            *super().get_urls(),
        ]

    def views_view(self, request: HttpRequest) -> HttpResponse:
        """Save the list's filters as a named view, or delete a view."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        user: Any = request.user
        view_id = as_uuid(submitted_text(request, "delete"))
        query = saved_query(submitted_text(request, "query"))
        if view_id is not None:
            delete_view(person_id=user.pk, view_id=view_id)
        else:
            try:
                save_view(person_id=user.pk, name=submitted_text(request, "name"), query=query)
            except UnusableView as error:
                self.message_user(request, str(error), messages.ERROR)
        address = reverse("admin:strength_memory_changelist")
        return HttpResponseRedirect(f"{address}?{query}" if query else address)

    @row_view
    def curate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        verb = submitted_text(request, "verb")
        answer = run_object_action(self, request, object_id, partial(self._curate, request, verb), logged=verb)
        if next_url(request) and "Location" in answer:
            answer["Location"] += _row_anchor(request, object_id)
        return answer

    def _curate(self, request: HttpRequest, verb: str, memory: Memory, change: Change) -> Done:
        if verb not in TRANSITIONS:
            raise WrongState(_("Unknown action. Reload the page and try again."))
        # The version that the page showed: an approval is bound to the text that was read (SPEC M10).
        version = submitted_number(request, "version")
        require_version(verb, version)
        changed = apply_transition(memory=memory, verb=verb, expected_version=version, **change)
        if verb == "approve" and changed.status == Status.PENDING:
            verb = FIRST_APPROVAL_VERB
        values = {"done": capfirst(str(verb_label(verb))), "text": truncated(memory.content, 60)}
        return _done_with_undo(request, gettext("%(done)s: %(text)s") % values, changed, memory)

    @object_action()
    def undo_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        undo_revision(revision=_requested_revision(request, memory), **change)
        return Done(gettext("The change was undone."))

    @object_action()
    def unmerge_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        of_memory = Merge.objects.filter(actor_id=memory.actor_id, kept_id=memory.pk)
        key = as_uuid(submitted_text(request, "merge"))
        proposal = of_memory.filter(pk=key).first() if key else None
        if proposal is None:
            raise UnknownRow(_("There is no such merge."))
        undo_merge(proposal=proposal, **change)
        return Done(gettext("The two memories were unmerged."))

    @row_page
    def text_view(self, request: HttpRequest, memory: Memory) -> HttpResponse:
        return HttpResponse(memory.content, content_type="text/plain; charset=utf-8")

    @row_page
    def what_if_view(self, request: HttpRequest, memory: Memory) -> HttpResponse:
        """Show what a change would do to the latest contexts: as a fragment on the memory's page, or as a page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.may_act(request, memory) or not may_see_contexts(request):
            raise PermissionDenied
        verb, context = submitted_text(request, "try"), dict[str, Any]()
        try:
            if verb not in VERBS:
                raise WrongState(_("Unknown action. Reload the page and try again."))
            context["effect_heading"] = heading(verb)
            context |= effect_context(self._effect(request, memory, verb))
        except DomainError as error:
            context["problem"] = str(error)
        return effect_page(request, title=_("What would change"), back=change_url(memory), **context)

    def _effect(self, request: HttpRequest, memory: Memory, verb: str) -> Effect:
        stored = Memory.objects.select_related("actor__agent").get(pk=memory.pk, actor_id=memory.actor_id)
        values: dict[str, Any] = {}
        if verb == EDIT:
            form: Any = self.get_form(request, memory, change=True)(request.POST, instance=memory)
            if not form.is_valid():
                raise WrongState(" ".join(str(text) for texts in form.errors.values() for text in texts))
            values = form.values()
        version = submitted_number(request, "expected_version")
        by, now = principal(request), clock()
        return what_if(memory=stored, verb=verb, values=values, expected_version=version, by=by, now=now)

    @row_page
    def retrieved_view(self, request: HttpRequest, memory: Memory) -> HttpResponse:
        if not request.user.has_perm("conversations.view_receipt"):
            raise PermissionDenied
        context = {"memory": memory, **retrieval_page(memory, offset=submitted_number(request, "from") or 0)}
        if request.headers.get("HX-Request") == "true":
            return TemplateResponse(request, "admin/strength/memory/retrieved.html", context)
        page, title = "admin/strength/memory/retrieved_page.html", _("Why it was retrieved")
        return render_page(request, page, title=title, opts=self.opts, **context)

    @object_action()
    def restore_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        revision = _requested_revision(request, memory)
        changed = restore_revision(
            memory=memory, revision=revision, expected_version=submitted_number(request, "version"), **change
        )
        text = gettext("Revision %(number)d was restored.") % {"number": revision.number}
        return _done_with_undo(request, text, changed, memory)

    @object_action()
    def use_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        perspective = submitted_text(request, "perspective")
        if len(perspective) > MAX_PERSPECTIVE_LENGTH:
            problem = gettext("A perspective has at most %(longest)d characters.")
            raise MemoryRefused("perspective", problem % {"longest": MAX_PERSPECTIVE_LENGTH})
        by, now = principal(request), clock()
        use_memory(memory=memory, perspective=perspective or None, task=None, by=by, now=now)
        return Done(gettext("The use was recorded; the memory is stronger now."))

    @object_action()
    def comment_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        return commented(request, memory)

    @object_action()
    def impact_view(self, request: HttpRequest, memory: Memory, change: Change) -> Done:
        impact = request.POST.get("impact", "")
        if impact not in IMPACT_LABELS:
            raise WrongState(_("Unknown action. Reload the page and try again."))
        impact_memory(memory=memory, impact=Impact(impact), by=principal(request), now=clock())
        return Done(gettext("The impact was recorded: %(impact)s.") % {"impact": IMPACT_LABELS[impact]})

    # The page's context

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Add `pinned`, which has a button, and oversized fields, which are above the form."""
        if obj is None:
            return self.readonly_fields
        return (*self.readonly_fields, "pinned", *_oversized_fields(request, obj))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj is None else without_fields(fieldsets, frozenset(_oversized_fields(request, obj)))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        rows = Memory.objects.of([row.actor_id]).with_numbers()
        stored = rows.select_related("actor__agent").get(pk=row.pk)
        may_change = self.has_change_permission(request, row)
        too_long = _oversized_fields(request, stored)
        verbs = [verb for verb in TRANSITIONS if plan_many([stored], verb).changed]
        return {
            "verbs": [(verb, button_label(verb, stored), PAGE_KEYS.get(verb, "")) for verb in verbs if may_change],
            "tried": [(verb, VERB_LABELS[verb]) for verb in verbs],
            "may_see_contexts": may_change and may_see_contexts(request),
            "what_if_url": reverse("admin:strength_memory_what_if", args=[stored.pk]),
            "edits_content": may_change and "content" not in too_long,
            "is_edit_open": request.method == "POST" or request.GET.get("text") == FULL_TEXT,
            "may_restore": may_change,
            "may_report_use": may_change and Status(stored.status) in LEARNABLE,
            "version": stored.version,
            "memory": stored,
            "tombstones": tombstones_of(request, stored),
            "has_ended": stored.valid_to is not None and stored.valid_to <= clock(),
            "offers_full_text": may_change and bool(too_long),
            "left_out_of_form": [FIELD_LABELS[name] for name in LONG_FIELDS if name in too_long],
            **memory_context(request, stored, now=clock()),
        }


def button_label(verb: str, memory: Memory) -> Any:
    """Return a button's label; reactivation may change the strength of what a sleep archived."""
    label: Any = LABELS[verb]
    if verb != "reactivate":
        return label
    before, after = memory.strength, reactivated_strength(memory)
    if before == after:
        return label
    text = gettext("%(verb)s (strength %(before).2f → %(after).2f)")
    return text % {"verb": label, "before": before, "after": after}


def undo_url(request: HttpRequest, changed: Memory) -> str:
    """Return the URL that undoes a memory's latest change and returns to where it was made."""
    query = {"number": str(changed.version)}
    if back := submitted_text(request, NEXT):
        query[NEXT] = f"{back}{_row_anchor(request, changed.pk)}"
    return f"{reverse('admin:strength_memory_undo', args=[changed.pk])}?{urlencode(query)}"


def _done_with_undo(request: HttpRequest, text: str, changed: Memory, former: Memory) -> Done:
    """Return the result of a change, with where the former text remains and an undo if the memory changed."""
    undo = undo_url(request, changed) if changed.version != former.version else None
    return Done(with_former_text(request, text, changed, former), undo=undo)


def _row_anchor(request: HttpRequest, key: object) -> str:
    return f"#row-{key}" if submitted_text(request, FROM_ROW) else ""


def _requested_revision(request: HttpRequest, memory: Memory) -> MemoryRevision:
    rows = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
    revision = rows.filter(number=submitted_number(request, "number") or 0).first()
    if revision is None:
        raise UnknownRow(_("There is no such revision."))
    return revision


def _oversized_fields(request: HttpRequest, memory: Memory) -> set[str]:
    if request.GET.get("text") == FULL_TEXT:
        return set()
    objects = {name: getattr(memory, name) for name in LONG_FIELDS if name != "content"}
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in objects.items()}
    texts["content"] = memory.content
    return {name for name in LONG_FIELDS if len(escape(texts[name]).encode()) > MAX_FORM_FIELD_BYTES}

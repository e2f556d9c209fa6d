"""Bulk actions on memories: previewed and counted, then applied as one batch that can be undone."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_aware
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import (
    MAX_SELECTED,
    as_uuid,
    clock,
    excerpt,
    format_count,
    principal,
    render_page,
    untranslated,
)
from memoryhub.admin.object_actions import (
    next_url,
    report_done,
    report_skipped,
    submitted_change,
    submitted_number,
    submitted_text,
)
from memoryhub.api.agents import JSON_LINES, stream_from_thread
from memoryhub.auth import audit
from memoryhub.db import reach
from memoryhub.errors import DomainError
from memoryhub.jobs.retries import ENDED_BADLY, OPEN
from strength.actions.bulk_jobs import DELETE as DELETE_BATCH
from strength.actions.bulk_jobs import (
    MAX_BULK_SIZE,
    count_changed,
    enqueue_curation,
    enqueue_undo,
    filter_changing,
    latest_job,
)
from strength.actions.bulk_jobs import UNDO as UNDO_BATCH
from strength.actions.curation import RELABEL, TRANSITIONS, plan_many
from strength.actions.curation_sets import curate_many, delete_many, relabel_many
from strength.actions.duplicates import kept_and_absorbed, text_likeness
from strength.actions.importexport import rows_as_csv, rows_as_lines
from strength.actions.merges import check_mergeable, merge_pair, undo
from strength.actions.revisions import BatchResult
from strength.admin.memory_forms import LabelsForm
from strength.domain.memories import WrongState
from strength.models import Memory, MemoryRevision

MAX_EXAMPLES: Final = 5
MAX_EXPORTED: Final = 10_000
CONFIRM_TEMPLATE: Final = "admin/strength/memory/confirm.html"
DELETE: Final = "delete_selected"
VERBS_WITH_REASON: Final = frozenset({"archive", "reject", DELETE, "merge"})
"""Verbs that withdraw memories from agents; the page asks for a reason."""

LABELS: Final = {
    "pin": _("Pin"),
    "unpin": _("Unpin"),
    "archive": _("Archive"),
    "reactivate": _("Reactivate"),
    "approve": _("Approve"),
    "reject": _("Reject (never again)"),
    "merge": _("Merge"),
    RELABEL: _("Change tags, kind or namespace"),
    DELETE: _("Delete permanently"),
    "export": _("Export"),
}
DESCRIPTIONS: Final = {
    "pin": _("Pin the selected memories"),
    "unpin": _("Unpin the selected memories"),
    "archive": _("Archive the selected memories"),
    "reactivate": _("Reactivate the selected memories"),
    "approve": _("Approve the selected memories"),
    "reject": _("Reject the selected memories (never again)"),
    "merge": _("Merge the two selected memories"),
    RELABEL: _("Change tags, kind or namespace of the selected memories…"),
    DELETE: _("Delete the selected memories permanently"),
    "export": _("Export the selected memories"),
}
EXPORT_CONTENT_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": JSON_LINES}


def bulk_action(verb: str) -> Callable[..., HttpResponse | None]:
    def act(model_admin: Any, request: HttpRequest, queryset: QuerySet[Memory]) -> HttpResponse | None:
        return confirm_or_apply(model_admin, request, queryset, verb)

    act.__name__ = verb
    action: Callable[..., HttpResponse | None] = admin.action(
        description=DESCRIPTIONS[verb], permissions=[{DELETE: "delete", "export": "view"}.get(verb, "change")]
    )(act)
    return action


def confirm_or_apply(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Memory], verb: str
) -> HttpResponse | None:
    """Show a confirmation page, or apply the verb once it is confirmed."""
    if verb == "export":
        answer: HttpResponse | None = _export(model_admin, request, queryset)
        return answer
    form = LabelsForm(request.POST if request.POST.get("post") == "yes" else None) if verb == RELABEL else None
    # A job of several agents is not for people who are limited to some.
    may_enqueue = (form or verb in TRANSITIONS) and reach.agents() is None
    if may_enqueue and queryset.order_by()[: MAX_SELECTED + 1].count() > MAX_SELECTED:
        return _confirm_or_enqueue(model_admin, request, queryset, verb, form)
    rows = list(queryset.select_related("actor__agent", "actor__sleep_state", "numbers")[: MAX_SELECTED + 1])
    problem = _selection_error(rows, verb)
    if problem is not None:
        model_admin.message_user(request, problem, messages.ERROR)
        return None
    change = submitted_change(request)
    if verb == "merge":
        return _merge(model_admin, request, rows)
    if not _is_confirmed(request, form):
        plan = BatchResult(changed=list(rows)) if verb in (DELETE, RELABEL) else plan_many(rows, verb)
        skipped = [_skipped_group(str(error), memories) for error, memories in plan.skipped]
        return _confirm_page(
            model_admin, request, verb, rows=rows, changing=len(plan.changed), left=skipped, form=form,
            **_examples(plan.changed),
        )  # fmt: skip
    if verb == DELETE:
        result = delete_many(memories=rows, **change)
    elif form is not None:
        result = relabel_many(memories=rows, versions=_shown_versions(request), labels=form.labels(), **change)
    else:
        result = curate_many(memories=rows, versions=_shown_versions(request), verb=verb, **change)
    log_memories(request, result.changed, verb)
    report_skipped(model_admin, request, {str(error): len(skipped) for error, skipped in result.skipped})
    if result.changed:
        _report_changed(request, result, verb, form)
    return None


def _report_changed(request: HttpRequest, result: BatchResult, verb: str, form: LabelsForm | None) -> None:
    count = len(result.changed)
    text = ngettext("Done: %(verb)s, %(count)d memory.", "Done: %(verb)s, %(count)d memories.", count)
    undo = None if verb == DELETE else undo_batch_url(request, result.batch)
    done = text % {"verb": LABELS[verb], "count": count}
    report_done(request, f"{done} {form.summary()}" if form else done, undo=undo)
    report_first_approvals(request, result)


def report_first_approvals(request: HttpRequest, result: BatchResult) -> None:
    """Report how many of the approved memories wait for another person (ADR 67)."""
    if count := result.first_approvals:
        text = ngettext(
            "%(count)d approved memory needs the approval of another person too.",
            "%(count)d approved memories need the approval of another person too.",
            count,
        )
        messages.info(request, text % {"count": count})


def _is_confirmed(request: HttpRequest, form: LabelsForm | None) -> bool:
    return request.POST.get("post") == "yes" and (form is None or form.is_valid())


def _selection_error(rows: Sequence[Memory], verb: str) -> str | None:
    if not rows:
        return gettext("The selected rows no longer exist.")
    if len(rows) > MAX_SELECTED:
        text = gettext("Choose at most %(most)d memories at once; nothing was changed.")
        return text % {"most": MAX_SELECTED}
    if verb == "merge" and len(rows) != 2:
        return gettext("Choose exactly two memories to merge; nothing was changed.")
    return None


def _confirm_or_enqueue(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Memory], verb: str, form: LabelsForm | None
) -> HttpResponse:
    """Show a confirmation page for a large selection, or enqueue its job once it is confirmed."""
    seen_at = _selection_time(request)
    rows: Any = queryset.order_by("pk").filter(created_at__lte=seen_at)
    if not _is_confirmed(request, form):
        total, changing = rows.count(), filter_changing(rows, verb)
        count = changing.count()
        return _confirm_page(
            model_admin, request, verb, rows=list(rows[:1]), is_all=True, changing=count, seen_at=seen_at.isoformat(),
            staying=total - count, shown_staying=format_count(total - count), form=form,
            **_examples(changing[:MAX_EXAMPLES], count),
        )  # fmt: skip
    keys = list(rows.values_list("pk", flat=True)[: MAX_BULK_SIZE + 1])
    labels = form.labels() if form is not None else None
    try:
        batch = enqueue_curation(
            memory_ids=keys, verb=verb, seen_at=seen_at, labels=labels, **submitted_change(request)
        )
    except DomainError as error:
        model_admin.message_user(request, str(error), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
    return HttpResponseRedirect(reverse("admin:strength_memory_batch", args=[batch]))


def _selection_time(request: HttpRequest) -> datetime:
    try:
        moment = parse_datetime(submitted_text(request, "seen_at"))
    except ValueError:
        moment = None
    return moment if moment is not None and is_aware(moment) else clock()


def batch_view(model_admin: Any, request: HttpRequest, batch: UUID) -> HttpResponse:
    """Show the progress of a large selection's job, with its undo."""
    if not model_admin.has_change_permission(request):
        raise PermissionDenied
    job = latest_job(batch)
    if job is None:
        raise Http404
    is_undo, is_deletion = job.verb == UNDO_BATCH, job.verb == DELETE_BATCH
    title = gettext("Undo") if is_undo else LABELS[DELETE if is_deletion else job.verb]
    # Deletions leave no revisions, so count by the job's ids; for other batches that would be slow.
    changed = count_changed(job, batch) if is_deletion else MemoryRevision.objects.filter(batch=batch).count()
    return render_page(
        request, "admin/strength/memory/batch.html",
        title=title, opts=model_admin.opts, batch=batch, job=job, is_open=job.state in OPEN,
        has_failed=job.state in ENDED_BADLY, is_undo=is_undo, is_deletion=is_deletion, changed=changed,
        shown_changed=format_count(changed), shown_done=format_count(job.progress_done or 0),
        shown_total=format_count(job.progress_total or 0),
    )  # fmt: skip


# Confirmation page


def _confirm_page(model_admin: Any, request: HttpRequest, verb: str, **context: Any) -> HttpResponse:
    return render_page(
        request,
        CONFIRM_TEMPLATE,
        title=LABELS[verb],
        opts=model_admin.opts,
        verb=verb,
        asks_reason=verb in VERBS_WITH_REASON,
        is_final=verb == DELETE,
        shown_changing=format_count(context["changing"]),
        checkbox=ACTION_CHECKBOX_NAME,
        back=request.get_full_path(),
        **context,
    )


def _merge(model_admin: Any, request: HttpRequest, rows: Sequence[Memory]) -> HttpResponse | None:
    kept, absorbed = kept_and_absorbed(*rows)
    if request.POST.get("post") != "yes":
        try:
            check_mergeable(kept, absorbed)
        except WrongState as error:
            skipped = [_skipped_group(str(error), [kept, absorbed])]
            return _confirm_page(model_admin, request, "merge", rows=rows, changing=0, left=skipped)
        sides = [_example(kept), _example(absorbed)]
        likeness = 100 * text_likeness(kept.content, absorbed.content)
        return _confirm_page(model_admin, request, "merge", rows=rows, changing=2, sides=sides, likeness=likeness)
    if submitted_text(request, "keep") == str(absorbed.pk):
        kept, absorbed = absorbed, kept
    try:
        merge = merge_pair(kept=kept, absorbed=absorbed, versions=_shown_versions(request), **submitted_change(request))
    except DomainError as error:
        model_admin.message_user(request, str(error), messages.ERROR)
        return None
    log_memories(request, [kept, absorbed], "merge")
    address = reverse("admin:strength_memory_unmerge", args=[kept.pk])
    query = urlencode({"merge": str(merge.pk), "next": request.get_full_path()})
    report_done(request, gettext("The two memories were merged."), undo=f"{address}?{query}")
    return None


def _skipped_group(problem: str, memories: Sequence[Memory]) -> dict[str, Any]:
    text = ngettext("%(count)d left unchanged: %(problem)s", "%(count)d left unchanged: %(problem)s", len(memories))
    return {"text": text % {"count": len(memories), "problem": problem}, **_examples(memories)}


def _examples(memories: Sequence[Memory] | QuerySet[Memory], count: int | None = None) -> dict[str, Any]:
    examples = [_example(memory) for memory in memories[:MAX_EXAMPLES]]
    more = max(0, (len(memories) if count is None else count) - MAX_EXAMPLES)
    return {"examples": examples, "more": format_count(more) if more else 0}


def _example(memory: Any) -> dict[str, Any]:
    return {"memory": memory, "opening": excerpt(memory.opening, 200)}


def _shown_versions(request: HttpRequest) -> dict[str, int]:
    """Return the versions that the page showed, by id; memories edited concurrently are skipped."""
    submitted = {key: submitted_number(request, f"version-{key}") for key in request.POST.getlist(ACTION_CHECKBOX_NAME)}
    return {key: number for key, number in submitted.items() if number is not None}


def log_memories(request: HttpRequest, memories: Sequence[Memory], verb: str) -> None:
    if memories:
        flag = DELETION if verb == DELETE else CHANGE
        user: Any = request.user
        with untranslated():
            LogEntry.objects.log_actions(user.pk, memories, flag, change_message=verb)


# Undo


def undo_batch_url(request: HttpRequest, batch: UUID) -> str:
    """Return the URL that undoes a batch and returns to where it was made."""
    query = urlencode({"batch": str(batch), "next": request.get_full_path()})
    return f"{reverse('admin:strength_memory_undo_batch')}?{query}"


def undo_batch_view(model_admin: Any, request: HttpRequest) -> HttpResponse:
    if not model_admin.has_change_permission(request):
        raise PermissionDenied
    to = next_url(request) or reverse("admin:strength_memory_changelist")
    batch = as_uuid(submitted_text(request, "batch"))
    if batch is None:
        model_admin.message_user(request, gettext("There is nothing to undo."), messages.ERROR)
        return HttpResponseRedirect(to)
    if MemoryRevision.objects.filter(batch=batch).count() > MAX_SELECTED:
        try:
            enqueue_undo(batch=batch, **submitted_change(request))
        except WrongState as error:
            model_admin.message_user(request, str(error), messages.ERROR)
        return HttpResponseRedirect(reverse("admin:strength_memory_batch", args=[batch]))
    result = undo(batch=batch, **submitted_change(request))
    report_skipped(model_admin, request, {str(error): len(rows) for error, rows in result.skipped})
    if result.changed:
        text = ngettext(
            "%(count)d memory is as it was before.", "%(count)d memories are as they were before.", len(result.changed)
        )
        report_done(request, text % {"count": len(result.changed)})
    elif not result.skipped:
        model_admin.message_user(request, gettext("There is nothing to undo."), messages.ERROR)
    return HttpResponseRedirect(to)


# Exports


def _export(model_admin: Any, request: HttpRequest, queryset: QuerySet[Memory]) -> Any:
    keys = list(queryset.order_by("-pk").values_list("pk", flat=True)[: MAX_EXPORTED + 1])
    if not keys:
        model_admin.message_user(request, gettext("The selected rows no longer exist."), messages.ERROR)
        return None
    file_format = submitted_text(request, "format")
    may_import = bool(model_admin.may_see_agents(request))
    if (
        request.POST.get("post") == "yes"
        and file_format in EXPORT_CONTENT_TYPES
        and (file_format == "csv" or may_import)
    ):
        return _download(request, keys[:MAX_EXPORTED], file_format)
    is_all = request.POST.get("select_across") == "1"
    selected = queryset.filter(pk__in=keys[:1]) if is_all else queryset
    count = min(len(keys), MAX_EXPORTED)
    return _confirm_page(
        model_admin, request, "export", rows=list(selected[:MAX_SELECTED]), changing=count,
        is_all=is_all, is_capped=len(keys) > MAX_EXPORTED, most=MAX_EXPORTED, may_import=may_import,
        examples=[_example(memory) for memory in queryset[:MAX_EXAMPLES]], more=max(0, count - MAX_EXAMPLES),
    )  # fmt: skip


def _download(request: HttpRequest, keys: Sequence[UUID], file_format: str) -> StreamingHttpResponse:
    details = {"format": file_format, "memories": len(keys)}
    audit.record_each(by=principal(request), verb="export", object_kind="memory", details=details, now=clock())

    def stream() -> Iterator[bytes]:
        return rows_as_csv(Memory.objects.filter(pk__in=keys)) if file_format == "csv" else rows_as_lines(keys)

    # Django would collect a plain iterator whole before it sends the first byte through ASGI.
    pieces: Any = stream_from_thread(stream) if isinstance(request, ASGIRequest) else stream()
    headers = {"Content-Disposition": f'attachment; filename="memories.{file_format}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(pieces, content_type=EXPORT_CONTENT_TYPES[file_format], headers=headers)

"""Deletion of messages and sessions in the admin: what it takes is shown first (SPEC C6)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.forgetting import Deletion, forget_messages, forget_session
from conversations.models import Message, Session
from memoryhub.admin.base import as_uuid, excerpt, format_count
from memoryhub.admin.object_actions import (
    CONFIRMED,
    Confirmation,
    ask_to_confirm,
    change_url,
    next_url,
    report_skipped,
    selected_ids,
    submitted_change,
)
from memoryhub.errors import DomainError

MAX_QUOTED: Final = 5
"""Messages that a confirmation quotes."""

DELETED_LABELS: Final[Mapping[str, Any]] = {
    "sessions": _("Sessions"),
    "messages": _("Messages"),
    "questions": _("Questions"),
    "receipts": _("Receipts"),
    "summaries": _("Summaries"),
    "memories": _("Memories that rest on these messages alone"),
    "memories_for_review": _("Memories with other sources, which leave the contexts and wait for approval"),
    "entries": _("Entries of projects that rest on these messages alone"),
    "entries_for_review": _("Entries of projects with other sources, which leave the contexts and wait for approval"),
    "project_descriptions": _("Descriptions of projects"),
    "routes": _("Routing decisions"),
    "answers": _("Recorded answers"),
}


def may_read(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("conversations.view_message"))


def may_forget(request: HttpRequest) -> bool:
    return may_read(request) and bool(request.user.has_perm("conversations.delete_message"))


def delete_from_session(screen: Any, request: HttpRequest, session: Session) -> HttpResponse:
    """Show what a deletion takes, then delete: the chosen messages, or the session where none is chosen."""
    if not may_forget(request):
        raise PermissionDenied
    named = _chosen(request)
    chosen = [key for each in named if (key := as_uuid(each)) is not None]
    forget: Any = partial(forget_messages, chosen=Q(pk__in=chosen)) if named else forget_session
    forget = partial(forget, session=session, **submitted_change(request))
    try:
        if CONFIRMED not in request.POST:
            cancel = next_url(request) or change_url(session)
            rows = Message.objects.filter(actor_id=session.actor_id, session=session, pk__in=chosen)
            question = _question(rows, forget(dry_run=True).counts, is_whole=not named, cancel=cancel)
            return ask_to_confirm(screen, request, question, action="forget", keys=chosen)
        deletion = forget()
    except DomainError as error:
        screen.message_user(request, str(error), messages.ERROR)
        return HttpResponseRedirect(change_url(session))
    if deletion.job_id is not None:
        screen.message_user(request, gettext("A job deletes the session."))
        return HttpResponseRedirect(reverse("admin:conversations_session_changelist"))
    _report(screen, request, deletion.counts)
    is_left = Session.objects.filter(pk=session.pk, actor_id=session.actor_id).exists()
    return HttpResponseRedirect(change_url(session) if is_left else reverse("admin:conversations_session_changelist"))


def delete_chosen(screen: Any, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
    """Show what a deletion of messages of any sessions takes, then delete them, those of a session at once."""
    keys = selected_ids(queryset)
    if not keys:
        screen.message_user(request, gettext("The selected rows no longer exist."), messages.ERROR)
    is_confirmed = CONFIRMED in request.POST
    counts = [deletion.counts for deletion in _delete(screen, request, keys, dry_run=not is_confirmed)]
    if counts and not is_confirmed:
        question = _question(Message.objects.filter(pk__in=keys), _sum(counts))
        return ask_to_confirm(screen, request, question, action="forget_chosen", keys=keys)
    if counts:
        _report(screen, request, _sum(counts))
    return None


def _delete(screen: Any, request: HttpRequest, keys: Sequence[Any], *, dry_run: bool) -> Iterator[Deletion]:
    """Delete messages by session and yield each deletion; report those that were refused."""
    rows = Message.objects.filter(pk__in=keys).order_by("session_id").values_list("session_id", "pk")
    by_session = {session_id: [pk for _id, pk in of_one] for session_id, of_one in groupby(rows, lambda row: row[0])}
    refused: Counter[str] = Counter()
    for session in Session.objects.filter(pk__in=by_session).select_related("actor__agent"):
        chosen = by_session[session.pk]
        try:
            yield forget_messages(
                session=session, chosen=Q(pk__in=chosen), dry_run=dry_run, **submitted_change(request)
            )
        except DomainError as error:
            refused[str(error)] += len(chosen)
    report_skipped(screen, request, refused)


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _chosen(request: HttpRequest) -> list[str]:
    """Return the ids of the messages that the timeline's form, or the confirmation after it, names."""
    return request.POST.getlist(ACTION_CHECKBOX_NAME) or request.GET.getlist(ACTION_CHECKBOX_NAME)


def _question(
    chosen: QuerySet[Message], counts: Mapping[str, int], *, is_whole: bool = False, cancel: str = ""
) -> Confirmation:
    closing = gettext("There is no undo. Exported files and backups are not reached.")
    return Confirmation(
        title=_("Delete this session") if is_whole else _("Delete these messages"),
        sentences=[*_taken(counts), closing],
        examples=_quoted(chosen),
        button=_("Delete permanently"),
        is_danger=True,
        cancel=cancel,
    )


def _quoted(chosen: QuerySet[Message]) -> list[str]:
    """Return the beginnings of the first chosen messages."""
    rows = chosen.order_by("session_id", "seq").values_list("content", flat=True)
    return [excerpt(content) for content in rows[:MAX_QUOTED]]


def _taken(counts: Mapping[str, int]) -> list[str]:
    """Return what a deletion takes, by kind."""
    return [
        gettext("%(thing)s: %(count)s") % {"thing": label, "count": format_count(counts[kind])}
        for kind, label in DELETED_LABELS.items()
        if kind in counts
    ]


def _report(screen: Any, request: HttpRequest, counts: Mapping[str, int]) -> None:
    count = counts.get("messages", 0)
    text = ngettext("%(count)d message was deleted.", "%(count)d messages were deleted.", count)
    sentences = [text % {"count": count}]
    if others := _taken({kind: number for kind, number in counts.items() if kind != "messages"}):
        sentences.append(gettext("What rested on them: %(what)s.") % {"what": gettext(", ").join(others)})
    screen.message_user(request, " ".join(sentences))

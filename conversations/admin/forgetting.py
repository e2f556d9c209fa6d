"""Deletion of messages and sessions in the admin: what it takes is shown first (SPEC C6)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.forgetting import Deletion, forget_messages, forget_session
from conversations.models import Message, Session
from memoryhub.admin.base import as_uuid, excerpt, format_count, link_to
from memoryhub.admin.object_actions import (
    CONFIRMED,
    Confirmation,
    Quotes,
    ask_to_confirm,
    change_url,
    next_url,
    report_skipped,
    selected_ids,
    submitted_change,
)
from memoryhub.errors import DomainError

MAX_QUOTED: Final = 200
"""Texts of each kind that a confirmation quotes at most."""

DELETED_LABELS: Final[Mapping[str, Any]] = {
    "sessions": _("Sessions"),
    "messages": _("Messages"),
    "questions": _("Questions"),
    "receipts": _("Receipts"),
    "summaries": _("Summaries"),
    "memories": _("Memories that rest on these messages alone"),
    "memories_for_review": _("Memories with other sources, which leave the contexts and become pending"),
    "entries": _("Entries of projects that rest on these messages alone"),
    "entries_for_review": _("Entries of projects with other sources, which leave the contexts and become pending"),
    "project_descriptions": _("Descriptions of projects"),
    "routes": _("Routing decisions"),
    "answers": _("Recorded answers"),
}

QUOTED_PAGES: Final[Mapping[str, str]] = {
    "messages": "conversations_message",
    "summaries": "summaries_summary",
    "memories": "strength_memory",
    "memories_for_review": "strength_memory",
    "entries": "summaries_document",
}
"""Pages of the texts that a confirmation quotes; models above this app are known by name only."""


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
            of_session = Message.objects.filter(actor_id=session.actor_id, session=session)
            rows = of_session.filter(pk__in=chosen) if named else of_session
            question = _question(request, rows, [forget(dry_run=True)], is_whole=not named, cancel=cancel)
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
    deletions = list(_delete(screen, request, keys, dry_run=not is_confirmed))
    if deletions and not is_confirmed:
        question = _question(request, Message.objects.filter(pk__in=keys), deletions)
        return ask_to_confirm(screen, request, question, action="forget_chosen", keys=keys)
    if deletions:
        _report(screen, request, _sum(deletions))
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


def _sum(deletions: Iterable[Deletion]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in deletions:
        total.update(each.counts)
    return dict(total)


def _chosen(request: HttpRequest) -> list[str]:
    """Return the ids of the messages that the timeline's form, or the confirmation after it, names."""
    return request.POST.getlist(ACTION_CHECKBOX_NAME) or request.GET.getlist(ACTION_CHECKBOX_NAME)


def _question(
    request: HttpRequest,
    chosen: QuerySet[Message],
    deletions: Sequence[Deletion],
    *,
    is_whole: bool = False,
    cancel: str = "",
) -> Confirmation:
    counts = _sum(deletions)
    quoted = _quoted(request, chosen, deletions)
    closing = gettext("There is no undo. Exported files and backups are not reached.")
    return Confirmation(
        title=_("Delete this session") if is_whole else _("Delete these messages"),
        sentences=[*_taken({kind: count for kind, count in counts.items() if not quoted.get(kind)}), closing],
        examples=(),
        quotes=[
            Quotes(sentence, quoted[kind])
            for kind in DELETED_LABELS
            if quoted.get(kind)
            for sentence in _taken({kind: counts[kind]})
        ],
        button=_("Delete permanently"),
        is_danger=True,
        cancel=cancel,
    )


def _quoted(
    request: HttpRequest, chosen: QuerySet[Message], deletions: Iterable[Deletion]
) -> dict[str, list[SafeString]]:
    """Return the beginnings of the texts that the person may read, by kind, each with a link to its page."""
    rows = chosen.order_by("session_id", "seq").values_list("pk", "content")
    texts: dict[str, list[tuple[UUID, str]]] = {"messages": list(rows[:MAX_QUOTED])}
    for kind in QUOTED_PAGES.keys() - texts:
        texts[kind] = [each for deletion in deletions for each in deletion.taken.get(kind, ())][:MAX_QUOTED]
    return {
        kind: [link_to(f"admin:{page}_change", key, excerpt(text)) for key, text in texts[kind]]
        for kind, page in QUOTED_PAGES.items()
        if request.user.has_perm(page.replace("_", ".view_"))
    }


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

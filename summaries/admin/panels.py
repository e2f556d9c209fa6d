"""Dashboard tiles and session timeline entries of summaries and routing."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.admin.timeline import MAX_ENTRIES_PER_KIND, EntryKind, TimelineEntry, TimelineWindow
from conversations.models import Session
from memoryhub.admin.base import clock, format_count, principal, truncated
from memoryhub.admin.dashboard import RECENT, Tile
from memoryhub.admin.labels import principal_name
from memoryhub.admin.object_actions import next_url, report_done
from memoryhub.admin.waiting import Waiting
from memoryhub.auth.principals import TextVerb
from memoryhub.errors import DomainError
from memoryhub.tenancy.policy import Trust
from memoryhub.unfold import Page
from summaries.actions.compaction import refused_compactions
from summaries.actions.corrections import uncertain_decisions
from summaries.actions.entries import waiting_entries
from summaries.actions.triggers import enqueue_summary
from summaries.admin.base import CONFIDENCES
from summaries.domain.compaction import REFUSED_OUTCOMES
from summaries.domain.routing import Action, Confidence
from summaries.models import Document, Project, ProjectEvent, RoutingDecision, Summary, SummaryVersion

EXCERPT_LENGTH: Final = 300

VERB_LABELS: Final = {
    TextVerb.WRITE: _("The summary was written"),
    TextVerb.EDIT: _("The summary was corrected"),
    TextVerb.LOCK: _("The summary was locked"),
    TextVerb.UNLOCK: _("The summary was unlocked"),
    TextVerb.RESTORE: _("The summary was restored"),
    TextVerb.DELETE: _("The summary was deleted"),
}
ACTION_LABELS: Final = {
    Action.ROUTE: _("The message was routed to a project"),
    Action.DISCLOSE: _("The message was routed to a project, as a guess"),
    Action.ASK: _("No project was found for the message"),
    Action.PROPOSE: _("A new project was proposed"),
}


def _summaries(window: TimelineWindow) -> Iterator[TimelineEntry]:
    if window.is_search:
        return
    rows = SummaryVersion.objects.filter(
        actor_id=window.actor_id,
        summary__actor_id=window.actor_id,
        summary__session_id=window.session.pk,
        message_count__gte=window.first_seq,
    )
    if window.until is not None:
        rows = rows.filter(message_count__lte=window.last_seq)
    rows = rows.defer("text").annotate(opening=Left("text", EXCERPT_LENGTH + 1)).order_by("number")
    for version in rows[: MAX_ENTRIES_PER_KIND + 1]:
        covered = ngettext("covers %(count)s message", "covers %(count)s messages", version.message_count)
        yield TimelineEntry(
            title=VERB_LABELS[TextVerb(version.verb)],
            text=truncated(version.opening, EXCERPT_LENGTH),
            at=version.created_at,
            after_seq=version.message_count,
            page=reverse("admin:summaries_summary_change", args=[version.summary_id]),
            details=(
                gettext("version %(number)d") % {"number": version.number},
                covered % {"count": format_count(version.message_count)},
                principal_name(version.who_name, version.who_kind),
            ),
        )


def _routes(window: TimelineWindow) -> Iterator[TimelineEntry]:
    if window.is_search:
        return
    rows = RoutingDecision.objects.filter(actor_id=window.actor_id, session_id=window.session.pk)
    rows = rows.filter(**window.times("created_at")).select_related("project", "corrected_project")
    for decision in rows.defer("reason").order_by("id")[: MAX_ENTRIES_PER_KIND + 1]:
        project = decision.corrected_project or decision.project
        yield TimelineEntry(
            title=ACTION_LABELS[Action(decision.action)],
            text=project.name if project else decision.proposed_name,
            at=decision.created_at,
            state=_("corrected") if decision.corrected_at else "",
            colour="info",
            page=reverse("admin:summaries_routingdecision_change", args=[decision.pk]),
            details=(CONFIDENCES.get(decision.confidence, decision.confidence),),
        )


SUMMARIES = EntryKind(name="summary", label=_("Summaries"), needs=("summaries.view_summary",), events=_summaries)
ROUTES = EntryKind(name="route", label=_("Routing"), needs=("summaries.view_routingdecision",), events=_routes)


def summarise(request: HttpRequest, session_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    session = Session.objects.select_related("actor__agent").filter(pk=session_id).first()
    if session is None:
        raise Http404
    try:
        enqueue_summary(session=session, by=principal(request), now=clock())
    except DomainError as error:
        messages.error(request, str(error))
    else:
        report_done(request, gettext("The summary will be written in the background."))
    return HttpResponseRedirect(next_url(request) or reverse("admin:conversations_session_timeline", args=[session.pk]))


PAGES = [
    Page(
        "sessions/<uuid:session_id>/summarise/",
        "summaries_session_summarise",
        summarise,
        ("conversations.view_session", "summaries.change_summary"),
    )
]


WAITING_KINDS: Final = [
    Waiting(
        title=_("Uncertain routings"),
        note=_("of the last 30 days, not reviewed yet"),
        model=RoutingDecision,
        rows=uncertain_decisions,
        states={"confidence": [Confidence.LOW]},
        query="?state=waiting",
    ),
    Waiting(
        title=_("Pending entries"),
        note=_("of documents, from untrusted sources"),
        model=Document,
        rows=lambda now: waiting_entries(),
        states={"trust": [Trust.UNTRUSTED]},
        query="?entries=waiting",
    ),
    Waiting(
        title=_("Refused compactions"),
        note=_("in 7 days: a document stays too long"),
        model=ProjectEvent,
        rows=lambda now: refused_compactions(since=now - RECENT),
        states={"outcome": REFUSED_OUTCOMES},
        query="?outcome=refused",
    ),
]


def tiles(now: datetime) -> list[Tile]:
    summaries = Summary.objects.all()
    return [
        Tile(
            _("Summaries"), summaries, _("of sessions"), Summary,
            recent=summaries.filter(created_at__gte=now - RECENT),
        ),
        Tile(_("Projects"), Project.objects.active(), _("with their documents"), Project, "?status=active"),
    ]  # fmt: skip

"""Screens of background work: jobs, workers, schedules, embedding spaces, kept responses. For administrators."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from django.contrib import admin, messages
from django.db.models import BooleanField, ExpressionWrapper, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from django_q.models import Failure, OrmQ, Schedule, Success

from memoryhub.admin.base import ReadOnlyAdmin, clock, excerpt, owner_label, title_with_time
from memoryhub.admin.columns import choice_displays, choice_filter, column
from memoryhub.admin.labels import job_label
from memoryhub.admin.object_actions import (
    Change,
    Confirmation,
    DecisionAdmin,
    Done,
    confirmation_page,
    count_sentences,
    object_action,
    selected_ids,
    submitted_change,
)
from memoryhub.admin.stored_texts import translated
from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.actions import cancel_jobs, retry_jobs
from memoryhub.auth.models import AuditEntry
from memoryhub.errors import DomainError
from memoryhub.jobs.models import Job, ScheduleState, Worker
from memoryhub.jobs.registry import KINDS, schedules
from memoryhub.jobs.retries import ENDED_BADLY, State
from memoryhub.jobs.status import is_alive, jobs_status
from memoryhub.search.models import EmbeddingSpace
from memoryhub.unfold import in_brackets

# Hide django-q2's screens: a row in its schedules would execute code, and its tables are unused here.
for unused in (Success, Failure, Schedule, OrmQ):
    if admin.site.is_registered(unused):
        admin.site.unregister(unused)


MAX_DECISIONS = 20

MAX_PAYLOAD_LENGTH = 300
STATE_LABELS: dict[str, Any] = {
    State.QUEUED: _("waiting"),
    State.RUNNING: _("running"),
    State.DONE: _("done"),
    State.FAILED: _("failed"),
    State.DEAD: _("dead"),
}
STATE_COLOURS = {"queued": "info", "running": "warning", "done": "success", "failed": "danger", "dead": "danger"}
STATE_DESCRIPTIONS: dict[str, Any] = {
    State.QUEUED: _("It waits for its due time and a worker."),
    State.RUNNING: _("A worker holds it until it is done or its lease expires."),
    State.DONE: _("It is done."),
    State.FAILED: _("A retry would fail. Resolve the cause below, then retry it."),
    State.DEAD: _("It was abandoned after three interrupted attempts. Resolve the cause below, then retry it."),
}


class WrongState(DomainError):
    """The job is not in a state that the decision applies to."""


KindFilter = choice_filter(
    _("kind"), "kind", lambda: sorted(((kind, str(job_label(kind))) for kind in KINDS), key=itemgetter(1))
)


@dataclass(frozen=True)
class Decision:
    """A decision about jobs: the states it applies to, its action, and its texts by number of jobs."""

    states: tuple[State, ...]
    action: Callable[..., int]
    title: Any
    button: Any
    announcement: Any
    done: Any
    skipped: Any


DECISIONS: dict[str, Decision] = {
    "retry": Decision(
        states=ENDED_BADLY,
        action=retry_jobs,
        title=_("Retry jobs"),
        button=_("Retry"),
        announcement=ngettext_lazy(
            "%(count)d job is queued again and gets up to three attempts.",
            "%(count)d jobs are queued again and get up to three attempts each.",
            "count",
        ),
        done=ngettext_lazy("%(count)d job is queued again.", "%(count)d jobs are queued again.", "count"),
        skipped=ngettext_lazy(
            "%(count)d had not failed and is left unchanged.",
            "%(count)d had not failed and are left unchanged.",
            "count",
        ),
    ),
    "cancel": Decision(
        states=(State.QUEUED,),
        action=cancel_jobs,
        title=_("Cancel queued jobs"),
        button=_("Cancel job"),
        announcement=ngettext_lazy(
            "%(count)d job is taken out of the queue, as failed; it can be retried later.",
            "%(count)d jobs are taken out of the queue, as failed; they can be retried later.",
            "count",
        ),
        done=ngettext_lazy("%(count)d job was cancelled.", "%(count)d jobs were cancelled.", "count"),
        skipped=ngettext_lazy(
            "%(count)d is not queued and is left unchanged.",
            "%(count)d are not queued and are left unchanged.",
            "count",
        ),
    ),
}
OPPOSITE = {"retry": "cancel", "cancel": "retry"}

# Shortcuts above the list: label, states, query string.
PRESETS: tuple[tuple[Any, tuple[State, ...], str], ...] = (
    (_("Failed or dead"), ENDED_BADLY, "state__in=failed,dead"),
    (_("Dead letters"), (State.DEAD,), "state__exact=dead"),
    (_("Queued"), (State.QUEUED,), "state__exact=queued"),
    (_("Running"), (State.RUNNING,), "state__exact=running"),
)


@admin.register(Job)
class JobAdmin(DecisionAdmin):
    """Jobs by state; failed ones are retried, queued ones cancelled."""

    list_per_page = 45  # wide rows: a page stays under 350 KB

    list_display = ("created_at", "shown_kind", "shown_state", "attempts", "owner", "shown_error", "finished_at")
    list_filter = ("state", KindFilter, "created_at")
    list_select_related = ("actor",)
    list_deferred = ("payload",)
    search_fields = ("kind", "error")
    ordering = ("-created_at", "-id")
    actions = ("retry", "cancel")
    fields = (
        ("shown_kind", "shown_state_in_words"),
        ("owner", "key"),
        ("attempts", "excused"),
        "whole_error",
        "shown_payload",
        ("progress_done", "progress_total"),
        ("created_at", "started_at", "finished_at"),
        ("due_at", "lease_until", "worker"),
    )
    list_before_template = "admin/memoryhub/job/background.html"
    change_form_outer_before_template = "admin/memoryhub/job/decide.html"
    change_form_outer_after_template = "admin/memoryhub/job/story.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        state = jobs_status(clock())
        presets = [
            {
                "title": title,
                "count": sum(state.jobs.get(job_state, 0) for job_state in states),
                "query": f"?{query}",
                "is_chosen": QueryDict(query) == request.GET,
            }
            for title, states, query in PRESETS
        ]
        extra = {"background": state, "presets": presets}
        return super().changelist_view(request, {**(extra_context or {}), **extra})

    def title_of(self, row: Any) -> str:
        return title_with_time(job_label(row.kind), row.created_at)

    shown_kind = column(
        _("kind"), lambda job: format_html('<span title="{}">{}</span>', job.kind, job_label(job.kind)), ordering="kind"
    )
    shown_state, shown_state_in_words = choice_displays("state", STATE_LABELS, STATE_COLOURS, description=_("state"))

    owner = column(_("actor"), lambda job: owner_label(job.actor) if job.actor else "-")
    shown_payload = column(
        _("payload"), lambda job: excerpt(json.dumps(job.payload, ensure_ascii=False), MAX_PAYLOAD_LENGTH)
    )
    whole_error = column(_("error"), lambda job: translated(job.error) or "-")
    shown_error = column(_("error"), lambda job: excerpt(translated(job.error)) if job.error else "-")

    @admin.action(description=_("Retry, up to three attempts"), permissions=["decide"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "retry")

    @admin.action(description=_("Cancel, while still queued"), permissions=["decide"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "cancel")

    def _decide_many(self, request: HttpRequest, queryset: QuerySet[Job], verb: str) -> HttpResponse | None:
        decision, keys = DECISIONS[verb], selected_ids(queryset)
        matching = list(Job.objects.filter(pk__in=keys, state__in=decision.states).order_by("kind", "pk"))
        question = Confirmation(
            title=decision.title,
            sentences=[
                decision.announcement % {"count": len(matching)},
                *count_sentences((decision.skipped, len(keys) - len(matching))),
            ],
            examples=[
                format_html(
                    "{}{} {}",
                    job_label(job.kind),
                    in_brackets(STATE_LABELS[job.state]),
                    excerpt(translated(job.error)) if job.error else "",
                )
                for job in matching
            ],
            button=decision.button,
            can_proceed=bool(matching),
        )
        if page := confirmation_page(self, request, question, action=verb, keys=keys):
            return page
        count = decision.action(job_ids=keys, **submitted_change(request))
        sentences = [decision.done % {"count": count}, *count_sentences((decision.skipped, len(keys) - count))]
        self.message_user(request, " ".join(sentences), messages.SUCCESS if count else messages.WARNING)
        return None

    @object_action()
    def retry_view(self, request: HttpRequest, job: Job, change: Change) -> Done:
        return _decide(job, change, "retry")

    @object_action()
    def cancel_view(self, request: HttpRequest, job: Job, change: Change) -> Done:
        return _decide(job, change, "cancel")

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        verb = next((verb for verb, decision in DECISIONS.items() if row.state in decision.states), "")
        return {
            "verb": verb if self.has_decide_permission(request) else "",
            "decide_address": reverse(f"admin:memoryhub_job_{verb}", args=[row.pk]) if verb else "",
            "button": DECISIONS[verb].button if verb else "",
            "explained": STATE_DESCRIPTIONS[row.state],
            "decisions": AuditEntry.objects.filter(object_kind="job", object_id=str(row.pk))[:MAX_DECISIONS],
        }


def _decide(job: Job, change: Change, verb: str) -> Done:
    decision = DECISIONS[verb]
    if not decision.action(job_ids=[job.pk], **change):
        raise WrongState(decision.skipped % {"count": 1})
    undo = reverse(f"admin:memoryhub_job_{OPPOSITE[verb]}", args=[job.pk])
    return Done(decision.done % {"count": 1}, undo=undo, logged=verb)


@admin.register(EmbeddingSpace)
class EmbeddingSpaceAdmin(ReadOnlyAdmin):
    """Embedding spaces: filled and switched by commands."""

    list_display = ("provider", "model", "dimension", "shown_state", "cosine_low", "cosine_high", "vector_weight")
    list_filter = ("state",)
    search_fields = ("provider", "model")
    ordering = ("id",)

    shown_state = column(
        _("state"),
        lambda space: (space.state, space.get_state_display()),
        ordering="state",
        colours={"active": "success", "filling": "info", "retired": ""},
    )


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin):
    """Responses kept for a day to answer retries; their bodies hold user texts and are not shown."""

    list_display = ("created_at", "route", "status", "api_key")
    list_filter = ("route", "created_at")
    list_select_related = ("api_key",)
    search_fields = ("route", "key")
    ordering = ("-created_at", "-id")
    fields = ("created_at", "route", "status", "api_key", "actor", "key", "body_digest")


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Workers and when each was last seen."""

    list_display = ("__str__", "shown_state", "started_at", "seen_at")
    ordering = ("-seen_at",)
    search_fields = ("host",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        rows: QuerySet[Worker] = super().get_queryset(request)
        return rows.annotate(is_alive=ExpressionWrapper(is_alive(), BooleanField()))

    shown_state = column(
        _("state"),
        lambda worker: ("alive", _("alive")) if worker.is_alive else ("lost", _("lost")),
        colours={"alive": "success", "lost": "danger"},
    )


@admin.register(ScheduleState)
class ScheduleAdmin(ReadOnlyAdmin):
    """Next run of each schedule."""

    list_display = ("shown_name", "next_at", "last_at")
    ordering = ("name",)
    fields = ("shown_name", "next_at", "last_at")
    search_fields = ("name",)

    def title_of(self, row: ScheduleState) -> Any:
        return self.shown_name(row)

    @admin.display(description=_("job"), ordering="name")
    def shown_name(self, row: ScheduleState) -> Any:
        kind, _recurrence = schedules().get(row.name, (row.name, None))
        return job_label(kind)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScheduleState]:
        return super().get_queryset(request).filter(name__in=schedules())

"""Screens of the background: jobs with what went wrong, and the workers that work on them. For administrators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django_q.models import Failure, OrmQ, Schedule, Success
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter

from memoryhub.admin.base import (
    ReadOnlyAdmin,
    clock,
    coloured,
    excerpt,
    owner_label,
    principal,
    title_with_time,
)
from memoryhub.admin.fields import choices_of
from memoryhub.admin.filters import PeriodFilter
from memoryhub.admin.object_actions import (
    Confirmation,
    Done,
    confirmation_page,
    is_confirmed,
    run_object_action,
    selected_ids,
    submitted_reason,
)
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.retrying import cancel_jobs, retry_jobs
from memoryhub.errors import DomainError
from memoryhub.jobs.domain import ENDED_BADLY, State
from memoryhub.jobs.models import Job
from memoryhub.jobs.status import JobsStatus, Mood, jobs_status

# django-q2's own screens: a row of its schedules is code that runs, and all of its tables stay empty here.
for unused in (Success, Failure, Schedule, OrmQ):
    if admin.site.is_registered(unused):
        admin.site.unregister(unused)


MOST_DECISIONS = 20

STATE_WORDS: dict[str, Any] = {
    State.QUEUED: _("waiting"),
    State.RUNNING: _("running"),
    State.DONE: _("done"),
    State.FAILED: _("failed"),
    State.DEAD: _("dead"),
}
STATE_EXPLAINED: dict[str, Any] = {
    State.QUEUED: _("It waits for a worker, until its time has come."),
    State.RUNNING: _("A worker has it, until it is done or its lease runs out."),
    State.DONE: _("It is done; nothing more will happen."),
    State.FAILED: _("It would fail again as it is. Mend the cause told below, then send it back."),
    State.DEAD: _(
        "It was given up on after three broken attempts. Mend the cause told below, then send it back."
    ),
}


class WrongState(DomainError):
    """The job is not where the button takes it to be."""


class KindFilter(DropdownFilter):
    """Narrows the jobs to one kind."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return choices_of(sorted(settings.JOB_KINDS))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


def _sent_back(count: int) -> str:
    return ngettext("%(count)d job was sent back.", "%(count)d jobs were sent back.", count) % {
        "count": count
    }


def _taken_out(count: int) -> str:
    words = ngettext(
        "%(count)d job was taken out of the queue.", "%(count)d jobs were taken out of the queue.", count
    )
    return words % {"count": count}


def _stay(left: int) -> str:
    words = ngettext(
        "%(left)d had not ended badly and stays as it is.", "%(left)d had not ended badly and stay.", left
    )
    return words % {"left": left}


def _do_not_wait(left: int) -> str:
    words = ngettext("%(left)d does not wait and stays as it is.", "%(left)d do not wait and stay.", left)
    return words % {"left": left}


Do = Callable[..., int]


@dataclass(frozen=True)
class Decision:
    """What people decide about jobs: which it is for, what does it, and how that is asked and told."""

    states: tuple[State, ...]
    do: Do
    title: Any
    button: Any
    will: Callable[[int], str]
    background_status: Callable[[int], str]
    left: Callable[[int], str]


def _will_send_back(count: int) -> str:
    words = ngettext(
        "%(count)d job goes back into the queue and is tried again, up to three times.",
        "%(count)d jobs go back into the queue and are tried again, up to three times.",
        count,
    )
    return words % {"count": count}


def _will_take_out(count: int) -> str:
    words = ngettext(
        "%(count)d job is taken out of the queue, as failed; it can be sent back later.",
        "%(count)d jobs are taken out of the queue, as failed; they can be sent back later.",
        count,
    )
    return words % {"count": count}


DECISIONS: dict[str, Decision] = {
    "send_back": Decision(
        ENDED_BADLY, retry_jobs, _("Retry jobs"), _("Retry"), _will_send_back, _sent_back, _stay
    ),
    "take_out": Decision(
        (State.QUEUED,), cancel_jobs, _("Cancel queued jobs"), _("Cancel job"), _will_take_out, _taken_out,
        _do_not_wait,
    ),
}  # fmt: skip
OPPOSITE = {"send_back": "take_out", "take_out": "send_back"}

# What a person looks at first: a name, the states behind it, and the list's query.
PRESETS: tuple[tuple[Any, tuple[State, ...], str], ...] = (
    (_("Failed or dead"), ENDED_BADLY, "state__in=failed,dead"),
    (_("Dead letters"), (State.DEAD,), "state__exact=dead"),
    (_("Waiting"), (State.QUEUED,), "state__exact=queued"),
    (_("Running"), (State.RUNNING,), "state__exact=running"),
)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs: what waits, what runs, and what ended badly and can be sent back."""

    list_display = ("created_at", "kind", "shown_state", "attempts", "whose", "shown_error", "finished_at")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        KindFilter,
        ("created_at", PeriodFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("kind", "error")
    ordering = ("-created_at", "-id")
    actions = ("send_back", "take_out")
    fields = (
        ("kind", "shown_state_in_words"),
        ("whose", "key"),
        ("attempts", "excused"),
        "error",
        "payload",
        ("progress_done", "progress_total"),
        ("created_at", "started_at", "finished_at"),
        ("due_at", "lease_until", "worker"),
    )
    readonly_fields = ("shown_state_in_words", "whose")
    list_before_template = "admin/memoryhub/job/background.html"
    change_form_outer_before_template = "admin/memoryhub/job/decide.html"
    change_form_outer_after_template = "admin/memoryhub/job/story.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        state = jobs_status(clock())
        presets = [
            {"title": title, "count": sum(state.jobs.get(each, 0) for each in states), "query": f"?{query}"}
            for title, states, query in PRESETS
        ]
        extra = {"background": background_status(state), "presets": presets}
        return super().changelist_view(request, {**(extra_context or {}), **extra})

    def title_of(self, row: Any) -> str:
        return title_with_time(row.kind, row.created_at)

    @coloured(
        {"queued": "info", "running": "warning", "done": "success", "failed": "danger", "dead": "danger"}
    )
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, job: Job) -> tuple[str, Any]:
        return job.state, STATE_WORDS[job.state]

    @admin.display(description=_("state"))
    def shown_state_in_words(self, job: Job) -> Any:
        return STATE_WORDS[job.state]

    @admin.display(description=_("actor"))
    def whose(self, job: Job) -> str:
        return owner_label(job.actor) if job.actor else "-"

    @admin.display(description=_("error"))
    def shown_error(self, job: Job) -> str:
        return excerpt(job.error) if job.error else "-"

    # What people decide: about one job by its page's button, about many after a question that counts.

    @admin.action(description=_("Retry, up to three attempts"), permissions=["retry"])
    def send_back(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "send_back")

    @admin.action(description=_("Cancel, while still queued"), permissions=["retry"])
    def take_out(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        return self._decide_many(request, queryset, "take_out")

    def _decide_many(self, request: HttpRequest, queryset: QuerySet[Job], verb: str) -> HttpResponse | None:
        decision, keys = DECISIONS[verb], selected_ids(queryset)
        if not is_confirmed(request):
            return confirmation_page(self, request, _question(decision, keys), action=verb, keys=keys)
        count = decision.do(
            job_ids=keys, by=principal(request), reason=submitted_reason(request), now=clock()
        )
        left = len(keys) - count
        text = " ".join([decision.told(count), *([decision.left(left)] if left else [])])
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)
        return None

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<path:object_id>/send-back/", view(self.send_back_view), name="memoryhub_job_send_back"),
            path("<path:object_id>/take-out/", view(self.take_out_view), name="memoryhub_job_take_out"),
            *super().get_urls(),
        ]

    def send_back_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, "send_back")

    def take_out_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, "take_out")

    def _decide_one(self, request: HttpRequest, object_id: str, verb: str) -> HttpResponse:
        if not self.has_retry_permission(request):
            raise PermissionDenied
        decision = DECISIONS[verb]

        def act(job: Job, reason: str) -> Done:
            count = decision.do(job_ids=[job.pk], by=principal(request), reason=reason, now=clock())
            if not count:
                raise WrongState(decision.left(1))
            undo = reverse(f"admin:memoryhub_job_{OPPOSITE[verb]}", args=[job.pk])
            return Done(decision.told(count), undo=undo)

        return run_object_action(self, request, object_id, act, may=lambda job: True, logged=verb)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may decide about jobs: administrators."""
        return bool(request.user.has_perm("memoryhub.change_job"))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        fitting = [verb for verb, decision in DECISIONS.items() if row.state in decision.states]
        return {
            "verb": fitting[0] if fitting and self.has_retry_permission(request) else "",
            "decide_address": reverse(f"admin:memoryhub_job_{fitting[0]}", args=[row.pk]) if fitting else "",
            "button": DECISIONS[fitting[0]].button if fitting else "",
            "explained": STATE_EXPLAINED[row.state],
            "decisions": AuditEntry.objects.filter(object_kind="job", object_id=str(row.pk))[:MOST_DECISIONS],
        }


def _question(decision: Decision, keys: Sequence[UUID]) -> Confirmation:
    fitting = list(Job.objects.filter(pk__in=keys, state__in=decision.states).order_by("kind", "pk"))
    left = len(keys) - len(fitting)
    return Confirmation(
        title=decision.title,
        sentences=[decision.will(len(fitting)), *([decision.left(left)] if left else [])],
        examples=[_example(job) for job in fitting],
        button=decision.button,
        may_go_on=bool(fitting),
    )


def _example(job: Job) -> Any:
    return format_html(
        "{} ({}) {}", job.kind, STATE_WORDS[job.state], excerpt(job.error) if job.error else ""
    )


MOODS: dict[Mood, Any] = {
    Mood.IDLE: _("idle"),
    Mood.WORKING: _("busy"),
    Mood.BEHIND: _("behind"),
    Mood.DOWN: _("no workers"),
}


@dataclass(frozen=True)
class BackgroundStatus:
    """The background in words: how it is, and what to do where something is to be done."""

    mood: Mood
    sentence: str
    advice: str

    @property
    def is_well(self) -> bool:
        return self.mood in (Mood.IDLE, Mood.WORKING)


def background_status(state: JobsStatus) -> BackgroundStatus:
    return BackgroundStatus(state.mood, f"{_workers(state)} {_counts(state)}", _advice(state))


def _workers(state: JobsStatus) -> str:
    if state.mood is not Mood.DOWN:
        words = ngettext("%(count)d worker, %(mood)s:", "%(count)d workers, %(mood)s:", state.workers)
        return words % {"count": state.workers, "mood": MOODS[state.mood]}
    if state.last_seen_at is None:
        return gettext("No worker is there (none was ever seen); the background may be down:")
    seen = date_format(state.last_seen_at, "DATETIME_FORMAT")
    return gettext("No worker is there (the last was seen at %(time)s); the background may be down:") % {
        "time": seen
    }


def _counts(state: JobsStatus) -> str:
    counts = {each.value: state.jobs.get(each, 0) for each in State}
    return gettext("%(queued)d jobs wait, %(running)d run, %(failed)d failed, %(dead)d are dead.") % counts


def _advice(state: JobsStatus) -> str:
    if state.mood is Mood.DOWN:
        return gettext(
            "Start the workers with “manage.py serve” (all in one) or “manage.py run_worker” (workers alone). "
            "Nothing is lost meanwhile: what waits is done once they are there."
        )
    if state.mood is Mood.BEHIND:
        minutes = int(state.waited.total_seconds() // 60)
        return ngettext(
            "The oldest job has waited for %(minutes)d minute. Add workers (MEMORYHUB_WORKERS), or look below for jobs "
            "that fail again and again.",
            "The oldest job has waited for %(minutes)d minutes. Add workers (MEMORYHUB_WORKERS), or look below for "
            "jobs that fail again and again.",
            minutes,
        ) % {"minutes": minutes}
    return ""

"""Screens of sleep runs (SPEC W4): previews, runs of an actor or an agent with its users, changes by kind, and undo."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanWidget

from memoryhub.admin.base import OwnedMixin, as_uuid, clock, principal, render_page, title_with_time
from memoryhub.admin.columns import UserFilter, choice_filter, column, full_time, label_displays
from memoryhub.admin.curated import OwnerForm
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import (
    CONFIRMED,
    Change,
    DecisionAdmin,
    Done,
    change_url,
    has_undo_message,
    object_action,
    report_done,
    submitted_number,
    submitted_text,
)
from memoryhub.auth.access import UnknownRow, tenant_for_reading
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from strength.actions.held_memories import held_runs, leave_held, reopen_held
from strength.actions.sleep import SleepRequest
from strength.actions.sleep_runs import MAX_CHANGES, changes_of, sleep_many, undo_refusal, undo_sleep
from strength.admin.labels import RUN_COLOURS, RUN_STATE_LABELS, TRIGGER_LABELS
from strength.admin.nights import COUNTS, undo_runs
from strength.admin.sleep_changes import change_groups, preview_comparison
from strength.domain.sleep import RunState, Trigger
from strength.models import SleepRun

MAX_ERRORS: Final = 50
ACTORS_PER_REQUEST: Final = 10
"""Actors with sleep runs while a page waits; an agent with more users continues page by page."""

PREVIEW, SLEEP = "preview", "sleep"
CURRENT_BATCH: Final = "sleep_round"


def _count(name: str) -> Any:
    @admin.display(description=COUNTS[name][0], ordering=name)
    def count_column(model_admin: Any, run: SleepRun) -> int:
        return int(getattr(run, name))

    return count_column


def _state_of(run: SleepRun) -> tuple[str, Any]:
    state = "preview" if run.dry_run else run.state
    return state, RUN_STATE_LABELS.get(state, state)


def _held(runs: QuerySet[SleepRun], choice: str) -> QuerySet[SleepRun]:
    return runs.filter(pk__in=held_runs().values("pk")) if choice == "waiting" else runs


HeldFilter = choice_filter(_("postponed"), "held", lambda: [("waiting", _("Pending"))], _held)


@admin.register(SleepRun)
class SleepRunAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _("The first runs at night; the button above previews or starts one now.")
    list_display = (
        "moment",
        "owner",
        "shown_state",
        "shown_trigger",
        "faded",
        "archived",
        "held_back",
        "levels",
        "merged",
        "proposed",
    )
    list_filter = (HeldFilter, "dry_run", "state", "trigger", "actor__agent", UserFilter, "now")
    list_select_related = ("actor",)
    search_fields = ("who_name",)
    search_help_text = _("Who started it, or the id of a sleep run or of a batch.")
    id_fields = ("pk", "group")
    ordering = ("-now", "-id")
    list_deferred = ("changes", "errors", "policy")
    fields = (
        ("owner", "state_in_words"),
        ("moment", "shown_trigger", "who"),
        ("started_at", "processed_at"),
        ("undone_at", "undone_by"),
        ("id", "group"),
    )
    list_before_template = "admin/strength/sleeprun/begin_link.html"
    change_form_outer_before_template = "admin/strength/sleeprun/buttons.html"

    def title_of(self, row: SleepRun) -> str:
        return title_with_time(gettext("Preview") if row.dry_run else row._meta.verbose_name, row.now)

    moment = column(_("computed for"), lambda run: full_time(run.now), ordering="now")

    shown_state, state_in_words = label_displays(_state_of, RUN_COLOURS, description=_("state"), ordering="state")
    shown_trigger = column(
        _("started by"), lambda run: TRIGGER_LABELS.get(run.trigger, run.trigger), ordering="trigger"
    )

    faded, archived, held_back, levels, merged, proposed = map(_count, COUNTS)

    who = column(_("who"), lambda run: principal_label(run.who_name, run.who_kind))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        may = {"may_begin": self.has_decide_permission(request)}
        return super().changelist_view(request, {**(extra_context or {}), **may})

    # Buttons

    def get_urls(self) -> list[URLPattern]:
        view, undo_round = self.admin_site.admin_view, require_POST(self.undo_round_view)
        return [
            path("begin/", view(self.begin_view), name="strength_sleeprun_begin"),
            path("round/<uuid:group>/", view(self.round_view), name="strength_sleeprun_round"),
            path("round/<uuid:group>/undo/", view(undo_round), name="strength_sleeprun_undo_round"),
            *super().get_urls(),
        ]

    def begin_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        form = SleepForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            dry_run = request.POST.get("verb") != SLEEP
            try:
                actor = form.actor(principal(request))
                if not dry_run and CONFIRMED not in request.POST:
                    return self._begin_page(request, form, confirm=True)
                ahead_days = (form.cleaned_data["ahead_days"] or 0) if dry_run else 0
                if form.cleaned_data["all_users"]:
                    return self._continue_batch(
                        request, BatchProgress(new_id(), actor.agent_id, None, dry_run, ahead_days)
                    )
                run = _sleep(request, actor, group=None, dry_run=dry_run, ahead_days=ahead_days)
            except DomainError as error:
                form.add_error(None, str(error))
            else:
                self.log_change(request, run, PREVIEW if dry_run else SLEEP)
                report_done(request, _summary(1, dry_run=dry_run), undo=_undo_url(run))
                return HttpResponseRedirect(change_url(run))
        return self._begin_page(request, form)

    def _begin_page(self, request: HttpRequest, form: "SleepForm", *, confirm: bool = False) -> HttpResponse:
        """Show the form; with `confirm`, ask for confirmation of a run."""
        agent, user = (str(form[name].value() or "") for name in ("agent", "user_id"))
        label = gettext("%(agent)s and all its users.") if form["all_users"].value() else "%(agent)s / %(user)s."
        return render_page(
            request,
            "admin/strength/sleeprun/begin.html",
            title=_("Start a sleep run"),
            opts=self.opts,
            form=form,
            media=self.media + form.media,
            asks=confirm,
            actor_label=(label if user or form["all_users"].value() else "%(agent)s.") % {"agent": agent, "user": user},
            form_url=request.path,
        )

    def round_view(self, request: HttpRequest, group: UUID) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        agent_id, after = submitted_text(request, "agent"), as_uuid(submitted_text(request, "after"))
        requested_days = submitted_number(request, "ahead")
        dry_run, ahead_days = (
            submitted_text(request, "dry") == "1",
            requested_days if requested_days in PREVIEW_DAYS else 0,
        )
        batch = BatchProgress(group, agent_id, after, dry_run=dry_run, ahead_days=ahead_days)
        if request.method == "POST":
            return self._continue_batch(request, batch)
        sums = SleepRun.objects.filter(group=group).aggregate(**{name: Sum(name) for name in COUNTS})
        return render_page(
            request,
            "admin/strength/sleeprun/round.html",
            title=_("Preview of an agent’s sleep run") if batch.dry_run else _("Sleep run of an agent"),
            opts=self.opts,
            agent=batch.agent_id,
            # Continue automatically only in the session that started it, not for a foreign link.
            continues=request.session.get(CURRENT_BATCH) == batch.address,
            done=batch.done,
            total=batch.total,
            form_url=batch.address,
            runs_url=_batch_runs_url(group),
            counts=[(title, sums[name] or 0) for name, (_column, title) in COUNTS.items()],
        )

    def _continue_batch(self, request: HttpRequest, batch: "BatchProgress") -> HttpResponse:
        actors, dry_run = batch.next(), batch.dry_run
        how: dict[str, Any] = {"group": batch.group, "dry_run": dry_run, "ahead_days": batch.ahead_days}
        runs = [_sleep(request, actor, **how) for actor in actors]
        for run in runs:
            self.log_change(request, run, PREVIEW if dry_run else SLEEP)
        if len(actors) == ACTORS_PER_REQUEST and (later := replace(batch, after=actors[-1].pk)).next():
            request.session[CURRENT_BATCH] = later.address
            return HttpResponseRedirect(later.address)
        request.session.pop(CURRENT_BATCH, None)
        # The most common group: an actor that has just slept returns its earlier run, of another group.
        groups = Counter(run.group for run in runs if run.group).most_common(1)
        group = groups[0][0] if groups else batch.group
        undo = None if dry_run else reverse("admin:strength_sleeprun_undo_round", args=[group])
        report_done(request, _summary(batch.total, dry_run=dry_run), undo=undo)
        return HttpResponseRedirect(change_url(runs[0]) if batch.total == 1 else _batch_runs_url(group))

    def undo_round_view(self, request: HttpRequest, group: UUID) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        undo_runs(request, SleepRun.objects.filter(group=group, dry_run=False, state=RunState.DONE))
        return HttpResponseRedirect(_batch_runs_url(group))

    @object_action()
    def sleep_view(self, request: HttpRequest, run: SleepRun, change: Change) -> Done:
        actor = Actor.objects.select_related("agent").get(pk=run.actor_id)
        slept = _sleep(request, actor, group=None, dry_run=False)
        return Done(_summary(1, dry_run=False), change_url(slept), _undo_url(slept))

    @object_action()
    def archive_held_view(self, request: HttpRequest, run: SleepRun, change: Change) -> Done:
        """Archive what the sleep left, by another one without a limit."""
        actor = Actor.objects.select_related("agent").get(pk=run.actor_id)
        slept = _sleep(request, actor, group=None, dry_run=False, is_limited=False)
        return Done(_summary(1, dry_run=False), change_url(slept), _undo_url(slept))

    @object_action()
    def leave_view(self, request: HttpRequest, run: SleepRun, change: Change) -> Done:
        leave_held(run=run, **change)
        undo = reverse("admin:strength_sleeprun_reopen", args=[run.pk])
        return Done(gettext("The next sleep runs continue with them, a part at a time."), undo=undo)

    @object_action()
    def reopen_view(self, request: HttpRequest, run: SleepRun, change: Change) -> Done:
        reopen_held(run=run, **change)
        return Done(gettext("They are pending again."))

    @object_action(confirm="ask_to_undo")
    def undo_view(self, request: HttpRequest, run: SleepRun, change: Change) -> Done:
        undone = undo_sleep(run=run, **change)
        if undone.errors:
            text = _("Not everything could be undone: see the problems below.")
            self.message_user(request, text, messages.WARNING)
        return Done(gettext("The sleep run was undone."))

    def ask_to_undo(self, request: HttpRequest, run: SleepRun) -> HttpResponse:
        if not self.has_decide_permission(request):
            raise PermissionDenied
        if undo_refusal(run):
            self.message_user(request, _("This sleep run cannot be undone, or no longer."), messages.ERROR)
            return HttpResponseRedirect(change_url(run))
        title, template = _("Undo this sleep run?"), "admin/strength/sleeprun/undo.html"
        context = {"action": reverse("admin:strength_sleeprun_undo", args=[run.pk]), "back": change_url(run)}
        return render_page(request, template, title=title, opts=self.opts, original=run, **context)

    # Context of a run's page

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        changes = changes_of(row)
        may = self.has_decide_permission(request)
        groups = change_groups(request, row, changes)
        refusal = undo_refusal(row)
        return {
            "groups": groups,
            "changes": [change for group in groups for change in group["changes"]],
            "are_there_more": len(changes) >= MAX_CHANGES,
            "problems": row.errors[:MAX_ERRORS],
            "problems_left_out": max(0, len(row.errors) - MAX_ERRORS),
            "figures": [(title, getattr(row, name)) for name, (_column, title) in COUNTS.items()],
            "is_unfinished": row.state == RunState.RUNNING,
            "is_undone": row.state == RunState.UNDONE,
            "waits": may and held_runs().filter(pk=row.pk).exists(),
            "may_sleep": may and (row.dry_run or row.state == RunState.RUNNING),
            # Right after the run, the message above has the button.
            "may_undo": may and refusal is None and not has_undo_message(request),
            "not_undoable": refusal if row.state == RunState.DONE and not row.dry_run else None,
            "is_ahead": row.dry_run and row.now > clock(),
            "may_pin": (row.dry_run or row.held_count) and request.user.has_perm("strength.change_memory"),
            "here": request.get_full_path(),
            "batch_url": _batch_runs_url(row.group) if row.group else None,
            **preview_comparison(request, row, changes),
        }


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch of runs for all actors of an agent; `after` is the last actor done."""

    group: UUID
    agent_id: str
    after: UUID | None = None
    dry_run: bool = True
    ahead_days: int = 0

    def _actors(self) -> QuerySet[Actor]:
        return Actor.objects.filter(agent_id=self.agent_id).select_related("agent").order_by("pk")

    def next(self) -> list[Actor]:
        rows = self._actors()
        return list((rows.filter(pk__gt=self.after) if self.after else rows)[:ACTORS_PER_REQUEST])

    @property
    def done(self) -> int:
        return self._actors().filter(pk__lte=self.after).count() if self.after else 0

    @property
    def total(self) -> int:
        return self._actors().count()

    @property
    def address(self) -> str:
        values = {"agent": self.agent_id, "after": str(self.after or ""), "dry": "1" if self.dry_run else "0"}
        values |= {"ahead": str(self.ahead_days)} if self.ahead_days else {}
        return f"{reverse('admin:strength_sleeprun_round', args=[self.group])}?{urlencode(values)}"


def _sleep(
    request: HttpRequest,
    actor: Actor,
    *,
    group: UUID | None,
    dry_run: bool,
    ahead_days: int = 0,
    is_limited: bool = True,
) -> SleepRun:
    now = clock()
    at = now + timedelta(days=ahead_days) if dry_run and ahead_days else None
    sleep_request = SleepRequest(Trigger.CURATOR, principal(request), now, group, at, is_limited)
    [run] = sleep_many(actor=actor, request=sleep_request, all_users=False, dry_run=dry_run)
    return run


def _summary(count: int, *, dry_run: bool) -> str:
    if dry_run:
        text = ngettext(
            "%(count)d sleep run was previewed; nothing was changed.",
            "%(count)d sleep runs were previewed; nothing was changed.",
            count,
        )
    else:
        text = ngettext("%(count)d sleep run is done.", "%(count)d sleep runs are done.", count)
    return text % {"count": count}


def _batch_runs_url(group: UUID) -> str:
    return f"{reverse('admin:strength_sleeprun_changelist')}?group={group}"


def _undo_url(run: SleepRun) -> str | None:
    return None if undo_refusal(run) else reverse("admin:strength_sleeprun_undo", args=[run.pk])


# Days ahead that a preview may cover.
PREVIEW_DAYS: Final = {0: _("now"), 7: _("in 7 days"), 30: _("in 30 days"), 90: _("in 90 days")}


class SleepForm(OwnerForm):
    creates_users = False

    all_users = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget(),
        label=_("The agent and all its users"),
        help_text=_("Each has a separate sleep run; the user above is ignored."),
    )
    ahead_days = forms.TypedChoiceField(
        required=False,
        coerce=int,
        choices=[*PREVIEW_DAYS.items()],
        widget=UnfoldAdminSelectWidget(choices=[*PREVIEW_DAYS.items()]),
        label=_("Preview for"),
        help_text=_("Preview of that time, without any use until then. A sleep run itself always runs now."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user_id"].help_text = _("Empty: the agent's own memories.")

    def actor(self, by: Principal) -> Actor:
        """Return the chosen actor; raises UnknownRow where it has no memory."""
        agent, everyone = self.cleaned_data["agent"], self.cleaned_data["all_users"]
        if everyone:
            actor = Actor.objects.filter(agent=agent).select_related("agent").first()
        else:
            actor = tenant_for_reading(by, agent.pk, self.cleaned_data["user_id"]).actor
        if actor is None:
            raise UnknownRow(gettext("There is no memory yet: the first write creates an actor."))
        return actor

"""Screens of sleeps: what each did to which memory and why, what the next would do, and the way back."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    BooleanRadioFilter,
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.admin.base import UserFilter, clock, excerpt, labelled, principal, whose
from memoryhub.admin.pressing import ButtonsAdmin, Done, in_words, page_of
from memoryhub.ids import new_id
from memoryhub.refusals import Refusal
from memoryhub.tenants.models import Actor
from strength.actions.preview import MOST_CHANGES, changes_of
from strength.actions.rounds import MOST_AT_ONCE, sleep_round
from strength.actions.sleep import Waking
from strength.actions.undo import undo_sleep
from strength.admin.forms import SleepForm
from strength.admin.shown import shown_memories
from strength.admin.words import (
    CHANGE_COLOURS,
    CHANGES,
    RUN_COLOURS,
    RUN_STATES,
    TRIGGERS,
    WHYS,
    said,
)
from strength.domain.sleep import RunState, Trigger
from strength.models import Rhythm, SleepRun

MOST_SHOWN: Final = 200
MOST_ERRORS: Final = 50
PREVIEW, SLEEP = "preview", "sleep"


@admin.register(SleepRun)
class SleepRunAdmin(ButtonsAdmin):
    """Sleeps and previews; whoever may change them may begin and undo them."""

    list_display = (
        "moment",
        "owner",
        "shown_state",
        "shown_trigger",
        "faded",
        "archived",
        "levels",
        "merged",
        "proposed",
    )
    list_filter = (
        ("dry_run", BooleanRadioFilter),
        ("state", ChoicesDropdownFilter),
        ("trigger", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("now", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("who_name",)
    search_help_text = _("Who began it, or the id of a sleep or of a round.")
    id_fields = ("pk", "group")
    ordering = ("-now", "-id")
    fields = (
        ("owner", "state_in_words"),
        ("moment", "shown_trigger", "who"),
        ("started_at", "processed_at"),
        ("undone_at", "undone_by"),
        ("id", "group"),
    )
    readonly_fields = ("owner", "state_in_words", "moment", "shown_trigger", "who")
    list_before_template = "admin/strength/sleeprun/begin_link.html"
    change_form_outer_before_template = "admin/strength/sleeprun/buttons.html"
    change_form_outer_after_template = "admin/strength/sleeprun/changes.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[SleepRun]:
        """Return the sleeps; a list leaves out what only a sleep's own page shows."""
        rows = super().get_queryset(request)
        page = request.resolver_match.url_name if request.resolver_match else ""
        return rows.defer("changes", "errors", "policy") if page == "strength_sleeprun_changelist" else rows

    @admin.display(description=_("reckoned for"), ordering="now")
    def moment(self, run: SleepRun) -> str:
        """Return the moment that it reckoned for, however long it took."""
        return date_format(localtime(run.now), "DATETIME_FORMAT")

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, run: SleepRun) -> str:
        """Return whose memory slept."""
        return whose(run.actor)

    @labelled(RUN_COLOURS)
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, run: SleepRun) -> tuple[Any, Any]:
        """Return where it stands, or that it is a preview."""
        return said(RUN_STATES, "preview" if run.dry_run else run.state)

    @admin.display(description=_("state"))
    def state_in_words(self, run: SleepRun) -> Any:
        """Return the state as the page shows it."""
        return self.shown_state(run)[1]

    @admin.display(description=_("begun by"), ordering="trigger")
    def shown_trigger(self, run: SleepRun) -> Any:
        """Return what began it."""
        return TRIGGERS.get(run.trigger, run.trigger)

    @admin.display(description=_("who"))
    def who(self, run: SleepRun) -> str:
        """Return in whose name it acts."""
        return excerpt(f"{run.who_name} ({run.who_kind})", 60)

    @admin.display(description=_("faded"), ordering="decayed_count")
    def faded(self, run: SleepRun) -> int:
        """Return how many memories are weaker by it."""
        return run.decayed_count

    @admin.display(description=_("archived"), ordering="archived_count")
    def archived(self, run: SleepRun) -> int:
        """Return how many memories it archived."""
        return run.archived_count

    @admin.display(description=_("levels"), ordering="consolidated_count")
    def levels(self, run: SleepRun) -> int:
        """Return how many memories have another level by it."""
        return run.consolidated_count

    @admin.display(description=_("merged"), ordering="merged_count")
    def merged(self, run: SleepRun) -> int:
        """Return how many pairs it merged."""
        return run.merged_count

    @admin.display(description=_("proposed"), ordering="proposed_count")
    def proposed(self, run: SleepRun) -> int:
        """Return how many pairs it proposed."""
        return run.proposed_count

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Add the way to begin a sleep, for those who may."""
        may = {"may_begin": self.has_decide_permission(request)}
        return super().changelist_view(request, {**(extra_context or {}), **may})

    # Buttons

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with those that the buttons post to."""
        view = self.admin_site.admin_view
        return [
            path("begin/", view(self.begin_view), name="strength_sleeprun_begin"),
            path("<path:object_id>/sleep/", view(self.sleep_view), name="strength_sleeprun_sleep"),
            path("<path:object_id>/undo/", view(self.undo_view), name="strength_sleeprun_undo"),
            *super().get_urls(),
        ]

    def begin_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whose memory is to sleep; preview it, or let it sleep."""
        if not self.has_decide_permission(request):
            raise PermissionDenied
        form = SleepForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            try:
                actor = form.actor(principal(request))
                runs = self._round(request, actor, everyone=form.cleaned_data["all_users"])
            except Refusal as error:
                form.add_error(None, in_words(error))
            else:
                return HttpResponseRedirect(_address_of(runs))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Let memory sleep"),
            "opts": self.opts,
            "form": form,
            "media": self.media + form.media,
        }
        return TemplateResponse(request, "admin/strength/sleeprun/begin.html", context)

    def sleep_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let the memory sleep that a run is about: after its preview, or to go on with it."""

        def act(run: SleepRun, reason: str) -> Done:
            actor = Actor.objects.select_related("agent").get(pk=run.actor_id)
            runs = _sleep(request, actor, everyone=False, dry_run=False)
            return Done(_told(runs, dry_run=False), _address_of(runs))

        return self.posted(request, object_id, act, logged="sleep")

    def undo_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say what undoing would do, or do it."""
        if request.method == "POST":
            return self.posted(request, object_id, self._undo(request), logged="undo")
        if not self.has_decide_permission(request):
            raise PermissionDenied
        run = self.get_object(request, object_id)
        if run is None:
            missing: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return missing
        if not _can_be_undone(run):
            self.message_user(request, _("This sleep cannot be undone, or not any more."), messages.ERROR)
            return HttpResponseRedirect(page_of(run))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Undo this sleep?"),
            "opts": self.opts,
            "original": run,
        }
        return TemplateResponse(request, "admin/strength/sleeprun/undo.html", context)

    def _undo(self, request: HttpRequest) -> Any:
        def act(run: SleepRun, reason: str) -> Done:
            undone = undo_sleep(run=run, by=principal(request), reason=reason, now=clock())
            if undone.errors:
                told = _("Not everything could be taken back: see the problems below.")
                self.message_user(request, told, messages.WARNING)
            return Done(gettext("The sleep was undone."))

        return act

    def _round(self, request: HttpRequest, actor: Actor, *, everyone: bool) -> list[SleepRun]:
        dry_run = request.POST.get("verb") != SLEEP
        runs = _sleep(request, actor, everyone=everyone, dry_run=dry_run)
        for run in runs:
            self.log_change(request, run, PREVIEW if dry_run else SLEEP)
        self.message_user(request, _told(runs, dry_run=dry_run), messages.SUCCESS)
        return runs

    # What a sleep's page tells.

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the sleep did or would do, and what can be done about it."""
        changes = changes_of(row)
        may = self.has_decide_permission(request)
        return {
            "changes": _shown_changes(request, row, changes[:MOST_SHOWN]),
            "changes_left_out": max(0, len(changes) - MOST_SHOWN),
            "are_there_more": len(changes) >= MOST_CHANGES,
            "problems": row.errors[:MOST_ERRORS],
            "problems_left_out": max(0, len(row.errors) - MOST_ERRORS),
            "figures": _figures(row),
            "is_unfinished": row.state == RunState.RUNNING,
            "may_sleep": may and (row.dry_run or row.state == RunState.RUNNING),
            "may_undo": may and _can_be_undone(row),
            "of_round": _round_list(row.group) if row.group else None,
        }


def _sleep(request: HttpRequest, actor: Actor, *, everyone: bool, dry_run: bool) -> list[SleepRun]:
    group = new_id() if everyone else None
    waking = Waking(trigger=Trigger.CURATOR, by=principal(request), now=clock(), group=group)
    return sleep_round(actor=actor, waking=waking, all_users=everyone, dry_run=dry_run, most=MOST_AT_ONCE)


def _told(runs: Sequence[SleepRun], *, dry_run: bool) -> str:
    count = len(runs)
    if dry_run:
        told = ngettext(
            "%(count)d sleep was previewed; nothing was changed.",
            "%(count)d sleeps were previewed; nothing was changed.",
            count,
        )
    else:
        told = ngettext("%(count)d memory has slept.", "The memory of %(count)d actors has slept.", count)
    return told % {"count": count}


def _address_of(runs: Sequence[SleepRun]) -> str:
    """Return where a round can be seen: one sleep on its page, several as a list.

    Who had just slept anyway answers with that sleep, which is of no round, or of another.
    """
    if len(runs) == 1:
        return page_of(runs[0])
    groups = Counter(run.group for run in runs if run.group)
    return _round_list(groups.most_common(1)[0][0] if groups else None)


def _round_list(group: UUID | None) -> str:
    address = reverse("admin:strength_sleeprun_changelist")
    return f"{address}?group={group}" if group else address


def _can_be_undone(run: SleepRun) -> bool:
    """Say whether the button has a chance; whether it works is for the action to say."""
    if run.dry_run or run.state != RunState.DONE or run.number is None:
        return False
    return Rhythm.objects.filter(actor_id=run.actor_id, runs=run.number).exists()


def _figures(run: SleepRun) -> list[tuple[Any, int]]:
    return [
        (_("Faded"), run.decayed_count),
        (_("Archived"), run.archived_count),
        (_("Changed their level"), run.consolidated_count),
        (_("Merged"), run.merged_count),
        (_("Proposed to be merged"), run.proposed_count),
    ]


def _shown_changes(
    request: HttpRequest, run: SleepRun, changes: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return changes as people read them."""
    keys = [change.get(name) for change in changes for name in ("memory_id", "into")]
    memories = shown_memories(request, run.actor_id, keys) if changes else {}
    return [
        {
            **change,
            "memory": memories[change["memory_id"]],
            "into": memories.get(change.get("into", "")),
            "label": CHANGES.get(change["change"], change["change"]),
            "colour": CHANGE_COLOURS.get(change["change"], ""),
            "why": WHYS.get(change["why"], change["why"]),
            "percent": round(100 * change["likeness"]) if "likeness" in change else None,
        }
        for change in changes
    ]

"""Sleep and merge proposals over REST."""

from typing import Any
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import OneOf, OwnedOut, ReasonSerializer, TenantQuery, TenantSerializer
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import operation
from memoryhub.auth.access import UnknownRow, visible_to
from memoryhub.auth.principals import Scope
from memoryhub.ids import new_id
from strength.actions.merges import dismiss_merge, merge, undo_merge
from strength.actions.sleep import SleepRequest
from strength.actions.sleep_runs import changes_of, sleep_many, undo_sleeps
from strength.api.memories import MemoryView
from strength.api.serializers import MemoryOut
from strength.domain.sleep import MergeState, RunState, Trigger
from strength.models import Merge, SleepRun


class SleepIn(TenantSerializer):
    """The actor whose memory sleeps; with `all_users`, the agent and all its users."""

    all_users = serializers.BooleanField(default=False)
    dry_run = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the values; raises a validation error where one user and all of them are named."""
        if attrs["all_users"] and attrs.get("user_id"):
            raise serializers.ValidationError({"user_id": ["Send either a user_id or all_users."]})
        return attrs


class SleepListQuery(TenantQuery, PageQuery):
    dry_run = serializers.BooleanField(required=False, allow_null=True, default=False)


class SleepOut(OwnedOut, serializers.ModelSerializer):
    """One sleep, without its changes."""

    proposed_merges = serializers.IntegerField(source="proposed_count", read_only=True)
    state = OneOf(choices=[state.value for state in RunState])

    class Meta:
        model = SleepRun
        fields = (
            "id", "agent_id", "user_id", "dry_run", "state", "trigger", "decayed_count", "archived_count",
            "held_count", "consolidated_count", "merged_count", "proposed_merges", "now", "processed_at",
            "undone_at", "errors",
        )  # fmt: skip


class ChangeOut(serializers.Serializer):
    """A change that a sleep made, or would make, to a memory."""

    memory_id = serializers.UUIDField()
    change = serializers.CharField()
    why = serializers.CharField()


class WholeSleepOut(SleepOut):
    """A sleep with its changes; `runs` are the sleeps of all users, where one call began them."""

    changes = ChangeOut(many=True, read_only=True)
    runs = SleepOut(many=True, read_only=True)

    class Meta(SleepOut.Meta):
        fields = (*SleepOut.Meta.fields, "changes", "runs")  # type: ignore[assignment]


COUNTS = ("decayed_count", "archived_count", "held_count", "consolidated_count", "merged_count", "proposed_merges")


class SleepView(MemoryView):
    """Base of the views of sleeps: one sleep by its id, or all that one call began, by that call's id."""

    def runs(self, run_id: UUID) -> tuple[list[SleepRun], UUID | None]:
        """Return the run with this id, or those of the round with this id, and that id; raises UnknownRow."""
        rows = visible_to(SleepRun.objects.filter(Q(pk=run_id) | Q(group=run_id)), self.principal)
        runs = list(rows.order_by("actor__user_id"))
        if not runs:
            raise UnknownRow(f"No sleep {run_id}.")
        self.actor_id = runs[0].actor_id
        return runs, None if runs[0].pk == run_id else run_id

    @staticmethod
    def shown_runs(runs: list[SleepRun], round_id: UUID | None = None) -> dict[str, Any]:
        """Return one run, or those of a round as one with their sums."""
        first = dict(SleepOut(runs[0]).data)
        changes = [change for run in runs for change in changes_of(run)]
        if round_id is None:
            return {**first, "changes": changes, "runs": []}
        bodies = [dict(SleepOut(run).data) for run in runs]
        sums = {name: sum(run[name] for run in bodies) for name in COUNTS}
        errors = [error for run in bodies for error in run["errors"]]
        round_values = {"id": str(round_id), "errors": errors, "changes": changes, "runs": bodies}
        return {**first, **sums, **round_values}


class SleepRuns(SleepView):
    idempotent_in_transaction = False

    @operation("sleep_runs_list", Scope.READ, parameters=[SleepListQuery], responses=page_of(SleepOut))
    def get(self, request: Request) -> Response:
        """List an actor's sleeps, newest first."""
        values = self.query(SleepListQuery)
        rows = SleepRun.objects.filter(actor_id=self.reading(values).actor_id).select_related("actor")
        if values["dry_run"] is not None:
            rows = rows.filter(dry_run=values["dry_run"])
        return self.page(rows, SleepOut, ordering=("-now", "-id"))

    @operation("sleep_runs_create", Scope.WRITE, request=SleepIn, responses={201: WholeSleepOut})
    def post(self, request: Request) -> Response:
        """Run a sleep: decay, archive, refresh levels, propose merges; with `dry_run`, only say what would change."""
        values = self.validated(SleepIn)
        actor = self.writing(values)
        round_id = new_id() if values["all_users"] else None
        sleep_request = SleepRequest(trigger=Trigger.API, by=self.principal, now=self.now, group=round_id)
        runs = sleep_many(actor=actor, request=sleep_request, all_users=values["all_users"], dry_run=values["dry_run"])
        if round_id is not None:
            # Not stored for replay: the response names all users, and erasing one of them would miss it.
            self.actor_id = None
        return Response(self.shown_runs(runs, round_id), status=201)


class OneSleepRun(SleepView):
    is_polled = True

    @operation("sleep_run_get", Scope.READ, responses=WholeSleepOut)
    def get(self, request: Request, run_id: UUID) -> Response:
        """Return a sleep with its changes; decays are listed until the actor's next sleep."""
        return Response(self.shown_runs(*self.runs(run_id)))


class SleepUndo(SleepView):
    @operation("sleep_run_undo", Scope.WRITE, request=ReasonSerializer, responses=WholeSleepOut)
    def post(self, request: Request, run_id: UUID) -> Response:
        """Undo a sleep as a unit, except for memories used or curated since."""
        reason = self.validated(ReasonSerializer)["reason"]
        runs, round_id = self.runs(run_id)
        undone = undo_sleeps(runs=runs, by=self.principal, reason=reason, now=self.now)
        return Response(self.shown_runs(undone, round_id))


class MergeOut(OwnedOut, serializers.ModelSerializer):
    """Two memories with the same content, as a proposal or a decided merge."""

    kept = MemoryOut(read_only=True)
    absorbed = MemoryOut(read_only=True)

    class Meta:
        model = Merge
        fields = (
            "id", "agent_id", "user_id", "kept", "absorbed", "likeness", "state", "decided_by", "reason",
            "created_at", "decided_at",
        )  # fmt: skip


class MergeListQuery(TenantQuery, PageQuery):
    state = OneOf(choices=[*[state.value for state in MergeState], "all"], default=MergeState.PROPOSED.value)


class Merges(MemoryView):
    @operation("merges_list", Scope.READ, parameters=[MergeListQuery], responses=page_of(MergeOut))
    def get(self, request: Request) -> Response:
        """List an actor's merges, newest first: those that wait for a decision, or others by `state`."""
        values = self.query(MergeListQuery)
        rows = Merge.objects.filter(actor_id=self.reading(values).actor_id).with_memories()
        if values["state"] != "all":
            rows = rows.filter(state=values["state"])
        return self.page(rows, MergeOut, ordering=("-created_at", "-id"))


class MergeVerb(MemoryView):
    """One decision about a merge: accept, dismiss or undo."""

    scopes = {"POST": Scope.WRITE}
    verb = ""
    verbs: Any = {"accept": merge, "dismiss": dismiss_merge, "undo": undo_merge}

    @extend_schema(request=ReasonSerializer, responses=MergeOut)
    def post(self, request: Request, merge_id: UUID) -> Response:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        proposal = self.owned(Merge.objects.all(), merge_id)
        reason = self.validated(ReasonSerializer)["reason"]
        self.verbs[self.verb](proposal=proposal, by=self.principal, reason=reason, now=self.now)
        return Response(MergeOut(Merge.objects.with_memories().get(pk=proposal.pk, actor_id=proposal.actor_id)).data)

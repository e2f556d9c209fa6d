"""Many memories at once over REST: written in one call, curated by filters, and the feed of their changes."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q
from drf_standardized_errors.formatter import flatten_errors
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import (
    ItemsField,
    OneOf,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantQuery,
    TenantSerializer,
)
from memoryhub.api.pagination import DEFAULT_LIMIT, MAX_LIMIT
from memoryhub.api.places import MAX_SHOWN, place_of, shown_place
from memoryhub.api.problems import Problem
from memoryhub.api.views import operation
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Forbidden, Scope
from memoryhub.jobs.models import Job
from memoryhub.tenancy.namespaces import expand_namespace
from strength.actions.bulk_jobs import (
    DELETE,
    MAX_BULK_SIZE,
    count_changed,
    enqueue_curation,
    enqueue_undo,
    filter_changing,
    latest_job,
)
from strength.actions.curation import RELABEL, TRANSITIONS
from strength.actions.drafts import NewMemory
from strength.actions.revisions import changes_after, last_change
from strength.actions.write_many import MAX_BATCH_SIZE, BatchItem, write_memories
from strength.api.memories import MemoryView
from strength.api.serializers import MemoryItemIn, MemoryOut, SelectionSerializer, TagsField, new_memory
from strength.domain.memories import Kind, Labels, WrongState
from strength.models import MemoryChange

SAMPLE_SIZE = 5
BULK_VERBS = [*(verb for verb in TRANSITIONS if verb != "approve"), RELABEL, DELETE]
"""Each approval is bound to a text that was read."""


class MemoriesIn(TenantSerializer):
    """Memories to write, each as `POST memories` takes it, without agent and user."""

    memories = ItemsField(child=MemoryItemIn(), min_length=1, max_length=MAX_BATCH_SIZE)


class LenientMemoriesIn(TenantSerializer):
    """The same, unread: each item is validated by itself, so that a wrong one keeps no other out."""

    memories = ItemsField(child=serializers.JSONField(allow_null=True), min_length=1, max_length=MAX_BATCH_SIZE)


class ItemErrorOut(serializers.Serializer):
    field = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    detail = serializers.CharField()


class WrittenOut(serializers.Serializer):
    """Result of an item: `created`, `reinforced`, or `refused` with its errors."""

    result = serializers.ChoiceField(choices=["created", "reinforced", "refused"])
    id = serializers.UUIDField(allow_null=True)
    status = serializers.CharField(allow_null=True, help_text="The memory's.")
    errors = ItemErrorOut(many=True)  # type: ignore[assignment]


class MemoriesWrittenOut(serializers.Serializer):
    """An answer for each item, in their order."""

    results = WrittenOut(many=True)


def _validated_items(items: list[Any], *, has_idempotency_key: bool) -> list[NewMemory | list[dict[str, Any]]]:
    """Return each item as a new memory, or what is wrong with it."""
    serializer = MemoryItemIn()
    results: list[NewMemory | list[dict[str, Any]]] = []
    for item in items:
        try:
            results.append(new_memory(serializer.run_validation(item), has_idempotency_key=has_idempotency_key))
        except serializers.ValidationError as error:
            results.append(
                [
                    {"field": problem.attr, "code": problem.code, "detail": problem.detail}
                    for problem in flatten_errors(error.detail)
                ]
            )
    return results


def _write_result(item: BatchItem) -> dict[str, Any]:
    error = item.error
    if error is not None:
        problem = {"field": error.field or None, "code": error.code or "invalid", "detail": str(error)}
        return _error_result([problem])
    assert item.memory is not None
    result = "created" if item.is_new else "reinforced"
    return {"result": result, "id": item.memory.pk, "status": item.memory.status, "errors": []}


def _error_result(errors: list[dict[str, Any]]) -> dict[str, Any]:
    return {"result": "refused", "id": None, "status": None, "errors": errors}


class MemoriesBatch(MemoryView):
    @operation("memories_batch", Scope.WRITE, request=MemoriesIn, responses=MemoriesWrittenOut)
    def post(self, request: Request) -> Response:
        """Write up to 1,000 memories; an item that cannot be written keeps no other out."""
        values = self.validated(LenientMemoriesIn)
        items = _validated_items(values["memories"], has_idempotency_key="Idempotency-Key" in request.headers)
        news = [item for item in items if isinstance(item, NewMemory)]
        written = iter(write_memories(actor=self.writing(values), news=news, by=self.principal, now=self.now))
        results = [
            _write_result(next(written)) if isinstance(item, NewMemory) else _error_result(item) for item in items
        ]
        return Response({"results": WrittenOut(results, many=True).data})


class LabelsIn(StrictSerializer):
    """New tags, kind and namespace; `{actorId}` is filled in."""

    add_tags = TagsField(default=list)
    remove_tags = TagsField(default=list)
    kind = OneOf(choices=[kind.value for kind in Kind], required=False)
    namespace = StringField(required=False, max_length=500)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not any(attrs.values()):
            raise serializers.ValidationError("Name at least one tag, a kind or a namespace.")
        return attrs


class BulkIn(TenantSerializer, SelectionSerializer, ReasonSerializer):
    """A change of all memories that match filters. With `dry_run` nothing changes."""

    verb = OneOf(choices=BULK_VERBS)
    labels = LabelsIn(required=False, help_text="Of `relabel`, which requires it.")
    dry_run = serializers.BooleanField(default=False)
    expected_count = serializers.IntegerField(
        required=False, min_value=0, help_text="What a dry run counted; `delete` requires it. Else 409."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["verb"] == DELETE and not attrs["dry_run"] and "expected_count" not in attrs:
            problem = "Deleting cannot be undone: state the `count` that a dry run answered."
            raise serializers.ValidationError({"expected_count": problem})
        if (attrs["verb"] == RELABEL) != ("labels" in attrs):
            raise serializers.ValidationError(
                {"labels": "State the new labels with the verb `relabel`, and only there."}
            )
        return attrs


class BulkOut(serializers.Serializer):
    """Number of memories that change, and the newest of them; `batch` is null for a dry run."""

    batch = serializers.UUIDField(allow_null=True)
    count = serializers.IntegerField()
    sample = MemoryOut(many=True)


class MemoriesBulk(MemoryView):
    @operation("memories_bulk", Scope.WRITE, request=BulkIn, responses={202: BulkOut, 200: BulkOut})
    def post(self, request: Request) -> Response:
        """Change or delete all of an actor's memories that match filters, by a job; `dry_run` counts and shows some.

        `relabel` changes tags, kind or namespace. What is changed between the call and the job stays as it is. All but
        `delete` can be undone as one batch.
        """
        values = self.validated(BulkIn)
        tenant, verb = self.reading(values), values["verb"]
        labels = _labels(values, tenant)
        rows = filter_changing(self.filtered_memories(tenant, values).filter(updated_at__lte=self.now), verb)
        count = rows.count()
        if values.get("expected_count", count) != count:
            raise WrongState(f"{count} memories match by now; look at them again.")
        newest = rows.with_numbers().order_by("-created_at", "-id")
        body: dict[str, Any] = {"batch": None, "count": count, "sample": list(newest[:SAMPLE_SIZE])}
        if not values["dry_run"]:
            body["batch"] = enqueue_curation(
                memory_ids=list(rows.values_list("pk", flat=True)[: MAX_BULK_SIZE + 1]),
                verb=verb,
                by=self.principal,
                reason=values["reason"],
                seen_at=self.now,
                now=self.now,
                actor=self.writing(values),
                labels=labels,
            )
        return Response(BulkOut(body).data, status=200 if values["dry_run"] else 202)


def _labels(values: Mapping[str, Any], tenant: Tenant) -> Labels | None:
    """Return the labels that a call states. Raises NamespaceError, MemoryRefused."""
    if (given := values.get("labels")) is None:
        return None
    namespace = given.get("namespace", "")
    if namespace:
        namespace = expand_namespace(
            namespace, agent_id=tenant.agent_id, user_id=tenant.user_id, field="labels.namespace"
        )
    kind = Kind(given["kind"]) if "kind" in given else None
    return Labels(tuple(given["add_tags"]), tuple(given["remove_tags"]), kind, namespace)


class BulkStateOut(serializers.Serializer):
    """Progress of a batch. `verb` is `undo` once its undo was ordered; `changed` counts what it changed."""

    batch = serializers.UUIDField()
    verb = serializers.CharField()
    state = serializers.CharField(help_text="Of its job: queued, running, done, failed or dead.")
    done = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)
    changed = serializers.IntegerField()


class BulkView(MemoryView):
    def job(self, batch: UUID) -> Job:
        """Return the latest job of a batch that was ordered by the API."""
        latest = latest_job(batch)
        try:
            # Use an unassigned job id for an unknown batch, so that the response equals that for a foreign one.
            return self.owned(Job.objects.filter(actor__isnull=False), latest.pk if latest else batch)
        except UnknownRow:
            raise UnknownRow(f"No batch {batch}.") from None

    def state(self, batch: UUID, status: int = 200) -> Response:
        job = self.job(batch)
        body = {
            "batch": batch,
            "verb": job.payload["verb"],
            "state": job.state,
            "done": job.progress_done or 0,
            "total": job.progress_total,
            "changed": count_changed(job, batch),
        }
        return Response(BulkStateOut(body).data, status=status)


class MemoriesBulkState(BulkView):
    is_polled = True

    @operation("memories_bulk_state", Scope.READ, responses=BulkStateOut)
    def get(self, request: Request, batch_id: UUID) -> Response:
        """Return how far a batch is."""
        return self.state(batch_id)


class MemoriesBulkUndo(BulkView):
    @operation("memories_bulk_undo", Scope.WRITE, request=ReasonSerializer, responses={202: BulkStateOut})
    def post(self, request: Request, batch_id: UUID) -> Response:
        """Undo a batch by a job: what was not changed since becomes as it was; 409 for a deletion."""
        reason = self.validated(ReasonSerializer)["reason"]
        actor = self.job(batch_id).actor
        enqueue_undo(batch=batch_id, by=self.principal, reason=reason, now=self.now, actor=actor)
        return self.state(batch_id, 202)


class ChangesQuery(TenantQuery):
    all_users = serializers.BooleanField(
        default=False, help_text="Whether those of all the agent's users are asked for."
    )
    after = serializers.IntegerField(
        min_value=0, max_value=MAX_SHOWN, default=0, help_text="The `cursor` of the answer before; 0 for the beginning."
    )
    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT)


class MemoryChangeOut(serializers.ModelSerializer):
    """A change of a memory. `version` is the memory's after it; `user_id` is null where the user was erased since."""

    id = serializers.SerializerMethodField(help_text="The cursor behind this change.")
    user_id = serializers.CharField(source="actor.user_id", read_only=True, allow_null=True)

    def get_id(self, change: MemoryChange) -> int:
        return shown_place(change.pk)

    class Meta:
        model = MemoryChange
        fields = ("id", "agent_id", "user_id", "memory_id", "change", "version", "at")


class ChangesOut(serializers.Serializer):
    """Changes, oldest first, and the cursor to ask with next."""

    results = MemoryChangeOut(many=True)
    cursor = serializers.IntegerField()
    has_more = serializers.BooleanField()


class Changes(MemoryView):
    is_polled = True

    @operation("changes_list", Scope.READ, parameters=[ChangesQuery], responses=ChangesOut)
    def get(self, request: Request) -> Response:
        """List the changes of memories after a cursor, each once and in order per memory."""
        values = self.query(ChangesQuery)
        tenant, limit = self.reading(values), values["limit"]
        owner = Q(actor_id=tenant.actor_id)
        if values["all_users"]:
            if self.principal.user_id is not None:
                raise Forbidden("This key is bound to one user and cannot act for all.")
            owner = Q(agent_id=tenant.agent_id)
        after = place_of(values["after"])
        if after > last_change():
            raise Problem(400, "cursor_invalid", "This feed did not return this cursor. Start again with `after=0`.")
        rows = changes_after(after, owner=owner, limit=limit + 1)
        page = rows[:limit]
        cursor = shown_place(page[-1].pk) if page else values["after"]
        return Response(ChangesOut({"results": page, "cursor": cursor, "has_more": len(rows) > limit}).data)

"""Agents and actors, and the base of rows that belong to an actor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models, router
from django.db.models.deletion import Collector
from django.db.models.fields.related_descriptors import ReverseManyToOneDescriptor
from django.db.models.functions import Now
from django.utils.functional import cached_property

from memoryhub.ids import new_id
from memoryhub.tenancy.policy import Language

_ST = TypeVar("_ST")
_GT = TypeVar("_GT")


class AgentQuerySet(models.QuerySet["Agent"]):
    def among(self, agent_ids: frozenset[str] | None) -> "AgentQuerySet":
        """Filter to the given agents; None means all."""
        return self if agent_ids is None else self.filter(agent_id__in=agent_ids)


class Agent(models.Model):
    """An agent with its prompt, domain, retrieval configuration and policy overrides (SPEC A1)."""

    agent_id = models.CharField(max_length=255, primary_key=True)
    name = models.CharField(max_length=255, blank=True)
    language = models.CharField(
        max_length=2, choices=[(language.value, language.name.title()) for language in Language], default="en"
    )
    system_prompt = models.TextField(blank=True)
    domain = models.CharField(max_length=255, blank=True)
    related_domains = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    current_project = models.CharField(max_length=255, blank=True)
    fixed_user_id = models.CharField(
        max_length=255, blank=True, help_text="Owner mode: everything is stored for this one user."
    )
    policy = models.JSONField(default=dict, blank=True, help_text="Values that differ from the defaults.")
    strategies = models.JSONField(default=dict, blank=True, help_text="Long-term strategies switched off or on.")
    topics_include = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    topics_exclude = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    retrieval_config = models.JSONField(null=True, blank=True, help_text="Namespace prefixes; empty: the defaults.")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {
        "system_prompt": "", "policy": dict, "strategies": dict, "topics_include": list, "topics_exclude": list,
        "retrieval_config": None, "fixed_user_id": "", "current_project": "", "domain": "", "related_domains": list,
    }  # fmt: skip

    objects: ClassVar[AgentQuerySet] = AgentQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        app_label = "memoryhub"
        ordering = ["agent_id"]
        constraints = [
            models.CheckConstraint(name="agent_id_is_slug", condition=models.Q(agent_id__regex=r"^[-a-zA-Z0-9_]+$"))
        ]

    def __str__(self) -> str:
        return self.agent_id


class Actor(models.Model):
    """Owner of memory: an agent (`user_id=""`), or an agent with one user (SPEC A2)."""

    id = models.UUIDField(primary_key=True, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="actors")
    user_id = models.CharField(max_length=255, blank=True)
    policy = models.JSONField(default=dict, blank=True, help_text="Values that differ from the agent's.")
    version = models.PositiveIntegerField(default=1)
    deletions = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="How often messages were deleted; receipts compare it."
    )
    created_at = models.DateTimeField(db_default=Now())

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"policy": dict}
    not_exported: ClassVar = frozenset({"deletions"})

    class Meta:
        app_label = "memoryhub"
        ordering = ["agent_id", "user_id"]
        constraints = [models.UniqueConstraint(name="actor_is_agent_and_user", fields=["agent", "user_id"])]

    def __str__(self) -> str:
        # Never the user's id: it would reach log lines and the admin's history (SPEC M11).
        return f"{self.agent_id}/{str(self.id)[:8]}" if self.user_id else self.agent_id


@dataclass(frozen=True)
class _SameActor:
    """Condition of a join between two tables of actors."""

    left: str
    right: str

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[()]]:
        quoted = compiler.quote_name_unless_alias
        return f"{quoted(self.left)}.actor_id = {quoted(self.right)}.actor_id", ()


class _WithinActor:
    """Mixin of foreign keys between rows of one actor: joins and look-ups also filter by the actor.

    PostgreSQL then reads one actor's rows of both tables, and a distributed database asks one node (ADR 42).
    """

    def get_extra_restriction(self, alias: Any, related_alias: Any) -> Any:
        return _SameActor(alias, related_alias) if alias and related_alias else None

    def get_extra_descriptor_filter(self, instance: Any) -> dict[str, Any]:
        return {"actor_id": instance.actor_id}

    def get_forward_related_filter(self, obj: Any) -> dict[str, Any]:
        conditions: dict[str, Any] = super().get_forward_related_filter(obj)  # type: ignore[misc]
        return {**conditions, "actor_id": obj.actor_id}

    def deconstruct(self) -> Any:
        """Deconstruct as Django's own field, so that migrations do not change: the column is the same."""
        name, _path, args, kwargs = super().deconstruct()  # type: ignore[misc]
        return name, f"django.db.models.{self.kind}", args, kwargs  # type: ignore[attr-defined]


class _RowsWithinActor(ReverseManyToOneDescriptor):
    """Reverse accessor whose queries filter by the actor."""

    @cached_property
    def related_manager_cls(self) -> Any:
        base: Any = super().related_manager_cls

        class Manager(base):
            def _apply_rel_filters(self, queryset: Any) -> Any:
                return super()._apply_rel_filters(queryset).filter(actor_id=self.instance.actor_id)

            def get_prefetch_querysets(self, instances: Any, querysets: Any = None) -> Any:
                rows = querysets[0] if querysets else self.model._default_manager.get_queryset()
                rows = rows.filter(actor_id__in={instance.actor_id for instance in instances})
                return super().get_prefetch_querysets(instances, [rows])

        return Manager


class KeyWithinActor(_WithinActor, models.ForeignKey[_ST, _GT]):
    kind = "ForeignKey"
    related_accessor_class = _RowsWithinActor


class OneToOneWithinActor(_WithinActor, models.OneToOneField[_ST, _GT]):
    kind = "OneToOneField"


class _WithinActorCollector(Collector):
    """Django's cascade, with each statement filtered by the actor."""

    def related_objects(self, related_model: Any, related_fields: Any, objs: Any) -> Any:
        return super().related_objects(related_model, related_fields, objs).filter(actor_id=objs[0].actor_id)

    def delete(self) -> tuple[int, dict[str, int]]:
        # Loaded rows of a cascade, which Django would delete by primary key alone.
        data: dict[Any, Any] = self.data
        for model, rows in data.items():
            keys, actor_ids = {row.pk for row in rows}, {row.actor_id for row in rows}
            queryset = model._base_manager.using(self.using)
            self.fast_deletes.append(queryset.filter(actor_id__in=actor_ids, pk__in=keys))
        data.clear()
        return super().delete()


class OwnedRow(models.Model):
    """Base of rows with a field `actor`: updates, deletions and refreshes filter by it, without a join."""

    actor_id: UUID

    class Meta:
        abstract = True

    def refresh_from_db(self, using: Any = None, fields: Any = None, from_queryset: Any = None) -> None:
        if self.__dict__.get("actor_id"):
            rows: Any = type(self)._base_manager.all() if from_queryset is None else from_queryset
            from_queryset = rows.filter(actor_id=self.actor_id)
        super().refresh_from_db(using, fields, from_queryset)

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        collector = _WithinActorCollector(using=using or router.db_for_write(type(self), instance=self), origin=self)
        collector.collect([self], keep_parents=keep_parents)
        return collector.delete()

    def _do_update(self, base_qs: Any, using: Any, pk_val: Any, values: Any, *more: Any) -> Any:
        # Never set: a row's actor does not change, and a distributed database refuses to update the column.
        changed = [value for value in values if value[0].attname != "actor_id"]
        return super()._do_update(base_qs.filter(actor_id=self.actor_id), using, pk_val, changed, *more)


def delete_rows(rows: models.QuerySet[Any]) -> int:
    """Delete rows of one actor with what belongs to them, each statement filtered by the actor; return their number.

    Django's own deletion of a queryset names primary keys alone.
    """
    loaded = list(rows)
    if not loaded:
        return 0
    collector = _WithinActorCollector(using=rows.db, origin=loaded[0])
    collector.collect(loaded)
    return collector.delete()[1].get(rows.model._meta.label, 0)


class ActorRow(OwnedRow):
    """Base of rows that belong to an actor; their indexes begin with it, so the foreign key has none of its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        abstract = True

"""Agents and actors: below everything that belongs to somebody."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from memoryhub.ids import new_id
from memoryhub.tenancy.domain import Language


class AgentQuerySet(models.QuerySet["Agent"]):
    def among(self, agent_ids: frozenset[str] | None) -> "AgentQuerySet":
        """Filter to the given agents; None means all."""
        return self if agent_ids is None else self.filter(agent_id__in=agent_ids)


class Agent(models.Model):
    """Somebody who remembers: its prompt, its domain, and what it overrides (SPEC A1)."""

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
        max_length=255, blank=True, help_text="Owner mode: everything is filed under this one user."
    )
    policy = models.JSONField(default=dict, blank=True, help_text="Values that differ from the defaults.")
    strategies = models.JSONField(
        default=dict, blank=True, help_text="Long-term strategies switched off or on."
    )
    topics_include = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    topics_exclude = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    retrieval_config = models.JSONField(
        null=True, blank=True, help_text="Namespace prefixes; empty: the defaults."
    )
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    imported_in_doubt: ClassVar[Mapping[str, Any]] = {
        "system_prompt": "", "policy": dict, "strategies": dict, "topics_include": list, "topics_exclude": list,
        "retrieval_config": None, "fixed_user_id": "", "current_project": "", "domain": "", "related_domains": list,
    }  # fmt: skip

    objects: ClassVar[AgentQuerySet] = AgentQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        app_label = "memoryhub"
        ordering = ["agent_id"]
        constraints = [
            models.CheckConstraint(
                name="agent_id_is_slug", condition=models.Q(agent_id__regex=r"^[-a-zA-Z0-9_]+$")
            )
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
    created_at = models.DateTimeField(db_default=Now())

    imported_in_doubt: ClassVar[Mapping[str, Any]] = {"policy": dict}

    class Meta:
        app_label = "memoryhub"
        ordering = ["agent_id", "user_id"]
        constraints = [models.UniqueConstraint(name="actor_is_agent_and_user", fields=["agent", "user_id"])]

    def __str__(self) -> str:
        # Never the user's id: it would reach log lines and the admin's history (SPEC M11).
        return f"{self.agent_id}/{str(self.id)[:8]}" if self.user_id else self.agent_id


class ActorRow(models.Model):
    """Base of rows that belong to an actor; their indexes begin with it, so the foreign key has none of its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        abstract = True

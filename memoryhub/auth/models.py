"""API keys, grants to OAuth clients, invitations and the audit trail."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import UUID

from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.auth.principals import KeyState, Principal, PrincipalKind, Scope, within
from memoryhub.auth.roles import ADMINISTRATOR
from memoryhub.ids import new_id
from memoryhub.privacy.screening import screen
from memoryhub.tenancy.models import ActorRow

PRINCIPAL_KIND_CHOICES = [(kind.value, kind.value) for kind in PrincipalKind]


def usable_at(now: datetime) -> Q:
    return (Q(expires_at=None) | Q(expires_at__gt=now)) & Q(revoked_at=None)


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        return self.filter(usable_at(now))


class ApiKey(models.Model):
    """A key to the REST API; the key itself is shown once and never stored (SPEC A10)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = ArrayField(models.CharField(max_length=10, choices=[(scope.value, scope.value) for scope in Scope]))
    agent_ids = ArrayField(
        models.CharField(max_length=255), null=True, blank=True, help_text="The agents it may touch; empty: all."
    )
    user_id = models.CharField(
        max_length=255, null=True, blank=True, help_text="Bound to this user; empty: any user of its agents."
    )
    is_trusted = models.BooleanField(
        default=True, help_text="What an untrusted key writes waits for a curator before it enters contexts."
    )
    daily_token_cap = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Tokens that it may use a day before its chat is refused; empty: any number."
    )
    person = models.ForeignKey(
        User, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+",
        help_text="The person of a personal key; else who made it in the admin.",
    )  # fmt: skip
    is_personal = models.BooleanField(
        "personal key", default=False, db_default=False,
        help_text="It stops when your account is closed or loses rights that it needs. Otherwise it is a service "
        "account's key, and stays.",
    )  # fmt: skip
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar[ApiKeyQuerySet] = ApiKeyQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at"]
        verbose_name = "API key"
        constraints = [
            models.UniqueConstraint(name="api_key_digest_once", fields=["digest"]),
            models.CheckConstraint(name="api_key_has_scope", condition=Q(scopes__len__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.name} (mh_{self.prefix}_…)"

    def state(self, now: datetime) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.USABLE

    def principal(self) -> Principal:
        return Principal(
            kind=PrincipalKind.KEY,
            id=str(self.id),
            name=f"{self.name} ({self.person})" if self.is_personal else self.name,
            scopes=frozenset(Scope(scope) for scope in self.scopes),
            agent_ids=within(agents_of(self.person) if self.is_personal else None, self.agent_ids),
            user_id=self.user_id,
            is_trusted=self.is_trusted,
            daily_token_cap=self.daily_token_cap,
        )


def key_names(key_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of keys; erased ones have none, and are named by their ids."""
    ids = set(key_ids)
    return {pk: str(pk) for pk in ids} | dict(ApiKey.objects.filter(pk__in=ids).values_list("pk", "name"))


class OAuthClient(models.Model):
    """A program that registered itself, as an OAuth client; none of what it says of itself is verified."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    redirect_uris = ArrayField(models.CharField(max_length=500))
    metadata = models.JSONField(default=dict)
    sealed_secret = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()
        verbose_name = "OAuth client"

    def __str__(self) -> str:
        return self.name

    @property
    def hosts(self) -> list[str]:
        """Return where a browser may be sent back to, without repeats."""
        return list(dict.fromkeys(urlsplit(uri).netloc or uri.partition(":")[0] for uri in self.redirect_uris))


class OAuthGrant(models.Model):
    """A person's consent that a client acts as an API key of theirs, whose text no one has (ADR 63)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, related_name="grants")
    person = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    key = models.OneToOneField(ApiKey, on_delete=models.CASCADE, related_name="grant")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at"]
        default_permissions = ("add", "change", "view")
        verbose_name = "connected client"

    def __str__(self) -> str:
        return str(self.client)


class TokenKind(StrEnum):
    CODE = "code"
    ACCESS = "access"
    REFRESH = "refresh"


class OAuthToken(models.Model):
    """Digest of a code or token of a grant. Codes and refresh tokens are used once, and kept until they expire."""

    digest = models.CharField(max_length=64, primary_key=True)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in TokenKind])
    grant = models.ForeignKey(OAuthGrant, on_delete=models.CASCADE, related_name="tokens")
    redirect_uri = models.CharField(max_length=500, blank=True)
    code_challenge = models.CharField(max_length=43, blank=True)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()

    def __str__(self) -> str:
        return self.kind


class FailedLogin(AccessAttempt):
    """Wrong passwords of one account from one address and browser within the lockout period."""

    class Meta:
        app_label = "memoryhub"
        proxy = True
        ordering = ["-attempt_time"]
        verbose_name = "failed login"


class AgentLimit(models.Model):
    """The agents to which a person of the admin is limited; without a row, a person has all (ADR 70).

    By ids, so that an agent may not exist yet. Administrators and superusers are never limited.
    """

    class Source(models.TextChoices):
        """Origin of a limit: the groups at the sign-in provider, or an administrator."""

        PROVIDER = "provider"
        GRANTED = "granted"

    person = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="agent_limit")
    agent_ids = ArrayField(models.CharField(max_length=255))
    source = models.CharField(max_length=8, choices=Source.choices)

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()

    def __str__(self) -> str:
        return ", ".join(self.agent_ids)


def agents_of(person: Any) -> frozenset[str] | None:
    """Return the agents that a person of the admin is limited to; None: all."""
    if person is None or person.is_superuser:
        return None
    limits = AgentLimit.objects.filter(person=person.pk).exclude(person__groups__name=ADMINISTRATOR)
    agent_ids = limits.values_list("agent_ids", flat=True).first()
    return None if agent_ids is None else frozenset(agent_ids)


class Invitation(models.Model):
    """A link by which one person gets an account with a role; the link itself is shown once and never stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.EmailField(help_text="The invited person's address. Nothing is sent: give them the link yourself.")
    role = models.CharField(max_length=150)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(User, null=True, editable=False, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at"]
        verbose_name = "invitation"

    def __str__(self) -> str:
        return self.email


class AuditEntry(models.Model):
    """Append-only record of who did what to which row, when and why (SPEC A11).

    `agent_id` and `user_id` are plain text and there is no `actor_id`: entries outlive the rows they refer to, and
    erasure empties the user's part instead of deleting the entry.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    who_kind = models.CharField(max_length=10, choices=PRINCIPAL_KIND_CHOICES)
    who_id = models.CharField(max_length=64)
    who_name = models.CharField(max_length=150)
    verb = models.CharField(max_length=50)
    object_kind = models.CharField(max_length=50)
    object_id = models.CharField(max_length=255, blank=True)
    agent_id = models.CharField(max_length=255, blank=True)
    user_id = models.CharField(max_length=255, blank=True)
    reason = models.TextField(blank=True)
    details = models.JSONField(default=dict, blank=True)

    class Meta:
        app_label = "memoryhub"
        ordering = ["-at", "-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["-at", "-id"], name="audit_newest_first"),
            models.Index(fields=["agent_id", "user_id"], name="audit_of_user"),
            models.Index(fields=["object_kind", "object_id"], name="audit_of_object"),
            # For the metric and the dashboard; few entries are of secrets that were removed.
            models.Index(fields=["-at"], name="audit_of_secrets", condition=Q(verb="redact")),
            # Few entries are by people; the index skips those of keys and jobs.
            models.Index(fields=["-at", "-id"], name="audit_of_people", condition=Q(who_kind="curator")),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.object_kind}"

    def save(self, *args: object, **kwargs: object) -> None:
        if not self._state.adding:
            raise TypeError("The audit trail is append-only.")
        super().save(*args, **kwargs)  # type: ignore[arg-type]

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        raise TypeError("The audit trail is append-only.")


MAX_HOST_LENGTH = 255


class CallSum(models.Model):
    """A host's calls in the minute before `at`, for the other hosts; of a key, or of addresses to the OAuth server.

    The table is not logged.
    """

    pk = models.CompositePrimaryKey("caller", "host")
    caller = models.CharField(max_length=80)
    host = models.CharField(max_length=MAX_HOST_LENGTH)
    calls = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.calls} calls"


class NumberedVersion(ActorRow):
    """Base of the versions of an actor's rows, with principal, time and reason."""

    number = models.PositiveIntegerField()
    who_kind = models.CharField(max_length=10, choices=PRINCIPAL_KIND_CHOICES)
    who_id = models.CharField(max_length=64)
    who_name = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        abstract = True
        ordering = ["-number"]

    @staticmethod
    def made(by: Principal, reason: str, now: datetime) -> dict[str, Any]:
        return {
            "who_kind": by.kind,
            "who_id": by.id,
            "who_name": by.name[:150],
            "reason": screen(reason).text,
            "created_at": now,
        }

"""Session summaries, what they were before, and summaries that are still being written."""

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models import Case, F, Q, Value, When

from conversations.models import TRUSTS, Session
from memoryhub.auth.domain import PrincipalKind
from memoryhub.ids import new_id
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from summaries.domain.summaries import Generator, Verb

GENERATORS = [(each.value, each.value) for each in Generator]
VERBS = [(each.value, each.value) for each in Verb]
KINDS = [(each.value, each.value) for each in PrincipalKind]


class SummaryQuerySet(models.QuerySet["Summary"]):
    """Summaries, first of all narrowed to an actor's."""

    def of(self, actor_id: UUID) -> "SummaryQuerySet":
        """Filter to one actor's."""
        return self.filter(actor_id=actor_id)

    def believed(self) -> "SummaryQuerySet":
        """Filter to those that are made of trusted messages alone (SPEC M10)."""
        return self.filter(trust=Trust.TRUSTED)

    def for_session(self, session: Session) -> "SummaryQuerySet":
        """Return the session's own, whatever its trust, then trusted ones of sessions before it, the latest first."""
        own = Q(session_id=session.pk)
        before = Q(trust=Trust.TRUSTED, session__started_at__lte=session.started_at)
        rank = Case(When(own, then=Value(0)), default=Value(1), output_field=models.SmallIntegerField())
        return self.filter(own | before).order_by(rank, "-session__started_at", "-session_id")


class Summary(models.Model):
    """What one session was about (SPEC U1). `message_count` is the last `seq` that it covers.

    `written` counts how often a program wrote it, and `written_at` is when it last did: what is due is counted from
    there, whatever people changed since. Who edits the text locks it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    text = models.TextField()
    message_count = models.PositiveIntegerField()
    start_time = models.DateTimeField()
    end_time = models.DateTimeField()
    model = models.CharField(max_length=255, blank=True)
    generator = models.CharField(max_length=10, choices=GENERATORS)
    trust = models.CharField(max_length=10, choices=TRUSTS, default=Trust.TRUSTED)
    locked = models.BooleanField(default=False, help_text="A person put it right; no job rewrites it.")
    version = models.PositiveIntegerField(default=1)
    written = models.PositiveIntegerField(default=1, editable=False)
    written_at = models.DateTimeField(editable=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects: ClassVar[SummaryQuerySet] = SummaryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-end_time", "-id"]
        verbose_name_plural = "summaries"
        constraints = [
            models.UniqueConstraint(name="summary_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(name="summary_once", fields=["actor", "session"]),
            models.CheckConstraint(name="summary_begins_before_it_ends", condition=Q(start_time__lte=F("end_time"))),
        ]  # fmt: skip
        indexes = [models.Index(fields=["actor", "-end_time", "-id"], name="summary_newest_first")]

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.id}"


class SummaryVersion(models.Model):
    """A summary as it was after one change: who, when, why (SPEC U1). The latest is the summary as it is."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    summary = models.ForeignKey(Summary, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    verb = models.CharField(max_length=10, choices=VERBS)
    text = models.TextField()
    message_count = models.PositiveIntegerField()
    start_time = models.DateTimeField()
    end_time = models.DateTimeField()
    model = models.CharField(max_length=255, blank=True)
    generator = models.CharField(max_length=10, choices=GENERATORS)
    trust = models.CharField(max_length=10, choices=TRUSTS)
    locked = models.BooleanField()
    who_kind = models.CharField(max_length=10, choices=KINDS)
    who_id = models.CharField(max_length=64)
    who_name = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    seconds = models.FloatField(null=True, help_text="How long a program took to write it.")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(name="summary_version_once", fields=["actor", "summary", "number"])
        ]
        indexes = [
            models.Index(fields=["summary", "-number"], name="version_of_summary"),
            # What metrics ask for at each scrape.
            models.Index(fields=["created_at"], name="version_written", condition=Q(verb="write")),
        ]

    def __str__(self) -> str:
        return f"{self.verb} #{self.number}"


class SummaryDraft(models.Model):
    """What a job has written of a long session so far, so that a break costs one call and not all of them.

    Only the job that wrote it goes on from it, and only from the version of the summary that it began with.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    job_id = models.UUIDField()
    base_version = models.PositiveIntegerField()
    text = models.TextField()
    covered = models.PositiveIntegerField()
    start_time = models.DateTimeField()
    end_time = models.DateTimeField()
    trust = models.CharField(max_length=10, choices=TRUSTS)
    model = models.CharField(max_length=255, blank=True)
    generator = models.CharField(max_length=10, choices=GENERATORS)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(name="summary_draft_once", fields=["actor", "session"])]

    def __str__(self) -> str:
        return f"draft {self.id}"

"""Session summaries with their versions and drafts; projects with their documents, routing decisions and events."""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any, ClassVar, Self, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When

from conversations.models import TRUSTS, Message, Session
from memoryhub.auth.models import NumberedVersion
from memoryhub.auth.principals import TextVerb
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.models import ActorRow, KeyWithinActor
from memoryhub.tenancy.policy import Trust
from memoryhub.zones import local_time
from summaries.domain.documents import DocumentKind, check_document_name, line_digest
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, EventKind, ProjectStatus
from summaries.domain.routing import Action, Confidence
from summaries.domain.summaries import Generator

GENERATORS = [(generator.value, generator.value) for generator in Generator]
VERBS = [(verb.value, verb.value) for verb in TextVerb]
DOCUMENT_KINDS = [(kind.value, kind.value) for kind in DocumentKind]
EVENT_KINDS = [(kind.value, kind.value) for kind in EventKind]
CONFIDENCES = [(confidence.value, confidence.value) for confidence in Confidence]
ACTIONS = [(action.value, action.value) for action in Action]
MAX_DOCUMENT_NAME_LENGTH = MAX_NAME_LENGTH + len("detail-.md")

_M = TypeVar("_M", bound=models.Model)


class ActorQuerySet(models.QuerySet[_M]):
    """Rows that are queried by their actor first."""

    def of(self, actor_id: UUID) -> Self:
        return self.filter(actor_id=actor_id)


class SummaryQuerySet(ActorQuerySet["Summary"]):
    def trusted(self) -> Self:
        """Filter to summaries that are made of trusted messages alone (SPEC M10)."""
        return self.filter(trust=Trust.TRUSTED)

    def with_end_offset(self) -> Self:
        """Annotate the offset that the last covered message stated, for `local_end`."""
        last = Message.objects.filter(
            actor_id=OuterRef("actor_id"), session_id=OuterRef("session_id"), seq=OuterRef("message_count")
        )
        return self.annotate(end_offset=Subquery(last.values("utc_offset_minutes")[:1]))

    def by_nearness(self, session_id: Any) -> Self:
        """Order by session: the given one first, then the others, the latest first."""
        own = When(session_id=session_id, then=Value(0))
        rank = Case(own, default=Value(1), output_field=models.SmallIntegerField())
        return self.order_by(rank, "-session__started_at", "-session_id")


def summary_for(session: Session) -> Q:
    """Filter to the session's own, whatever its trust, and trusted ones of sessions before it."""
    return Q(session_id=session.pk) | Q(trust=Trust.TRUSTED, session__started_at__lte=session.started_at)


class Summary(ActorRow):
    """Summary of one session (SPEC U1). `message_count` is the last `seq` that it covers.

    `written` counts how often a program wrote it, and `written_at` is when it last did: triggers count from there,
    whatever people changed since. Editing the text locks it.
    """

    session = KeyWithinActor(Session, on_delete=models.CASCADE, related_name="+")
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

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"trust": Trust.UNTRUSTED, "locked": False}

    objects: ClassVar[SummaryQuerySet] = SummaryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-end_time", "-id"]
        verbose_name_plural = "summaries"
        constraints = [
            models.UniqueConstraint(name="summary_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(name="summary_once", fields=["actor", "session"]),
            models.CheckConstraint(name="summary_begins_before_it_ends", condition=Q(start_time__lte=F("end_time"))),
        ]
        indexes = [models.Index(fields=["actor", "-end_time", "-id"], name="summary_newest_first")]

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.id}"

    end_offset: int | None = None

    def local_end(self, zone: tzinfo) -> datetime:
        """Return when it ends by the last speaker's clock, as far as `with_end_offset` knows it."""
        return local_time(self.end_time, zone, offset_minutes=self.end_offset)


class SummaryVersion(NumberedVersion):
    """State of a summary after one change, with author, time and reason (SPEC U1). The latest is the current state."""

    summary = KeyWithinActor(Summary, on_delete=models.CASCADE, related_name="versions", db_index=False)
    verb = models.CharField(max_length=10, choices=VERBS)
    text = models.TextField()
    message_count = models.PositiveIntegerField()
    start_time = models.DateTimeField()
    end_time = models.DateTimeField()
    model = models.CharField(max_length=255, blank=True)
    generator = models.CharField(max_length=10, choices=GENERATORS)
    trust = models.CharField(max_length=10, choices=TRUSTS)
    locked = models.BooleanField()
    seconds = models.FloatField(null=True, help_text="How long a program took to write it.")

    class Meta(NumberedVersion.Meta):
        constraints = [models.UniqueConstraint(name="summary_version_once", fields=["actor", "summary", "number"])]
        indexes = [
            models.Index(fields=["summary", "-number"], name="version_of_summary"),
            # For metrics, at each scrape.
            models.Index(fields=["created_at"], name="version_written", condition=Q(verb="write")),
        ]

    def __str__(self) -> str:
        return f"{self.verb} #{self.number}"


class SummaryDraft(ActorRow):
    """Partial summary of a long session, so that an interrupted job repeats one model call and not all of them.

    Only the job that wrote it continues from it, and only from the version of the summary that it began with.
    """

    session = KeyWithinActor(Session, on_delete=models.CASCADE, related_name="+")
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


class ProjectQuerySet(ActorQuerySet["Project"]):
    def not_deleted(self) -> Self:
        """Filter to projects that are not deleted; the rows of a deleted one stay for its undo."""
        return self.filter(deleted_at=None)

    def active(self) -> Self:
        """Filter to projects that catalogs, routing and contexts know."""
        return self.filter(deleted_at=None, archived_at=None)


class Project(ActorRow):
    """Topic that messages of many channels share. `description` repeats MEMORY.md's first block quote.

    A project merged into another is archived, and messages that were routed to it count as the other's.
    """

    name = models.CharField(max_length=MAX_NAME_LENGTH)
    description = models.CharField(max_length=MAX_DESCRIPTION_LENGTH, blank=True)
    version = models.PositiveIntegerField(default=1)
    archived_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    merged_into = KeyWithinActor("self", on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects: ClassVar[ProjectQuerySet] = ProjectQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="project_name_once", fields=["actor", "name"], condition=Q(deleted_at=None)),
            models.CheckConstraint(name="project_name_is_kebab", condition=Q(name__regex=r"^[a-z0-9]+(-[a-z0-9]+)*$")),
        ]

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.id}"

    @property
    def status(self) -> ProjectStatus:
        if self.deleted_at is not None:
            return ProjectStatus.DELETED
        return ProjectStatus.ACTIVE if self.archived_at is None else ProjectStatus.ARCHIVED

    @property
    def current_documents(self) -> "DocumentQuerySet":
        """Return the documents that are not deleted, each with this project as its own."""
        return self.documents.filter(deleted_at=None)


class DocumentQuerySet(ActorQuerySet["Document"]):
    def not_deleted(self) -> Self:
        """Filter to documents that are not deleted; the rows of a deleted one stay for its undo."""
        return self.filter(deleted_at=None)


class Document(ActorRow):
    """Markdown text of a project. `version` counts its texts; `token_count` is by o200k."""

    project = KeyWithinActor(Project, on_delete=models.CASCADE, related_name="documents")
    name = models.CharField(max_length=MAX_DOCUMENT_NAME_LENGTH)
    text = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1)
    token_count = models.PositiveIntegerField(default=0)
    deleted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects: ClassVar[DocumentQuerySet] = DocumentQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["project", "name"]
        constraints = [
            models.UniqueConstraint(
                name="document_name_once", fields=["actor", "project", "name"], condition=Q(deleted_at=None)
            )
        ]

    derived_from_texts: ClassVar = ("token_count",)

    def check_import(self) -> None:
        """Raise BadDocumentName for what a forged export may hold: names become files when a project is exported."""
        check_document_name(self.name)

    def before_screened_save(self, former: Mapping[str, Any]) -> None:
        """Give changed lines the provenance and trust of the lines that they replace."""
        self.token_count = count_raw(self.text)
        old, new = (list(map(line_digest, text.splitlines())) for text in (former["text"], self.text))
        entries = {bytes(entry.text_digest): entry for entry in self.entries.all()}
        replaced = [entries[digest] for digest in dict.fromkeys(old) if digest in entries and digest not in new]
        added = [digest for digest in dict.fromkeys(new) if digest not in old and digest not in entries]
        doubted = [entry for entry in replaced if entry.trust == Trust.UNTRUSTED]
        for place, digest in enumerate(added if replaced else []):
            entry = (doubted or replaced[place:] or replaced)[0]
            values = {name: getattr(entry, name) for name in ("pinned", "source", "trust", "created_at")}
            self.entries.create(actor_id=self.actor_id, text_digest=digest, **values)

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.id}"


class DocumentVersion(NumberedVersion):
    """Former text of a document, with how, by whom, why and when it was replaced.

    `number` is the version that the text had. A new document replaces nothing, so its number 0 is empty.
    """

    document = KeyWithinActor(Document, on_delete=models.CASCADE, related_name="versions", db_index=False)
    text = models.TextField(blank=True)
    kind = models.CharField(max_length=10, choices=DOCUMENT_KINDS)

    class Meta(NumberedVersion.Meta):
        constraints = [models.UniqueConstraint(name="document_version_once", fields=["actor", "document", "number"])]
        indexes = [models.Index(fields=["document", "-number"], name="version_of_document")]

    def __str__(self) -> str:
        return f"{self.kind} #{self.number}"


class DocumentEntry(ActorRow):
    """Provenance and trust of an appended line, which is identified by its digest.

    `source` is `{"message_ids": [...], "channel": "..."}`. A line that a person rewrote is that person's. An entry
    stays without its line, as a restored text may have it again.
    """

    document = KeyWithinActor(Document, on_delete=models.CASCADE, related_name="entries", db_index=False)
    text_digest = models.BinaryField(max_length=32)
    pinned = models.BooleanField(default=False)
    source = models.JSONField(default=dict)
    trust = models.CharField(max_length=10, choices=TRUSTS, default=Trust.TRUSTED)
    in_text = models.BooleanField(default=True, db_default=True, help_text="The document's text has the line.")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "document entries"
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="document_entry_once", fields=["actor", "document", "text_digest"])]
        indexes = [
            models.Index(fields=["document", "-created_at"], name="entry_of_document"),
            # For the dashboard: few entries wait.
            models.Index(
                fields=["created_at", "id"], name="entry_waiting", condition=Q(trust=Trust.UNTRUSTED, in_text=True)
            ),
        ]

    def __str__(self) -> str:
        return f"entry {self.id}"


class RoutingDecision(ActorRow):
    """Project that a message was routed to, the confidence, and people's correction (SPEC P4).

    `trust` is the message's: decisions about untrusted messages do not influence trusted ones.
    """

    message = models.TextField()
    channel = models.CharField(max_length=100)
    session = KeyWithinActor(Session, on_delete=models.SET_NULL, null=True, related_name="+")
    trust = models.CharField(max_length=10, choices=TRUSTS, default=Trust.TRUSTED)
    project = KeyWithinActor(Project, on_delete=models.SET_NULL, null=True, related_name="+")
    proposed_name = models.CharField(max_length=MAX_NAME_LENGTH, blank=True)
    confidence = models.CharField(max_length=6, choices=CONFIDENCES)
    action = models.CharField(max_length=18, choices=ACTIONS)
    reason = models.TextField(blank=True)
    corrected_project = KeyWithinActor(Project, on_delete=models.SET_NULL, null=True, related_name="+")
    corrected_by = models.CharField(max_length=150, blank=True)
    corrected_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="routing_of_actor", fields=["actor", "id"])]
        indexes = [
            models.Index(fields=["actor", "-created_at", "-id"], name="routing_newest_first"),
            models.Index(
                fields=["actor", "-corrected_at"],
                name="routing_corrected",
                condition=Q(corrected_project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()} {self.id}"


class ProjectEvent(ActorRow):
    """Read, routing, update or other operation on a project (SPEC P8). `details` holds ids and numbers only.

    One that can be undone as a whole, such as a merge, keeps in `undo` the rows and versions that it wrote.
    """

    project = KeyWithinActor(Project, on_delete=models.SET_NULL, null=True, related_name="+")
    project_name = models.CharField(max_length=MAX_NAME_LENGTH, blank=True)
    kind = models.CharField(max_length=10, choices=EVENT_KINDS)
    tokens = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict)
    undo = models.JSONField(null=True)
    undone_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="project_event_of_actor", fields=["actor", "id"])]
        indexes = [models.Index(fields=["actor", "-created_at", "-id"], name="event_newest_first")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.id}"


class ProjectCursor(ActorRow):
    """Last message of a session that was searched for project entries; no row means none was.

    It moves in the transaction that writes the entries found up to there.
    """

    session = KeyWithinActor(Session, on_delete=models.CASCADE, related_name="+")
    read_until = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(name="project_cursor_once", fields=["actor", "session"])]

    def __str__(self) -> str:
        return f"up to #{self.read_until}"

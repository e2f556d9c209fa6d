"""Serializers of projects, documents, routing decisions and events."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from conversations.api.blocks import MAX_TEXT_LENGTH
from conversations.api.serializers import ChannelField
from memoryhub.api.fields import (
    ChangedByOut,
    IdField,
    ItemsField,
    OneOf,
    OwnedOut,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from summaries.actions.projects import MAX_DAYS
from summaries.domain.documents import MAX_DOCUMENT_LENGTH, MAX_DOCUMENT_NAME_LENGTH, MAX_ENTRY_LENGTH, title_of
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, EventKind, ProjectStatus
from summaries.models import Document, DocumentEntry, DocumentVersion, Project, ProjectEvent, RoutingDecision

MAX_REQUESTED_NAME_LENGTH = 1_000
"""Longer than a name may be, so that the error about a longer one proposes a valid name."""

MAX_MOVED_LINES = 1_000
"""Lines that one request moves."""

ALL = "all"

ACTIVE, PENDING = "active", "pending"
"""Status of an appended line, as memories have it."""


class EventListQuery(TenantQuery):
    """Filter of a list of events."""

    project = StringField(required=False, max_length=MAX_REQUESTED_NAME_LENGTH)
    kind = OneOf(choices=[item.value for item in EventKind], required=False)


class ProjectListQuery(TenantQuery):
    """Filter of a list of projects."""

    status = OneOf(
        choices=[*(state.value for state in ProjectStatus), ALL], required=False, default=ProjectStatus.ACTIVE
    )


class DocumentQuery(TenantQuery):
    """Owner of a document, and whether its text is meant with the entries that wait for approval."""

    pending = serializers.BooleanField(
        required=False, default=False, help_text="The text holds the entries that wait for approval, too."
    )


class DailyQuery(TenantQuery):
    """Days and project of daily sums."""

    project = StringField(required=False, max_length=MAX_REQUESTED_NAME_LENGTH)
    days = serializers.IntegerField(required=False, min_value=1, max_value=MAX_DAYS, default=30)


class ProjectIn(TenantSerializer):
    """A new project."""

    name = TextField(max_length=MAX_REQUESTED_NAME_LENGTH)
    description = TextField(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH, default="")


class ProjectPatch(ReasonSerializer):
    """Changes of a project."""

    name = TextField(required=False, max_length=MAX_REQUESTED_NAME_LENGTH)
    description = TextField(required=False, allow_blank=True, max_length=MAX_DESCRIPTION_LENGTH)


class ProjectOut(OwnedOut, serializers.ModelSerializer):
    """A project; its description is MEMORY.md's first block quote.

    An archived one is out of catalogs, routing and contexts; `merged_into` is the project that it became part of.
    """

    status = OneOf(choices=[state.value for state in ProjectStatus])
    merged_into = serializers.CharField(source="merged_into.name", allow_null=True, default=None)

    class Meta:
        model = Project
        fields = (
            "id", "name", "description", "agent_id", "user_id", "status", "archived_at", "deleted_at", "merged_into",
            "version", "created_at", "updated_at",
        )  # fmt: skip


class MergeIn(ReasonSerializer):
    """Project that another becomes part of."""

    into = TextField(max_length=MAX_REQUESTED_NAME_LENGTH)
    dry_run = serializers.BooleanField(default=False, help_text="Only tell what would be done.")


class MoveIn(MergeIn):
    """Lines of a document, and the project that they go to."""

    lines = ItemsField(
        child=TextField(max_length=MAX_DOCUMENT_LENGTH),
        min_length=1,
        max_length=MAX_MOVED_LINES,
        help_text="Lines as they stand in the document.",
    )
    new_project = serializers.BooleanField(default=False, help_text="`into` is the name of a new project.")
    document = StringField(
        required=False,
        max_length=MAX_DOCUMENT_NAME_LENGTH,
        help_text="The document they go to; by default that of the same name.",
    )


class MisplacedIn(ReasonSerializer):
    """Lines to move after a correction; by default all."""

    entry_ids = ItemsField(child=IdField(), required=False, max_length=MAX_MOVED_LINES)
    dry_run = serializers.BooleanField(default=False, help_text="Only tell what would be done.")


class DocumentChangeOut(serializers.Serializer):
    """Lines that a document gains, and those it holds already."""

    name = serializers.CharField()
    added = serializers.IntegerField()
    repeated = serializers.IntegerField()
    is_new = serializers.BooleanField()


class TransferOut(serializers.Serializer):
    """Result or preview of a merge or move; `event_id` undoes it."""

    project = serializers.CharField(source="source")
    into = serializers.CharField()
    documents = DocumentChangeOut(many=True)
    routes = serializers.IntegerField()
    corrections = serializers.IntegerField()
    event_id = serializers.UUIDField(source="event.pk", allow_null=True, default=None)


class DocumentHeadOut(serializers.ModelSerializer):
    """A document without its text: `title` is its first line where that is a heading, `size` its bytes in UTF-8."""

    title = serializers.SerializerMethodField()
    size = serializers.SerializerMethodField()

    class Meta:
        model = Document
        fields = ("name", "title", "size", "version", "token_count", "created_at", "updated_at")

    def get_title(self, document: Document) -> str:
        return title_of(document.text)

    def get_size(self, document: Document) -> int:
        return len(document.text.encode())


class ProjectWithDocumentsOut(ProjectOut):
    """A project with its documents."""

    documents = serializers.SerializerMethodField()

    class Meta(ProjectOut.Meta):
        fields = (*ProjectOut.Meta.fields, "documents")  # type: ignore[assignment]

    @extend_schema_field(DocumentHeadOut(many=True))
    def get_documents(self, project: Project) -> list[dict[str, Any]]:
        return list(DocumentHeadOut(self.context["documents"], many=True).data)


class DocumentOut(serializers.ModelSerializer):
    """A document; `token_count` is by o200k, with the `pending_entries` that wait for approval."""

    pending_entries = serializers.IntegerField()

    class Meta:
        model = Document
        fields = ("id", "name", "text", "version", "token_count", "pending_entries", "created_at", "updated_at")


class AppendedOut(DocumentOut):
    """A document with a line appended; `pending`: the line stays out of contexts until it is approved."""

    status = OneOf(choices=[ACTIVE, PENDING])

    class Meta(DocumentOut.Meta):
        fields = (*DocumentOut.Meta.fields, "status")  # type: ignore[assignment]


class DocumentIn(ReasonSerializer):
    """Whole text of a document."""

    text = TextField(allow_blank=True, max_length=MAX_DOCUMENT_LENGTH)


class EntryIn(StrictSerializer):
    """One line for a document, with its channel."""

    text = TextField(max_length=MAX_ENTRY_LENGTH)
    pinned = serializers.BooleanField(default=False)
    channel = ChannelField(default="api")


class EntryOut(serializers.ModelSerializer):
    """An appended line with its provenance.

    `text` is null where a later version of the document does not hold the line; `text_digest` is the SHA-256 of the
    line without its bullet.
    """

    text = serializers.SerializerMethodField()
    text_digest = serializers.SerializerMethodField()

    class Meta:
        model = DocumentEntry
        fields = ("id", "text", "text_digest", "pinned", "source", "trust", "created_at")

    def get_text(self, entry: DocumentEntry) -> str | None:
        lines: dict[bytes, str] = self.context["lines"]
        return lines.get(bytes(entry.text_digest))

    def get_text_digest(self, entry: DocumentEntry) -> str:
        return bytes(entry.text_digest).hex()


class MisplacedOut(EntryOut):
    """A line that was written into a project because of a decision that was corrected since."""

    document = serializers.CharField(source="document.name")

    class Meta(EntryOut.Meta):
        fields = ("document", *EntryOut.Meta.fields)  # type: ignore[assignment]


class DocumentVersionOut(ChangedByOut, serializers.ModelSerializer):
    """Former text of a document, with how, by whom, why and when it was replaced."""

    class Meta:
        model = DocumentVersion
        fields = ("id", "number", "text", "kind", "by", "reason", "created_at")


class DocumentRestoreIn(ReasonSerializer):
    """Version to restore."""

    number = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class RouteIn(TenantSerializer):
    """Message to be routed."""

    message = TextField(max_length=MAX_TEXT_LENGTH)
    channel = ChannelField(required=False, help_text="`api`, or the session's channel.")
    session_id = IdField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Messages that name no project stay with the session's.",
    )


class CorrectionIn(ReasonSerializer):
    """Correct project of a message; null if it belongs to none."""

    project = TextField(max_length=MAX_REQUESTED_NAME_LENGTH, allow_null=True)


class RouteOut(serializers.ModelSerializer):
    """Routing decision: project or proposal, confidence, action, and correction."""

    project = serializers.CharField(source="project.name", allow_null=True, default=None)
    proposed_name = serializers.SerializerMethodField()
    corrected_project = serializers.CharField(source="corrected_project.name", allow_null=True, default=None)

    class Meta:
        model = RoutingDecision
        fields = (
            "id", "project", "proposed_name", "confidence", "action", "reason", "message", "channel", "session_id",
            "trust", "corrected_project", "corrected_by", "corrected_at", "created_at",
        )  # fmt: skip

    def get_proposed_name(self, decision: RoutingDecision) -> str | None:
        return decision.proposed_name or None


class EventOut(serializers.ModelSerializer):
    """Event of a project."""

    project = serializers.CharField(source="project_name")
    undoable = serializers.SerializerMethodField()

    class Meta:
        model = ProjectEvent
        fields = ("id", "project", "kind", "tokens", "outcome", "details", "undoable", "undone_at", "created_at")

    def get_undoable(self, event: ProjectEvent) -> bool:
        return event.undo is not None and event.undone_at is None and event.project_id is not None


class DayOut(serializers.Serializer):
    """Events of one kind of a project on one day of the user's time zone."""

    day = serializers.DateField()
    project = serializers.CharField(source="project_name")
    kind = serializers.CharField()
    events = serializers.IntegerField(source="times")
    tokens = serializers.IntegerField(source="all_tokens")


class DaysOut(serializers.Serializer):
    """Sums by day."""

    results = DayOut(many=True)

"""Projects as they come in and go out over REST."""

from typing import Any

from rest_framework import serializers

from conversations.api.serializers import LONGEST_TEXT, ChannelField
from memoryhub.api.fields import (
    IdField,
    OneOf,
    ReasonSerializer,
    StrictSerializer,
    StringField,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from memoryhub.api.pagination import MAX_LIMIT
from summaries.actions.projects import MOST_DAYS
from summaries.domain.documents import LONGEST_DOCUMENT, LONGEST_ENTRY
from summaries.domain.projects import LONGEST_DESCRIPTION, EventKind
from summaries.models import (
    Document,
    DocumentEntry,
    DocumentVersion,
    Project,
    ProjectEvent,
    RoutingDecision,
)

LONGEST_ASKED_NAME = 1_000
"""Longer than a name may be: who sends too long a one is told so with a proposal."""

ACTIVE, PENDING = "active", "pending"
"""What becomes of an appended line, in the words that memories have for it."""


class ProjectListQuery(TenantQuery):
    """Whose projects are listed."""

    limit = serializers.IntegerField(required=False, min_value=1, max_value=MAX_LIMIT)
    cursor = StringField(required=False)


class EventListQuery(ProjectListQuery):
    """Whose events are listed, of which sort."""

    project = StringField(required=False)
    kind = OneOf(choices=[each.value for each in EventKind], required=False)


class DailyQuery(TenantQuery):
    """Of how many days events are summed."""

    project = StringField(required=False)
    days = serializers.IntegerField(required=False, min_value=1, max_value=MOST_DAYS, default=30)


class ProjectIn(TenantSerializer):
    """A new project."""

    name = TextField(max_length=LONGEST_ASKED_NAME)
    description = TextField(required=False, allow_blank=True, max_length=LONGEST_DESCRIPTION, default="")


class ProjectPatch(ReasonSerializer):
    """What a person changes of a project."""

    name = TextField(required=False, max_length=LONGEST_ASKED_NAME)
    description = TextField(required=False, allow_blank=True, max_length=LONGEST_DESCRIPTION)


class ProjectOut(serializers.ModelSerializer):
    """A project; its description is MEMORY.md's first block quote."""

    agent_id = serializers.CharField(source="actor.agent_id", read_only=True)
    user_id = serializers.CharField(source="actor.user_id", read_only=True)

    class Meta:
        model = Project
        fields = ("id", "name", "description", "agent_id", "user_id", "version", "created_at", "updated_at")


class DocumentHeadOut(serializers.ModelSerializer):
    """A document without its text."""

    class Meta:
        model = Document
        fields = ("name", "version", "token_count", "created_at", "updated_at")


class ProjectWithDocumentsOut(ProjectOut):
    """A project, and which documents it has."""

    documents = serializers.SerializerMethodField()

    class Meta(ProjectOut.Meta):
        fields = (*ProjectOut.Meta.fields, "documents")  # type: ignore[assignment]

    def get_documents(self, project: Project) -> list[dict[str, Any]]:
        """Return the documents that the view looked up."""
        return list(DocumentHeadOut(self.context["documents"], many=True).data)


class DocumentOut(serializers.ModelSerializer):
    """A document; `token_count` is by o200k."""

    class Meta:
        model = Document
        fields = ("id", "name", "text", "version", "token_count", "created_at", "updated_at")


class AppendedOut(DocumentOut):
    """A document with a line appended; `pending`: the line stays out of contexts until somebody believes it."""

    status = OneOf(choices=[ACTIVE, PENDING])

    class Meta(DocumentOut.Meta):
        fields = (*DocumentOut.Meta.fields, "status")  # type: ignore[assignment]


class DocumentIn(ReasonSerializer):
    """A document's text, whole."""

    text = TextField(allow_blank=True, max_length=LONGEST_DOCUMENT)


class EntryIn(StrictSerializer):
    """One line for a document, and where it comes from."""

    text = TextField(max_length=LONGEST_ENTRY)
    pinned = serializers.BooleanField(default=False)
    channel = ChannelField(default="api")


class EntryOut(serializers.ModelSerializer):
    """When and whence a line was appended; `text_digest` is the SHA-256 of the line without its bullet."""

    text_digest = serializers.SerializerMethodField()

    class Meta:
        model = DocumentEntry
        fields = ("id", "text_digest", "pinned", "source", "trust", "created_at")

    def get_text_digest(self, entry: DocumentEntry) -> str:
        """Return the digest in hex."""
        return bytes(entry.text_digest).hex()


class DocumentVersionOut(serializers.ModelSerializer):
    """A text that a document had, and what replaced it: how, by whom, why, when."""

    by = serializers.SerializerMethodField()

    class Meta:
        model = DocumentVersion
        fields = ("id", "number", "text", "kind", "by", "reason", "created_at")

    def get_by(self, version: DocumentVersion) -> dict[str, str]:
        """Return who replaced it."""
        return {"kind": version.who_kind, "id": version.who_id, "name": version.who_name}


class DocumentRestoreIn(ReasonSerializer):
    """Which version to bring back."""

    number = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class RouteIn(TenantSerializer):
    """A message whose project is wanted."""

    message = TextField(max_length=LONGEST_TEXT)
    channel = ChannelField(required=False, help_text="`api`, or the session's channel.")
    session_id = IdField(
        required=False,
        allow_null=True,
        default=None,
        help_text="What names no project stays with its session's.",
    )


class CorrectionIn(ReasonSerializer):
    """The project that a message belongs to."""

    project = TextField(max_length=LONGEST_ASKED_NAME)


class RouteOut(serializers.ModelSerializer):
    """A decision: the project or a proposal, how sure it is, what follows, and what people made of it."""

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
        """Return what a new project could be called."""
        return decision.proposed_name or None


class EventOut(serializers.ModelSerializer):
    """Something that was done with a project."""

    project = serializers.CharField(source="project_name")

    class Meta:
        model = ProjectEvent
        fields = ("id", "project", "kind", "tokens", "outcome", "details", "created_at")


class DayOut(serializers.Serializer):
    """What was done with one project on one day (UTC)."""

    day = serializers.DateField()
    project = serializers.CharField()
    kind = serializers.CharField()
    events = serializers.IntegerField()
    tokens = serializers.IntegerField()


class DaysOut(serializers.Serializer):
    """Sums by day."""

    results = DayOut(many=True)

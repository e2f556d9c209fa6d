"""Serializers of sessions, messages, contexts and receipts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from conversations.api.blocks import (
    MAX_BLOCKS,
    MAX_ID_LENGTH,
    ContentField,
    ToolCallIn,
    placement_error,
    text_and_blocks,
)
from conversations.domain.formats import FORMATS
from conversations.domain.messages import ASSISTANT_NAMES, NewMessage, Role, role_and_author, text_of_blocks
from conversations.domain.policy import CALL_OPTIONS, ContextPolicy
from conversations.domain.routing import UNNAMED
from conversations.models import Message, Receipt, Session
from memoryhub.api.fields import (
    IdField,
    ItemsField,
    MomentField,
    ObjectField,
    OneOf,
    OwnedOut,
    PatternField,
    ReasonSerializer,
    StrictSerializer,
    TenantQuery,
    TenantSerializer,
    TextField,
)
from memoryhub.look_alikes import is_blank
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Check, Input
from memoryhub.zones import stated_offset

MAX_MESSAGES = 500
MAX_TOOLS = 128
MAX_SEQ = 2**31 - 1
MAX_CHANNEL_LENGTH = 100


class ChannelField(PatternField):
    """Channel of a text: a name that the client chooses."""

    def __init__(self, **kwargs: Any) -> None:
        allowed = "1 to 100 letters a-z or A-Z, digits, ., - or _"
        super().__init__(r"^[-a-zA-Z0-9_.]{1,100}$", allowed=allowed, max_length=MAX_CHANNEL_LENGTH, **kwargs)


class SessionIn(TenantSerializer):
    """A session to open."""

    session_id = IdField(required=False)
    channel = ChannelField(default="api")
    title = TextField(required=False, allow_blank=True, max_length=500, default="")
    metadata = ObjectField(required=False, default=dict)


class SessionPatch(StrictSerializer):
    """Fields of a session that can be changed; `metadata` is replaced as a whole."""

    title = TextField(required=False, allow_blank=True, max_length=500)
    metadata = ObjectField(required=False)


class UserOut(serializers.ModelSerializer):
    """A user of an agent, with counts and the time of the last message."""

    agent_id = serializers.CharField()
    session_count = serializers.IntegerField()
    message_count = serializers.IntegerField()
    last_message_at = serializers.DateTimeField(allow_null=True)

    class Meta:
        model = Actor
        fields = ("agent_id", "user_id", "created_at", "session_count", "message_count", "last_message_at")


class SessionOut(OwnedOut, serializers.ModelSerializer):
    """A session."""

    id = serializers.UUIDField(source="public_id", read_only=True)

    class Meta:
        model = Session
        fields = (
            "id", "agent_id", "user_id", "channel", "title", "started_at", "ended_at", "message_count",
            "last_message_at", "metadata",
        )  # fmt: skip


class DryRunQuery(StrictSerializer):
    """Ask for a preview of a deletion."""

    dry_run = serializers.BooleanField(default=False, help_text="Count what it would take, and delete nothing.")


class ForgetIn(ReasonSerializer):
    """A range of a session's messages, both ends included."""

    from_seq = serializers.IntegerField(min_value=1, max_value=MAX_SEQ)
    to_seq = serializers.IntegerField(min_value=1, max_value=MAX_SEQ)
    dry_run = serializers.BooleanField(default=False)


class DeletionOut(serializers.Serializer):
    """Count the rows that a deletion deletes, by kind."""

    session_id = serializers.UUIDField()
    dry_run = serializers.BooleanField()
    counts = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Number of rows by kind: `messages`, `memories`, `summaries`, `entries` and others. "
        "`…_for_review` rest on other messages too: they lost a source, and wait for approval.",
    )
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that deletes a long session; it has no counts.")


class StatsOut(serializers.Serializer):
    """A session in numbers."""

    session_id = serializers.UUIDField()
    message_count = serializers.IntegerField()
    first_message_time = serializers.DateTimeField(allow_null=True)
    last_message_time = serializers.DateTimeField(allow_null=True)
    duration_seconds = serializers.IntegerField(allow_null=True)
    has_summary = serializers.BooleanField()
    last_summary_time = serializers.DateTimeField(allow_null=True)


class SpokenAtField(MomentField):
    """Time of a message, as the moment and the offset of the speaker's clock that it states."""

    def to_internal_value(self, value: Any) -> tuple[datetime, int | None]:  # type: ignore[override]
        moment = super().to_internal_value(value)
        return moment, stated_offset(value, parse_datetime(value) or moment)


class RoleField(OneOf):
    """A message's role, in any case: clients write `User` and `ASSISTANT` as well."""

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value(data.strip().lower() if isinstance(data, str) else data)


class MessageIn(StrictSerializer):
    """A message to store, in the form of either vendor."""

    role = RoleField(choices=[*[role.value for role in Role], *ASSISTANT_NAMES])
    content = ContentField(
        required=False,
        allow_null=True,
        allow_blank=True,
        default=None,
        help_text="Null only where an assistant calls tools; blank only as the result of one.",
    )
    tool_calls = ItemsField(child=ToolCallIn(), required=False, allow_null=True, max_length=MAX_BLOCKS, default=None)
    tool_call_id = TextField(required=False, allow_null=True, max_length=MAX_ID_LENGTH, default=None)
    author = TextField(required=False, allow_blank=True, max_length=255, default="")
    client_message_id = TextField(required=False, allow_null=True, max_length=255, default=None)
    created_at = SpokenAtField(required=False, allow_null=True, default=None)
    metadata = ObjectField(required=False, default=dict)
    merge = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Where the session has a message of this role and text without this metadata, only the metadata is "
        "added: for programs that store what an endpoint for chat programs may have stored.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        role = role_and_author(attrs["role"], "")[0]
        problem = placement_error(
            role, attrs["content"], has_calls=bool(attrs["tool_calls"]), has_result=attrs["tool_call_id"] is not None
        )
        if problem:
            raise serializers.ValidationError(problem)
        return attrs

    @staticmethod
    def message(values: dict[str, Any]) -> NewMessage:
        role, author = role_and_author(values["role"], values["author"])
        text, blocks = text_and_blocks(values["content"], values["tool_calls"], values["tool_call_id"])
        if blocks and role == Role.USER and all(block["type"] == "tool_result" for block in blocks):
            role = Role.TOOL
        at, offset = values["created_at"] or (None, None)
        return NewMessage(
            role=role,
            author=author,
            content=text,
            blocks=blocks,
            created_at=at,
            utc_offset_minutes=offset,
            client_message_id=values["client_message_id"],
            metadata=values["metadata"],
            merge=values["merge"],
        )


class BatchIn(StrictSerializer):
    """Several messages to store at once, in their order."""

    messages = ItemsField(child=MessageIn(), allow_empty=False, max_length=MAX_MESSAGES)


class MessageOut(serializers.ModelSerializer):
    """A message as it is stored; `content` is as it was sent."""

    session_id = serializers.UUIDField(read_only=True)
    content = serializers.SerializerMethodField()

    class Meta:
        model = Message
        fields = (
            "id", "session_id", "seq", "role", "author", "content", "token_count", "trust", "created_at",
            "utc_offset_minutes", "client_message_id", "metadata", "abandoned_at",
        )  # fmt: skip

    def get_content(self, message: Message) -> Any:
        return message.blocks if message.blocks is not None else message.content


class MessagesOut(serializers.Serializer):
    """The stored messages, in the batch's order."""

    results = MessageOut(many=True)


OPTION_FIELDS: Final[Mapping[Input, type[serializers.Field]]] = {
    Input.SWITCH: serializers.BooleanField,
    Input.WHOLE: serializers.IntegerField,
    Input.NUMBER: serializers.FloatField,
}


class OptionsIn(StrictSerializer):
    """Policy values for one call."""

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name: _option(ContextPolicy.CHECKS[name]) for name in CALL_OPTIONS}


def _option(check: Check) -> serializers.Field:
    """Return the field of a policy value; its range is checked where the context is assembled."""
    if check.choices:
        return OneOf(choices=list(check.choices), required=False)
    return OPTION_FIELDS[check.input](required=False)


PROJECT_HELP_TEXT: Final = (
    "A project's name, or `auto` to have it found. Left out: found where the policy `project_routing` is `auto`, "
    "else the agent's `current_project`. `null`: no project at all."
)


class AskedField(ContentField):
    """A message to a model: a text, or blocks with a text and images or files."""

    default_error_messages = {"asked": "must be a text, or blocks with a text and images or files."}

    def to_internal_value(self, data: Any) -> str | list[dict[str, Any]]:
        content = super().to_internal_value(data)
        if isinstance(content, list):
            has_allowed_types = {block["type"] for block in content} <= {"text", "image", "file"}
            if not has_allowed_types or is_blank(text_of_blocks(content)):
                self.fail("asked")
        return content


class ContextIn(TenantSerializer):
    """A request for a context."""

    session_id = IdField(required=False, allow_null=True, default=None)
    project = TextField(required=False, allow_null=True, max_length=255, default=UNNAMED, help_text=PROJECT_HELP_TEXT)
    message = AskedField()
    author = TextField(required=False, allow_blank=True, max_length=255, default="")
    perspective = TextField(required=False, allow_null=True, max_length=100, default=None)
    format = OneOf(choices=sorted(FORMATS), default="anthropic")
    exact_tokens = serializers.BooleanField(default=False)
    options = OptionsIn(required=False, default=dict)


class ShareUseOut(serializers.Serializer):
    """A layer's share of the limit, its allowed tokens, and those used."""

    layer = serializers.CharField()
    share = serializers.FloatField()
    allowed = serializers.IntegerField()
    used = serializers.IntegerField()


class ContextMetadataOut(serializers.Serializer):
    """Figures of what is in the context."""

    working_memory_count = serializers.IntegerField()
    semantic_memory_count = serializers.IntegerField()
    recall_count = serializers.IntegerField()
    pinned_count = serializers.IntegerField()
    profile_count = serializers.IntegerField()
    has_session_summary = serializers.BooleanField()
    project = serializers.CharField(allow_null=True)
    total_tokens = serializers.IntegerField()
    token_limit = serializers.IntegerField()
    compression_applied = serializers.BooleanField()
    assembly_latency_ms = serializers.FloatField()
    exact_tokens = serializers.IntegerField(
        required=False, allow_null=True, help_text="As the provider counts them, where that was asked for."
    )
    degraded = serializers.ListField(child=serializers.CharField())
    forget_request = serializers.CharField(
        required=False, help_text="What the message asks to be forgotten; nothing was recalled for it."
    )
    layer_budgets = ShareUseOut(many=True, required=False)
    trimmed_messages = serializers.IntegerField(
        required=False, help_text="Messages that the client showed and the token limit left out."
    )


class AskedOut(serializers.Serializer):
    """The part of a request that a receipt keeps to repeat it; no `project` where none was named."""

    author = serializers.CharField(required=False)
    project = serializers.CharField(required=False, allow_null=True)
    perspective = serializers.CharField(allow_null=True)
    format = serializers.CharField()
    options = serializers.DictField()


class ReceiptMetadataOut(ContextMetadataOut):
    """Figures of a context, and its request."""

    asked = AskedOut(required=False)


@extend_schema_field(ReceiptMetadataOut)
class ReceiptMetadataField(serializers.JSONField):
    """Metadata as they were stored, in the form of their time."""


class ScoreBreakdownOut(serializers.Serializer):
    """Parts of a score: `own_relevance` of messages only, weights, strength and recency of memories only."""

    similarity_raw = serializers.FloatField(required=False, allow_null=True, help_text="Cosine; null without vectors.")
    word_raw = serializers.FloatField(required=False, allow_null=True, help_text="Word score; null without words.")
    own_relevance = serializers.FloatField(required=False, help_text="Without neighbours.")
    relevance = serializers.FloatField(required=False)
    similarity_weighted = serializers.FloatField(required=False)
    strength_raw = serializers.FloatField(required=False)
    strength_normalized = serializers.FloatField(required=False)
    strength_weighted = serializers.FloatField(required=False)
    recency_raw = serializers.FloatField(required=False)
    recency_weighted = serializers.FloatField(required=False)
    total = serializers.FloatField(required=False)


@extend_schema_field(ScoreBreakdownOut)
class ScoreBreakdownField(serializers.DictField):
    """Parts of a score, as they were computed."""


class RoutingOut(serializers.Serializer):
    """Project that the message was routed to."""

    id = serializers.UUIDField(help_text="By this the decision can be put right.")
    project = serializers.CharField(allow_null=True)
    confidence = serializers.ChoiceField(["high", "medium", "low"])
    action = serializers.ChoiceField(["route", "route_and_disclose", "ask", "propose_new"])
    proposed_name = serializers.CharField(allow_null=True)


class ContextOut(serializers.Serializer):
    """A context, ready for a provider."""

    system = serializers.JSONField(help_text="A text, or blocks with cache marks; null in the OpenAI form.")
    messages = serializers.ListField(child=serializers.DictField())
    metadata = ContextMetadataOut()
    routing = RoutingOut(allow_null=True, help_text="null if it was not requested.")
    receipt_id = serializers.UUIDField(allow_null=True)


class LatestReceiptQuery(TenantQuery):
    """Owner, and perhaps session, of the newest receipt that is asked for."""

    session_id = IdField(required=False)


class ReceiptItemOut(serializers.Serializer):
    """One candidate, and whether and why it entered."""

    layer = serializers.CharField()
    source_id = serializers.CharField(allow_null=True)
    memory_ids = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        default=None,
        help_text="What a line of a written profile, whose id is `source_id`, rests on; null for anything else.",
    )
    excerpt = serializers.CharField(help_text="Empty where the text was rejected or deleted since.")
    tokens = serializers.IntegerField()
    relevance = serializers.FloatField(allow_null=True)
    final_score = serializers.FloatField(allow_null=True)
    score_breakdown = ScoreBreakdownField(allow_null=True)
    included = serializers.BooleanField()
    reason = serializers.CharField()


class ReceiptOut(serializers.ModelSerializer):
    """Why a context was what it was."""

    items = ReceiptItemOut(many=True)
    metadata = ReceiptMetadataField()

    class Meta:
        model = Receipt
        fields = ("id", "created_at", "session_id", "query", "token_limit", "total_tokens", "metadata", "items")

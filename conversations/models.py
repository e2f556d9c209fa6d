"""Sessions, messages and their search index, receipts of contexts, and chat turns."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, GinIndex
from django.db import models
from django.db.models import Exists, ExpressionWrapper, F, Func, OuterRef, Q, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Now

from conversations.domain.client_talk import OPENING_LENGTH
from conversations.domain.messages import (
    SPOKEN_ROLES,
    NewMessage,
    Role,
    TurnState,
    is_question,
    is_searchable,
    searchable_text,
)
from memoryhub.auth.screening import Screening
from memoryhub.ids import new_id
from memoryhub.search.models import SearchIndexRow
from memoryhub.search.passages import PASSAGE_SHARE
from memoryhub.tenancy.models import Actor, ActorRow, KeyWithinActor, OwnedRow
from memoryhub.tenancy.policies import zone_of
from memoryhub.tenancy.policy import Trust
from memoryhub.zones import local_time

TOOL_BLOCKS = '$[*] ? (@.type == "tool_use" || @.type == "tool_result")'
TRUSTS = [(trust.value, trust.value) for trust in Trust]


ANSWER_SHARE: Final = 0.7
"""Weight of passages of an assistant's message: long answers mention many things."""


class SessionQuerySet(models.QuerySet["Session"]):
    def idle(self, now: datetime, *, default_minutes: int) -> "SessionQuerySet":
        """Filter to open sessions without a message for as long as the policy of their user, or agent, allows."""
        key = "session_idle_minutes"
        minutes = Coalesce(
            Cast(KeyTextTransform(key, "actor__policy"), models.IntegerField()),
            Cast(KeyTextTransform(key, "actor__agent__policy"), models.IntegerField()),
            models.Value(default_minutes),
        )
        allowed = ExpressionWrapper(minutes * models.Value(timedelta(minutes=1)), models.DurationField())
        quiet = ExpressionWrapper(
            models.Value(now, models.DateTimeField()) - Coalesce("last_message_at", "started_at"),
            models.DurationField(),
        )
        return self.filter(ended_at=None).annotate(quiet=quiet, allowed=allowed).filter(quiet__gte=F("allowed"))


class Session(OwnedRow):
    """A conversation of one actor on one channel (SPEC C1). `message_count` is the last `seq`.

    `client_id` is the id that its client chose, where another actor's session has that as its `id`: nobody can occupy
    the ids of others, or learn that they are in use.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    client_id = models.UUIDField(null=True, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="sessions")
    channel = models.CharField(max_length=100, default="api")
    title = models.CharField(max_length=500, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)
    last_message_at = models.DateTimeField(null=True, blank=True)
    message_count = models.PositiveIntegerField(default=0)
    authors = ArrayField(
        models.CharField(max_length=255), default=list, blank=True, editable=False, help_text="Names of the speakers."
    )
    deletions = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="How often messages of it were deleted."
    )

    not_exported: ClassVar = frozenset({"deletions"})
    # The names of untrusted speakers must not decide what other sessions find (SPEC M10).
    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"authors": list}

    objects: ClassVar[SessionQuerySet] = SessionQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            models.UniqueConstraint(name="session_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(
                name="session_of_client", fields=["client_id", "actor"], condition=Q(client_id__isnull=False)
            ),
        ]
        indexes = [
            models.Index(fields=["actor", "-started_at", "-id"], name="session_newest_first"),
            models.Index(fields=["id"], name="session_open", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.id}"

    @property
    def public_id(self) -> UUID:
        """Return the id by which its client knows it."""
        return self.client_id or self.pk

    @staticmethod
    def has_id(keys: Iterable[UUID]) -> Q:
        """Return the condition for sessions that a client knows by one of these ids; combine it with an owner."""
        listed = list(keys)
        return Q(pk__in=listed) | Q(client_id__in=listed)


def believed_in(session_id: UUID | None) -> Q:
    """Return the condition for trusted messages and any of the given session (SPEC M10), on messages or index rows."""
    trusted = Q(trust=Trust.TRUSTED)
    return trusted if session_id is None else trusted | Q(session_id=session_id)


SPOKEN = Q(role__in=SPOKEN_ROLES, abandoned_at=None)
"""The condition for messages that contexts, summaries and extraction may read."""


class Opening(Func):
    """The start of a text, by which a client's copy of a message is found (`conversations.domain.client_talk`)."""

    template = f"left(btrim(%(expressions)s, E' \\n\\r\\t'), {OPENING_LENGTH})"
    output_field = models.TextField()


class OpeningHash(Func):
    """A hash of an opening; its index is smaller than one of texts."""

    template = "hashtextextended(%(expressions)s, 0)"
    output_field = models.BigIntegerField()


class MessageQuerySet(models.QuerySet["Message"]):
    def of(self, actor_ids: list[UUID]) -> "MessageQuerySet":
        return self.filter(actor_id__in=actor_ids)

    def spoken(self) -> "MessageQuerySet":
        return self.filter(SPOKEN)

    def current(self) -> "MessageQuerySet":
        """Filter to messages of the branch that the client shows (ADR 51)."""
        return self.filter(abandoned_at=None)

    def believed_in(self, session_id: UUID | None) -> "MessageQuerySet":
        return self.filter(believed_in(session_id))

    def with_tools(self) -> "MessageQuerySet":
        """Annotate `tools`, the calls of tools and results among the blocks; images stay in the database."""
        found = Func(
            F("blocks"),
            Value(TOOL_BLOCKS),
            template="jsonb_path_query_array(%(expressions)s::jsonpath)",
            output_field=models.JSONField(),
        )
        return self.defer("blocks").annotate(tools=found)


class Message(ActorRow):
    """One turn of a session, numbered without gaps (SPEC C2).

    `content` is always text; `blocks` holds the client's blocks where it sent any. `token_count` is
    the plain o200k_base count, before any factor for a model. `utc_offset_minutes` is what the client's time stated.
    `abandoned_at` is set while the client shows another branch of the conversation (ADR 51).
    """

    session = KeyWithinActor(Session, on_delete=models.CASCADE, related_name="messages", db_index=False)
    seq = models.PositiveIntegerField()
    role = models.CharField(max_length=10, choices=[(role.value, role.value) for role in Role])
    author = models.CharField(max_length=255, blank=True)
    content = models.TextField(blank=True)
    blocks = models.JSONField(null=True, blank=True)
    token_count = models.PositiveIntegerField()
    trust = models.CharField(max_length=10, choices=TRUSTS, default=Trust.TRUSTED)
    client_message_id = models.CharField(max_length=255, null=True, blank=True)
    created_at = models.DateTimeField()
    utc_offset_minutes = models.SmallIntegerField(null=True, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    abandoned_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When the client continued from an earlier message; this one is not read any more.",
    )

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"trust": Trust.UNTRUSTED}

    objects: ClassVar[MessageQuerySet] = MessageQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["session", "seq"]
        constraints = [
            models.UniqueConstraint(name="message_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(name="message_seq_once", fields=["actor", "session", "seq"]),
            models.UniqueConstraint(name="message_client_id_once", fields=["actor", "session", "client_message_id"]),
            models.CheckConstraint(name="message_seq_from_one", condition=Q(seq__gte=1)),
        ]
        indexes = [
            models.Index(fields=["session", "seq"], name="message_of_session"),
            models.Index(fields=["actor", "-created_at", "-id"], name="message_newest_first"),
            models.Index("actor", OpeningHash(Opening("content")), F("created_at").desc(), name="message_opening"),
        ]

    def __str__(self) -> str:
        return f"{self.get_role_display()} #{self.seq}"

    def local_time(self, zone: tzinfo) -> datetime:
        """Return its time by the speaker's clock: the message's own offset, else the actor's zone."""
        return local_time(self.created_at, zone, offset_minutes=self.utc_offset_minutes)


class MessageIndex(SearchIndexRow):
    """Search index row of a message in one embedding space.

    Only messages of people and assistants have one. It repeats the fields that a search filters or ranks by, so that a
    scan reads one table.
    """

    owner_field = "message"

    pk = models.CompositePrimaryKey("actor_id", "space_id", "message_id")
    message = KeyWithinActor(Message, on_delete=models.CASCADE, related_name="+")
    session_id = models.UUIDField()
    seq = models.PositiveIntegerField()
    trust = models.CharField(max_length=10, choices=TRUSTS, default=Trust.TRUSTED)
    author = models.CharField(max_length=255, blank=True)
    asks = models.BooleanField(default=False)
    is_abandoned = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return str(self.message_id)

    @classmethod
    def counted(cls) -> Q:
        return Q(trust=Trust.TRUSTED)

    @property
    def is_counted(self) -> bool:
        return self.trust == Trust.TRUSTED

    @classmethod
    def is_findable(cls, owner: Message) -> bool:
        return is_searchable(owner.role, owner.content) and not Screening(owner.actor).withholds(owner.content)

    @classmethod
    def passage_share(cls, owner: "Message | NewMessage") -> float:
        return PASSAGE_SHARE * (ANSWER_SHARE if owner.role == Role.ASSISTANT else 1.0)

    @classmethod
    def indexed_text(cls, owner: Message) -> str:
        actor = owner.actor
        said_at = owner.local_time(zone_of(actor.agent, actor))
        return searchable_text(owner.content, author=owner.author, said_at=said_at)

    @classmethod
    def copied_fields(cls, owner: Message) -> dict[str, Any]:
        return {
            "session_id": owner.session_id,
            "seq": owner.seq,
            "trust": owner.trust,
            "author": owner.author,
            "asks": is_question(owner.content),
            "is_abandoned": owner.abandoned_at is not None,
        }

    @classmethod
    def repair(cls) -> int:
        """Correct rows that differ from their message in whether it is abandoned; return how many were wrong."""
        abandoned = Exists(
            Message.objects.filter(actor_id=OuterRef("actor_id"), pk=OuterRef("message_id")).exclude(abandoned_at=None)
        )
        left = cls.objects.filter(abandoned, is_abandoned=False).update(is_abandoned=True)
        return left + cls.objects.filter(~abandoned, is_abandoned=True).update(is_abandoned=False)


class DeletedMessage(ActorRow):
    """The digest of a message that a person deleted, without its text, by which it is not stored again (SPEC C7).

    `session_id` is the id by which clients know the session, which may be deleted as well.
    """

    session_id = models.UUIDField()
    digest = models.BinaryField(max_length=32)

    class Meta:
        constraints = [models.UniqueConstraint(name="deleted_message_once", fields=["actor", "session_id", "digest"])]

    def __str__(self) -> str:
        return str(self.id)


class ReceiptQuerySet(models.QuerySet["Receipt"]):
    def about(self, source_id: UUID) -> "ReceiptQuerySet":
        """Return the receipts that list a source, of all actors: an agent's memories are in its users' contexts too."""
        return self.filter(source_ids__contains=[source_id])


class Receipt(ActorRow):
    """A record of an assembled context: every candidate, whether it entered, and why (SPEC X9)."""

    session = KeyWithinActor(Session, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    query = models.TextField()
    token_limit = models.PositiveBigIntegerField()
    total_tokens = models.PositiveBigIntegerField()
    metadata = models.JSONField(default=dict)
    items = models.JSONField(default=list)
    source_ids = ArrayField(models.UUIDField(), default=list)
    is_kept = models.BooleanField(
        default=False, db_default=False, help_text="Retention leaves it: an expectation is about its call."
    )

    objects: ClassVar[ReceiptQuerySet] = ReceiptQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="receipt_of_actor", fields=["actor", "id"])]
        indexes = [
            models.Index(fields=["actor", "-created_at", "-id"], name="receipt_newest_first"),
            GinIndex(fields=["source_ids"], name="receipt_by_source"),
            # For retention, which selects by age alone.
            BrinIndex(fields=["created_at"], name="receipt_by_age"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class ChatTurn(ActorRow):
    """A user's message for a model to answer, with its state (SPEC B1–B4).

    `attempt` is a fencing token: each retry increments it, and only the latest may store an answer. A turn that is
    `answering` after `until` was broken off, and may be taken over. `key` is the client's idempotency key, hashed.
    """

    session = KeyWithinActor(Session, on_delete=models.CASCADE, related_name="turns")
    question = KeyWithinActor(Message, on_delete=models.CASCADE, related_name="+")
    answer = KeyWithinActor(Message, on_delete=models.SET_NULL, null=True, related_name="+")
    receipt = KeyWithinActor(Receipt, on_delete=models.SET_NULL, null=True, related_name="+")
    key = models.CharField(max_length=64, null=True, editable=False)
    body_digest = models.CharField(max_length=64, editable=False)
    state = models.CharField(max_length=9, choices=[(each.value, each.value) for each in TurnState])
    attempt = models.PositiveIntegerField(default=1)
    until = models.DateTimeField()
    error = models.CharField(max_length=64, blank=True, help_text="The code of the error.")
    model = models.CharField(max_length=255, blank=True)
    context_metadata = models.JSONField(null=True)
    routing = models.JSONField(null=True, help_text="The project that it was routed to, and the confidence.")
    usage = models.JSONField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    use_noted_at = models.DateTimeField(null=True, help_text="When use of its memories was determined.")

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "question"
        constraints = [
            models.UniqueConstraint(name="turn_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(name="turn_key_once", fields=["actor", "key"]),
        ]
        indexes = [
            models.Index(fields=["actor", "-created_at", "-id"], name="turn_newest_first"),
            models.Index(
                fields=["session"], name="turn_use_not_noted", condition=Q(state="answered", use_noted_at=None)
            ),
        ]

    @property
    def public_session_id(self) -> UUID | None:
        """Return the session's id as its client knows it; None for a turn that is stored nowhere."""
        return self.session.public_id if self.session_id else None

    def __str__(self) -> str:
        return f"{self.get_state_display()} {self.id}"


def answers_to_trusted(actor_id: UUID, message_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of some messages that are the server's own answers to trusted questions."""
    if not message_ids:
        return set()
    turns = ChatTurn.objects.filter(actor_id=actor_id, answer__in=message_ids, question__trust=Trust.TRUSTED)
    return set(turns.values_list("answer_id", flat=True))

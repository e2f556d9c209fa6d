"""Sessions, messages, contexts and receipts over REST."""

from typing import Any
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.deleted import without_deleted
from conversations.actions.forgetting import forget_messages, forget_session
from conversations.actions.messages import add_messages
from conversations.actions.sessions import end_session, open_session, session_stats, update_session, users_of
from conversations.api.blocks import text_and_blocks
from conversations.api.serializers import (
    BatchIn,
    ContextIn,
    ContextOut,
    DeletionOut,
    DryRunQuery,
    ForgetIn,
    LatestReceiptQuery,
    MessageIn,
    MessageOut,
    MessagesOut,
    ReceiptOut,
    SessionIn,
    SessionOut,
    SessionPatch,
    StatsOut,
    UserOut,
)
from conversations.domain.content import references_in
from conversations.domain.formats import one_text
from conversations.models import Message, Receipt, Session
from memoryhub.api.fields import NoBody, TenantQuery
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.renderers import PLAIN, PlainRenderer
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.tenancy.policy import PolicyError

ONE_OR_MANY = PolymorphicProxySerializer("OneOrManyIn", [MessageIn, BatchIn], resource_type_field_name=None)


def wrong_options(error: PolicyError) -> APIException:
    return ValidationError({"options": {key: [str(text)] for key, text in error.errors.items()}})


class Users(ApiView):
    @operation("users_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(UserOut))
    def get(self, request: Request) -> Response:
        """List an agent's users, in order of their ids; with a user, or by a key of one, that user alone."""
        rows = users_of(self.reading(self.query(TenantQuery)))
        return self.page(rows, UserOut, ordering=("user_id",))


class Sessions(ApiView):
    @operation("sessions_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(SessionOut))
    def get(self, request: Request) -> Response:
        """List an actor's sessions, newest first."""
        tenant = self.reading(self.query(TenantQuery))
        rows = Session.objects.filter(actor_id=tenant.actor_id).select_related("actor")
        return self.page(rows, SessionOut, ordering=("-started_at", "-id"))

    @operation("sessions_create", Scope.WRITE, request=SessionIn, responses={201: SessionOut, 200: SessionOut})
    def post(self, request: Request) -> Response:
        """Open a session; the same id again answers 200 with the session as it is."""
        values = self.validated(SessionIn)
        session, is_new = open_session(
            actor=self.writing(values),
            session_id=values.get("session_id"),
            channel=values["channel"],
            title=values["title"],
            metadata=values["metadata"],
            by=self.principal,
            now=self.now,
        )
        return Response(SessionOut(session).data, status=201 if is_new else 200)


class OneSession(ApiView):
    @operation("session_get", Scope.READ, responses=SessionOut)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return a session."""
        return Response(SessionOut(self.owned(Session, session_id)).data)

    @operation("session_update", Scope.WRITE, request=SessionPatch, responses=SessionOut)
    def patch(self, request: Request, session_id: UUID) -> Response:
        """Change a session's title or metadata."""
        values = self.validated(SessionPatch)
        session = update_session(
            session=self.owned(Session, session_id), values=values, by=self.principal, now=self.now
        )
        return Response(SessionOut(session).data)

    @operation(
        "session_delete",
        Scope.CURATE,
        own=Scope.WRITE,
        parameters=[DryRunQuery],
        responses={200: DeletionOut, 202: DeletionOut},
    )
    def delete(self, request: Request, session_id: UUID) -> Response:
        """Delete a session with its messages and all that was drawn from them."""
        query = self.query(DryRunQuery)
        session = self.owned(Session, session_id)
        deletion = forget_session(session=session, by=self.principal, now=self.now, **query)
        return Response(DeletionOut(deletion).data, status=200 if deletion.job_id is None else 202)


class SessionForget(ApiView):
    @operation("session_forget", Scope.CURATE, own=Scope.WRITE, request=ForgetIn, responses=DeletionOut)
    def post(self, request: Request, session_id: UUID) -> Response:
        """Delete a range of a session's messages, with all that was drawn from them."""
        values = self.validated(ForgetIn)
        deletion = forget_messages(
            session=self.owned(Session, session_id),
            chosen=Q(seq__gte=values["from_seq"], seq__lte=values["to_seq"]),
            dry_run=values["dry_run"],
            by=self.principal,
            reason=values["reason"],
            now=self.now,
        )
        return Response(DeletionOut(deletion).data)


class SessionEnd(ApiView):
    @operation("session_end", Scope.WRITE, request=NoBody, responses=SessionOut)
    def post(self, request: Request, session_id: UUID) -> Response:
        """End a session; a later message reopens it."""
        session = self.owned(Session, session_id)
        return Response(SessionOut(end_session(session=session, by=self.principal, now=self.now)).data)


class SessionStatistics(ApiView):
    @operation("session_stats", Scope.READ, responses=StatsOut)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Return counts and times of a session."""
        return Response(StatsOut(session_stats(session=self.owned(Session, session_id))).data)


class Messages(ApiView):
    @operation("messages_list", Scope.READ, parameters=[PageQuery], responses=page_of(MessageOut))
    def get(self, request: Request, session_id: UUID) -> Response:
        """List a session's messages in the order of `seq`."""
        session = self.owned(Session, session_id)
        rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk)
        return self.page(rows, MessageOut, ordering=("seq",))

    @operation("messages_create", Scope.WRITE, request=ONE_OR_MANY, responses={201: MessagesOut, 200: MessagesOut})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Store one message, or `{"messages": [...]}`; repeats of a `client_message_id` return the first row.

        One that was deleted is left out.
        """
        session = self.owned(Session, session_id)
        is_batch = isinstance(request.data, dict) and "messages" in request.data
        values = self.validated(BatchIn)["messages"] if is_batch else [self.validated(MessageIn)]
        batch = [MessageIn.message(value) for value in values]
        if any(message.client_message_id for message in batch):
            batch = without_deleted(session.actor_id, session.public_id, batch, by_ids=True)
        added = add_messages(session=session, batch=batch, by=self.principal, now=self.now)
        body = {"results": self.shown(MessageOut, added.messages)}
        return Response(body, status=201 if added.new_count else 200)


class OneMessage(ApiView):
    @operation("message_delete", Scope.CURATE, own=Scope.WRITE, parameters=[DryRunQuery], responses={200: DeletionOut})
    def delete(self, request: Request, message_id: UUID) -> Response:
        """Delete a message with all that was drawn from it; the numbers of the others do not change."""
        query = self.query(DryRunQuery)
        message = self.owned(Message.objects.select_related("session"), message_id)
        deletion = forget_messages(
            session=message.session, chosen=Q(pk=message.pk), by=self.principal, now=self.now, **query
        )
        return Response(DeletionOut(deletion).data)


class Contexts(ApiView):
    problems = {PolicyError: wrong_options}
    idempotent_in_transaction = False
    renderer_classes = [JSONRenderer, PlainRenderer]

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Write a text as it is, whatever the client accepts, also where a recorded answer is repeated."""
        renderer = PlainRenderer if isinstance(getattr(response, "data", None), str) else JSONRenderer
        request.accepted_renderer, request.accepted_media_type = renderer(), renderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    @operation(
        "context_assemble",
        Scope.READ,
        request=ContextIn,
        responses={200: ContextOut, (200, PLAIN): OpenApiResponse(str, description="With `format` `text`.")},
    )
    def post(self, request: Request) -> Response:
        """Return what to send to the model, within the token limit, and the receipt that explains it."""
        values = self.validated(ContextIn)
        text, blocks = text_and_blocks(values["message"])
        tenant = self.reading(values)
        context = assemble_context(
            tenant=tenant,
            request=ContextRequest(
                message=text,
                attachments=references_in(blocks),
                author=values["author"],
                session=self._session(values["session_id"], tenant),
                project=values["project"],
                perspective=values["perspective"],
                format=values["format"],
                counts_exactly=values["exact_tokens"],
                options=values["options"],
            ),
            by=self.principal,
            now=self.now,
        )
        if context.receipt:  # a user's first context creates the actor
            self.actor_id = context.receipt.actor_id
        if values["format"] == "text":
            headers = {"Receipt-Id": str(context.receipt.pk)} if context.receipt else {}
            return Response(one_text(context.assembly.messages), headers=headers)
        body: dict[str, Any] = {
            "system": context.assembly.system,
            "messages": context.assembly.messages,
            "metadata": context.metadata,
            "routing": context.routing.as_json() if context.routing else None,
            "receipt_id": context.receipt.pk if context.receipt else None,
        }
        return Response(body)

    def _session(self, session_id: UUID | None, tenant: Tenant) -> Session | None:
        if session_id is None:
            return None
        session = self.owned(Session, session_id)
        if session.actor_id != tenant.actor_id:
            raise UnknownRow(f"No session {session_id} of this agent and user.")
        return session


class LatestReceipt(ApiView):
    @operation("receipt_latest", Scope.READ, parameters=[LatestReceiptQuery], responses=ReceiptOut)
    def get(self, request: Request) -> Response:
        """Return the newest receipt of an actor, or of one of its sessions."""
        values = self.query(LatestReceiptQuery)
        rows = Receipt.objects.filter(actor_id=self.reading(values).actor_id).exclude(metadata__has_key="is_trial")
        if "session_id" in values:
            rows = rows.filter(session=self.owned(Session, values["session_id"]))
        receipt = rows.order_by("-created_at", "-id").first()
        if receipt is None:
            raise UnknownRow("There is no receipt yet.")
        return Response(ReceiptOut(receipt).data)


class OneReceipt(ApiView):
    @operation("receipt_get", Scope.READ, responses=ReceiptOut)
    def get(self, request: Request, receipt_id: UUID) -> Response:
        """Return why a context was what it was: every candidate, and what became of it."""
        return Response(ReceiptOut(self.owned(Receipt, receipt_id)).data)

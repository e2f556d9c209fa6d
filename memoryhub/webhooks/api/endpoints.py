"""Webhooks over REST: endpoints, tests, deliveries."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import AgentIdField, ItemsField, NoBody, OneOf, StrictSerializer, StringField
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.webhooks.actions.endpoints import (
    check_may_manage,
    create_endpoint,
    delete_endpoint,
    enable_endpoint,
    endpoint_of,
    order_again,
    order_test,
    rotate_secret,
)
from memoryhub.webhooks.domain.addresses import MAX_URL_LENGTH
from memoryhub.webhooks.domain.events import EventKind
from memoryhub.webhooks.models import Delivery, Endpoint

KINDS = [(kind.value, kind.value) for kind in EventKind]


class WebhookIn(StrictSerializer):
    """An endpoint that gets events from now on."""

    url = StringField(max_length=MAX_URL_LENGTH, help_text="https, with a public address.")
    agent_id = AgentIdField(required=False, help_text="Left out: all agents, for a key of all agents.")
    kinds = ItemsField(
        child=OneOf(choices=KINDS), required=False, max_length=len(KINDS), help_text="Left out: all kinds."
    )
    with_texts = serializers.BooleanField(
        required=False, default=False, help_text="Whether events carry the text of the memory, summary or document."
    )


class WebhookOut(serializers.ModelSerializer):
    """An endpoint. A `disabled` one failed for a day, or answered 410; `enable` continues where it stopped."""

    agent_id = serializers.CharField(allow_null=True, help_text="null: all agents.")
    kinds = serializers.ListField(child=serializers.ChoiceField(choices=KINDS), help_text="Empty: all kinds.")

    class Meta:
        model = Endpoint
        fields = (
            "id", "agent_id", "url", "kinds", "with_texts", "state", "failures", "failing_since", "retry_at",
            "rotating_until", "created_at",
        )  # fmt: skip


class NewWebhookOut(WebhookOut):
    """An endpoint with its secret, which no other answer has."""

    secret = serializers.CharField()

    class Meta(WebhookOut.Meta):
        fields = (*WebhookOut.Meta.fields, "secret")  # type: ignore[assignment]


class DeliveryOut(serializers.ModelSerializer):
    """An attempt to deliver an event: the answer's status, or in `error` why there was none."""

    class Meta:
        model = Delivery
        fields = ("id", "kind", "status", "error", "duration_ms", "at")


class OrderedOut(serializers.Serializer):
    """The job that sends it; its answer will be in the deliveries."""

    job_id = serializers.UUIDField()


def _with_secret(endpoint: Endpoint, secret: str) -> dict[str, Any]:
    return {**WebhookOut(endpoint).data, "secret": secret}


class Webhooks(ApiView):
    @operation("webhooks_list", Scope.ADMIN, parameters=[PageQuery], responses=page_of(WebhookOut))
    def get(self, request: Request) -> Response:
        """List the endpoints of the key's agents; a key for all agents gets those of all."""
        check_may_manage(self.principal)
        rows = Endpoint.objects.visible_to(self.principal)
        return self.page(rows, WebhookOut, ordering=("-created_at", "-id"))

    @operation("webhooks_create", Scope.ADMIN, request=WebhookIn, responses={201: NewWebhookOut})
    def post(self, request: Request) -> Response:
        """Create an endpoint; the answer has its secret, once."""
        values = self.validated(WebhookIn)
        values = {"agent_id": None, **values}
        endpoint, secret = create_endpoint(**values, by=self.principal, now=self.now)
        return Response(_with_secret(endpoint, secret), status=201, headers={"Cache-Control": "no-store"})


class WebhookView(ApiView):
    """Base of the calls about one endpoint."""

    def endpoint(self, webhook_id: UUID) -> Endpoint:
        return endpoint_of(self.principal, webhook_id)


class OneWebhook(WebhookView):
    @operation("webhook_get", Scope.ADMIN, responses=WebhookOut)
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """Return an endpoint and its state."""
        return Response(WebhookOut(self.endpoint(webhook_id)).data)

    @operation("webhook_delete", Scope.ADMIN, responses={204: None})
    def delete(self, request: Request, webhook_id: UUID) -> Response:
        """Delete an endpoint with the record of its deliveries."""
        delete_endpoint(endpoint=self.endpoint(webhook_id), by=self.principal, now=self.now)
        return Response(status=204)


class WebhookTest(WebhookView):
    @operation("webhook_test", Scope.ADMIN, request=NoBody, responses={202: OrderedOut})
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Send an event of the kind `webhook.test`, in the background."""
        job_id = order_test(endpoint=self.endpoint(webhook_id), by=self.principal, now=self.now)
        return Response({"job_id": job_id}, status=202)


class WebhookRotate(WebhookView):
    @operation("webhook_rotate", Scope.ADMIN, request=NoBody, responses=NewWebhookOut)
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Return another secret, once; the former one signs as well for a day."""
        endpoint = self.endpoint(webhook_id)
        secret = rotate_secret(endpoint=endpoint, by=self.principal, now=self.now)
        endpoint.refresh_from_db()
        return Response(_with_secret(endpoint, secret), headers={"Cache-Control": "no-store"})


class WebhookEnable(WebhookView):
    @operation("webhook_enable", Scope.ADMIN, request=NoBody, responses=WebhookOut)
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Continue with a disabled or failing endpoint at once, where it stopped."""
        endpoint = enable_endpoint(endpoint=self.endpoint(webhook_id), by=self.principal, now=self.now)
        return Response(WebhookOut(endpoint).data)


class WebhookDeliveries(WebhookView):
    @operation("webhook_deliveries", Scope.ADMIN, parameters=[PageQuery], responses=page_of(DeliveryOut))
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """List the deliveries of the last 30 days, the newest first."""
        rows = Delivery.objects.filter(endpoint=self.endpoint(webhook_id))
        return self.page(rows, DeliveryOut, ordering=("-at", "-id"))


class WebhookRedeliver(WebhookView):
    @operation("webhook_redeliver", Scope.ADMIN, request=NoBody, responses={202: OrderedOut})
    def post(self, request: Request, webhook_id: UUID, delivery_id: UUID) -> Response:
        """Send the event of a delivery again, in the background, with the same `webhook-id`."""
        rows = Delivery.objects.select_related("endpoint").filter(endpoint=self.endpoint(webhook_id), pk=delivery_id)
        delivery = rows.first()
        if delivery is None:
            raise UnknownRow(f"No delivery {delivery_id}.")
        job_id = order_again(delivery=delivery, by=self.principal, now=self.now)
        return Response({"job_id": job_id}, status=202)

"""Addresses of webhooks."""

from django.urls import path

from memoryhub.webhooks.api import endpoints

urlpatterns = [
    path("webhooks", endpoints.Webhooks.as_view(), name="webhooks"),
    path("webhooks/<uuid:webhook_id>", endpoints.OneWebhook.as_view(), name="webhook"),
    path("webhooks/<uuid:webhook_id>/test", endpoints.WebhookTest.as_view(), name="webhook-test"),
    path("webhooks/<uuid:webhook_id>/rotate", endpoints.WebhookRotate.as_view(), name="webhook-rotate"),
    path("webhooks/<uuid:webhook_id>/enable", endpoints.WebhookEnable.as_view(), name="webhook-enable"),
    path("webhooks/<uuid:webhook_id>/deliveries", endpoints.WebhookDeliveries.as_view(), name="webhook-deliveries"),
    path(
        "webhooks/<uuid:webhook_id>/deliveries/<uuid:delivery_id>/redeliver",
        endpoints.WebhookRedeliver.as_view(),
        name="webhook-redeliver",
    ),
]

"""Webhooks: events of all apps, delivered to endpoints of others."""

from django.apps import AppConfig
from django.utils import timezone


class WebhooksConfig(AppConfig):
    name = "memoryhub.webhooks"

    def ready(self) -> None:
        from memoryhub.admin import waiting
        from memoryhub.importexport.native.fields import EXCLUDED_TABLES
        from memoryhub.jobs.registry import ROUNDS
        from memoryhub.webhooks.actions.delivery import enqueue_due
        from memoryhub.webhooks.admin import endpoints

        ROUNDS.append(lambda: enqueue_due(timezone.now()))
        EXCLUDED_TABLES["webhooks.Event"] = "Positions in this installation's feed; an import begins its own."
        waiting.WAITING.append(endpoints.WAITING_KIND)

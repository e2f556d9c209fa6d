"""The ground that all apps share, as a Django app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.module_loading import autodiscover_modules


class MemoryhubConfig(AppConfig):
    name = "memoryhub"
    verbose_name = "Memory hub"

    def ready(self) -> None:
        from django.contrib import admin

        from memoryhub import maintenance_jobs  # noqa: F401  registering its jobs
        from memoryhub.admin import dashboard, grants, imports, palette, sign_in, usage, users, waiting
        from memoryhub.admin.labels import label_models
        from memoryhub.auth.orders import caller_of
        from memoryhub.auth.roles import apply_roles
        from memoryhub.auth.row_security import protect
        from memoryhub.db.shared_cache import delete_expired
        from memoryhub.doctor import require_database
        from memoryhub.embeddings.jobs import backfill_pieces
        from memoryhub.jobs.backfill import SOURCES
        from memoryhub.jobs.registry import ORDER_CHECKS, ROUNDS
        from memoryhub.search.models import store_inline
        from memoryhub.telemetry.statements import trace_statements
        from memoryhub.tenancy import policies  # noqa: F401  registering the start-up checks
        from memoryhub.unfold import PAGES

        label_models()
        autodiscover_modules("jobs")  # registers the jobs of the apps
        SOURCES["embeddings"] = backfill_pieces
        ROUNDS.append(delete_expired)
        ORDER_CHECKS.append(caller_of)
        users.unregister_allauth()
        admin.site.has_permission = sign_in.has_permission  # type: ignore[method-assign]
        PAGES.extend([*users.PAGES, *sign_in.PAGES, *usage.PAGES, *palette.PAGES, *imports.PAGES, *grants.PAGES])
        dashboard.PANELS.extend([dashboard.core_panel, usage.usage_tiles, waiting.waiting_panel])
        trace_statements()
        pre_migrate.connect(require_database, sender=self, dispatch_uid="memoryhub.database")
        post_migrate.connect(apply_roles, dispatch_uid="memoryhub.roles")
        post_migrate.connect(protect, sender=self, dispatch_uid="memoryhub.row_security")
        post_migrate.connect(store_inline, dispatch_uid="memoryhub.storage")

"""Admin screens of webhooks."""

from webhooks.admin import endpoints  # noqa: F401

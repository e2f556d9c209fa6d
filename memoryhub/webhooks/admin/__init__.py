"""Admin screens of webhooks."""

from memoryhub.webhooks.admin import endpoints  # noqa: F401

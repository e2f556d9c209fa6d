"""Screens of conversations."""

from conversations.admin import sessions  # noqa: F401

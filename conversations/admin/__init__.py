"""Screens of conversations."""

from conversations.admin.sessions import ChatTurnAdmin, MessageAdmin, ReceiptAdmin, SessionAdmin, tiles

__all__ = ["ChatTurnAdmin", "MessageAdmin", "ReceiptAdmin", "SessionAdmin", "tiles"]

"""Screens of conversations."""

from conversations.admin.receipts import ChatTurnAdmin, ReceiptAdmin
from conversations.admin.sessions import MessageAdmin, SessionAdmin, tiles

__all__ = ["ChatTurnAdmin", "MessageAdmin", "ReceiptAdmin", "SessionAdmin", "tiles"]

"""Screens of conversations."""

from conversations.admin.figures import tiles
from conversations.admin.questions import ChatTurnAdmin
from conversations.admin.receipts import ReceiptAdmin
from conversations.admin.talks import MessageAdmin, SessionAdmin

__all__ = ["ChatTurnAdmin", "MessageAdmin", "ReceiptAdmin", "SessionAdmin", "tiles"]

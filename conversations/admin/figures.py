"""The figures of conversations on the admin's first page."""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from conversations.domain.chat import TurnState
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.admin.dashboard import RECENT, Section, Tile, count


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    day = Receipt.objects.filter(created_at__gte=now - timedelta(hours=24))
    broken_off = Q(state=TurnState.ANSWERING, until__lt=now)
    unanswered = ChatTurn.objects.filter(
        Q(state=TurnState.FAILED) | broken_off, created_at__gte=now - timedelta(hours=24)
    )
    sessions, messages = Session.objects.all(), Message.objects.all()
    return [
        Tile(
            _("Sessions"), count(sessions), _("conversations"), Session,
            recent=count(sessions.filter(started_at__gte=now - RECENT)),
        ),
        Tile(
            _("Messages"), count(messages), _("stored"), Message,
            recent=count(messages.filter(created_at__gte=now - RECENT)),
        ),
        Tile(
            _("Unanswered"), count(unanswered), _("questions the model failed in 24 hours"), ChatTurn,
            section=Section.BACKGROUND,
        ),
        Tile(_("Contexts"), count(day), _("assembled in the last 24 hours"), Receipt),
    ]  # fmt: skip

"""The figures of conversations on the admin's first page."""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from conversations.domain.chat import TurnState
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.admin.dashboard import Tile, count


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    day = Receipt.objects.filter(created_at__gte=now - timedelta(hours=24))
    broken_off = Q(state=TurnState.ANSWERING, until__lt=now)
    unanswered = ChatTurn.objects.filter(
        Q(state=TurnState.FAILED) | broken_off, created_at__gte=now - timedelta(hours=24)
    )
    return [
        Tile(_("Sessions"), count(Session.objects.all()), _("conversations"), Session),
        Tile(_("Messages"), count(Message.objects.all()), _("stored"), Message),
        Tile(_("Unanswered"), count(unanswered), _("questions the model failed in 24 hours"), ChatTurn),
        Tile(_("Contexts"), count(day), _("assembled in the last 24 hours"), Receipt),
    ]

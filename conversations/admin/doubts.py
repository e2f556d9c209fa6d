"""Labels of the reasons why no message supports what a model wrote."""

from typing import Any, Final

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.domain.statements.grounding import COPIED, DENIED, LANGUAGE, UNRELIABLE, UNSUPPORTED
from conversations.domain.statements.kinds import Speech

NOT_SAID: Final = _("No message says “{detail}”.")
DOUBT_LABELS: Final = {
    UNSUPPORTED: _("No message of the user contains this."),
    DENIED: _("The user's message denies it."),
    COPIED: _("It is not understood without the conversation."),
    LANGUAGE: _("It is not in the language of the messages."),
    UNRELIABLE: _("The model is often wrong: much of what it drew from this user's messages failed the checks."),
    Speech.QUESTION: _("The user asked about it, and did not state it."),
    Speech.HYPOTHESIS: _("The user supposed it, and did not state it."),
    Speech.JOKE: _("The user was joking."),
    Speech.FICTION: _("It is from a story or a game."),
    Speech.ROLE_PLAY: _("The user was playing a role."),
    Speech.QUOTATION: _("It is from a text that the user quoted."),
    Speech.OTHER_PERSON: _("It comes from another person, or is about one."),
    Speech.ASSISTANT: _("It comes from the assistant, and the user did not take it up."),
    Speech.TALK: _("It only reports the conversation."),
}


def doubt_label(reason: str, detail: str = "") -> Any:
    return DOUBT_LABELS.get(reason) or format_lazy(NOT_SAID, detail=detail)

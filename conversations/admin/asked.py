"""What a context was asked for, in words."""

from django.utils.translation import gettext

from conversations.actions.routed import AUTO, UNNAMED
from memoryhub.admin.base import excerpt


def project_in_words(project: str | None) -> str:
    """Return which project was asked for: none at all is something else than nobody naming one."""
    if project is None:
        return gettext("no project")
    if project == UNNAMED:
        return gettext("the agent’s current project, or the one that its policy finds")
    if project == AUTO:
        return gettext("found by the message")
    return excerpt(project, 60)

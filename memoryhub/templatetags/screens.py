"""Template filter that names a list as its screen is named everywhere else."""

from typing import Any

from django import template

from memoryhub.unfold import SCREENS, address_of

register = template.Library()


@register.filter
def screen_title(link: object) -> Any:
    """Return the title of the screen at a link; empty where no screen is there."""
    return next((title for name, (title, _icon) in SCREENS.items() if address_of(name) == str(link)), "")

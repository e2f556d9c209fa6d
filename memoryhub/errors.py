"""What an action has against what it was asked, in words that an edge can say in another language.

Programs get the English text; the admin looks the template up in its catalogue (`admin.object_actions.error_message`).
"""

from collections.abc import Callable
from typing import Any


class Told(str):
    """A text for people that still knows its template and the values in it."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, Any]

    def translated(self, translate: Callable[[str], str]) -> str:
        """Return the text with its template, and the words told in it, as `translate` has them."""
        values = {
            name: value.translated(translate) if isinstance(value, Told) else value
            for name, value in self.values.items()
        }
        return translate(self.template) % values if values else translate(self.template)


def told(template: str, **values: Any) -> Told:
    """Return a text made of a template with named places (`%(name)s`); without values it stands as it is."""
    made = Told(template % values if values else template)
    made.template, made.values = template, values
    return made


class DomainError(Exception):
    """The base of what actions raise when they will not do what they were asked; its text is for people."""


def words_of(error: Exception, translate: Callable[[str], str]) -> str:
    """Return what an exception says, translated where it was told from a template."""
    told_part = next((part for part in error.args if isinstance(part, Told)), str(error))
    return said(told_part, translate)


def said(text: str, translate: Callable[[str], str]) -> str:
    """Return a text, translated where it was told from a template."""
    return text.translated(translate) if isinstance(text, Told) else text

"""Domain errors with translatable messages.

Messages are lazy: the admin shows them in the reader's language, the API and jobs in English. Pure modules import the
translation functions from here (`gettext_noop` for texts that are stored in English), their only way to Django.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext_lazy

__all__ = ["DomainError", "Message", "_", "format_lazy", "gettext_noop", "ngettext_lazy", "stored_text"]

Message = str | Promise


def stored_text(template: str, **values: object) -> str:
    """Return a text that is stored in English; `memoryhub.admin.stored_texts` translates it where it is shown."""
    return template.format(**values)


class DomainError(Exception):
    """Base of the errors that actions raise; its text is for people.

    The API answers an error with a `code` by the status that `memoryhub.api.errors.STATUS` gives it, with `members` in
    the body, and one with a `field` alone as a validation error of that field (400). Forms show it with the field.
    """

    code: str = ""
    field: str = ""
    members: Mapping[str, Any] = MappingProxyType({})

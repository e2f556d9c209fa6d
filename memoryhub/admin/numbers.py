"""Numbers as people read long ones."""

from django.utils.formats import number_format


def grouped(number: int) -> str:
    """Return a whole number with its thousands apart, as the reader's language has it."""
    return str(number_format(number, use_l10n=True, force_grouping=True))

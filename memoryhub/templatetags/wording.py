"""Template filter for words whose form depends on the language."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from memoryhub.unfold import in_brackets

register = template.Library()


@register.filter
def brackets(text: object) -> SafeString:
    """Return a remark in brackets, as `in_brackets`; HTML stays HTML."""
    return format_html(in_brackets("{}"), text)

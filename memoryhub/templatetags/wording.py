"""Template filter for words whose form depends on the language."""

from django import template

from memoryhub.unfold import in_brackets

register = template.Library()
register.filter("brackets", in_brackets)

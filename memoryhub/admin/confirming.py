"""The page between a bulk action and its doing: how many will change, how many stay and why, and a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.contrib import admin
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from memoryhub.admin.base import MOST_AT_ONCE

CONFIRMED = "confirmed"
EXAMPLES = 5


@dataclass(frozen=True)
class Question:
    """What is asked: the title, what will happen in sentences, some of the rows, and the button's words."""

    title: Any
    sentences: Sequence[Any]
    examples: Sequence[Any]
    button: Any
    may_go_on: bool = True
    is_danger: bool = False
    needs_reason: bool = False


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the person has seen the question and said yes."""
    return CONFIRMED in request.POST


def chosen(queryset: QuerySet[Any]) -> list[Any]:
    """Return the chosen rows' keys, no more than are changed at once."""
    return list(queryset.values_list("pk", flat=True)[:MOST_AT_ONCE])


def asked(
    screen: Any,
    request: HttpRequest,
    question: Question,
    *,
    action: str,
    keys: Sequence[Any],
    problem: Any = None,
) -> HttpResponse:
    """Return the page that asks; it posts the keys that it speaks of, whatever else the filters find by then."""
    context = {
        **admin.site.each_context(request),
        "title": question.title,
        "opts": screen.opts,
        "question": question,
        "examples": list(islice(question.examples, EXAMPLES)),
        "left_out": max(0, len(question.examples) - EXAMPLES),
        "keys": keys,
        "problem": problem,
        "action": action,
        "action_checkbox_name": helpers.ACTION_CHECKBOX_NAME,
        "confirmed_name": CONFIRMED,
        "back": request.get_full_path(),
    }
    return TemplateResponse(request, "admin/memoryhub/includes/confirm.html", context)

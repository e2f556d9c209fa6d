"""The effect of a change on the latest contexts, as screens show it, and that of policies (SPEC X13)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.replays import Comparison
from conversations.actions.what_if import Effect, what_if_agent, what_if_user
from conversations.admin.context_breakdown import EXCERPT_LENGTH, LAYER_LABELS
from conversations.admin.playground import PERMISSIONS
from conversations.domain.differences import Item, Outcome
from memoryhub.admin.base import as_uuid, clock, excerpt, principal, render_page
from memoryhub.admin.object_actions import change_url, submitted_text
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import PolicyError
from memoryhub.unfold import Page

MAX_ENTRIES: Final = 10
"""Entries of each side that are listed for all contexts together."""

MAX_QUERY_LENGTH: Final = 200
PART: Final = "admin/conversations/what_if/part.html"


def may_see_contexts(request: HttpRequest) -> bool:
    """Return whether the person may see all that contexts hold."""
    user: Any = request.user
    return bool(user.has_perms(PERMISSIONS))


def effect_context(effect: Effect) -> dict[str, Any]:
    return {
        "effect_summary": _summary(effect),
        "brings_in": _entries(effect.brings_in),
        "pushes_out": _entries(effect.pushes_out),
        "compared": [_compared(effect, each) for each in effect.changed],
    }


def effect_page(request: HttpRequest, *, title: Any, back: str = "", **context: Any) -> HttpResponse:
    """Return an effect as a fragment of the page with the form, or as a page where there is no script."""
    if request.headers.get("HX-Request") == "true":
        return TemplateResponse(request, PART, context)
    return render_page(request, "admin/conversations/what_if/page.html", title=title, back=back, **context)


def _summary(effect: Effect) -> list[str]:
    total, changed = len(effect.comparisons), len(effect.changed)
    if not total:
        return [gettext("No context has been assembled yet that this could change.")]
    if not changed:
        text = ngettext(
            "The latest context would not change.", "None of the latest %(count)d contexts would change.", total
        )
        return [text % {"count": total}]
    sentences = [gettext("%(changed)d of the latest %(count)d contexts would change.")]
    if effect.memory_id is not None:
        sentences.append(
            gettext("Assembled again now, %(before)d of them have the memory; after the change, %(after)d.")
        )
    figures = {"changed": changed, "count": total, "before": effect.held_before, "after": effect.held_after}
    return [sentence % figures for sentence in sentences]


def _entries(entries: Iterable[tuple[Item, int]]) -> Mapping[str, Any]:
    listed, rows = list(entries), []
    for item, count in listed[:MAX_ENTRIES]:
        contexts = ngettext("in %(count)d context", "in %(count)d contexts", count) % {"count": count}
        rows.append({**_entry(item), "contexts": contexts})
    return {"rows": rows, "left_out": max(0, len(listed) - MAX_ENTRIES)}


def _entry(item: Item) -> dict[str, Any]:
    label = LAYER_LABELS.get(item["layer"], item["layer"])
    return {"label": label, "text": item["excerpt"][:EXCERPT_LENGTH], "tokens": item["tokens"]}


def _compared(effect: Effect, each: Comparison) -> dict[str, Any]:
    return {
        "receipt": each.receipt,
        "query": excerpt(each.receipt.query, MAX_QUERY_LENGTH),
        "verdict": _verdict(effect, each),
        "before": _side(each.before, each.difference.went),
        "after": _side(each.after, each.difference.came),
    }


def _verdict(effect: Effect, each: Comparison) -> str:
    if effect.memory_id is None:
        return ""
    held, would_hold = effect.holds_memory(each.before), effect.holds_memory(each.after)
    if held != would_hold:
        return gettext("enters") if would_hold else gettext("leaves")
    return gettext("stays, changed") if held else gettext("others change")


def _side(outcome: Outcome | None, only: Sequence[Item]) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"total": outcome.total_tokens, "limit": outcome.token_limit, "only": [_entry(item) for item in only]}


def what_if_policies(request: HttpRequest) -> HttpResponse:
    """Show what a submitted form of an agent or a user would do to the latest contexts, without saving it."""
    title = _("What would change")
    row = _requested_row(request)
    if row is None:
        hint = gettext("Open an agent or a user, change its policies, and try them there.")
        return effect_page(request, title=title, effect_heading=title, effect_summary=[hint])
    screen: Any = admin.site.get_model_admin(type(row))
    if not screen.has_change_permission(request, row):
        raise PermissionDenied
    context: dict[str, Any] = {"effect_heading": title}
    try:
        context |= effect_context(_effect(request, screen, row))
    except (DomainError, PolicyError) as error:
        context["problem"] = str(error)
    return effect_page(request, title=title, back=change_url(row), **context)


def _requested_row(request: HttpRequest) -> Agent | Actor | None:
    if request.method != "POST":
        return None
    if key := as_uuid(submitted_text(request, "actor")):
        return Actor.objects.select_related("agent").filter(pk=key).first()
    return Agent.objects.filter(pk=submitted_text(request, "agent")).first()


class _WrongForm(DomainError):
    """The submitted values cannot be saved."""


def _effect(request: HttpRequest, screen: Any, row: Any) -> Effect:
    form = screen.get_form(request, row, change=True)(request.POST, request.FILES, instance=row)
    if not form.is_valid():
        raise _WrongForm(" ".join(str(text) for texts in form.errors.values() for text in texts))
    version = form.cleaned_data["expected_version"]
    by, now = principal(request), clock()
    if isinstance(row, Actor):
        stored = Actor.objects.select_related("agent").get(pk=row.pk)
        policy = form.cleaned_data["policy"]
        return what_if_user(actor=stored, policy=policy, expected_version=version, by=by, now=now)
    return what_if_agent(agent_id=row.pk, values=form.values(), expected_version=version, by=by, now=now)


PAGES = [Page("what-if/", "what_if", what_if_policies, PERMISSIONS)]

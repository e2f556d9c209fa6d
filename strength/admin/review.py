"""Review queue: pending memories and merge proposals, decided one by one with keys or buttons (SPEC W2)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.what_if import Effect
from conversations.admin.what_if import effect_context, may_see_contexts
from memoryhub.admin.base import clock, format_count, principal, render_page
from memoryhub.admin.dashboard import Count
from memoryhub.admin.fields import with_plain_line_ends
from memoryhub.admin.object_actions import Change, report_skipped, submitted_change, submitted_number, submitted_text
from memoryhub.admin.waiting import waiting_elsewhere
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.agent_limits import WITHOUT_COUNTS
from memoryhub.errors import DomainError
from memoryhub.unfold import Page, in_brackets
from strength.actions.curation import apply_transition
from strength.actions.merges import dismiss_merge, merge, reopen_merge, undo
from strength.actions.review import (
    MAX_COUNTED,
    QueueFilter,
    count_pending,
    hold_item,
    holds_of_others,
    next_item,
    open_merges,
    release_items,
    review_instructions,
    still_pending,
    write_review_instructions,
)
from strength.actions.review_team import reviewers
from strength.actions.revisions import undo_revision
from strength.actions.what_if import what_if, what_if_merged
from strength.admin.bulk import log_memories
from strength.admin.memory_detail import memory_links
from strength.admin.review_item import item_context
from strength.admin.review_params import ReviewParams, queue_filters
from strength.admin.review_team import TEAM_LABELS, TEAM_VERBS, assigned_text, put_off_list, put_off_until, undo_team
from strength.admin.what_if import heading
from strength.domain.memories import FIRST_APPROVAL_VERB, MAX_CONTENT_LENGTH, MemoryRefused, Status, WrongState
from strength.domain.review import Decision, Item, Round, Sort, load_round, parse_item
from strength.models import Memory, MemoryRevision, Merge

ROUND_KEY: Final = "review"
START: Final = "start"
"""Parameter of an address that begins a round."""
TRIED: Final = "try-"
"""Prefix of a decision whose effect on contexts is shown, without deciding."""

REVISION: Final = "revision"
BATCH: Final = "batch"
"""Keys of a decision's undo data: the memory's version after it, or the batch of many."""

VERB: Final = "verb"
"""Key of what a decision has come to, where it differs from its button."""

PERMISSIONS: Final = ("strength.change_memory", "strength.change_merge")
INSTRUCTIONS_PERMISSION: Final = "strength.change_reviewinstructions"
MAX_TRIES: Final = 5
"""Items reserved by others at the same moment before the queue counts as taken."""
MAX_BADGE_COUNT: Final = 99

DECIDED_LABELS: Final[Mapping[str, Any]] = {
    "approve": _("Approved"),
    FIRST_APPROVAL_VERB: _("Approved; it waits for another person"),
    "reject": _("Rejected"),
    "merge": _("Merged"),
    "dismiss": _("Kept apart"),
    **TEAM_LABELS,
}

TALLY_LABELS: Final[Mapping[str, Any]] = {
    "approve": _("approved"),
    FIRST_APPROVAL_VERB: _("approved, for another person to approve too"),
    "reject": _("rejected"),
    "merge": _("merged"),
    "dismiss": _("kept apart"),
}


class AlreadyDecided(DomainError):
    """The item was already decided by another reviewer."""


class ItemChanged(DomainError):
    """The item was changed since it was read; it is shown again."""


def review_view(request: HttpRequest) -> HttpResponse:
    """Show the next item, or carry out a decision and go on to the next item."""
    params = ReviewParams.of(request)
    if request.method != "POST":
        return _start(request, params) if START in request.GET else _page(request, params)
    if submitted_text(request, "verb") == "instruct":
        return _save_instructions(request, params)
    verb, item = submitted_text(request, "verb"), parse_item(submitted_text(request, "item"))
    if verb == "undo":
        return _undo(request, params)
    if item is None:
        messages.error(request, gettext("There is no such item in the queue."))
        return _show_item(request, params)
    if verb.startswith(TRIED):
        return _try_decision(request, params, verb.removeprefix(TRIED), item)
    if verb not in ("skip", "previous"):
        return _decide(request, params, verb, item)
    round_ = load_review_round(request, params)
    if verb == "skip":
        save_review_round(request, round_.skip(item))
        return _show_item(request, params)
    previous = round_.before(item)
    if previous is None:
        messages.info(request, gettext("Nothing was skipped before this one."))
        return _show_item(request, params, item)
    save_review_round(request, round_.unskip(previous))
    return _show_item(request, params, previous)


def _start(request: HttpRequest, params: ReviewParams) -> HttpResponse:
    """Begin a round, so that its count is the one of the button that leads here."""
    save_review_round(request, load_review_round(request, params).restart())
    return HttpResponseRedirect(params.address())


def _show_item(request: HttpRequest, params: ReviewParams, at: Item | None = None) -> HttpResponse:
    """Respond with an item or the next: as a fragment to a fetch, otherwise by a redirect."""
    return _page(request, replace(params, at=at)) if _is_fetch(request) else HttpResponseRedirect(params.address(at))


def _is_fetch(request: HttpRequest) -> bool:
    return request.headers.get("X-Requested-With") == "fetch"


def _save_instructions(request: HttpRequest, params: ReviewParams) -> HttpResponse:
    if not request.user.has_perm(INSTRUCTIONS_PERMISSION):
        raise PermissionDenied
    text = with_plain_line_ends(submitted_text(request, "instructions"))
    write_review_instructions(text=text, by=principal(request), now=clock())
    messages.success(request, gettext("The instructions were saved."))
    return _show_item(request, params, params.at)


# The round is stored in the user's session.


def load_review_round(request: HttpRequest, params: ReviewParams) -> Round:
    return load_round(request.session.get(ROUND_KEY)).with_filters(params.filter_query)


def save_review_round(request: HttpRequest, round_: Round) -> None:
    request.session[ROUND_KEY] = round_.as_json()


# Decisions


def _decide(request: HttpRequest, params: ReviewParams, verb: str, item: Item) -> HttpResponse:
    decision = DECISIONS.get((item.is_merge, verb)) or TEAM_VERBS.get(verb)
    try:
        if decision is None:
            raise WrongState(_("Unknown action. Reload the page and try again."))
        undo_data = decision(request, item)
    except AlreadyDecided as error:
        messages.warning(request, str(error))
        return _show_item(request, params)
    except ItemChanged as error:
        messages.warning(request, str(error))
        if text := _typed_text(request):
            return _page(request, ReviewParams(params.queue_filter, item), text=text)
        return _show_item(request, params, item)
    except DomainError as error:
        messages.error(request, str(error))
        # Keep the typed text.
        return _page(request, ReviewParams(params.queue_filter, item), text=_typed_text(request))
    if undo_data is not None:
        verb = undo_data.pop(VERB, verb)
        save_review_round(request, load_review_round(request, params).decide(item, verb, undo_data))
    _log(request, item, verb)
    # What was planned or commented on stays in view while it is in the filtered queue.
    stays = verb in TEAM_VERBS and still_pending([item], params.queue_filter, now=clock())
    return _show_item(request, params, item if stays else None)


def _decide_memory(request: HttpRequest, item: Item, *, verb: str) -> dict[str, Any]:
    memory = Memory.objects.select_related("actor__agent").filter(pk=item.key).first()
    if memory is None or memory.status != Status.PENDING:
        raise _already_decided(memory)
    version = submitted_number(request, "version")
    if version is None:
        raise ItemChanged(_("The request has no version of the text, so nothing was decided. Reload the page."))
    try:
        decided = apply_transition(
            memory=memory,
            verb=verb,
            expected_version=version,
            values=_corrected_values(request, memory) if verb == "approve" else {},
            **submitted_change(request),
        )
    except VersionMismatch as error:
        current = Memory.objects.filter(pk=item.key, actor_id=memory.actor_id).first()
        if current is None or current.status != Status.PENDING:
            raise _already_decided(current) from error
        problem = _("It was changed since you read it, so nothing was decided. This is the current version.")
        raise ItemChanged(problem) from error
    is_first = verb == "approve" and decided.status == Status.PENDING
    return {REVISION: decided.version, **({VERB: FIRST_APPROVAL_VERB} if is_first else {})}


def _corrected_values(request: HttpRequest, memory: Memory) -> dict[str, Any]:
    """Return the corrected text as values; empty if only line ends differ, which browsers change."""
    text = _typed_text(request)
    if text is None or with_plain_line_ends(text) == with_plain_line_ends(memory.content):
        return {}
    if not text.strip():
        raise MemoryRefused("content", _("This must contain more than white space."))
    if len(text) > MAX_CONTENT_LENGTH:
        problem = format_lazy(_("A memory has at most {longest} characters."), longest=MAX_CONTENT_LENGTH)
        raise MemoryRefused("content", problem)
    return {"content": with_plain_line_ends(text)}


def _typed_text(request: HttpRequest) -> str | None:
    text = request.POST.get("content")
    return None if text is None else text.replace("\x00", "")


def _decide_merge(request: HttpRequest, item: Item) -> dict[str, Any]:
    return _decide_proposal(request, item, partial(merge, keep_id=_kept_id(request)))


def _kept_id(request: HttpRequest) -> UUID | None:
    keep = parse_item(f"{Sort.MEMORY}:{submitted_text(request, 'stays')}")
    return keep.key if keep else None


def _decide_proposal(request: HttpRequest, item: Item, action: Callable[..., Merge]) -> dict[str, Any]:
    open_proposals = open_merges(clock()).filter(pk=item.key)
    proposal = open_proposals.first()
    if proposal is None:
        raise _already_decided(None)
    try:
        action(proposal=proposal, **submitted_change(request))
    except WrongState as error:
        if not open_proposals.exists():
            raise _already_decided(None) from error
        raise
    return {}


DECISIONS: Final[Mapping[tuple[bool, str], Callable[[HttpRequest, Item], dict[str, Any] | None]]] = {
    (False, "approve"): partial(_decide_memory, verb="approve"),
    (False, "reject"): partial(_decide_memory, verb="reject"),
    (True, "merge"): _decide_merge,
    (True, "dismiss"): partial(_decide_proposal, action=dismiss_merge),
}


def _already_decided(memory: Memory | None) -> AlreadyDecided:
    if memory is None:
        return AlreadyDecided(
            _("It is no longer pending: it was decided by someone else, or changed. Here is the next.")
        )
    problem = format_lazy(
        _("Another person has decided: it is now {status}. Here is the next."), status=_(memory.status)
    )
    return AlreadyDecided(problem)


def _undo(request: HttpRequest, params: ReviewParams) -> HttpResponse:
    round_ = load_review_round(request, params)
    last = round_.last
    if last is None or last.number != submitted_number(request, "number"):
        messages.info(request, gettext("There is nothing to undo, or it was undone already."))
        return _show_item(request, params)
    save_review_round(request, round_.undo_last())
    change = submitted_change(request)
    if last.verb in TEAM_LABELS:
        return _undo_team(request, params, last)
    if BATCH in last.undo_data:
        return _undo_alike(request, params, last, change)
    model: Any = Merge if last.item.is_merge else Memory
    row = model.objects.select_related("actor__agent").filter(pk=last.item.key).first()
    try:
        if row is not None and last.item.is_merge:
            reopen_merge(proposal=row, **change)
        else:
            revision = MemoryRevision.objects.filter(
                memory=row, actor_id=row and row.actor_id, number=last.undo_data.get(REVISION, 0)
            ).first()
            if revision is None:
                raise AlreadyDecided(_("It no longer exists."))
            undo_revision(revision=revision, **change)
    except DomainError as error:
        messages.error(request, str(error))
        return _show_item(request, params)
    _log(request, last.item, "undo")
    messages.success(request, gettext("Undone: it is pending again."))
    return _show_item(request, params, last.item)


def _undo_team(request: HttpRequest, params: ReviewParams, last: Decision) -> HttpResponse:
    try:
        undo_team(request, last)
    except DomainError as error:
        messages.error(request, str(error))
    else:
        _log(request, last.item, "undo")
        messages.success(request, gettext("Undone."))
    return _show_item(request, params, last.item)


def _undo_alike(request: HttpRequest, params: ReviewParams, last: Decision, change: Change) -> HttpResponse:
    """Undo a decision about many memories; those that were changed since are reported."""
    result = undo(batch=UUID(last.undo_data[BATCH]), **change)
    screen: Any = admin.site.get_model_admin(Memory)
    report_skipped(screen, request, {str(error): len(rows) for error, rows in result.skipped})
    count = len(result.changed)
    log_memories(request, [revision.memory for revision in result.changed], "undo")
    text = ngettext(
        "Undone: %(count)d memory is pending again.", "Undone: %(count)d memories are pending again.", count
    )
    messages.success(request, text % {"count": count})
    return _show_item(request, params, last.item)


def _log(request: HttpRequest, item: Item, verb: str) -> None:
    model: Any = Merge if item.is_merge else Memory
    row = model.objects.filter(pk=item.key).only("pk").first()
    if row is not None:
        model_admin: Any = admin.site.get_model_admin(model)
        model_admin.log_change(request, model(pk=item.key), verb)


def _try_decision(request: HttpRequest, params: ReviewParams, verb: str, item: Item) -> HttpResponse:
    """Show the item with what a decision would do to the latest contexts, and with the typed text."""
    if not may_see_contexts(request):
        raise PermissionDenied
    try:
        effect = {**effect_context(_effect(request, verb, item)), "effect_heading": heading(verb)}
    except DomainError as error:
        effect = {"problem": str(error)}
    typed, stored = _typed_text(request), Memory.objects.filter(pk=item.key).values_list("content", flat=True).first()
    is_edited = typed is not None and with_plain_line_ends(typed) != with_plain_line_ends(stored or "")
    at = ReviewParams(params.queue_filter, item)
    return _page(request, at, text=typed if is_edited else None, beside={"effect": effect})


def _effect(request: HttpRequest, verb: str, item: Item) -> Effect:
    by, now, version = principal(request), clock(), submitted_number(request, "version")
    if (item.is_merge, verb) not in DECISIONS or verb == "dismiss":
        raise WrongState(_("Unknown action. Reload the page and try again."))
    if item.is_merge:
        proposal = open_merges(now).select_related("kept__actor", "absorbed__actor").filter(pk=item.key).first()
        if proposal is None:
            raise _already_decided(None)
        return what_if_merged(proposal=proposal, keep_id=_kept_id(request), by=by, now=now)
    memory = Memory.objects.select_related("actor__agent").filter(pk=item.key).first()
    if memory is None or memory.status != Status.PENDING:
        raise _already_decided(memory)
    values = _corrected_values(request, memory) if verb == "approve" else {}
    return what_if(memory=memory, verb=verb, values=values, expected_version=version, by=by, now=now)


# The page


def _page(
    request: HttpRequest, params: ReviewParams, *, text: str | None = None, beside: Mapping[str, Any] | None = None
) -> HttpResponse:
    round_, now, queue_filter = load_review_round(request, params), clock(), params.queue_filter
    people = reviewers()
    skipped = still_pending(round_.skipped, queue_filter, now=now)
    requested = still_pending([params.at], QueueFilter(is_snoozed=None), now=now) if params.at else []
    item, held_by_others = _reserve_item(request, requested, skipped, queue_filter, now)
    # The typed text is kept for the requested item only.
    item_values = item_context(request, item, text if requested else None) if item else {}
    if item_values is None:
        messages.warning(request, str(_already_decided(None)))
        return _show_item(request, params)
    pending_count = count_pending(queue_filter, now=now)
    is_outside_filter = bool(requested and params.filter_query) and not still_pending(requested, queue_filter, now=now)
    place = None if is_outside_filter else _place(round_, item, skipped, pending_count)
    in_queue = QueueFilter(person_id=request.user.pk)
    total_count = count_pending(in_queue, now=now) if params.filter_query else pending_count
    context = {
        "item": item, "item_kind": "merge" if item and item.is_merge else "memory",
        "is_gone": bool(params.at) and not requested, "was_skipped": item in skipped,
        "may_go_back": round_.before(item) is not None, "place": place,
        "total": round_.count + min(pending_count, MAX_COUNTED), "is_more": pending_count > MAX_COUNTED,
        "done": _latest_decision(request, round_), "count": round_.count, "filters": queue_filters(params, people),
        "people": people if len(people) > 1 else [],
        "tally": [(words, round_.tally[verb]) for verb, words in TALLY_LABELS.items() if round_.tally.get(verb)],
        "form_url": params.address(), "full_queue_url": reverse("review"), "instructions": review_instructions(),
        "may_instruct": request.user.has_perm(INSTRUCTIONS_PERMISSION), "open": total_count,
        "outside_filter": total_count if queue_filter.is_snoozed else max(0, total_count - pending_count),
        **_put_off(params, now),
        "holder": held_by_others.get(item.key) if item else None,
        "colleagues": sorted(set(held_by_others.values())) if item is None else [],
        "elsewhere": waiting_elsewhere(request, "review", now) if item is None else [],
        "held": [params.address(other) for other in _one_held_item(held_by_others, queue_filter, now)]
        if item is None else [],
        "may_see_contexts": may_see_contexts(request), **(beside or {}),
        "alike_url": params.alike_address(item) if item and not item.is_merge else "", "is_part": _is_fetch(request),
    }  # fmt: skip
    if _is_fetch(request):
        return TemplateResponse(request, "admin/strength/review/part.html", {**context, **item_values})
    return render_page(request, "admin/strength/review/page.html", title=_("Review"), **context, **item_values)


def _put_off(params: ReviewParams, now: datetime) -> dict[str, Any]:
    """Return the number of items that are put off, and their list where it is asked for."""
    return {
        "snoozed_count": count_pending(QueueFilter(is_snoozed=True), now=now),
        "put_off": put_off_list(params) if params.queue_filter.is_snoozed else [],
    }


def _place(round_: Round, item: Item | None, skipped: list[Item], pending_count: int) -> int | None:
    """Return the number of an item in the round, from 1; None if it is not known. Skipped items are shown last."""
    if item is None or item not in skipped:
        return round_.count + 1
    if pending_count > MAX_COUNTED:
        return None
    return round_.count + pending_count - len(skipped) + skipped.index(item) + 1


def _reserve_item(
    request: HttpRequest, requested: list[Item], skipped: list[Item], queue_filter: QueueFilter, now: datetime
) -> tuple[Item | None, dict[UUID, str]]:
    """Return the item to show, reserved for the user, and the items that others hold.

    A requested item is shown even if another user holds it; decisions check the version that was read.
    """
    user: Any = request.user
    held_by_others = holds_of_others(person_id=user.pk, now=now)
    excluded_ids = [*(item.key for item in skipped), *held_by_others]
    for _try in range(0 if requested else MAX_TRIES):
        candidate = next_item(queue_filter, now=now, excluded_ids=excluded_ids)
        if candidate is None:
            break
        if hold_item(key=candidate.key, person_id=user.pk, now=now):
            return candidate, held_by_others
        excluded_ids.append(candidate.key)
    for item in [*requested, *(item for item in skipped if item.key not in held_by_others)]:
        hold_item(key=item.key, person_id=user.pk, now=now)
        return item, held_by_others
    release_items(person_id=user.pk)
    return None, held_by_others


def _one_held_item(held_by_others: Mapping[UUID, str], queue_filter: QueueFilter, now: datetime) -> list[Item]:
    candidates = [Item(sort, key) for key in held_by_others for sort in (Sort.MEMORY, Sort.MERGE)]
    return still_pending(candidates, queue_filter, now=now)[:1] if candidates else []


def _latest_decision(request: HttpRequest, round_: Round) -> dict[str, Any] | None:
    last = round_.last
    if last is None:
        return None
    key: UUID = last.item.key
    of_merge = Merge.objects.filter(pk=key).values_list("kept_id", flat=True)
    of_memory = Memory.objects.filter(pk=key).values_list("pk", flat=True)
    memory_id = (of_merge if last.item.is_merge else of_memory).first()
    memory = memory_links(request, [memory_id])[str(memory_id)] if memory_id else ""
    words = DECIDED_LABELS[last.verb] + (in_brackets(format_count(last.count)) if last.count > 1 else "")
    if last.verb == "snooze" and (until := put_off_until(last.item)):
        words = gettext("Put off until %(snoozed_until)s") % {"snoozed_until": until}
    if last.verb == "assign":
        words = assigned_text(last.item)
    return {"words": words, "memory": memory, "number": last.number}


def count_for(person: Any, now: datetime) -> Count:
    """Return the number of items in the queue of a person, as the review counts them."""
    count = count_pending(QueueFilter(person_id=person.pk), now=now)
    return Count(min(count, MAX_COUNTED), is_estimate=count > MAX_COUNTED)


def review_badge(request: HttpRequest) -> str:
    user: Any = request.user
    if WITHOUT_COUNTS in vars(request) or not user.has_perms(PERMISSIONS):
        return "0"
    count = count_pending(QueueFilter(person_id=user.pk), now=clock(), limit=MAX_BADGE_COUNT)
    return f"{MAX_BADGE_COUNT}+" if count > MAX_BADGE_COUNT else str(count)


PAGES = [Page("review/", "review", review_view, PERMISSIONS)]

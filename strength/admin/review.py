"""Review queue: pending memories and merge proposals, decided one by one with keys or buttons (SPEC W2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import Page, clock, excerpt, principal, render_page
from memoryhub.admin.fields import with_plain_line_ends
from memoryhub.admin.object_actions import submitted_number, submitted_reason, submitted_text
from memoryhub.auth.actions import VersionMismatch
from memoryhub.errors import DomainError
from memoryhub.tenancy.domain import Trust, TrustPolicy
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policies import effective_policy
from strength.actions.curation import apply_transition, approve_memory
from strength.actions.merges import dismiss_merge, merge, reopen_merge
from strength.actions.review import (
    MOST_COUNTED,
    QueueFilter,
    count_pending,
    near_memories,
    next_item,
    open_merges,
    pending_memories,
    still_pending,
)
from strength.actions.revisions import undo_revision
from strength.actions.tombstones import find_tombstone
from strength.admin.memories import LONGEST_CONTENT
from strength.admin.memory_detail import memory_links, source_messages
from strength.admin.merges import LONGEST_SHOWN, merge_of, other_merges, pair_of
from strength.domain.memories import MemoryRefused, Status, WrongState
from strength.domain.review import (
    Decision,
    Item,
    Order,
    PendingMemory,
    PendingReason,
    Round,
    Sort,
    item_of,
    pending_reasons,
    round_of,
)
from strength.models import Memory, MemoryRevision, MemorySource, Merge

ROUND: Final = "review"
REVISION: Final = "revision"
NEEDS: Final = ("strength.change_memory", "strength.change_merge")
MOST_AGENTS: Final = 200
MOST_ON_THE_BADGE: Final = 99

SORTS: Final[Mapping[Sort, Any]] = {
    Sort.MEMORY: _("Memories that wait"),
    Sort.CORRECTION: _("Memories that would replace others"),
    Sort.MERGE: _("Pairs to merge"),
}
ORDERS: Final[Mapping[Order, Any]] = {
    Order.OLDEST: _("Oldest first"),
    Order.WEIGHTIEST: _("Most important first"),
}
DONE: Final[Mapping[str, Any]] = {
    "approve": _("Approved"),
    "reject": _("Rejected"),
    "merge": _("Merged"),
    "dismiss": _("Kept apart"),
}

MOST_SOURCES: Final = 5
MOST_ENDED: Final = 10

WHYS: Final[Mapping[PendingReason, Any]] = {
    PendingReason.UNTRUSTED_SOURCE: _("It comes from a channel or a message that is not trusted."),
    PendingReason.UNTRUSTED_WRITER: _("It was written through a key, or in a channel, that is not trusted."),
    PendingReason.DECIDED_AGAINST: _("A person has deleted, rejected or edited a memory with this content."),
    PendingReason.CONTRADICTS: _("It contradicts an active memory."),
    PendingReason.UNSURE: _("The extraction from the conversation was not confident enough."),
    PendingReason.ASKED: _("It was stored as pending on request."),
}


@dataclass(frozen=True)
class ReviewRequest:
    """Filters and item that the address names."""

    narrowed: QueueFilter
    at: Item | None

    @property
    def about(self) -> str:
        """Return the filters as a query string; a round belongs to one set of filters."""
        narrowed = self.narrowed
        values = {
            "agent": narrowed.agent_id,
            "user": narrowed.user_id,
            "sort": narrowed.sort or "",
            "order": narrowed.order,
        }
        return urlencode({key: value for key, value in values.items() if value and value != Order.OLDEST})

    def address(self, at: Item | None = None) -> str:
        query = "&".join(part for part in (self.about, urlencode({"at": str(at)}) if at else "") if part)
        return reverse("review") + (f"?{query}" if query else "")


class AlreadyDecided(DomainError):
    """The item was already decided by another reviewer."""


class Changed(DomainError):
    """The item was changed since it was read; it is shown again."""


def review_view(request: HttpRequest) -> HttpResponse:
    """Show the next item, or carry out a decision and go on to the next item."""
    asked = _review_request(request)
    if request.method != "POST":
        return _page(request, asked)
    verb, item = submitted_text(request, "verb"), item_of(submitted_text(request, "item"))
    if verb == "undo":
        return _undo(request, asked)
    if item is None:
        messages.error(request, gettext("There is no such item in the queue."))
        return HttpResponseRedirect(asked.address())
    if verb in ("skip", "previous"):
        return _move(request, asked, verb, item)
    return _decide(request, asked, verb, item)


def _review_request(request: HttpRequest) -> ReviewRequest:
    sort, order = request.GET.get("sort", ""), request.GET.get("order", "")
    narrowed = QueueFilter(
        agent_id=_from_address(request, "agent"),
        user_id=_from_address(request, "user"),
        sort=Sort(sort) if sort in list(Sort) else None,
        order=Order(order) if order in list(Order) else Order.OLDEST,
    )
    return ReviewRequest(narrowed, item_of(request.GET.get("at", "")))


def _from_address(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").replace("\x00", "").strip()[:255]


# The round: in the person's session, so that nothing of it is anybody else's.


def _round(request: HttpRequest, asked: ReviewRequest) -> Round:
    return round_of(request.session.get(ROUND)).narrowed(asked.about)


def _store(request: HttpRequest, round_: Round) -> None:
    request.session[ROUND] = round_.as_json()


def _move(request: HttpRequest, asked: ReviewRequest, verb: str, item: Item) -> HttpResponse:
    round_ = _round(request, asked)
    if verb == "skip":
        _store(request, round_.skip(item))
        return HttpResponseRedirect(asked.address())
    before = round_.before(item)
    if before is None:
        messages.info(request, gettext("Nothing was skipped before this one."))
        return HttpResponseRedirect(asked.address(item))
    _store(request, round_.unskip(before))
    return HttpResponseRedirect(asked.address(before))


# Decisions


def _decide(request: HttpRequest, asked: ReviewRequest, verb: str, item: Item) -> HttpResponse:
    act = ACTS.get((item.is_merge, verb))
    try:
        if act is None:
            raise WrongState(_("There is no such button."))
        way_back = act(request, item)
    except AlreadyDecided as error:
        messages.warning(request, str(error))
        return HttpResponseRedirect(asked.address())
    except Changed as error:
        messages.warning(request, str(error))
        return HttpResponseRedirect(asked.address(item))
    except DomainError as error:
        messages.error(request, str(error))
        # What was typed is not lost.
        return _page(request, ReviewRequest(asked.narrowed, item), text=_typed_text(request))
    _store(request, _round(request, asked).decide(item, verb, way_back))
    _log(request, item, verb)
    return HttpResponseRedirect(asked.address())


def _judge(request: HttpRequest, item: Item, *, verb: str) -> dict[str, Any]:
    memory = Memory.objects.select_related("actor__agent").filter(pk=item.key).first()
    if memory is None or memory.status != Status.PENDING:
        raise _already_decided(memory)
    version = submitted_number(request, "version")
    if version is None:
        raise Changed(_("The page did not say which text was read. Nothing was decided."))
    text = _typed_text(request)
    try:
        decided = _approve_or_reject(request, memory, verb, version, text)
    except VersionMismatch as error:
        now = Memory.objects.filter(pk=item.key, actor_id=memory.actor_id).first()
        if now is None or now.status != Status.PENDING:
            raise _already_decided(now) from error
        problem = _("It was changed since you read it, and nothing was decided: this is how it stands now.")
        raise Changed(problem) from error
    return {REVISION: decided.version}


def _approve_or_reject(
    request: HttpRequest, memory: Memory, verb: str, version: int, text: str | None
) -> Memory:
    by, reason, now = principal(request), submitted_reason(request), clock()
    if verb == "approve":
        return approve_memory(
            memory=memory,
            values=_values(memory, text),
            expected_version=version,
            by=by,
            reason=reason,
            now=now,
        )
    return apply_transition(memory=memory, verb=verb, expected_version=version, by=by, reason=reason, now=now)


def _values(memory: Memory, text: str | None) -> dict[str, Any]:
    """Return the corrected text; nothing where only line ends differ, which browsers change."""
    if text is None or with_plain_line_ends(text) == with_plain_line_ends(memory.content):
        return {}
    if not text.strip():
        raise MemoryRefused("content", _("This must hold more than white space."))
    if len(text) > LONGEST_CONTENT:
        problem = format_lazy(_("A memory has at most {longest} characters."), longest=LONGEST_CONTENT)
        raise MemoryRefused("content", problem)
    return {"content": with_plain_line_ends(text)}


def _typed_text(request: HttpRequest) -> str | None:
    text = request.POST.get("content")
    return None if text is None else text.replace("\x00", "")


def _merge(request: HttpRequest, item: Item) -> dict[str, Any]:
    stays = item_of(f"{Sort.MEMORY}:{submitted_text(request, 'stays')}")
    key = stays.key if stays else None
    return _settle(request, item, partial(merge, stays=key))


def _settle(request: HttpRequest, item: Item, verb: Callable[..., Merge]) -> dict[str, Any]:
    waits = open_merges(clock()).filter(pk=item.key)
    proposal = waits.first()
    if proposal is None:
        raise _already_decided(None)
    try:
        verb(proposal=proposal, by=principal(request), reason=submitted_reason(request), now=clock())
    except WrongState as error:
        if not waits.exists():
            raise _already_decided(None) from error
        raise
    return {}


ACTS: Final[Mapping[tuple[bool, str], Callable[[HttpRequest, Item], dict[str, Any]]]] = {
    (False, "approve"): partial(_judge, verb="approve"),
    (False, "reject"): partial(_judge, verb="reject"),
    (True, "merge"): _merge,
    (True, "dismiss"): partial(_settle, verb=dismiss_merge),
}


def _already_decided(memory: Memory | None) -> AlreadyDecided:
    if memory is None:
        return AlreadyDecided(
            _("It does not wait any more: somebody else was quicker, or it was changed. Here is the next.")
        )
    problem = format_lazy(
        _("Somebody else has decided about it: it is {status} now. Here is the next."),
        status=_(memory.status),
    )
    return AlreadyDecided(problem)


def _undo(request: HttpRequest, asked: ReviewRequest) -> HttpResponse:
    round_ = _round(request, asked)
    last = round_.last
    if last is None or last.number != submitted_number(request, "number"):
        messages.info(request, gettext("There is nothing to undo, or it was undone already."))
        return HttpResponseRedirect(asked.address())
    _store(request, round_.undo_last())
    try:
        _take_back(request, last)
    except DomainError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(asked.address())
    _log(request, last.item, "undo")
    messages.success(request, gettext("Undone: it waits again."))
    return HttpResponseRedirect(asked.address(last.item))


def _take_back(request: HttpRequest, last: Decision) -> None:
    model: Any = Merge if last.item.is_merge else Memory
    row = model.objects.select_related("actor__agent").filter(pk=last.item.key).first()
    if row is None:
        raise AlreadyDecided(_("It no longer exists."))
    by, reason, now = principal(request), submitted_reason(request), clock()
    if last.item.is_merge:
        reopen_merge(proposal=row, by=by, reason=reason, now=now)
    else:
        number = last.way_back.get(REVISION, 0)
        revision = MemoryRevision.objects.filter(actor_id=row.actor_id, memory=row, number=number).first()
        if revision is None:
            raise AlreadyDecided(_("It no longer exists."))
        undo_revision(revision=revision, by=by, reason=reason, now=now)


def _log(request: HttpRequest, item: Item, verb: str) -> None:
    model: Any = Merge if item.is_merge else Memory
    row = model.objects.filter(pk=item.key).only("pk").first()
    if row is not None:
        screen: Any = admin.site.get_model_admin(model)
        screen.log_change(request, model(pk=item.key), verb)


# What is shown


def _page(request: HttpRequest, asked: ReviewRequest, *, text: str | None = None) -> HttpResponse:
    round_, now = _round(request, asked), clock()
    skipped = still_pending(round_.skipped, asked.narrowed, now=now)
    wanted = still_pending([asked.at], QueueFilter(), now=now) if asked.at else []
    first = next_item(asked.narrowed, now=now, besides=[each.key for each in skipped])
    item = next(iter([*wanted, *([first] if first else []), *skipped]), None)
    # What was typed is about what was asked for, and about nothing else.
    about = about_item(request, item, text if wanted else None) if item else {}
    if about is None:
        messages.warning(request, str(_already_decided(None)))
        return HttpResponseRedirect(asked.address())
    open_ = count_pending(asked.narrowed, now=now)
    return render_page(
        request,
        "admin/strength/review/page.html",
        title=_("Review"),
        item=item,
        part="merge" if item and item.is_merge else "memory",
        is_gone=bool(asked.at) and not wanted,
        was_skipped=item in skipped,
        may_go_back=round_.before(item) is not None,
        place=_place(round_, item, skipped, open_, is_asked_for=bool(wanted)),
        total=round_.count + min(open_, MOST_COUNTED),
        is_more=open_ > MOST_COUNTED,
        done=_shown_last(request, round_),
        count=round_.count,
        filters=_filters(asked),
        here=asked.address(),
        whole=reverse("review"),
        **about,
    )


def _place(
    round_: Round, item: Item | None, skipped: list[Item], open_: int, *, is_asked_for: bool
) -> int | None:
    """Return the position in the round, skipped items last; None for an item that the address names."""
    if item in skipped:
        return (
            round_.count + open_ - len(skipped) + skipped.index(item) + 1 if open_ <= MOST_COUNTED else None
        )
    return None if is_asked_for else round_.count + 1


def _filters(asked: ReviewRequest) -> dict[str, Any]:
    agents = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:MOST_AGENTS])
    return {
        "agents": agents,
        "agent": asked.narrowed.agent_id,
        "user": asked.narrowed.user_id,
        "sorts": [(str(sort), words, sort is asked.narrowed.sort) for sort, words in SORTS.items()],
        "orders": [(str(order), words, order is asked.narrowed.order) for order, words in ORDERS.items()],
        "are_set": bool(asked.about),
    }


def _shown_last(request: HttpRequest, round_: Round) -> dict[str, Any] | None:
    last = round_.last
    if last is None:
        return None
    key, actor_id = last.item.key, None
    if last.item.is_merge:
        ids = Merge.objects.filter(pk=key).values_list("kept_id", "actor_id").first()
        key, actor_id = ids or (key, None)
    else:
        actor_id = Memory.objects.filter(pk=key).values_list("actor_id", flat=True).first()
    memory = memory_links(request, actor_id, [key])[str(key)] if actor_id else ""
    return {"words": DONE[last.verb], "memory": memory, "number": last.number}


def badge(request: HttpRequest) -> str:
    """Return the number of open items for the sidebar, capped."""
    user: Any = request.user
    if not user.has_perms(NEEDS):
        return "0"
    most = MOST_ON_THE_BADGE + 1
    waits = pending_memories()[:most].count() + open_merges(clock())[:most].count()
    return f"{MOST_ON_THE_BADGE}+" if waits > MOST_ON_THE_BADGE else str(waits)


def about_item(request: HttpRequest, item: Item, text: str | None) -> dict[str, Any] | None:
    """Return the template context of an item; None where it is gone."""
    if item.is_merge:
        whose = Merge.objects.filter(pk=item.key).values_list("actor_id", flat=True).first()
        return _about_merge(request, item.key, whose) if whose else None
    memory = Memory.objects.with_numbers().select_related("actor__agent").filter(pk=item.key).first()
    return _about_memory(request, memory, text) if memory else None


def _about_merge(request: HttpRequest, key: UUID, actor_id: UUID) -> dict[str, Any]:
    proposal = merge_of(key, actor_id)
    return {
        "proposal": proposal,
        "actor": proposal.actor,
        "percent": round(100 * proposal.likeness),
        "others": other_merges(proposal),
        **pair_of(request, proposal),
    }


def _about_memory(request: HttpRequest, memory: Memory, text: str | None) -> dict[str, Any]:
    policy = effective_policy(TrustPolicy, memory.agent, memory.actor)
    sources = list(memory.sources.all())
    ended = _would_end(memory)
    return {
        "memory": memory,
        "actor": memory.actor,
        "opening": memory.content[:LONGEST_SHOWN],
        "is_cut": len(memory.content) > LONGEST_SHOWN,
        "text": text,
        "is_edited": text is not None,
        "whys": [WHYS[why] for why in _whys(memory, sources, policy)],
        "confidence": memory.confidence,
        "confidence_floor": policy.confidence_floor,
        "sources": source_messages(request, memory, sources[:MOST_SOURCES]),
        "sources_left_out": max(0, len(sources) - MOST_SOURCES),
        "ended": [(each, excerpt(each.content, 400)) for each in ended],
        "near": [
            {
                "memory": each.memory,
                "opening": excerpt(each.memory.content, 300),
                "percent": round(100 * each.relevance),
                "is_ended": each.memory in ended,
            }
            for each in near_memories(memory, now=timezone.now())
        ],
    }


def _whys(memory: Memory, sources: list[MemorySource], policy: TrustPolicy) -> list[PendingReason]:
    untrusted = {*policy.untrusted_channels}
    against = find_tombstone(actor_id=memory.actor_id, text=memory.content)
    return pending_reasons(
        PendingMemory(
            is_trusted=memory.trust == Trust.TRUSTED,
            has_untrusted_source=memory.channel in untrusted
            or any(each.trust == Trust.UNTRUSTED or each.channel in untrusted for each in sources),
            confidence=memory.confidence,
            confidence_floor=policy.confidence_floor,
            contradicts=bool(memory.supersedes),
            was_decided_against=against is not None,
        )
    )


def _would_end(memory: Memory) -> list[Memory]:
    if not memory.supersedes:
        return []
    rows = Memory.objects.of([memory.actor_id]).active().filter(pk__in=memory.supersedes, superseded_by=None)
    return list(rows.order_by("pk")[:MOST_ENDED])


PAGES = [Page("review/", "review", review_view, NEEDS)]

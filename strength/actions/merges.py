"""Merge two memories with the same content and their provenances; propose, dismiss, undo merges (SPEC S5, S6)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.tenancy.policies import effective_policy
from strength.actions.curation_sets import undo_many
from strength.actions.duplicates import SAME_SCOPE, Pair, new_wordings, text_likeness
from strength.actions.revisions import BatchResult, raise_if_duplicate, snapshot, store_change
from strength.actions.tombstones import find_tombstone
from strength.actions.usage import write_numbers
from strength.domain.memories import Status, WrongState, merged_tags
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import MergeState, RunState, merged_numbers
from strength.domain.strength import NO_DECAY, strength_now
from strength.models import Memory, MemoryNumbers, MemoryRevision, MemorySource, Merge, PerspectiveStrength, SleepRun
from strength.models.locks import lock_numbers, lock_shared


class CannotMerge(WrongState):
    """One of the two was edited, archived or deleted since they were compared."""


@transaction.atomic
def merge(
    *,
    proposal: Merge,
    by: Principal,
    reason: str,
    now: datetime,
    keep_id: UUID | None = None,
    batch: UUID | None = None,
) -> Merge:
    """Merge the absorbed memory into the kept one, as they were compared; the proposal stores how to undo it.

    `keep_id` names the one to keep where it is not the one proposed; merges that are decided at once share a `batch`.
    The kept one gets the greater strength, and the uses, impacts, tags, learnings and sources of both; the other is
    archived and points to it. Raises CannotMerge, WrongState for a proposal that is decided, Forbidden for an untrusted
    key.
    """
    proposal = _lock_proposal(proposal, MergeState.PROPOSED, by)
    is_turned = keep_id not in (None, proposal.kept_id)
    if is_turned:
        if keep_id != proposal.absorbed_id:
            raise CannotMerge(_("The memory to keep must be one of the two."))
        _swap_sides(proposal)
    kept, absorbed = proposal.kept, proposal.absorbed = _lock_pair(proposal)
    if not is_unchanged(proposal, now):
        raise CannotMerge(_("One of the two was changed since the comparison; the next sleep compares them again."))
    before_kept, before_absorbed = snapshot(kept), snapshot(absorbed)
    undo = _absorb(kept, absorbed, proposal, now)
    absorbed.status, absorbed.superseded_by, absorbed.pinned = Status.ARCHIVED, kept, False
    for memory, before in ((kept, before_kept), (absorbed, before_absorbed)):
        store_change(memory, verb="merge", before=before, by=by, reason=reason, now=now)
    proposal.undo = {
        **undo,
        "absorbed_version": absorbed.version,
        "was_pinned": before_absorbed["pinned"],
        "is_turned": is_turned,
    }
    _withdraw_other_proposals(absorbed, without=proposal, now=now)
    proposal.batch = batch
    return _decide(proposal, MergeState.MERGED, by, reason, now)


def _absorb(kept: Memory, absorbed: Memory, proposal: Merge, now: datetime) -> dict[str, Any]:
    undo = _join_numbers(kept, absorbed, proposal, now)
    undo["sources"] = _add_sources(kept, absorbed)
    undo["perspectives"] = _join_perspectives(kept, absorbed)
    undo["new_tags"] = [tag for tag in absorbed.tags if tag not in kept.tags]
    undo["new_learnings"] = [name for name in absorbed.learnings if name not in kept.learnings]
    kept.tags = merged_tags(kept.tags, absorbed.tags)
    kept.learnings = {**absorbed.learnings, **kept.learnings}
    return undo


def _swap_sides(proposal: Merge) -> None:
    proposal.kept_id, proposal.absorbed_id = proposal.absorbed_id, proposal.kept_id
    proposal.kept_version, proposal.absorbed_version = proposal.absorbed_version, proposal.kept_version


def _withdraw_other_proposals(absorbed: Memory, *, without: Merge, now: datetime) -> None:
    others = Merge.objects.filter(actor_id=absorbed.actor_id, state=MergeState.PROPOSED).exclude(pk=without.pk)
    others.filter(Q(kept=absorbed) | Q(absorbed=absorbed)).update(state=MergeState.WITHDRAWN, decided_at=now)


@transaction.atomic
def dismiss_merge(*, proposal: Merge, by: Principal, reason: str, now: datetime, batch: UUID | None = None) -> Merge:
    """Keep the two apart; the pair is not proposed again. Raises WrongState, Forbidden."""
    proposal = _lock_proposal(proposal, MergeState.PROPOSED, by)
    audit.record(by=by, verb="dismiss", row=proposal, reason=reason, now=now)
    proposal.batch = batch
    return _decide(proposal, MergeState.DISMISSED, by, reason, now)


@transaction.atomic
def reopen_merge(*, proposal: Merge, by: Principal, reason: str, now: datetime) -> Merge:
    """Undo a merge or a dismissal, so that the proposal is open again as it was made.

    Proposals that the merge withdrew are open again too. Raises WrongState where nothing was decided, CannotMerge where
    the merge cannot be undone, Forbidden.
    """
    decided = Merge.objects.filter(pk=proposal.pk, actor_id=proposal.actor_id).first()
    if decided is None:
        raise UnknownRow(format_lazy(_("No merge {id}."), id=proposal.pk))
    if decided.state == MergeState.MERGED:
        undo_merge(proposal=decided, by=by, reason=reason, now=now)
        _reopen_other_proposals(decided)
        proposal = _lock_proposal(decided, MergeState.UNDONE, by)
        if proposal.undo.get("is_turned"):
            _swap_sides(proposal)
        proposal.kept_version, proposal.absorbed_version = (memory.version for memory in _lock_pair(proposal))
    else:
        proposal = _lock_proposal(decided, MergeState.DISMISSED, by)
    audit.record(by=by, verb="reopen", row=proposal, reason=reason, now=now)
    proposal.undo, proposal.batch, proposal.state = {}, None, MergeState.PROPOSED
    proposal.decided_by, proposal.reason, proposal.decided_at = "", "", None
    proposal.save()
    return proposal


def _reopen_other_proposals(decided: Merge) -> None:
    others = Merge.objects.filter(actor_id=decided.actor_id).exclude(pk=decided.pk)
    withdrawn = others.filter(
        Q(kept=decided.absorbed_id) | Q(absorbed=decided.absorbed_id),
        state=MergeState.WITHDRAWN,
        decided_at=decided.decided_at,
    )
    withdrawn.update(state=MergeState.PROPOSED, decided_at=None)


def undo_merge(
    *, proposal: Merge, by: Principal, reason: str, now: datetime, new_state: MergeState = MergeState.UNDONE
) -> Merge:
    """Undo a merge; what the kept memory was used for since stays with it.

    The proposal gets `new_state`: a person's undo is a decision; after a sleep's undo the pair may be proposed again.
    Raises WrongState where they were not merged, CannotMerge where the absorbed one was changed since, or another has
    its text by now.
    """
    with raise_if_duplicate(CannotMerge(_("Another memory has since been written with the text of the absorbed one."))):
        proposal = _lock_proposal(proposal, MergeState.MERGED, by)
        kept, absorbed = _lock_pair(proposal)
        undo = proposal.undo
        if absorbed.version != undo["absorbed_version"] or absorbed.status != Status.ARCHIVED:
            raise CannotMerge(_("The merged memory was changed since; restore it by hand."))
        tombstone = find_tombstone(actor_id=absorbed.actor_id, text=absorbed.content)
        if tombstone is not None and proposal.decided_at and tombstone.created_at >= proposal.decided_at:
            raise CannotMerge(_("A person has rejected the text of the absorbed memory; it stays archived."))
        before_kept, before_absorbed = snapshot(kept), snapshot(absorbed)
        _restore_numbers(kept, undo, now)
        _restore_perspectives(kept, undo)
        kept.sources.filter(pk__in=undo["sources"]).delete()
        kept.tags = [tag for tag in kept.tags if tag not in undo["new_tags"]]
        kept.learnings = {name: text for name, text in kept.learnings.items() if name not in undo["new_learnings"]}
        absorbed.status, absorbed.superseded_by, absorbed.pinned = Status.ACTIVE, None, undo["was_pinned"]
        for memory, before in ((kept, before_kept), (absorbed, before_absorbed)):
            store_change(memory, verb="unmerge", before=before, by=by, reason=reason, now=now)
        return _decide(proposal, new_state, by, reason, now)


def _lock_proposal(proposal: Merge, state: MergeState, by: Principal) -> Merge:
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not decide about memories; a curator can."))
    lock_shared(proposal.actor_id)
    rows = Merge.objects.select_for_update(of=["self"])
    locked = rows.filter(pk=proposal.pk, actor_id=proposal.actor_id).first()
    if locked is None:
        raise UnknownRow(format_lazy(_("No merge {id}."), id=proposal.pk))
    if locked.state != state:
        raise WrongState(
            format_lazy(_("This merge is {present}, not {wanted}."), present=_(locked.state), wanted=_(state))
        )
    return locked


def _lock_pair(proposal: Merge) -> tuple[Memory, Memory]:
    memories = Memory.objects.of([proposal.actor_id]).locked([proposal.kept_id, proposal.absorbed_id])
    if len(memories) < 2:
        raise CannotMerge(_("One of the two has been deleted."))
    lock_numbers(proposal.actor_id, list(memories))
    return memories[proposal.kept_id], memories[proposal.absorbed_id]


def is_unchanged(proposal: Merge, now: datetime) -> bool:
    """Return whether both memories are worded as they were compared, and the one to keep is still valid."""
    kept, absorbed = proposal.kept, proposal.absorbed
    is_valid = kept.valid_to is None or kept.valid_to > now
    is_new = is_reworded(kept, proposal.kept_version) or is_reworded(absorbed, proposal.absorbed_version)
    return is_valid and not is_new and kept.status == absorbed.status == Status.ACTIVE


def is_reworded(memory: Memory, version: int) -> bool:
    """Return whether a memory has changed since a version, so that it must be compared again."""
    if memory.version == version:
        return False
    return new_wordings(memory.pk, version).filter(actor_id=memory.actor_id).exists()


def _decide(proposal: Merge, state: MergeState, by: Principal, reason: str, now: datetime) -> Merge:
    proposal.state, proposal.decided_by = state, by.name[:150]
    proposal.reason, proposal.decided_at = reason, now
    proposal.save()
    return proposal


def _join_numbers(kept: Memory, absorbed: Memory, proposal: Merge, now: datetime) -> dict[str, Any]:
    """Give the kept memory the numbers of both; return what undo subtracts again.

    The undo of a sleep undoes that sleep's own merges first, but not those that a person decided on since.
    """
    numbers, other = kept.numbers, absorbed.numbers
    policy = effective_policy(StrengthPolicy, kept.agent, kept.actor)
    new = merged_numbers(numbers.as_numbers(kept.state), other.as_numbers(kept.state), policy)
    last_used_at = max(filter(None, (numbers.last_accessed_at, other.last_accessed_at)), default=None)
    added = {
        "uses": other.access_count,
        "candidates": other.candidate_count,
        "impact": other.impact_score,
        "increment": new.strength - kept.strength,
    }
    is_final = proposal.run is None or proposal.run.state != RunState.RUNNING
    write_numbers([kept], policy, now=now, kind=None, used_at=last_used_at, is_final=is_final, **added)
    fresh = MemoryNumbers.objects.get(actor_id=kept.actor_id, pk=kept.pk)
    return {
        "strength": added["increment"],
        "before": kept.strength,
        "mark": fresh.mark if fresh.fades else None,
        "level": fresh.consolidation_level,
        "access_count": other.access_count,
        "candidate_count": other.candidate_count,
        "impact_score": other.impact_score,
        "last_accessed_at": [_iso(numbers.last_accessed_at), _iso(last_used_at)],
    }


def _remaining_share(kept: Memory, undo: dict[str, Any]) -> float:
    """Return the share of a merge's gain that has not decayed, by the memory's level."""
    if undo.get("mark") is None or kept.state is None:
        return 1.0
    return strength_now(1.0, mark=undo["mark"], clock=kept.state.clock[undo["level"]])


def _restore_numbers(kept: Memory, undo: dict[str, Any], now: datetime) -> None:
    row, policy = kept.numbers, effective_policy(StrengthPolicy, kept.agent, kept.actor)
    # The gain has decayed like the rest. A strength that was set since is kept.
    share = _remaining_share(kept, undo)
    remaining = max(kept.strength - undo["strength"] * share, min(kept.strength, undo["before"] * share))
    removed = {
        "uses": -undo["access_count"],
        "candidates": -undo["candidate_count"],
        "impact": -undo["impact_score"],
        "increment": remaining - kept.strength,
    }
    write_numbers([kept], policy, now=now, kind=None, **removed)
    before, merged = map(_from_iso, undo["last_accessed_at"])
    if row.last_accessed_at == merged:
        MemoryNumbers.objects.filter(actor_id=kept.actor_id, pk=row.pk).update(last_accessed_at=before)


def _add_sources(kept: Memory, absorbed: Memory) -> list[str]:
    sources = MemorySource.objects.filter(actor_id=kept.actor_id)
    existing = set(sources.filter(memory=kept).values_list("message_id", flat=True))
    added = [
        MemorySource(
            actor_id=kept.actor_id,
            memory=kept,
            message_id=source.message_id,
            session_id=source.session_id,
            channel=source.channel,
            trust=source.trust,
            created_at=source.created_at,
        )
        for source in sources.filter(memory=absorbed)
        if source.message_id not in existing
    ]
    MemorySource.objects.bulk_create(added)
    return [str(source.pk) for source in added]


def _join_perspectives(kept: Memory, absorbed: Memory) -> dict[str, Any]:
    rows = PerspectiveStrength.objects.filter(actor_id=kept.actor_id)
    existing = {row.perspective: row for row in rows.filter(memory=kept)}
    numbers = MemoryNumbers.objects.get(actor_id=kept.actor_id, pk=kept.pk)
    undo: dict[str, Any] = {}
    for row in rows.filter(memory=absorbed):
        former = existing.get(row.perspective)
        strength = absorbed.numbers.of_perspective(row, absorbed.state)
        present = 0.0 if former is None else numbers.of_perspective(former, kept.state)
        if former is not None and present >= strength:
            continue
        undo[row.perspective] = {
            "own": former and [former.strength, former.mark if former.mark > NO_DECAY else None, _iso(former.as_of)],
            "gained": strength - present,
            "gave": [strength, _iso(row.as_of)],
        }
        rows.bulk_create(
            [
                PerspectiveStrength(
                    actor_id=kept.actor_id,
                    memory=kept,
                    perspective=row.perspective,
                    strength=strength,
                    mark=numbers.mark,
                    as_of=row.as_of,
                )
            ],
            update_conflicts=True,
            unique_fields=["actor", "memory", "perspective"],
            update_fields=["strength", "mark", "as_of"],
        )
    return undo


def _restore_perspectives(kept: Memory, undo: dict[str, Any]) -> None:
    """Subtract the gain in each perspective, as far as it has faded; uses since stay."""
    numbers = MemoryNumbers.objects.get(actor_id=kept.actor_id, pk=kept.pk)
    for name, values in undo["perspectives"].items():
        rows = kept.perspectives.filter(perspective=name)
        row = rows.first()
        if row is None:
            continue
        is_untouched = [row.strength, _iso(row.as_of)] == values["gave"]
        if is_untouched and values["own"] is None:
            rows.delete()
        elif is_untouched and numbers.consolidation_level == undo.get("level"):
            strength, mark, as_of = values["own"]
            rows.update(strength=strength, mark=NO_DECAY if mark is None else mark, as_of=_from_iso(as_of))
        else:
            remaining = numbers.of_perspective(row, kept.state) - values["gained"] * _remaining_share(kept, undo)
            rows.update(strength=max(0.0, remaining), mark=numbers.mark)


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _from_iso(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


def check_mergeable(one: Memory, other: Memory) -> None:
    """Raise WrongState if a person may not merge the two; different kinds are allowed."""
    if one.actor_id != other.actor_id:
        raise WrongState(_("Two memories of one user, or of one agent, can be merged; these are not."))
    if not one.status == other.status == Status.ACTIVE:
        raise WrongState(_("Only active memories can be merged."))
    if any(getattr(one, name) != getattr(other, name) for name in SAME_SCOPE):
        raise WrongState(_("They differ in scope or validity."))


@transaction.atomic
def merge_pair(
    *, kept: Memory, absorbed: Memory, versions: Mapping[str, int], by: Principal, reason: str, now: datetime
) -> Merge:
    """Merge two memories that a person chose and saw in these `versions`. Raises WrongState, CannotMerge, Forbidden."""
    check_mergeable(kept, absorbed)
    lock_shared(kept.actor_id)
    for memory in (kept, absorbed):
        if versions.get(str(memory.pk), memory.version) != memory.version:
            raise CannotMerge(_("One of the two was changed since you saw it."))
    _merges_of_pair(kept, absorbed).exclude(state=MergeState.MERGED).delete()
    proposal, _is_new = Merge.objects.update_or_create(
        actor_id=kept.actor_id,
        kept=kept,
        absorbed=absorbed,
        defaults={
            "run": None,
            "kept_version": kept.version,
            "absorbed_version": absorbed.version,
            "likeness": text_likeness(kept.content, absorbed.content),
            "state": MergeState.PROPOSED,
            "created_at": now,
        },
    )
    return merge(proposal=proposal, by=by, reason=reason, now=now)


def record_pairs(run: SleepRun, pairs: Sequence[Pair], *, merge_automatically: bool) -> tuple[int, int]:
    """Propose or merge a sleep's pairs that nobody changed since; return how many. In the caller's transaction."""
    ids = {memory.pk for pair in pairs for memory in (pair.kept, pair.absorbed)}
    rows = Memory.objects.of([run.actor_id]).active().filter(pk__in=ids).select_for_update().order_by("id")
    versions = dict(rows.values_list("pk", "version"))
    numbers = MemoryNumbers.objects.filter(actor_id=run.actor_id, memory__in=ids).select_for_update()
    list(numbers.order_by("memory_id").values_list("pk"))
    proposed = merged = 0
    for pair in pairs:
        kept, absorbed = pair.kept, pair.absorbed
        if any(versions.get(memory.pk) != memory.version for memory in (kept, absorbed)):
            continue
        if any(_blocks_pair(existing, pair) for existing in _merges_of_pair(kept, absorbed)):
            continue
        _merges_of_pair(kept, absorbed).delete()
        proposal = Merge.objects.create(
            actor_id=run.actor_id,
            run=run,
            kept=kept,
            kept_version=kept.version,
            absorbed=absorbed,
            absorbed_version=absorbed.version,
            likeness=pair.likeness,
            created_at=run.now,
        )
        if not merge_automatically or absorbed.locked or absorbed.pinned:
            proposed += 1
            continue
        try:
            merge(proposal=proposal, by=run.sleeper, reason=f"sleep {run.number}", now=run.now)
        except CannotMerge:  # already merged within this batch; compared again later
            proposal.delete()
        else:
            merged += 1
    return proposed, merged


def _merges_of_pair(one: Memory, other: Memory) -> QuerySet[Merge]:
    rows = Merge.objects.filter(actor_id=one.actor_id)
    return rows.filter(Q(kept=one, absorbed=other) | Q(kept=other, absorbed=one))


def _blocks_pair(existing: Merge, pair: Pair) -> bool:
    if existing.state == MergeState.PROPOSED:
        versions = {existing.kept_id: existing.kept_version, existing.absorbed_id: existing.absorbed_version}
        return not any(is_reworded(memory, versions[memory.pk]) for memory in (pair.kept, pair.absorbed))
    return existing.state != MergeState.WITHDRAWN


def undo(*, batch: UUID, by: Principal, reason: str, now: datetime) -> BatchResult:
    """Undo what was done to many memories or merges at once, the last merge first; skip what was changed since."""
    revisions = MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id")
    decided = Merge.objects.filter(batch=batch, state__in=[MergeState.MERGED, MergeState.DISMISSED])
    with transaction.atomic():
        result = undo_many(revisions=revisions, batch=batch, by=by, reason=reason, now=now)
        # Undo in reverse: separate a memory before the one that it was merged into.
        for proposal in decided.select_related("actor").order_by("-id"):
            with result.collect(proposal):
                reopen_merge(proposal=proposal, by=by, reason=reason, now=now)
    return result

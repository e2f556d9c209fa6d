"""A second reviewer (SPEC W17, ADR 67): by policy, two people approve what waits before it becomes active.

The first approval is a revision that leaves the memory pending. It counts while it is the memory's latest version, so
that an edit, a rejection and an undo drop it.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from memoryhub.auth.models import ApiKey, OAuthGrant
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.revisions import check_reach
from strength.domain.memories import APPROVER, FIRST_APPROVAL_VERB, ScopeLevel, Status, WrongState
from strength.domain.policy import ALL_WAITING, SHARED, ReviewPolicy
from strength.models import Memory, MemoryRevision, ReviewRule

NEEDS: Final = ("strength.change_memory", "strength.change_merge")
"""Permissions to review."""

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


def reviewing() -> QuerySet[User]:
    """Return the people with open accounts who may review, by name."""
    people = User.objects.filter(is_active=True, is_staff=True).order_by("username")
    for permission in NEEDS:
        people = people.filter(pk__in=User.objects.with_perm(permission, backend=BACKEND).values("pk"))
    return people


def first_approval(memory: Memory) -> MemoryRevision | None:
    """Return the first of two approvals of a pending memory, where it counts."""
    if memory.status != Status.PENDING:
        return None
    rows = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory, number=memory.version)
    return rows.filter(verb=FIRST_APPROVAL_VERB, beside__has_key=APPROVER).first()


def first_approvals_of(memories: Collection[Memory]) -> dict[UUID, str]:
    """Return who has approved first, by memory, where two are needed."""
    rows = MemoryRevision.objects.filter(
        actor_id__in={memory.actor_id for memory in memories}, memory__in=[memory.pk for memory in memories],
        verb=FIRST_APPROVAL_VERB, number=F("memory__version"), beside__has_key=APPROVER,
    )  # fmt: skip
    names = dict(rows.values_list("memory_id", "who_name"))
    return {memory.pk: names[memory.pk] for memory in memories if memory.pk in names and needs_second_approval(memory)}


def needs_second_approval(memory: Memory, scope_level: str = "") -> bool:
    """Return whether the policy asks for two people, and there are two who may review; `scope_level` is a new one."""
    mode = effective_policy(ReviewPolicy, memory.agent, memory.actor).second_reviewer
    applies = mode == ALL_WAITING or (mode == SHARED and (scope_level or memory.scope_level) != ScopeLevel.PROJECT)
    return applies and len(reviewing()[:2]) > 1


def approver_of(by: Principal) -> str:
    """Return who decides: a person also through their clients, rules and all keys that they made, otherwise the key.

    A service account's key is its maker's too: they have its text, and so could approve twice.
    """
    person = None
    if by.key_id is not None:
        person = ApiKey.objects.filter(pk=by.key_id).values_list("person", flat=True).first()
        if person is None:  # granted before keys had persons
            person = OAuthGrant.objects.filter(key=by.key_id).values_list("person", flat=True).first()
    elif by.kind is PrincipalKind.JOB:
        person = ReviewRule.objects.filter(pk=by.id).values_list("person", flat=True).first()
    return by.pk if person is None else of_person(person)


def of_person(person_id: object) -> str:
    return f"{PrincipalKind.CURATOR}:{person_id}"


def approval_to_note(memory: Memory, verb: str, edits: Mapping[str, Any], by: Principal) -> str:
    """Return who gives the first of two approvals of a locked pending memory; "" where this one activates it.

    Raises WrongState where the same person approves again, or for another verb; Forbidden where the caller may not.
    """
    scope_level = edits.get("scope_level", memory.scope_level)
    if not needs_second_approval(memory, scope_level):
        return ""
    if verb != "approve":
        raise WrongState(_("Two people must approve it: use “Approve”."))
    approver, first = approver_of(by), first_approval(memory)
    if first is not None and all(getattr(memory, name) == value for name, value in edits.items()):
        if first.beside.get(APPROVER) == approver:
            raise WrongState(_("You have approved it; it needs the approval of another person."))
        return ""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key cannot bring a memory into contexts; a curator can."))
    check_reach({"scope_level": scope_level, "status": Status.ACTIVE}, by)
    return approver


def seen_version(memory: Memory, expected: int | None) -> int | None:
    """Return the version that a decision is about: a first approval alone changes nothing that was read."""
    if expected is None or expected != memory.version - 1:
        return expected
    first = first_approval(memory)
    return memory.version if first is not None and not first.changed_after else expected


def without_approved_by(rows: Any, person_id: int | None) -> Any:
    """Leave out the pending memories that a person has approved, and that wait for another."""
    if person_id is None:
        return rows
    first = MemoryRevision.objects.filter(
        actor_id=OuterRef("actor_id"), memory_id=OuterRef("pk"), number=OuterRef("version"), verb=FIRST_APPROVAL_VERB,
        beside__approver=of_person(person_id),
    )  # fmt: skip
    others = reviewing().exclude(pk=person_id).order_by()
    return rows.exclude(_asks_for_two() & Exists(first) & Exists(others))


def _asks_for_two() -> Q:
    is_shared = ~Q(scope_level=ScopeLevel.PROJECT)
    return _has_mode([ALL_WAITING]) | (_has_mode([SHARED]) & is_shared)


def _has_mode(modes: Collection[str]) -> Q:
    of_agent = Q(actor__policy__second_reviewer__isnull=True, actor__agent__policy__second_reviewer__in=modes)
    return Q(actor__policy__second_reviewer__in=modes) | of_agent


def users_with_second_reviewer(actors: QuerySet[Actor]) -> QuerySet[Actor]:
    """Filter to the actors whose policy asks for two people."""
    on = [SHARED, ALL_WAITING]
    of_agent = Q(policy__second_reviewer__isnull=True, agent__policy__second_reviewer__in=on)
    return actors.filter(Q(policy__second_reviewer__in=on) | of_agent)

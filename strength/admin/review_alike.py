"""Page that decides a pending memory together with all that are alike, as one batch (SPEC W12)."""

from collections import Counter
from typing import Any, Final
from uuid import UUID

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import link_to, owner_label, render_page
from memoryhub.admin.object_actions import REVOKE, report_done, report_skipped, submitted_change, submitted_text
from memoryhub.auth.actions import VersionMismatch
from memoryhub.errors import DomainError
from memoryhub.unfold import Page
from strength.actions.curation_sets import curate_many
from strength.actions.review_alike import MAX_ALIKE, alike_memories
from strength.actions.review_rules import NEEDS, Shape, make_rule, rule_shape
from strength.admin.bulk import log_memories, report_first_approvals
from strength.admin.review import BATCH, PERMISSIONS, load_review_round, save_review_round
from strength.admin.review_item import pending_reason_labels, values_with_approval
from strength.admin.review_params import ReviewParams
from strength.admin.rules import VERB_LABELS as RULE_VERB_LABELS
from strength.domain.memories import Status
from strength.domain.review import COUNT, Item, Sort
from strength.models import Memory
from strength.models.rule import MAX_A_DAY, RuleVerb

VERBS: Final = ("approve", "reject")


def alike_view(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the memories that are alike, or decide those that were shown."""
    params, item = ReviewParams.of(request), Item(Sort.MEMORY, key)
    rows = Memory.objects.with_numbers().select_related("actor__agent", "actor__sleep_state")
    memory = rows.filter(pk=key, status=Status.PENDING).first()
    alike = alike_memories(memory) if memory else []
    if memory is None or not alike:
        messages.warning(request, gettext("This item is no longer pending."))
        return HttpResponseRedirect(params.address())
    if request.method == "POST":
        return _decide(request, params, item, alike)
    shown, verbs = alike[:MAX_ALIKE], rule_shape(alike[0]).verbs
    return render_page(
        request,
        "admin/strength/review/alike.html",
        title=_("Decide all like this"),
        memory=memory,
        memories=shown,
        count=len(shown),
        is_more=len(alike) > MAX_ALIKE,
        owner=owner_label(memory.actor),
        reasons=pending_reason_labels(request, memory),
        values=values_with_approval(memory),
        sources=sorted({(source.channel, source.get_trust_display()) for source in memory.source_rows}),
        back=params.address(item),
        may_rule=request.user.has_perms(NEEDS),
        rule_verbs=[label for verb, label in RULE_VERB_LABELS.items() if verb in verbs],
        most_a_day=MAX_A_DAY,
    )


def _decide(request: HttpRequest, params: ReviewParams, item: Item, alike: list[Memory]) -> HttpResponse:
    """Decide the memories of the submitted page that are still alike; those that were changed are reported."""
    verb, versions = submitted_text(request, "verb"), _shown_versions(request)
    memories = [memory for memory in alike if str(memory.pk) in versions]
    if verb not in VERBS:
        messages.error(request, gettext("Unknown action. Reload the page and try again."))
        return HttpResponseRedirect(params.alike_address(item))
    shape = rule_shape(alike[0]) if submitted_text(request, "rule") else None
    result = curate_many(memories=memories, versions=versions, verb=verb, **submitted_change(request))
    screen: Any = admin.site.get_model_admin(Memory)
    refusals = Counter({str(error): len(rows) for error, rows in result.skipped})
    refusals[str(VersionMismatch(0))] += len(versions) - len(memories)  # not alike any more
    report_skipped(screen, request, +refusals)
    if result.changed:
        log_memories(request, result.changed, verb)
        undo_data = {BATCH: str(result.batch), COUNT: len(result.changed)}
        round_ = load_review_round(request, params)
        save_review_round(request, round_.decide(item, verb, undo_data))
        report_first_approvals(request, result)
        if shape is not None:
            _make_rule(request, alike[0], shape, RuleVerb(verb))
    return HttpResponseRedirect(params.address())


def _make_rule(request: HttpRequest, memory: Memory, shape: Shape, verb: RuleVerb) -> None:
    """Make the rule that the form wishes, and report it with a button that takes it back."""
    person: Any = request.user
    try:
        rule = make_rule(memory=memory, shape=shape, verb=verb, person=person, **submitted_change(request))
    except DomainError as error:
        messages.error(request, str(error))
        return
    link = link_to("admin:strength_reviewrule_change", rule.pk, gettext("The rule"))
    text = format_html("{} {}", gettext("New memories like these are decided the same from now on."), link)
    report_done(request, text, undo=reverse("admin:strength_reviewrule_revoke", args=[rule.pk]), button=REVOKE)


def _shown_versions(request: HttpRequest) -> dict[str, int]:
    """Return the versions that the page showed, by id."""
    pairs = (text.partition(":") for text in request.POST.getlist("row"))
    return {key: int(number) for key, _colon, number in pairs if number.isascii() and number.isdecimal()}


PAGES = [Page("review/alike/<uuid:key>/", "review_alike", alike_view, PERMISSIONS)]

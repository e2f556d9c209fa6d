"""The effect of a change on the latest contexts over REST, before it is made."""

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.replays import Comparison
from conversations.api.serializers import ReceiptItemOut
from conversations.domain.differences import Item, Outcome
from memoryhub.api.fields import IdField, OneOf, StrictSerializer
from memoryhub.api.views import IF_MATCH, operation
from memoryhub.auth.principals import Scope
from strength.actions.what_if import EDIT, VERBS, WhatIf, what_if, what_if_merged
from strength.api.memories import CuratedIn, MemoryView
from strength.models import Merge


class WhatIfIn(StrictSerializer):
    """A change of a memory that is not made; `values` are those of an edit, or corrections of an approval."""

    verb = OneOf(choices=list(VERBS), default=EDIT)
    values = CuratedIn(required=False)


class MergeWhatIfIn(StrictSerializer):
    """A merge that is not made."""

    keep_id = IdField(required=False, help_text="The memory to keep, if not the proposed one.")


class AffectedItemOut(ReceiptItemOut):
    """An entry of a context, as in its receipt, and the number of contexts."""

    contexts = serializers.IntegerField()


class ContextSideOut(serializers.Serializer):
    """One of the two contexts; its entries that the other does not have, or has with another text."""

    total_tokens = serializers.IntegerField()
    token_limit = serializers.IntegerField()
    holds_memory = serializers.BooleanField()
    only = ReceiptItemOut(many=True)


class ComparedContextOut(serializers.Serializer):
    """A context that would change; one side is null where the context is refused, such as for its limit."""

    receipt_id = serializers.UUIDField()
    user_id = serializers.CharField()
    created_at = serializers.DateTimeField()
    query = serializers.CharField()
    before = ContextSideOut(allow_null=True)
    after = ContextSideOut(allow_null=True)


class WhatIfOut(serializers.Serializer):
    """The effect of a change on the latest contexts, were they assembled now. Nothing was changed."""

    contexts = serializers.IntegerField(help_text="Number of contexts that were compared, at most 40.")
    held_before = serializers.IntegerField(help_text="Contexts that the memory enters as the data is.")
    held_after = serializers.IntegerField(help_text="Contexts that it enters after the change.")
    brings_in = AffectedItemOut(many=True, help_text="Other entries that come.")
    pushes_out = AffectedItemOut(many=True, help_text="Other entries that are then missing.")
    changed = ComparedContextOut(many=True)


def _body(effect: WhatIf) -> dict[str, Any]:
    return {
        "contexts": len(effect.comparisons),
        "held_before": effect.held_before,
        "held_after": effect.held_after,
        "brings_in": [{**item, "contexts": contexts} for item, contexts in effect.brings_in],
        "pushes_out": [{**item, "contexts": contexts} for item, contexts in effect.pushes_out],
        "changed": [_compared(each, str(effect.memory_id)) for each in effect.changed],
    }


def _compared(each: Comparison, memory_id: str) -> dict[str, Any]:
    def side(outcome: Outcome | None, only: list[Item]) -> dict[str, Any] | None:
        if outcome is None:
            return None
        sizes = {"total_tokens": outcome.total_tokens, "token_limit": outcome.token_limit}
        return {**sizes, "holds_memory": outcome.holds(memory_id), "only": only}

    return {
        "receipt_id": each.receipt.pk,
        "user_id": each.receipt.actor.user_id,
        "created_at": each.receipt.created_at,
        "query": each.receipt.query,
        "before": side(each.before, list(each.difference.went)),
        "after": side(each.after, list(each.difference.came)),
    }


class MemoryWhatIf(MemoryView):
    idempotent_in_transaction = False

    @operation("memory_what_if", Scope.WRITE, request=WhatIfIn, responses=WhatIfOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Return what a change would do to the latest contexts, without making it; refused as the change itself."""
        values = self.validated(WhatIfIn)
        memory = self.memory(memory_id)
        effect = what_if(memory=memory, verb=values["verb"], values=values.get("values", {}), **self.change)
        return Response(WhatIfOut(_body(effect)).data)


class MergeWhatIf(MemoryView):
    idempotent_in_transaction = False

    @operation("merge_what_if", Scope.WRITE, request=MergeWhatIfIn, responses=WhatIfOut)
    def post(self, request: Request, merge_id: UUID) -> Response:
        """Return what a merge would do to the latest contexts, without making it; refused as the merge itself."""
        proposal = self.owned(Merge.objects.select_related("kept", "absorbed"), merge_id)
        keep_id = self.validated(MergeWhatIfIn).get("keep_id")
        effect = what_if_merged(proposal=proposal, keep_id=keep_id, by=self.principal, now=self.now)
        return Response(WhatIfOut(_body(effect)).data)

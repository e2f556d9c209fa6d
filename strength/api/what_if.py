"""The effect of a change of memories on the latest contexts over REST, before it is made."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from conversations.api.what_if import EffectOut, effect_answer
from memoryhub.api.fields import IdField, OneOf, StrictSerializer
from memoryhub.api.views import IF_MATCH, operation
from memoryhub.auth.principals import Scope
from strength.actions.what_if import EDIT, VERBS, what_if, what_if_merged
from strength.api.memories import MemoryView
from strength.api.serializers import CuratedIn
from strength.models import Merge


class WhatIfIn(StrictSerializer):
    """A change of a memory that is not made; `values` are those of an edit, or corrections of an approval."""

    verb = OneOf(choices=list(VERBS), default=EDIT)
    values = CuratedIn(required=False)


class MergeWhatIfIn(StrictSerializer):
    """A merge that is not made."""

    keep_id = IdField(required=False, help_text="The memory to keep, if not the proposed one.")


class MemoryWhatIf(MemoryView):
    idempotent_in_transaction = False

    @operation("memory_what_if", Scope.WRITE, request=WhatIfIn, responses=EffectOut, parameters=[IF_MATCH])
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Return what a change would do to the latest contexts, without making it; refused as the change itself."""
        values = self.validated(WhatIfIn)
        memory = self.memory(memory_id)
        edited = values.get("values", {})
        return effect_answer(what_if(memory=memory, verb=values["verb"], values=edited, **self.change))


class MergeWhatIf(MemoryView):
    idempotent_in_transaction = False

    @operation("merge_what_if", Scope.WRITE, request=MergeWhatIfIn, responses=EffectOut)
    def post(self, request: Request, merge_id: UUID) -> Response:
        """Return what a merge would do to the latest contexts, without making it; refused as the merge itself."""
        proposal = self.owned(Merge.objects.select_related("kept", "absorbed"), merge_id)
        keep_id = self.validated(MergeWhatIfIn).get("keep_id")
        return effect_answer(what_if_merged(proposal=proposal, keep_id=keep_id, by=self.principal, now=self.now))

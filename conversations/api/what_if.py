"""The effect of a change on the latest contexts over REST, before it is made; here of agents and users."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.replays import Comparison
from conversations.actions.what_if import Effect, what_if_agent, what_if_user
from conversations.api.serializers import ReceiptItemOut
from conversations.domain.differences import Item, Outcome
from memoryhub.api.agents import ActorPatch, AgentPatch
from memoryhub.api.fields import TenantSerializer
from memoryhub.api.views import IF_MATCH, ApiView, operation
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.tenancy.models import Agent


class AgentWhatIfIn(AgentPatch):
    """A change of an agent that is not made."""


class ActorWhatIfIn(ActorPatch, TenantSerializer):
    """Policy overrides of a user that are not stored."""


class AffectedItemOut(ReceiptItemOut):
    """An entry of a context, as in its receipt, and the number of contexts."""

    contexts = serializers.IntegerField()


class ContextSideOut(serializers.Serializer):
    """One of the two contexts; its entries that the other does not have, or has with another text."""

    total_tokens = serializers.IntegerField()
    token_limit = serializers.IntegerField()
    holds_memory = serializers.BooleanField(help_text="Whether the changed memory enters.")
    only = ReceiptItemOut(many=True)


class ComparedContextOut(serializers.Serializer):
    """A context that would change; one side is null where the context is refused, such as for its limit."""

    receipt_id = serializers.UUIDField()
    user_id = serializers.CharField()
    created_at = serializers.DateTimeField()
    query = serializers.CharField()
    before = ContextSideOut(allow_null=True)
    after = ContextSideOut(allow_null=True)


class EffectOut(serializers.Serializer):
    """The effect of a change on the latest contexts, were they assembled now. Nothing was changed."""

    contexts = serializers.IntegerField(help_text="Number of contexts that were compared, at most 40.")
    held_before = serializers.IntegerField(help_text="Contexts that the memory enters as the data is.")
    held_after = serializers.IntegerField(help_text="Contexts that it enters after the change.")
    brings_in = AffectedItemOut(many=True, help_text="Other entries that come.")
    pushes_out = AffectedItemOut(many=True, help_text="Other entries that are then missing.")
    changed = ComparedContextOut(many=True, help_text="Without the scope `read`, no text is listed.")


def effect_answer(effect: Effect) -> Response:
    body = {
        "contexts": len(effect.comparisons),
        "held_before": effect.held_before,
        "held_after": effect.held_after,
        "brings_in": [{**item, "contexts": contexts} for item, contexts in effect.brings_in],
        "pushes_out": [{**item, "contexts": contexts} for item, contexts in effect.pushes_out],
        "changed": [_compared(effect, each) for each in effect.changed],
    }
    return Response(EffectOut(body).data)


def _compared(effect: Effect, each: Comparison) -> dict[str, Any]:
    def side(outcome: Outcome | None, only: list[Item]) -> dict[str, Any] | None:
        if outcome is None:
            return None
        sizes = {"total_tokens": outcome.total_tokens, "token_limit": outcome.token_limit}
        return {**sizes, "holds_memory": effect.holds_memory(outcome), "only": only}

    return {
        "receipt_id": each.receipt.pk,
        "user_id": each.receipt.actor.user_id,
        "created_at": each.receipt.created_at,
        "query": each.receipt.query,
        "before": side(each.before, list(each.difference.went)),
        "after": side(each.after, list(each.difference.came)),
    }


class AgentWhatIf(ApiView):
    idempotent_in_transaction = False

    @operation("agent_what_if", Scope.ADMIN, request=AgentWhatIfIn, responses=EffectOut, parameters=[IF_MATCH])
    def post(self, request: Request, agent_id: str) -> Response:
        """Return what a change of an agent, such as of its policies, would do to the latest contexts of its users."""
        if not Agent.objects.among(self.principal.agent_ids).filter(agent_id=agent_id).exists():
            raise UnknownRow(f"No agent {agent_id!r}.")
        return effect_answer(what_if_agent(agent_id=agent_id, values=self.validated(AgentWhatIfIn), **self.change))


class ActorWhatIf(ApiView):
    idempotent_in_transaction = False

    @operation("actor_what_if", Scope.WRITE, request=ActorWhatIfIn, responses=EffectOut, parameters=[IF_MATCH])
    def post(self, request: Request) -> Response:
        """Return what other policy overrides of a user would do to the user's latest contexts."""
        values = self.validated(ActorWhatIfIn)
        tenant = self.reading(values)
        if tenant.actor is None:
            raise UnknownRow("No such user of this agent.")
        return effect_answer(what_if_user(actor=tenant.actor, policy=values["policy"], **self.change))

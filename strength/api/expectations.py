"""Expectations over REST: keep that a memory must, or must not, be in a stored call's context, and check it."""

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.models import Receipt
from memoryhub.api.fields import IdField, OneOf, StrictSerializer, TenantQuery, TenantSerializer
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.principals import Scope
from strength.actions.expectations import check, expect, with_calls, withdraw
from strength.models import Expectation, ExpectationState

MAX_CHECKED = 200


class ExpectationIn(StrictSerializer):
    receipt_id = IdField(help_text="The context that shall, or shall not, have the memory; assembled again in a check.")
    memory_id = IdField()
    wanted = serializers.BooleanField(
        default=True, help_text="Whether the memory must be in the context; else it must not."
    )


class ExpectationQuery(TenantQuery):
    state = OneOf(choices=list(ExpectationState), required=False)


class ExpectationOut(serializers.ModelSerializer):
    wanted = serializers.BooleanField(source="is_wanted")
    user_id = serializers.CharField(source="actor.user_id")
    query = serializers.CharField(source="receipt.query")

    class Meta:
        model = Expectation
        fields = (
            "id", "user_id", "receipt_id", "memory_id", "wanted", "query", "state", "created_at", "checked_at",
            "kept_at", "broken_at",
        )  # fmt: skip


class CheckIn(TenantSerializer):
    """The user of whom the expectations are checked."""


class CheckedOut(serializers.Serializer):
    kept = serializers.IntegerField()
    broken = ExpectationOut(many=True)


class Expectations(ApiView):
    idempotent_in_transaction = False

    @operation(
        "expectations_list", Scope.READ, parameters=[ExpectationQuery, PageQuery], responses=page_of(ExpectationOut)
    )
    def get(self, request: Request) -> Response:
        """List the expectations about a user's contexts, newest first."""
        query = self.query(ExpectationQuery)
        rows = with_calls(Expectation.objects.filter(actor_id=self.reading(query).actor_id))
        rows = rows.filter(state=query["state"]) if "state" in query else rows
        return self.page(rows, ExpectationOut, ordering=("-created_at", "-id"))

    @operation("expectation_keep", Scope.CURATE, request=ExpectationIn, responses={201: ExpectationOut})
    def post(self, request: Request) -> Response:
        """Keep an expectation, and check it; one about the same receipt and memory is replaced."""
        values = self.validated(ExpectationIn)
        receipt = self.owned(Receipt, values["receipt_id"])
        kept = expect(
            receipt=receipt, memory_id=values["memory_id"], is_wanted=values["wanted"], by=self.principal, now=self.now
        )
        return Response(ExpectationOut(kept).data, status=201)


class OneExpectation(ApiView):
    @operation("expectation_withdraw", Scope.CURATE, responses={204: None})
    def delete(self, request: Request, expectation_id: UUID) -> Response:
        """Delete an expectation."""
        withdraw(expectation=self.owned(Expectation, expectation_id), by=self.principal, now=self.now)
        return Response(status=204)


class ExpectationCheck(ApiView):
    idempotent_in_transaction = False

    @operation("expectations_check", Scope.CURATE, request=CheckIn, responses=CheckedOut)
    def post(self, request: Request) -> Response:
        """Check the newest 200 expectations about a user's contexts now, and return those that are broken."""
        tenant = self.reading(self.validated(CheckIn))
        rows = list(with_calls(Expectation.objects.filter(actor_id=tenant.actor_id))[:MAX_CHECKED])
        checked = list(check(rows, by=self.principal, now=self.now))
        bad = [row for row in checked if row.state == ExpectationState.BROKEN]
        return Response(CheckedOut({"kept": len(checked) - len(bad), "broken": bad}).data)

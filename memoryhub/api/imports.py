"""Imports over REST: upload a file in chunks, preview it, take it in, follow its progress, undo it as a whole."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import AgentIdField, OneOf, StrictSerializer, StringField, TenantQuery, TextField, UserIdField
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.usage import ProgressOut
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.principals import Scope
from memoryhub.importexport.foreign.formats import FORMATS
from memoryhub.importexport.foreign.formats.table import MEANINGS, parse_columns
from memoryhub.importexport.foreign.imports import Cost, Reading, extraction_cost, new_import, readings_of
from memoryhub.importexport.foreign.models import Import
from memoryhub.importexport.foreign.uploads import (
    MAX_UPLOAD_BYTES,
    PAUSE,
    PREVIEW,
    RESUME,
    RUN,
    STATES,
    UNDO,
    append_chunk,
    enqueue_import_step,
    order_reading,
    state_of,
    with_jobs,
)


class ImportIn(StrictSerializer):
    """A new import; without a `user_id` the file must name the user of each memory (mem0)."""

    agent_id = AgentIdField()
    user_id = UserIdField()
    file_name = TextField(max_length=255, help_text="As it was downloaded; its ending counts.")
    format = OneOf(choices=[(name, name) for name in FORMATS], required=False, help_text="Recognised if left out.")
    columns = StringField(
        max_length=1_000,
        required=False,
        help_text=f"Columns of a CSV or JSON Lines file: `content=text,created_at=date`. {MEANINGS}",
    )

    def validate_columns(self, value: str) -> dict[str, str]:
        try:
            return parse_columns(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


MAX_CHUNK_LENGTH: Final = 1_000_000_000
"""The highest MEMORYHUB_MAX_BODY_BYTES, which is what limits a chunk."""


class ChunkIn(StrictSerializer):
    """Some bytes of the file."""

    offset = serializers.IntegerField(min_value=0, max_value=MAX_UPLOAD_BYTES)
    content = StringField(max_length=MAX_CHUNK_LENGTH, help_text="The bytes in base64.")

    def validate_content(self, value: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise serializers.ValidationError("must be base64.") from None


class CostOut(serializers.Serializer[Cost]):
    """Upper bound of calls, tokens and cost to extract from an import's new conversations."""

    model = serializers.CharField()
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    dollars = serializers.DecimalField(
        max_digits=16, decimal_places=8, allow_null=True, help_text="null: no price known (MEMORYHUB_LLM_PRICES)."
    )


class ImportOut(serializers.ModelSerializer):
    """An import; `report` counts what is, or would be, new (`made`), here already (`known`) and refused.

    `report.dropped` has by reason the count and examples of what is left out by design.
    """

    agent_id = serializers.CharField(source="actor.agent_id")
    user_id = serializers.CharField(source="actor.user_id")
    format = serializers.CharField(help_text="Empty until it is recognised.")
    state = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField(help_text="Bytes read of the file's, while a job runs.")
    report = serializers.DictField()

    class Meta:
        model = Import
        fields: ClassVar[Sequence[str]] = (
            "id", "agent_id", "user_id", "format", "file_name", "size", "state", "progress", "report", "created_at",
            "previewed_at", "imported_at", "undone_at",
        )  # fmt: skip

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, row: Import) -> str:
        return state_of(row)

    @extend_schema_field(ProgressOut(allow_null=True))
    def get_progress(self, row: Import) -> dict[str, Any] | None:
        return row.job.progress if row.job is not None else None


class ReadingOut(serializers.Serializer[Reading]):
    """Messages of an import that a model reads: all, those that wait, and those passed over while it is paused."""

    messages = serializers.IntegerField()
    waiting = serializers.IntegerField()
    skipped = serializers.IntegerField()


class OneImportOut(ImportOut):
    """An import with what the extraction of its new conversations takes."""

    extraction_cost = serializers.SerializerMethodField(
        help_text="null without a model or new conversations; background calls keep to the agent's daily caps."
    )

    extraction = serializers.SerializerMethodField(help_text="null where nothing reads it.")

    class Meta(ImportOut.Meta):
        fields: ClassVar[Sequence[str]] = (*ImportOut.Meta.fields, "extraction_cost", "extraction")

    @extend_schema_field(CostOut(allow_null=True))
    def get_extraction_cost(self, row: Import) -> dict[str, Any] | None:
        cost = extraction_cost(row, now=timezone.now())
        return CostOut(cost).data if cost is not None else None

    @extend_schema_field(ReadingOut(allow_null=True))
    def get_extraction(self, row: Import) -> dict[str, Any] | None:
        return next((ReadingOut(reading).data for reading in readings_of(row)), None)


class ImportListQuery(TenantQuery, PageQuery):
    """Agent and user whose imports are listed."""


class Imports(ApiView):
    @operation("imports_list", Scope.ADMIN, parameters=[ImportListQuery], responses=page_of(ImportOut))
    def get(self, request: Request) -> Response:
        """List the imports into one actor's memory, the newest first."""
        tenant = self.reading(self.query(ImportListQuery))
        rows = Import.objects.filter(actor_id=tenant.actor_id).select_related("actor")
        return self.page(
            rows,
            ImportOut,
            ordering=("-created_at", "-id"),
            shown=lambda page: ImportOut(with_jobs(page), many=True).data,
        )

    @operation("imports_create", Scope.ADMIN, request=ImportIn, responses={201: ImportOut})
    def post(self, request: Request) -> Response:
        """Begin an import; its file follows in chunks."""
        values = self.validated(ImportIn)
        names_users = "user_id" not in values and self.principal.user_id is None
        row = new_import(
            actor=self.writing(values),
            format=values.get("format", ""),
            file_name=values["file_name"],
            columns=values.get("columns", {}),
            names_users=names_users,
            by=self.principal,
            now=self.now,
        )
        return Response(ImportOut(with_jobs([row])[0]).data, status=201)


class _OneImport(ApiView):
    def row(self, import_id: UUID) -> Import:
        return with_jobs([self.owned(Import.objects.select_related("actor__agent"), import_id)])[0]


class OneImport(_OneImport):
    is_polled = True

    @operation("import_get", Scope.ADMIN, responses=OneImportOut)
    def get(self, request: Request, import_id: UUID) -> Response:
        """Return an import with its state, progress, report, and the cost of its extraction."""
        return Response(OneImportOut(self.row(import_id)).data)


class ImportChunks(_OneImport):
    @operation("import_append", Scope.ADMIN, request=ChunkIn, responses=ImportOut)
    def post(self, request: Request, import_id: UUID) -> Response:
        """Append bytes to the file; after a break, go on at its `size`."""
        values = self.validated(ChunkIn)
        row = append_chunk(row=self.row(import_id), offset=values["offset"], data=values["content"], by=self.principal)
        return Response(ImportOut(with_jobs([row])[0]).data)


class ImportOrderIn(StrictSerializer):
    """The step to take; a `format` corrects the one that was recognised.

    `preview`, `run` and `undo` are jobs; `pause` and `resume` apply to the extraction of what was imported.
    """

    verb = OneOf(choices=[(verb, verb) for verb in (PREVIEW, RUN, UNDO, PAUSE, RESUME)])
    format = OneOf(choices=[(name, name) for name in FORMATS], required=False)


class ImportOrders(_OneImport):
    @operation("import_order", Scope.ADMIN, request=ImportOrderIn, responses={202: ImportOut})
    def post(self, request: Request, import_id: UUID) -> Response:
        """Order a dry run, the import, its undo, or a pause of its extraction.

        The undo deletes imported rows that were not changed since. A pause lets a model read nothing
        more of the imported conversations until it is resumed.
        """
        row, values = self.row(import_id), self.validated(ImportOrderIn)
        verb, by, now = values["verb"], self.principal, self.now
        if verb in (PAUSE, RESUME):
            order_reading(row=row, verb=verb, by=by, now=now)
        else:
            enqueue_import_step(row=row, verb=verb, format=values.get("format"), by=by, now=now)
        return Response(ImportOut(with_jobs([row])[0]).data, status=202)

"""Base view: scopes, tenancy, idempotency, pages, conditional requests (SPEC H2), and its OpenAPI schema.

REST framework resolves source and type of every field for each row again, which took two thirds of the time of an
answer. `represent` resolves them once per serializer and gives the same output.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache, partial, wraps
from hashlib import blake2b
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias, TypedDict, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.db.models import Manager, Model, QuerySet
from django.http import HttpRequest
from django.utils.http import parse_etags
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError
from rest_framework.fields import Field, SkipField
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, ListField, ListSerializer, Serializer
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from memoryhub.api.fields import REPLACED, NoBody
from memoryhub.api.idempotency import MAX_KEY_LENGTH, answer_once
from memoryhub.api.pagination import CursorPagination
from memoryhub.api.problems import Problem, disk_full
from memoryhub.auth.access import Tenant, actor_for_writing, resolve, tenant_for_reading
from memoryhub.auth.principals import Principal, Scope
from memoryhub.auth.throttling import Quota, limit_headers
from memoryhub.jobs.context import KEY_ID, caused_by
from memoryhub.llm.usage.caps import TokenQuota
from memoryhub.runtime.postgres import disk_space
from memoryhub.tenancy.models import Actor

IF_MATCH = OpenApiParameter("If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The ETag you read.")

_ETAG = re.compile(r'(?:W/)?"(\d{1,9})"\Z')


def etag(version: int) -> str:
    return f'"{version}"'


def expected_version(request: Request) -> int | None:
    """Return the version in `If-Match`; None without the header or for `*`.

    Raises Problem (412) for a tag that is not ours, since no row can match it.
    """
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return None
    match = _ETAG.match(header)
    if match is None:
        raise Problem(412, "version_mismatch", "If-Match names no version of this row; read it again.")
    return int(match.group(1))


def wants_none(request: Request) -> bool:
    """Return whether `If-None-Match: *` asks for a row that does not exist (RFC 9110, 13.1.2).

    Tags are not compared: a memory's strength changes without a new version.
    """
    return request.headers.get("If-None-Match", "").strip() == "*"


Row = TypeVar("Row", bound=Model)

_DECLARED: Final[dict[tuple[type[APIView], str], Mapping[str, bool]]] = {}
"""The query parameters of each operation, and whether they may be repeated."""


def _declared(view: APIView, method: str) -> Mapping[str, bool]:
    """Return the query parameters that an operation's schema declares, each with whether it may be repeated."""
    known = _DECLARED.get((type(view), method))
    if known is not None:
        return known
    # Read from the class, as `setup` wraps the instance's `post`.
    described = getattr(getattr(type(view), method.lower(), None), "kwargs", {})
    parameters: list[Any] = []
    if "schema" in described:
        schema = described["schema"]()
        schema.view, schema.method = view, method
        parameters = schema.get_override_parameters()
    names: dict[str, bool] = {}
    for parameter in parameters:
        if not isinstance(parameter, OpenApiParameter):
            names |= {name: isinstance(field, ListField) for name, field in parameter().fields.items()}
        elif parameter.location == OpenApiParameter.QUERY:
            names[parameter.name] = bool(parameter.many)
    _DECLARED[type(view), method] = names
    return names


def _named_as_query(detail: Any) -> Any:
    """Return a problem's details; of what is missing, they say that it belongs into the address and not the body."""
    if isinstance(detail, dict):
        return {name: _named_as_query(each) for name, each in detail.items()}
    if isinstance(detail, list):
        return [_named_as_query(each) for each in detail]
    return ErrorDetail("This query parameter is required.", detail.code) if detail.code == "required" else detail


def _check_query(request: Request, declared: Mapping[str, bool]) -> None:
    """Raise ValidationError for query parameters that the operation does not have, or that are repeated."""
    problems = {}
    for name, values in request.query_params.lists():
        if name not in declared:
            nearest = get_close_matches(name[:100].lower(), declared, n=1)
            known = f"has {', '.join(sorted(declared))}" if declared else "has none"
            hint = f" Did you mean {nearest[0]}?" if nearest else f" It {known}."
            problems[name[:100]] = [f"is not a query parameter of this operation.{hint}"]
        elif len(values) > 1 and not declared[name]:
            problems[name] = ["may be given once."]
    if problems:
        raise ValidationError(problems)


@cache
def _shared_serializer(serializer: type[Serializer]) -> Any:
    """Return a serializer shared by all requests; building its fields takes as long as validating a body."""
    return serializer()


Writer: TypeAlias = Callable[[Any], Any]


def represent(serializer: Callable[[], Any], rows: Sequence[Any]) -> list[Any]:
    """Return `serializer(rows, many=True).data` as plain lists and dictionaries."""
    write = _writer_of(serializer)
    return [write(row) for row in rows]


@cache
def _writer_of(serializer: Callable[[], Any]) -> Writer:
    return _writer(serializer())


def _writer(field: Field[Any, Any, Any, Any]) -> Writer:
    if type(field).to_representation is Serializer.to_representation:
        return _object_writer(field)  # type: ignore[arg-type]
    if type(field).to_representation is ListSerializer.to_representation:
        write = _writer(field.child)  # type: ignore[attr-defined]
        return lambda rows: [write(row) for row in (rows.all() if isinstance(rows, Manager) else rows)]
    return field.to_representation


def _object_writer(serializer: Serializer[Any]) -> Writer:
    fields = [
        (str(field.field_name), _getter(field), _writer(field))
        for field in serializer.fields.values()
        if not field.write_only
    ]

    def write(row: Any) -> dict[str, Any]:
        values = {}
        for name, get, write_field in fields:
            try:
                value = get(row)
            except SkipField:
                continue
            values[name] = None if value is None else write_field(value)
        return values

    return write


def _getter(field: Field[Any, Any, Any, Any]) -> Callable[[Any], Any]:
    """Return a function that reads a field's value; dictionaries, methods and gaps are left to the field."""
    if type(field).get_attribute is not Field.get_attribute or not field.source_attrs:
        return field.get_attribute
    get = attrgetter(".".join(field.source_attrs))

    def value_of(row: Any) -> Any:
        try:
            value = get(row)
        except Exception:
            return field.get_attribute(row)
        return field.get_attribute(row) if callable(value) else value

    return value_of


def check_disk() -> None:
    """Raise Problem (507) while the disk of the embedded database is nearly full."""
    space = disk_space(settings.ENVIRONMENT)
    if space is not None and space.is_full:
        raise disk_full(f"{space.detail}. Reads go on.")


def _answer_if_changed(request: HttpRequest, response: Response) -> None:
    """Give an answer the tag of its bytes; make it a 304 where the client names that tag."""
    tag = f'"{blake2b(response.content, digest_size=16).hexdigest()}"'
    response.headers["ETag"] = f"W/{tag}"
    named = {each.removeprefix("W/") for each in parse_etags(request.headers.get("If-None-Match", ""))}
    if named & {"*", tag}:
        response.status_code, response.content = status.HTTP_304_NOT_MODIFIED, b""
        del response.headers["Content-Type"]


Handler = TypeVar("Handler", bound=Callable[..., Any])


def _checking_no_body(handler: Handler) -> Handler:
    @wraps(handler)
    def checked(view: "ApiView", *args: Any, **kwargs: Any) -> Any:
        view.validated(NoBody)
        return handler(view, *args, **kwargs)

    return cast(Handler, checked)


def operation(
    operation_id: str, scope: Scope, *, own: Scope | None = None, **described: Any
) -> Callable[[Handler], Handler]:
    """Set the operation id of a view's method, the scope that it requires, and its schema.

    The scope `own` suffices for a key that is bound to one user, whose rows alone it can see. A method with the request
    `NoBody` refuses a body with fields, or of another media type.
    """

    def decorate(handler: Handler) -> Handler:
        if described.get("request") is NoBody:
            handler = _checking_no_body(handler)
        vars(handler)["scope"], vars(handler)["own_scope"] = scope, own
        return extend_schema(operation_id=operation_id, **described)(handler)

    return decorate


class Change(TypedDict):
    """Arguments of every conditional change: the version that the client read, the principal, and the time."""

    expected_version: int | None
    by: Principal
    now: datetime


class ApiView(APIView):
    """Base of all views: each calls one action and holds no logic.

    `scopes` maps methods to the required scope, as `operation` says (methods that are not there are closed), and
    `own_scopes` to the one that suffices for a key of one user;
    `problems` maps the app's exceptions.
    `idempotent_by_itself` leaves `Idempotency-Key` to the view, `takes_any_query` allows undeclared query parameters,
    `is_polled` answers a GET with 304 while its answer is the one whose tag the client sends.
    """

    scopes: ClassVar[Mapping[str, Scope]] = {}
    own_scopes: ClassVar[Mapping[str, Scope]] = {}
    problems: ClassVar[Mapping[type[Exception], Callable[[Any], APIException]]] = {}
    idempotent_in_transaction: ClassVar[bool] = True
    idempotent_by_itself: ClassVar[bool] = False
    takes_any_query: ClassVar[bool] = False
    is_polled: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name.upper(): handler for name, handler in vars(cls).items() if hasattr(handler, "scope")}
        cls.scopes = {**cls.scopes, **{name: handler.scope for name, handler in own.items()}}
        bound = {name: handler.own_scope for name, handler in own.items() if handler.own_scope is not None}
        cls.own_scopes = {**cls.own_scopes, **bound}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.now = datetime.now(UTC)
        self.actor_id: UUID | None = None
        self.token_quotas: list[TokenQuota] = []
        if (post := getattr(self, "post", None)) is not None and not self.idempotent_by_itself:
            self.post: Callable[..., Any] = lambda request, *args, **kwargs: answer_once(
                request,
                route=request.path,
                in_transaction=self.idempotent_in_transaction,
                act=lambda: post(request, *args, **kwargs),
                actor_id=lambda: self.actor_id,
            )

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with caused_by(None):  # until the key is known
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check undeclared query parameters, and refuse writes, but not deletions, while the disk is nearly full."""
        super().initial(request, *args, **kwargs)
        KEY_ID.set(self.principal.key_id)
        method = str(request.method)
        self._declared = _declared(self, "GET" if method == "HEAD" else method)
        if not self.takes_any_query:
            _check_query(request, self._declared)
        if method in ("POST", "PUT", "PATCH") and self.scopes.get(method) is not Scope.READ:
            check_disk()

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer 304 without a body for a read with `If-None-Match: *` of an existing row; count replaced texts."""
        tag = response.headers.get("ETag")  # 0: the row does not exist, and this would be its first version
        is_row = response.status_code == status.HTTP_200_OK and tag not in (None, etag(0))
        is_read = self.request.method in ("GET", "HEAD")
        if is_row and is_read and wants_none(self.request):
            response = Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
        if replaced := getattr(request._request, REPLACED, 0):
            response["Replaced-Texts"] = str(replaced)
        quota: Quota | None = getattr(request, "quota", None)
        for name, value in limit_headers([*([quota] if quota else ()), *self.token_quotas]).items():
            response[name] = value
        response = super().finalize_response(request, response, *args, **kwargs)
        if self.is_polled and is_read and response.status_code == status.HTTP_200_OK:
            response.add_post_render_callback(partial(_answer_if_changed, request._request))
        return response

    @property
    def principal(self) -> Principal:
        return self.request.user  # type: ignore[return-value]

    @property
    def change(self) -> Change:
        """Return the arguments of a conditional change. Raises Problem as `expected_version`."""
        return Change(expected_version=expected_version(self.request), by=self.principal, now=self.now)

    def validated(self, serializer: type[Serializer], data: Any = None) -> dict[str, Any]:
        """Return the validated body (or `data`). Raises ValidationError."""
        body = self.request.data if data is None else data
        if body is None:
            raise ValidationError({api_settings.NON_FIELD_ERRORS_KEY: ["No data provided"]}, code="null")
        values: dict[str, Any] = _shared_serializer(serializer).run_validation(body)
        return values

    def query(self, serializer: type[Serializer]) -> dict[str, Any]:
        """Return the validated query parameters; those that may be repeated as lists. Raises ValidationError."""
        params = self.request.query_params
        try:
            return self.validated(
                serializer, {name: params.getlist(name) if self._declared[name] else params[name] for name in params}
            )
        except ValidationError as error:
            raise ValidationError(_named_as_query(error.detail)) from None

    def reading(self, values: Mapping[str, Any]) -> Tenant:
        tenant = tenant_for_reading(self.principal, values["agent_id"], values.get("user_id"))
        self.actor_id = tenant.actor.id if tenant.actor else None
        return tenant

    def writing(self, values: Mapping[str, Any]) -> Actor:
        """Resolve, or create, the actor of a write."""
        actor = actor_for_writing(self.principal, values["agent_id"], values.get("user_id"), now=self.now)
        self.actor_id = actor.id
        return actor

    def owned(self, rows: type[Row] | QuerySet[Row], row_id: UUID) -> Row:
        """Return the row with this id if the key may see it; 404 otherwise."""
        row = resolve(rows, self.principal, row_id)
        self.actor_id = row.actor_id  # type: ignore[attr-defined]
        return row

    @staticmethod
    def shown(serializer: type[Serializer], rows: Sequence[Any]) -> list[Any]:
        return represent(serializer, rows)

    def page(
        self,
        rows: QuerySet[Row],
        serializer: type[BaseSerializer],
        *,
        ordering: tuple[str, ...],
        shown: Callable[[Any], Any] | None = None,
        paginator: CursorPagination | None = None,
    ) -> Response:
        """Return one page of rows, as the serializer or `shown` writes them."""
        paginator = paginator or CursorPagination()
        paginator.ordering = ordering
        page = paginator.paginate_queryset(rows, self.request, view=self)
        return paginator.get_paginated_response(shown(page) if shown else represent(serializer, page))


IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
    OpenApiParameter.HEADER,
    description="The same key and body again within 24 hours get the first answer.",
)


class OperationSchema(AutoSchema):
    """AutoSchema with the Idempotency-Key header on every POST."""

    def get_override_parameters(self) -> list[Any]:
        return [IDEMPOTENCY_KEY] if self.method == "POST" else []


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Bearer authentication in the schema, so that the served page can send a key."""

    target_class = "memoryhub.auth.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}

"""ETag, If-Match and If-None-Match over a row's version (SPEC H2)."""

import re

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from memoryhub.api.problems import Problem

IF_MATCH = OpenApiParameter(
    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The ETag you read."
)

_TAG = re.compile(r'(?:W/)?"(\d{1,9})"\Z')


def etag(version: int) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def expected_version(request: Request) -> int | None:
    """Return the version in `If-Match`; None without the header or for `*`.

    Raises a 412 for a tag that is not one of ours, since no row can match it.
    """
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return None
    found = _TAG.match(header)
    if found is None:
        raise Problem(412, "version_mismatch", "If-Match names no version of this row; read it again.")
    return int(found.group(1))


def wants_none(request: Request) -> bool:
    """Return whether the call is only for a row that does not exist: `If-None-Match: *` (RFC 9110, 13.1.2).

    A tag there is not compared: what people did not decide about, a memory's strength, changes beneath the same one.
    """
    return request.headers.get("If-None-Match", "").strip() == "*"

"""JSON as it comes in over HTTP."""

from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from memoryhub.api.problems import PayloadTooLarge
from memoryhub.validators import UnusableJSON, parse_json


class StrictJSONParser(BaseParser):
    """Parses `application/json`; every refusal is a 400 that names the place, or a 413."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None) -> Any:
        """Return the parsed body; an empty body is an empty object. Raises ParseError, PayloadTooLarge."""
        try:
            body = stream.read(settings.MAX_BODY_BYTES + 1)
        except RequestDataTooBig:
            raise PayloadTooLarge() from None
        if len(body) > settings.MAX_BODY_BYTES:
            raise PayloadTooLarge()
        try:
            return parse_json(body)
        except UnusableJSON as error:
            raise ParseError(str(error)) from None

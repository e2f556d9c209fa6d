"""Request limits, request log, and language selection."""

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

from memoryhub.api.problems import plain_problem
from memoryhub.validators import text_problem

log = logging.getLogger("memoryhub.requests")
Handler = Callable[[HttpRequest], HttpResponse]
API = "/api/"


class RequestLimits:
    """Reject oversized bodies and unstorable URLs; log ids and durations, never texts."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self._refusal(request) or self._answer(request)
        elapsed_ms = (time.perf_counter() - started) * 1000
        response["Server-Timing"] = f"app;dur={elapsed_ms:.1f}"
        if request.path.startswith(API):
            log.info(
                "request",
                extra={
                    "method": request.method,
                    "route": getattr(request.resolver_match, "route", "") if request.resolver_match else "",
                    "status": response.status_code,
                    "ms": round(elapsed_ms, 1),
                },
            )
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        except OperationalError:
            # Django answers exceptions of views itself; this is one from another middleware (the session's).
            return plain_problem(503, "database_unavailable", "The database is away.", retry_after_seconds=2)

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        if "Transfer-Encoding" in request.headers and "Content-Length" not in request.headers:
            # REST framework takes a body without a length for no body at all.
            request.META["CONTENT_LENGTH"] = str(len(request.body))
        try:
            length = int(request.headers.get("Content-Length") or 0)
        except ValueError:
            return plain_problem(400, "bad_request", "Content-Length is not a number.")
        if length > settings.MAX_BODY_BYTES:
            return plain_problem(
                413, "payload_too_large", f"A body may have {settings.MAX_BODY_BYTES} bytes."
            )
        for place, text in (("path", request.path), *(("query", value) for value in _query_words(request))):
            if problem := text_problem(text):
                return plain_problem(400, "bad_request", f"{place}: {problem}")
        return None


class LanguageOfTheReader(LocaleMiddleware):
    """Use the browser's language for pages, and English for the API.

    DRF's validation messages would otherwise differ in language from our own.
    """

    def process_request(self, request: HttpRequest) -> None:
        if not request.path.startswith(API):
            super().process_request(request)
            return
        translation.activate("en")
        request.LANGUAGE_CODE = translation.get_language()

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not request.path.startswith(API):
            return super().process_response(request, response)
        response.headers.setdefault("Content-Language", "en")
        return response


def _query_words(request: HttpRequest) -> list[str]:
    return [word for key, values in request.GET.lists() for word in (key, *values)]

"""Log lines hold no texts (SPEC O4)."""

import json
import logging
from datetime import datetime

import pytest
from django.db import IntegrityError, connection
from django.test import Client

from memoryhub.auth.principals import Forbidden
from memoryhub.logs import PlainFormatter, SafeFormatter, SafeJsonFormatter

SECRET = "what somebody said"


def logged(error: Exception, formatter: logging.Formatter) -> str:
    record = logging.LogRecord(
        "x", logging.ERROR, __file__, 1, "request failed", (), (type(error), error, error.__traceback__)
    )
    return formatter.format(record)


def test_foreign_exceptions_are_logged_by_name_and_place() -> None:
    try:
        try:
            int(SECRET)
        except ValueError as cause:
            raise RuntimeError(SECRET) from cause
    except RuntimeError as error:
        line = logged(error, SafeJsonFormatter())
        text = logged(error, SafeFormatter())
    assert SECRET not in line + text
    assert "builtins.ValueError\ncaused:" in json.loads(line)["exc_info"]
    assert "test_logs.py" in text


def test_own_exceptions_keep_their_message() -> None:
    try:
        raise Forbidden("This key may not.")
    except Forbidden as error:
        assert "memoryhub.auth.principals.Forbidden: This key may not." in logged(error, SafeFormatter())


def test_times_have_their_offset() -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "request", (), None)
    logged_at = datetime.fromisoformat(json.loads(SafeJsonFormatter("%(asctime)s").format(record))["asctime"])
    assert logged_at.tzinfo is not None
    assert abs(logged_at.timestamp() - record.created) < 0.002  # the log has milliseconds


def test_plain_lines_have_the_fields_and_not_the_request() -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "request", (), None)
    vars(record).update(route="api/v1/memories", status=201, request=SECRET)
    assert PlainFormatter("%(message)s").format(record) == "request route=api/v1/memories status=201"


def test_refused_requests_are_logged_without_path_and_traceback(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The path holds whatever somebody typed; the request log has the route and the status."""
    client.get(f"/nowhere/{SECRET}")
    client.get("/healthz", headers={"host": "evil.example"})
    assert [(each.name, each.levelname, each.exc_info) for each in caplog.records] == [
        ("django.security.DisallowedHost", "WARNING", None)
    ]
    assert "ALLOWED_HOSTS" in caplog.text


def test_record_without_an_exception_has_none() -> None:
    assert SafeFormatter().formatException((None, None, None)) == ""


@pytest.mark.django_db
def test_database_errors_name_the_constraint_and_not_the_row() -> None:
    with pytest.raises(IntegrityError) as caught, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memoryhub_agent (agent_id, language, related_domains) VALUES (%s, 'en', '{}')", [SECRET]
        )
    assert SECRET in str(caught.value)
    line = logged(caught.value, SafeJsonFormatter())
    assert SECRET not in line

"""`manage.py keys`: API keys issued, listed and revoked from a script."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from rest_framework.test import APIClient

from memoryhub.auth.actions import create_agent, issue_key
from memoryhub.auth.models import ApiKey, AuditEntry
from memoryhub.auth.principals import Scope, command
from memoryhub.env import CHECKOUT
from memoryhub.tenancy.models import Agent

BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def keys(*arguments: str) -> tuple[str, str]:
    """Run the command; return what it wrote to the standard output and to stderr."""
    out, notes = StringIO(), StringIO()
    call_command("keys", *arguments, stdout=out, stderr=notes)
    return out.getvalue(), notes.getvalue()


def client_of(text: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def read(client: APIClient, agent_id: str, user_id: str) -> Any:
    return client.get("/api/v1/memories", {"agent_id": agent_id, "user_id": user_id})


@pytest.fixture
def kana(db: None) -> None:
    create_agent(agent_id="kana", values={}, by=BY, now=NOW)


def test_issued_key_stands_alone_on_stdout_and_works(kana: None) -> None:
    out, notes = keys("issue", "deploy", "--agent", "kana", "--user", "hiroki", "--expires", "2999-12-31")

    text, end = out[:-1], out[-1]
    row = ApiKey.objects.get()
    assert end == "\n" and text.startswith(f"mh_{row.prefix}_") and not set(text) & set(" \n")
    assert text not in notes and row.prefix in notes
    assert (row.name, row.scopes, row.agent_ids, row.user_id) == ("deploy", ["read", "write"], ["kana"], "hiroki")
    assert row.is_trusted and row.expires_at == datetime(2999, 12, 31, tzinfo=UTC)
    client = client_of(text)
    assert read(client, "kana", "hiroki").status_code == 200
    assert read(client, "kana", "aoi").status_code == 403


def test_issue_and_revocation_are_in_the_trail_as_those_of_the_admin_are(kana: None) -> None:
    out, _ = keys("issue", "deploy")
    row = ApiKey.objects.get()
    keys("revoke", row.prefix, "--reason", "laptop lost")

    revoked, issued = AuditEntry.objects.filter(object_kind="api_key")
    assert (issued.verb, issued.who_kind, issued.who_name, issued.object_id, issued.details) == (
        "issue",
        "command",
        "keys",
        str(row.pk),
        {"prefix": row.prefix},
    )
    assert (revoked.verb, revoked.object_id, revoked.reason) == ("revoke", str(row.pk), "laptop lost")
    assert read(client_of(out.strip()), "kana", "hiroki").status_code == 401


def test_scopes_and_trust_are_chosen(db: None) -> None:
    keys("issue", "reader", "--scope", "read", "--scope", "admin", "--scope", "read", "--untrusted")
    row = ApiKey.objects.get()
    assert row.scopes == ["read", "admin"] and not row.is_trusted and row.agent_ids is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["issue", "x", "--agent", ""], "--agent '': "),
        (["issue", "x", "--agent", "k" * 300], "--agent 'kkk"),
        (["issue", "x", "--user", ""], "--user is empty"),
        (["issue", ""], "name: This field cannot be blank."),
        (["issue", "x" * 101], "name: "),
        (["issue", "x", "--user", "u" * 256], "--user: "),
        (["issue", "\udcff"], "name: half of a surrogate pair"),
        (["issue", "x", "--scope", "delete"], "invalid choice: 'delete'"),
        (["issue", "x", "--expires", "tomorrow"], "--expires must be a day"),
        (["issue", "x", "--expires", "2020-01-01"], "is past"),
        (["issue", "x", "--expires", "9999-12-31T23:59-12:00"], "is beyond the calendar"),
        (["issue", "  "], "name: give printable characters"),
        (["issue", "two\nlines"], "name: give printable characters"),
        (["issue", "x", "--agent", "\udcff"], "agent: half of a surrogate pair"),
        (["revoke", "\udcff", "--reason", "lost"], "key: half of a surrogate pair"),
        (["revoke", "0123456789", "--reason", "lost"], "No key has this prefix or id"),
        (["revoke", "0123456789", "--reason", " "], "Give a --reason"),
        (["revoke", "0123456789", "--reason", "x" * 1001], "at most 1000 characters"),
        (["revoke", "0123456789"], "--reason"),
        ([], "issue | list | revoke"),
    ],
    ids=lambda value: None if isinstance(value, str) else ascii(" ".join(value))[:40],
)
def test_bad_arguments_are_told_and_issue_nothing(arguments: list[str], words: str, kana: None) -> None:
    with pytest.raises(CommandError) as refused:
        keys(*arguments)
    assert words in str(refused.value)
    assert not ApiKey.objects.exists()


def test_agents_that_do_not_exist_yet_are_created(db: None) -> None:
    _key, notes = keys("issue", "x", "--agent", "kana", "--agent", "kana")
    assert "Agent kana is new, and was created." in notes
    assert [(agent.agent_id, agent.name) for agent in Agent.objects.all()] == [("kana", "kana")]
    assert "new" not in keys("issue", "y", "--agent", "kana")[1]


def test_list_shows_state_and_last_use_and_no_secret(kana: None) -> None:
    text = keys("issue", "phone", "--agent", "kana")[0].strip()
    assert read(client_of(text), "kana", "hiroki").status_code == 200
    old, _ = issue_key(name="old", scopes=[Scope.READ], expires_at=NOW, by=BY, now=NOW)
    gone, _ = issue_key(name="gone", scopes=list(Scope), user_id="hiroki", is_trusted=False, by=BY, now=NOW)
    keys("revoke", str(gone.pk), "--reason", "left")

    out, _ = keys("list", "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert {name: row["state"] for name, row in rows.items()} == {
        "phone": "usable",
        "old": "expired",
        "gone": "revoked",
    }
    assert rows["phone"]["agents"] == ["kana"] and rows["phone"]["last_used_at"] is not None
    assert rows["old"] == {
        "prefix": f"mh_{old.prefix}", "name": "old", "state": "expired", "person": None, "agents": None, "user": None,
        "scopes": ["read"], "trusted": True, "created_at": NOW.isoformat(), "last_used_at": None,
        "expires_at": NOW.isoformat(), "daily_tokens": None, "id": str(old.pk),
    }  # fmt: skip
    table, _ = keys("list")
    head, *lines = table.splitlines()
    columns = [
        "prefix",
        "name",
        "state",
        "person",
        "agents",
        "user",
        "scopes",
        "trusted",
        "daily",
        "tokens",
        "last",
        "used",
        "expires",
    ]
    assert head.split() == columns
    assert next(line for line in lines if "gone" in line).split()[2:9] == [
        "revoked",
        "service",
        "account",
        "all",
        "hiroki",
        "read,write,curate,admin",
        "no",
    ]
    assert text.split("_", 2)[2] not in out + table


def test_key_is_revoked_once_by_its_prefix_as_it_is_shown(db: None) -> None:
    keys("issue", "phone")
    shown = f"mh_{ApiKey.objects.get().prefix}_…"
    first, again = keys("revoke", shown, "--reason", "lost"), keys("revoke", shown, "--reason", "lost")
    assert first[0] == again[0] == ""
    assert "is revoked" in first[1] and "was revoked before" in again[1]
    assert AuditEntry.objects.filter(verb="revoke").count() == 1


def test_two_keys_of_one_prefix_are_told_apart_by_their_ids(db: None) -> None:
    one, _ = issue_key(name="one", scopes=[Scope.READ], by=BY, now=NOW)
    two, _ = issue_key(name="two", scopes=[Scope.READ], by=BY, now=NOW)
    ApiKey.objects.update(prefix="0123456789")
    with pytest.raises(CommandError, match="Several keys"):
        keys("revoke", "0123456789", "--reason", "lost")
    keys("revoke", str(one.pk), "--reason", "lost")
    assert set(ApiKey.objects.usable(NOW)) == {two}


@pytest.mark.django_db(transaction=True)
def test_shell_takes_the_key_from_the_commands_output() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "keys", "issue", "shell"],
        cwd=CHECKOUT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.count("\n") == 1
    assert read(client_of(done.stdout.strip()), "kana", "hiroki").status_code == 200


def environment() -> dict[str, str]:
    values = connection.settings_dict
    return {
        **os.environ,
        "DATABASE_URL": (
            f"postgresql://{values['USER']}:{values['PASSWORD']}@{values['HOST']}:{values['PORT']}/{values['NAME']}"
        ),
    }


def test_a_personal_key_is_of_an_account_that_may_do_what_it_does(kana: None) -> None:
    User.objects.create_superuser("hanako")
    User.objects.create_user("mika", is_staff=True)
    text = keys("issue", "laptop", "--agent", "kana", "--person", "hanako")[0].strip()
    keys("issue", "deploy", "--agent", "kana")
    assert read(client_of(text), "kana", "hiroki").status_code == 200
    rows = [json.loads(line) for line in keys("list", "--json", "--person", "hanako")[0].splitlines()]
    assert [(row["name"], row["person"], row["state"]) for row in rows] == [("laptop", "hanako", "usable")]
    assert "service account" in keys("list")[0]
    User.objects.filter(username="hanako").update(is_active=False)
    assert read(client_of(text), "kana", "hiroki").status_code == 401
    assert [json.loads(line)["state"] for line in keys("list", "--json")[0].splitlines()] == ["usable", "refused"]
    with pytest.raises(CommandError, match="may not do what this key would do"):
        keys("issue", "phone", "--person", "mika")
    with pytest.raises(CommandError, match="no account 'nobody'"):
        keys("issue", "phone", "--person", "nobody")

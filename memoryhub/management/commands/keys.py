"""`manage.py keys`: issue, list and revoke API keys from a script, as the admin does."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.actions import create_agent, issue_key, revoke_key
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Scope, command
from memoryhub.auth.roles import is_upheld, upholds
from memoryhub.management import check_reason, check_texts, moment_option
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policy import AGENT_ID_PATTERN

BY: Final = command("keys")
DEFAULT_SCOPES: Final = (Scope.READ, Scope.WRITE)
SCOPE_HELP: Final = f"{', '.join(Scope)}; once for each. Each stands alone. Without it: {' and '.join(DEFAULT_SCOPES)}."


OPTIONS: Final = {"daily_token_cap": "--daily-tokens", "user_id": "--user", "agent_ids": "--agent"}
"""Options by the fields of a key, for errors."""


class Command(BaseCommand):
    help = "Issue, list and revoke API keys."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="issue | list | revoke")
        issue = verbs.add_parser("issue", help="Issue a key, and print it alone on the standard output, once.")
        issue.add_argument("name", help="What the key is for.")
        issue.add_argument("--scope", action="append", choices=[*map(str, Scope)], help=SCOPE_HELP)
        issue.add_argument(
            "--agent", action="append", help="An agent it may touch, made if new; once for each. Without it: all."
        )
        issue.add_argument("--user", help="Bind it to this user. Without it: any user of its agents.")
        issue.add_argument("--person", help="Make it a personal key of this account. Without it: a service account's.")
        issue.add_argument(
            "--expires", metavar="DATE", help="As 2026-12-31 (0:00 UTC of that day), or 2026-12-31T09:00+09:00."
        )
        issue.add_argument(
            "--daily-tokens", type=int, metavar="N", help="Tokens that its chat may use a day. Without it: any."
        )
        issue.add_argument(
            "--untrusted", action="store_true", help="What it writes waits for a curator before it is used."
        )
        listed = verbs.add_parser("list", help="List the keys, newest first.")
        listed.add_argument("--person", help="Only the personal keys of this account.")
        listed.add_argument("--json", action="store_true", help="One JSON object for each key, one on a line.")
        revoke = verbs.add_parser("revoke", help="Revoke a key for good.")
        revoke.add_argument("key", help="Its prefix, as `keys list` shows it, or its id.")
        revoke.add_argument("--reason", required=True, help="Kept in the audit trail.")

    def handle(self, *args: Any, **options: Any) -> None:
        verbs = {"issue": self._issue, "list": self._list, "revoke": self._revoke}
        verbs[options["verb"]](options, timezone.now())

    def _issue(self, options: dict[str, Any], now: datetime) -> None:
        agents, user, expires_at = options["agent"], options["user"], _expiry(options["expires"], now)
        if user == "":
            raise CommandError("--user is empty; leave it out for a key of any user.")
        check_texts(name=options["name"], user=user or "", agent="".join(agents or []))
        person = _person(options["person"])
        new_agents = _new_agents(agents or [])
        values: dict[str, Any] = {
            "name": options["name"],
            "scopes": list(dict.fromkeys(map(Scope, options["scope"] or DEFAULT_SCOPES))),
            "agent_ids": list(dict.fromkeys(agents)) if agents else None,
            "user_id": user,
            "is_trusted": not options["untrusted"],
            "expires_at": expires_at,
            "daily_token_cap": options["daily_tokens"],
            "person": person,
            "is_personal": person is not None,
        }
        if person is not None and not upholds(person, ApiKey(**values)):
            raise CommandError(f"--person {person.username}: the account may not do what this key would do.")
        try:
            ApiKey(**values).clean_fields(exclude={"prefix", "digest"})
        except ValidationError as error:
            wrong = error.message_dict.items()
            problems = [f"{OPTIONS.get(field, field)}: {' '.join(texts)}" for field, texts in wrong]
            raise CommandError(" ".join(problems)) from error
        for agent in new_agents:
            create_agent(agent_id=agent, values={"name": agent}, by=BY, now=now)
            self.stderr.write(f"Agent {agent} is new, and was created.")
        row, new = issue_key(**values, by=BY, now=now)
        self.stderr.write(f"{row}: shown this once. Scopes: {', '.join(row.scopes)}.")
        self.stdout.write(new.text)

    def _list(self, options: dict[str, Any], now: datetime) -> None:
        rows = ApiKey.objects.select_related("person")
        if person := _person(options["person"]):
            rows = rows.filter(person=person, is_personal=True)
        keys = [_key_values(key, now) for key in rows]
        if options["json"]:
            for key in keys:
                self.stdout.write(json.dumps(key, ensure_ascii=False))
        elif keys:
            self._write_table(keys)
        else:
            self.stderr.write("There is no key.")

    def _write_table(self, keys: Sequence[dict[str, Any]]) -> None:
        columns = [name for name in keys[0] if name not in {"id", "created_at"}]
        rows = [[name.removesuffix("_at").replace("_", " ") for name in columns]]
        rows += [[_cell(name, key[name]) for name in columns] for key in keys]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(map(str.ljust, row, widths)).rstrip())

    def _revoke(self, options: dict[str, Any], now: datetime) -> None:
        if not options["reason"].strip():
            raise CommandError("Give a --reason: it is kept in the audit trail.")
        check_reason(options["reason"])
        check_texts(key=options["key"])
        key = _find(options["key"])
        if revoke_key(key=key, reason=options["reason"], by=BY, now=now):
            self.stderr.write(f"{key} is revoked.")
        else:
            self.stderr.write(f"{key} was revoked before.")


def _person(name: str | None) -> User | None:
    """Return the account of an option; None without the option. Raises CommandError."""
    person = User.objects.filter(username=name).first() if name is not None else None
    if name is not None and person is None:
        raise CommandError(f"There is no account {name!r}.")
    return person


def _expiry(text: str | None, now: datetime) -> datetime | None:
    moment = moment_option("--expires", text)
    if moment is not None and moment <= now:
        raise CommandError(f"--expires {text} is past: nobody could use the key.")
    return moment


def _new_agents(requested: Sequence[str]) -> list[str]:
    """Return the requested agents that do not exist yet. Raises CommandError for ids that no agent may have."""
    known = set(Agent.objects.filter(pk__in=requested).values_list("pk", flat=True))
    new = [agent for agent in dict.fromkeys(requested) if agent not in known]
    if wrong := [agent for agent in new if not AGENT_ID_PATTERN.match(agent)]:
        raise CommandError(f"--agent {wrong[0]!r}: give 1 to 255 letters, digits, - or _.")
    return new


def _find(text: str) -> ApiKey:
    """Return the key of a prefix, with or without its `mh_`, or of an id. Raises CommandError for none or several."""
    try:
        keys = ApiKey.objects.filter(pk=UUID(text))
    except ValueError:
        keys = ApiKey.objects.filter(prefix=text.removeprefix("mh_").rstrip("_…"))
    matches = list(keys[:2])
    if not matches:
        raise CommandError("No key has this prefix or id; `manage.py keys list` shows them.")
    if len(matches) > 1:
        raise CommandError("Several keys have this prefix; name the id, as `manage.py keys list --json` shows it.")
    return matches[0]


def _key_values(key: ApiKey, now: datetime) -> dict[str, Any]:
    times = {name: getattr(key, name) for name in ("created_at", "last_used_at", "expires_at")}
    return {
        "prefix": f"mh_{key.prefix}",
        "name": key.name,
        "state": str(key.state(now)) if is_upheld(key) else "refused",
        "person": key.person.username if key.person and key.is_personal else None,
        "agents": key.agent_ids,
        "user": key.user_id,
        "scopes": key.scopes,
        "trusted": key.is_trusted,
        "daily_tokens": key.daily_token_cap,
        **{name: moment and moment.isoformat(timespec="seconds") for name, moment in times.items()},
        "id": str(key.pk),
    }


def _cell(name: str, value: Any) -> str:
    if value is None:
        return {"agents": "all", "user": "any", "person": "service account"}.get(name, "-")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, list) else str(value)

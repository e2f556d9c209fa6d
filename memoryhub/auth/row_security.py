"""Row-level security for people who are limited to some agents (ADR 70): policies and rights of the database's role.

Every table is in one of three lists. Those with an actor or an agent have a policy, by their models; all others are
named here, or closed. The owner of the tables, as whom everything else works, is affected by none of it.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, transaction
from django.db.models import Field, Model

from memoryhub.db import reach
from memoryhub.db.reach import ROLE, SETTING

log = logging.getLogger(__name__)

POLICY: Final = "limited_people"
READ: Final = "SELECT"
ADD: Final = "SELECT, INSERT"
ALL: Final = "SELECT, INSERT, UPDATE, DELETE"

READABLE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("auth_user", "auth_group", "auth_permission", "auth_user_groups", "auth_group_permissions"),
            *("auth_user_user_permissions", "django_content_type", "django_migrations"),
            *("memoryhub_embeddingspace", "memoryhub_clusteringstate"),
            *("memoryhub_worker", "memoryhub_schedulestate", "strength_reviewinstructions"),
        ),
        READ,
    ),
    "django_admin_log": ADD,
    **dict.fromkeys(
        (
            *("django_session", "memoryhub_sharedvalue", "memoryhub_callsum", "memoryhub_position"),
            *("memoryhub_termstatistic", "memoryhub_tokenfactors"),
            *("strength_savedview", "strength_newsplace", "strength_reviewhold"),
        ),
        ALL,
    ),
}
"""Tables without rows of an agent, and the rights to them."""

CLOSED: Final = frozenset(
    {
        *("account_emailaddress", "account_emailconfirmation", "mfa_authenticator"),
        *("socialaccount_socialaccount", "socialaccount_socialapp", "socialaccount_socialtoken"),
        *("axes_accessattempt", "axes_accessattemptexpiration", "axes_accessfailurelog", "axes_accesslog"),
        *("django_q_ormq", "django_q_schedule", "django_q_task"),
        *("memoryhub_agentlimit", "memoryhub_apikey", "memoryhub_invitation"),
        *("memoryhub_oauthclient", "memoryhub_oauthgrant", "memoryhub_oauthtoken"),
        *("webhooks_delivery", "webhooks_endpoint"),
    }
)
"""Tables that limited people can neither read nor write, whatever their permissions."""

COLUMNS: Final[Mapping[str, str]] = {"webhooks_endpoint": "id"}
"""Columns of closed tables that can be read: triggers look whether there is a webhook."""

OF_ACTOR: Final = "actor_id IN (SELECT id FROM memoryhub_actor)"  # of which the same role sees some
MAY_ADD: Final[Mapping[str, str]] = dict.fromkeys(("memoryhub_auditentry", "memoryhub_ledgerentry"), "agent_id = ''")
"""Conditions of rows that may be added besides those that are seen: entries about several agents, or none."""

AGENTS: Final = f"NULLIF(current_setting('{SETTING}', TRUE), '')::text[]"

# Like `protect`, it compares comments, as PostgreSQL writes conditions in another form than it is given.
STATE: Final = f"""
SELECT role.name, member.is_ready, array(
    SELECT class.relname FROM unnest(%s::text[], %s::text[]) AS wanted (name, mark)
    JOIN pg_class AS class ON class.oid = to_regclass(wanted.name)
    LEFT JOIN pg_policy AS policy ON policy.polrelid = class.oid AND policy.polname = '{POLICY}'
    WHERE NOT class.relrowsecurity OR policy.oid IS NULL
        OR obj_description(policy.oid, 'pg_policy') IS DISTINCT FROM wanted.mark || role.name
        OR (member.is_ready AND NOT has_table_privilege(role.name, class.oid, 'UPDATE'))
)::text[], array(
    SELECT closed.name FROM unnest(%s::text[]) AS closed (name)
    WHERE member.is_ready AND has_table_privilege(role.name, to_regclass(closed.name), 'SELECT')
)::text[]
FROM (SELECT ({ROLE}) AS name) AS role, LATERAL (
    SELECT coalesce(bool_and(
        pg_has_role(session_user, oid,
            CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)
        AND NOT (rolsuper OR rolbypassrls OR rolcanlogin)
        AND NOT EXISTS (SELECT FROM pg_auth_members WHERE member = limited.oid)
    ), FALSE) AS is_ready
    FROM pg_roles AS limited WHERE rolname = role.name
) AS member
"""  # noqa: S608


def tables() -> Iterator[type[Model]]:
    """Return the models of all tables, one for each."""
    for model in apps.get_models(include_auto_created=True):
        if model._meta.managed and not model._meta.proxy:
            yield model


def conditions() -> dict[str, str]:
    """Return the condition for the rows of each limited table, as SQL, by the table's name."""
    found = ((model._meta.db_table, _condition(model)) for model in tables())
    others = READABLE.keys() | CLOSED
    return {table: condition for table, condition in found if condition and table not in others}


def _condition(model: type[Model]) -> str:
    if model._meta.db_table == "memoryhub_job":
        return f'({OF_ACTOR} OR (actor_id IS NULL AND "order" IS NULL))'  # the server's own, such as VACUUM
    columns: dict[str, Field[Any, Any]] = {str(field.column): field for field in model._meta.local_concrete_fields}
    if "agent_id" in columns:
        return f"agent_id = ANY ({AGENTS})"
    if "actor_id" in columns:
        return OF_ACTOR
    return ""


def is_closed(model: type[Model]) -> bool:
    """Return whether what runs now is limited, and cannot read the rows of a model."""
    return reach.agents() is not None and model._meta.db_table in CLOSED


def protect(sender: Any = None, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Write policies and rights, where the role exists and a table has not the present ones (`post_migrate`).

    A table is locked for the moment that this takes.
    """
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('memoryhub_agent')")
        if cursor.fetchone()[0] is None:
            return  # all migrations were taken back
        role, is_ready, unprotected, _opened = _state(cursor)
        rights = list(_rights(cursor, role)) if is_ready else []
    if not is_ready:
        return
    try:
        for statements in (*(_policy(table, conditions()[table], role) for table in unprotected), rights):
            with transaction.atomic(using), connections[using].cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '5s'")
                for statement in statements:
                    cursor.execute(statement)
    except DatabaseError as error:
        log.warning("row-level security was not set, so people with limited agents are refused: %s", error)


def _policy(table: str, condition: str, role: str) -> Iterator[str]:
    yield f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY'
    yield f'DROP POLICY IF EXISTS {POLICY} ON "{table}"'
    # For everyone: a policy that named its role could not be restored on a server without it.
    seen = f"current_user <> {_text(role)} OR {condition}"
    added = f"{seen} OR {MAY_ADD[table]}" if table in MAY_ADD else seen
    yield f'CREATE POLICY {POLICY} ON "{table}" USING ({seen}) WITH CHECK ({added})'
    yield f'COMMENT ON POLICY {POLICY} ON "{table}" IS {_text(_mark(table, condition) + role)}'


def _rights(cursor: Any, role: str) -> Iterator[str]:
    """Return statements that leave the role the rights of the lists alone; none where it has them."""
    cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    existing = {name for (name,) in cursor.fetchall()}
    wanted = {**READABLE, **dict.fromkeys(conditions(), ALL)}
    cursor.execute(
        "SELECT table_name, string_agg(privilege_type, ', ' ORDER BY strpos(%s, privilege_type)) "
        "FROM information_schema.role_table_grants WHERE grantee = %s AND table_schema = current_schema() GROUP BY 1",
        [ALL, role],
    )
    granted = dict(cursor.fetchall())
    for table in sorted(existing):
        if granted.get(table) != wanted.get(table):
            yield f'REVOKE ALL ON "{table}" FROM "{role}"'
            if table in wanted:
                yield f'GRANT {wanted[table]} ON "{table}" TO "{role}"'
    for table in sorted(existing & COLUMNS.keys()):
        yield f'GRANT SELECT ("{COLUMNS[table]}") ON "{table}" TO "{role}"'
    yield f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{_schema(cursor)}" TO "{role}"'


def _schema(cursor: Any) -> str:
    cursor.execute("SELECT current_schema()")
    return str(cursor.fetchone()[0])


def _state(cursor: Any) -> tuple[str, bool, list[str], list[str]]:
    """Return the role, whether it is ready, limited tables that are not protected, and closed ones that it can read."""
    wanted = {table: _mark(table, condition) for table, condition in conditions().items()}
    cursor.execute(STATE, [list(wanted), list(wanted.values()), sorted(CLOSED)])
    role, is_ready, unprotected, opened = cursor.fetchone()
    return role, is_ready, list(unprotected), list(opened)


def remedy() -> str:
    """Return why no one can be limited in this database, and what to do; empty where it is prepared."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        role, is_ready, unprotected, opened = _state(cursor)
        cursor.execute("SELECT session_user")
        user = cursor.fetchone()[0]
    if not is_ready:
        return f'run as a superuser: CREATE ROLE "{role}" NOLOGIN; GRANT "{role}" TO "{user}"; then `manage.py migrate`'
    if unprotected:
        return f"`manage.py migrate` has to write the policies of {', '.join(unprotected)}"
    if opened:  # `migrate` takes rights from the role, not from everyone
        statement = f'REVOKE SELECT ON {", ".join(opened)} FROM PUBLIC, "{role}"'  # noqa: S608 - shown, not run
        return f"run: {statement}; limited people are not to read these"
    return ""


def _mark(table: str, condition: str) -> str:
    return f"{hashlib.sha256(f'{condition} {MAY_ADD.get(table)}'.encode()).hexdigest()[:16]} "


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

"""Start-up checks: what is wrong with the settings' tables, and what to do (SPEC; ids `memoryhub.E…`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

from memoryhub.jobs.domain import rhythm
from memoryhub.jobs.registry import LONGEST_NAME, JobKind
from memoryhub.jobs.triggers import Trigger
from memoryhub.tenancy.domain import Policy


@register(Tags.compatibility)
def dotted_paths_import(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E001: every dotted path in the settings' tables can be imported."""
    return [
        Error(
            f"{table} names {path!r}, which cannot be imported: {problem}",
            hint=f"Correct the path in memoryhub/settings.py, or take it out of {table}.",
            id="memoryhub.E001",
        )
        for table in (
            "ADMIN_PAGES",
            "CONTEXT_LAYERS",
            "DASHBOARD_PANELS",
            "DIAGNOSES",
            "POLICIES",
            "TIMELINE_EVENTS",
        )
        for path in getattr(settings, table)
        if (problem := _import_problem(path))
    ]


@register(Tags.compatibility)
def policy_keys_are_unique(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E002: a policy key belongs to one policy; E003: what POLICIES names is a Policy."""
    owners: dict[str, str] = {}
    errors: list[CheckMessage] = []
    for path in settings.POLICIES:
        if _import_problem(path):
            continue
        policy = import_string(path)
        if not (isinstance(policy, type) and issubclass(policy, Policy)):
            errors.append(Error(f"POLICIES names {path!r}, which is no Policy.", id="memoryhub.E003"))
            continue
        for key in sorted(policy.CHECKS):
            if key in owners:
                errors.append(
                    Error(f"The policy value {key!r} is in {owners[key]} and in {path}.", id="memoryhub.E002")
                )
            owners[key] = path
    return errors


@register(Tags.compatibility)
def jobs_can_run(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E004: every kind of job can run; E005: every schedule has a time, and a job that is a kind."""
    errors: list[CheckMessage] = []
    hint = "Correct the line in memoryhub/settings.py."
    for name, line in settings.JOB_KINDS.items():
        if problem := _kind_problem(name, line):
            errors.append(Error(f"JOB_KINDS[{name!r}]: {problem}.", hint=hint, id="memoryhub.E004"))
    for name, entry in settings.SCHEDULES.items():
        if problem := _schedule_problem(name, entry):
            errors.append(Error(f"SCHEDULES[{name!r}]: {problem}", hint=hint, id="memoryhub.E005"))
    return errors


@register(Tags.compatibility)
def followers_are_jobs(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E006: what follows a turn, a session or a summary is a kind of job, in a form that can be read."""
    return [
        Error(
            f"{table}[{name!r}]: {problem}",
            hint="Correct the line in memoryhub/settings.py.",
            id="memoryhub.E006",
        )
        for table in ("AFTER_ANSWER", "AFTER_TURN", "AFTER_SESSION", "AFTER_SUMMARY")
        for name, line in getattr(settings, table).items()
        if (problem := _follower_problem(name, line))
    ]


def _follower_problem(name: str, line: Mapping[str, Any]) -> str | None:
    if name not in settings.JOB_KINDS:
        return f"JOB_KINDS has no {name!r}."
    try:
        Trigger(kind=name, **line)
    except (TypeError, ValueError) as error:
        return str(error).removeprefix("Trigger.__init__() ")
    return None


def _kind_problem(name: str, line: Mapping[str, Any]) -> str | None:
    try:
        return JobKind(name=name, **line).problem()
    except TypeError as error:
        return str(error).removeprefix("JobKind.__init__() ")


def _schedule_problem(name: str, entry: Mapping[str, Any]) -> str | None:
    if len(name) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} characters."
    if entry.get("job") not in settings.JOB_KINDS:
        return f"JOB_KINDS has no {entry.get('job')!r}."
    try:
        rhythm(entry)
    except ValueError as error:
        return str(error)
    return None


def _import_problem(path: str) -> str | None:
    try:
        import_string(path)
    except ImportError as error:
        return str(error)
    return None

"""Start-up checks of the tables of dotted paths in the settings (ids `memoryhub.E...`)."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

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
        for table in ("CONTEXT_LAYERS", "POLICIES")
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


def _import_problem(path: str) -> str | None:
    try:
        import_string(path)
    except ImportError as error:
        return str(error)
    return None

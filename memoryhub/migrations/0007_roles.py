"""Makes the groups of the two roles. What they may do is granted after every `migrate` (memoryhub/auth/roles.py)."""

from typing import Any

from django.db import migrations

ROLES = ("curator", "administrator")


def make_groups(apps: Any, schema_editor: Any) -> None:
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0006_ledger_cache_tokens"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    # Backwards the groups stay: they have members.
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]

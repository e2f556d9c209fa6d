"""Create the groups of the two roles. Their permissions are granted after every `migrate` (memoryhub/auth/roles.py)."""

from typing import Any

from django.db import migrations

ROLES = ("curator", "administrator")


def create_groups(apps: Any, schema_editor: Any) -> None:
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("memoryhub", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    # Backwards the groups stay: they have members.
    operations = [migrations.RunPython(create_groups, migrations.RunPython.noop)]

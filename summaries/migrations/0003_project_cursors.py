"""How far sessions were read for their projects."""

import django.db.models.deletion
from django.db import migrations, models

import memoryhub.ids


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0004_questions"),
        ("memoryhub", "0005_ledger"),
        ("summaries", "0002_projects"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProjectCursor",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("read_until", models.PositiveIntegerField(default=0)),
                (
                    "actor",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memoryhub.actor",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="conversations.session",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("actor", "session"), name="project_cursor_once")
                ],
            },
        ),
    ]

from uuid import UUID

from django.db import migrations, models

NIL = UUID(int=0)


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0008_format_of_imports")]

    operations = [
        migrations.CreateModel(
            name="ClusteringState",
            fields=[
                ("table", models.CharField(max_length=63, primary_key=True, serialize=False)),
                ("since", models.UUIDField(default=NIL)),
                ("until", models.UUIDField(null=True)),
                ("after_actor", models.UUIDField(default=NIL)),
                ("after_owner", models.UUIDField(default=NIL)),
            ],
        ),
    ]

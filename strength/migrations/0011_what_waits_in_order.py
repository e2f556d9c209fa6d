from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("strength", "0010_revisions_of_one_batch")]

    operations = [
        migrations.AddIndex(
            model_name="memory",
            index=models.Index(
                condition=models.Q(("status", "pending")), fields=["created_at", "id"], name="memory_waiting"
            ),
        ),
        migrations.AddIndex(
            model_name="merge",
            index=models.Index(
                condition=models.Q(("state", "proposed")), fields=["created_at", "id"], name="merge_waiting"
            ),
        ),
    ]

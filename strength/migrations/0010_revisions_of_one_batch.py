from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("strength", "0008_deletions_by_source")]

    operations = [
        migrations.AddField(
            model_name="memoryrevision",
            name="batch",
            field=models.UUIDField(
                editable=False, help_text="Shared by what was changed at once.", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="memoryrevision",
            index=models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch"], name="revision_of_batch"
            ),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("strength", "0013_when_points_began")]

    operations = [
        migrations.AddField(
            model_name="merge",
            name="batch",
            field=models.UUIDField(editable=False, help_text="Shared by what was decided at once.", null=True),
        ),
        migrations.AddIndex(
            model_name="merge",
            index=models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch"], name="merge_of_batch"
            ),
        ),
    ]

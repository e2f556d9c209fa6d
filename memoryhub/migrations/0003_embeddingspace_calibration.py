"""Give embedding spaces a place for what is measured of them; until then the stored bounds hold."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0002_roles")]

    operations = [
        migrations.AddField(
            model_name="embeddingspace",
            name="calibration",
            field=models.JSONField(
                blank=True, default=dict, help_text="Measured cosines, by script; empty: not yet."
            ),
        ),
    ]

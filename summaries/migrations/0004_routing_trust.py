"""Whether the message behind a routing decision is believed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("summaries", "0003_project_cursors")]

    operations = [
        migrations.AddField(
            model_name="routingdecision",
            name="trust",
            field=models.CharField(
                choices=[("trusted", "trusted"), ("untrusted", "untrusted")], default="trusted", max_length=10
            ),
        ),
    ]

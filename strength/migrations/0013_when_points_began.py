from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("strength", "0012_what_stood_beside")]

    operations = [
        migrations.AddField(
            model_name="strengthpoint",
            name="began_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="strengthpoint",
            name="faded_before",
            field=models.FloatField(null=True),
        ),
    ]

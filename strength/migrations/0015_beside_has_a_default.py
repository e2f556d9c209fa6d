from django.db import migrations


class Migration(migrations.Migration):
    """0012 was without the default for a while: who has run it then gets it here; elsewhere this changes nothing."""

    dependencies = [("strength", "0014_merges_of_one_batch")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE strength_memoryrevision ALTER COLUMN beside SET DEFAULT '{}'",
            migrations.RunSQL.noop,
        ),
    ]

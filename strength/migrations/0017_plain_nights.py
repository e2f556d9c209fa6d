import importlib

from django.db import migrations, models

former = importlib.import_module("strength.migrations.0014_nights_in_the_row")
unset = importlib.import_module("strength.migrations.0011_changes_by_set")

# Archivings that no revision records yet are written down before the view goes.
WRITTEN_DOWN = former.WRITTEN_DOWN


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0016_place_of_comparing'),
    ]

    operations = [
        migrations.RunSQL(WRITTEN_DOWN, former.VIEW),
        migrations.DeleteModel(
            name='MemoryHistory',
        ),
        migrations.RemoveIndex(
            model_name='memory',
            name='memory_of_sleep',
        ),
        migrations.RemoveField(
            model_name='memory',
            name='archived_why',
        ),
        migrations.RemoveField(
            model_name='sleepstate',
            name='active',
        ),
        migrations.RemoveField(
            model_name='sleepstate',
            name='active_at',
        ),
        migrations.AlterModelTable(
            name='sleepstate',
            table=None,
        ),
        migrations.RunSQL(unset.TRIGGER.format(condition=""), unset.TRIGGER.format(condition=unset.UNLESS)),
    ]

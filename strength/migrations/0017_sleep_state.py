from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("strength", "0016_numbers_on_a_clock")]

    # The table keeps its name: the model's is changed after it is told so.
    operations = [
        migrations.AlterModelTable(name="rhythm", table="strength_rhythm"),
        migrations.RenameModel(old_name="Rhythm", new_name="SleepState"),
    ]

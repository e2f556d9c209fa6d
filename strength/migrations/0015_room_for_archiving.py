from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0014_nights_in_the_row'),
    ]

    operations = [
        # A page keeps room for a row's next version (HOT): archiving touches no index of this table, and one page of it.
        migrations.RunSQL(
            "ALTER TABLE strength_memoryindex SET (fillfactor = 85)",
            "ALTER TABLE strength_memoryindex RESET (fillfactor)",
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0014_job_turns'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='termstatistic',
            name='seen',
        ),
        migrations.AddField(
            model_name='termstatistic',
            name='agents',
            field=models.BigIntegerField(db_default=0, help_text='A bit of 64 for each agent that has the term.'),
        ),
        migrations.AddField(
            model_name='termstatistic',
            name='users',
            field=models.BigIntegerField(db_default=0, help_text='A bit of 64 for each user that has the term.'),
        ),
    ]

from django.db import migrations, models

# Of a sleep that is at it, how far it has come is kept in the actor's state alone.
CARRY_OVER = """
UPDATE strength_sleeprun SET compares = true WHERE state = 'running' AND phase = 'compare';
UPDATE strength_rhythm AS state SET compared_until = run.compared_at, compared_after = run.after
FROM strength_sleeprun AS run WHERE run.actor_id = state.actor_id AND run.compares AND NOT run.dry_run
"""


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0015_room_for_archiving'),
    ]

    operations = [
        migrations.AddField(
            model_name='sleeprun',
            name='compares',
            field=models.BooleanField(default=False),
        ),
        migrations.RunSQL(CARRY_OVER, migrations.RunSQL.noop),
        migrations.RemoveField(
            model_name='sleeprun',
            name='after',
        ),
        migrations.RemoveField(
            model_name='sleeprun',
            name='compared_at',
        ),
        migrations.RemoveField(
            model_name='sleeprun',
            name='phase',
        ),
    ]

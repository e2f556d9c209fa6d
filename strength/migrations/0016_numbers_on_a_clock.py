"""Numbers are stored as of when somebody last wrote them; what nights have taken since is read by the actor's clock."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import strength.domain.strength
import strength.domain.memories
from django.db import migrations, models

# Numbers as if every night had written them. A row beside the clock is as it is stored; one on it has faded by what the
# clock has moved since, and stood before the last sleep where the clock stood then.
VIEW = """
CREATE VIEW strength_currentnumbers AS
SELECT memory_id, actor_id, access_count, candidate_count, last_accessed_at, impact_score, consolidation_level,
    pinned, status, valid_from, valid_to,
    CASE WHEN clock_then IS NULL THEN strength WHEN strength < 1e-200 THEN 0
        ELSE strength * exp(greatest(-200, left_now)) END AS strength,
    faded + left_now AS faded,
    CASE WHEN clock_then IS NULL THEN last_decay_at ELSE greatest(last_decay_at, clock_at) END AS last_decay_at,
    CASE WHEN clock_then IS NULL THEN decayed_at_task ELSE greatest(decayed_at_task, clock_task) END AS decayed_at_task,
    CASE WHEN has_slept THEN clock_of ELSE slept_in END AS slept_in,
    CASE WHEN NOT has_slept THEN before_strength WHEN strength < 1e-200 THEN 0
        ELSE strength * exp(greatest(-200, left_before)) END AS before_strength,
    CASE WHEN has_slept THEN faded + left_before ELSE before_faded END AS before_faded,
    CASE WHEN has_slept THEN consolidation_level ELSE before_level END AS before_level,
    CASE WHEN has_slept THEN greatest(last_decay_at, before_clock_at) ELSE before_decay_at END AS before_decay_at,
    CASE WHEN has_slept THEN greatest(decayed_at_task, before_clock_task) ELSE before_task END AS before_task
FROM (
    SELECT numbers.*, clock_at, clock_task, clock_of, before_clock_at, before_clock_task,
        least(0, clock[consolidation_level + 1] - clock_then) AS left_now,
        least(0, before_clock[consolidation_level + 1] - clock_then) AS left_before,
        coalesce(clock_then IS NOT NULL AND coalesce(slept_in, 0) < clock_of, false) AS has_slept
    FROM strength_memorynumbers AS numbers
    LEFT JOIN strength_rhythm AS rhythm ON rhythm.actor_id = numbers.actor_id
) AS stored
"""

# Without the clock, numbers are stored as they are now.
SETTLE = """
UPDATE strength_memorynumbers AS numbers SET
    strength = now.strength, faded = now.faded, last_decay_at = now.last_decay_at,
    decayed_at_task = now.decayed_at_task, slept_in = now.slept_in, before_strength = now.before_strength,
    before_faded = now.before_faded, before_level = now.before_level, before_decay_at = now.before_decay_at,
    before_task = now.before_task, clock_then = NULL
FROM strength_currentnumbers AS now WHERE now.memory_id = numbers.memory_id AND numbers.clock_then IS NOT NULL
"""


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0015_beside_has_a_default'),
    ]

    operations = [
        migrations.CreateModel(
            name='CurrentNumbers',
            fields=[
                ('strength', models.FloatField()),
                ('access_count', models.PositiveIntegerField(default=0)),
                ('candidate_count', models.PositiveIntegerField(default=0)),
                ('last_accessed_at', models.DateTimeField(null=True)),
                ('impact_score', models.FloatField(default=0.0)),
                ('consolidation_level', models.PositiveSmallIntegerField(default=0)),
                ('last_decay_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Up to when its decay is reckoned; when it was made, where it never decayed.')),
                ('before_decay_at', models.DateTimeField(null=True)),
                ('before_faded', models.FloatField(null=True)),
                ('before_strength', models.FloatField(null=True)),
                ('faded', models.FloatField(db_default=0.0)),
                ('before_task', models.IntegerField(null=True)),
                ('decayed_at_task', models.IntegerField(db_default=0)),
                ('slept_in', models.IntegerField(null=True)),
                ('before_level', models.SmallIntegerField(null=True)),
                ('pinned', models.BooleanField(db_default=False)),
                ('status', models.CharField(choices=[('active', 'active'), ('pending', 'pending'), ('archived', 'archived'), ('rejected', 'rejected')], db_default=strength.domain.memories.Status['ACTIVE'], max_length=10)),
                ('valid_from', models.DateTimeField(null=True)),
                ('valid_to', models.DateTimeField(null=True)),
                ('memory', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='numbers', serialize=False, to='strength.memory')),
            ],
            options={
                'verbose_name_plural': 'current numbers',
                'managed': False,
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='memorynumbers',
            name='clock_then',
            field=models.FloatField(help_text='Where the clock of its level stood when it was put on it; null beside the clock.', null=True),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='before_clock',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='before_clock_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='before_clock_task',
            field=models.IntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='clock',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='clock_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='clock_of',
            field=models.IntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name='rhythm',
            name='clock_task',
            field=models.IntegerField(db_default=0),
        ),
        migrations.AlterField(
            model_name='memorynumbers',
            name='memory',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='strength.memory'),
        ),
        migrations.RunSQL(VIEW, [SETTLE, "DROP VIEW strength_currentnumbers"]),
    ]

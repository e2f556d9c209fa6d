"""Strengths are stored once, with a mark of their actor's clock: see docs/adr/0021-decay-by-a-clock-per-actor.md."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.math
import strength.domain.strength
from django.db import migrations, models

from importlib import import_module

VIEW = import_module("strength.migrations.0001_initial").VIEW

# Rows are carried over as they are read: what stands on the clock keeps its place there as its mark, what fades beside it
# is marked where the clock stands. Rates and thresholds follow with the first night, which marks by them what has begun to
# fade since the last. What the latest sleep took is kept, so that it can still be undone.
CARRY_OVER = """
INSERT INTO strength_rhythm (actor_id, tasks_completed, runs)
SELECT DISTINCT actor_id, 0, 0 FROM strength_memorynumbers ON CONFLICT DO NOTHING;

UPDATE strength_rhythm AS state SET clock_at = first.began_at, clock_task = first.began_task
FROM (
    SELECT actor_id, min(began_at) AS began_at, min(began_task) AS began_task
    FROM strength_memorynumbers GROUP BY actor_id
) AS first
WHERE first.actor_id = state.actor_id AND state.clock_at IS NULL;

UPDATE strength_rhythm SET clock_before = before_clock WHERE clock_of = runs;

UPDATE strength_sleeprun AS run SET clock = state.clock, before = jsonb_build_object(
    'clock', state.before_clock, 'clock_at', state.before_clock_at, 'clock_task', state.before_clock_task,
    'rates', state.rates, 'by_task', false, 'thresholds', '[]'::jsonb)
FROM strength_rhythm AS state
WHERE run.actor_id = state.actor_id AND run.number = state.runs AND state.clock_of = state.runs;

UPDATE strength_memoryrevision AS revision
SET beside = revision.beside || jsonb_build_object('strength', coalesce(first.born, numbers.born))
FROM (
    SELECT memory_id, CASE WHEN strength < 1e-200 THEN 0
        ELSE strength * exp(greatest(-200, least(200, -faded))) END AS born FROM strength_memorynumbers
) AS numbers
LEFT JOIN (
    SELECT DISTINCT ON (memory_id) memory_id, CASE WHEN before < 1e-200 THEN 0
        ELSE before * exp(greatest(-200, least(200, -coalesce(faded_before, faded)))) END AS born
    FROM strength_strengthpoint ORDER BY memory_id, coalesce(began_at, at)
) AS first ON first.memory_id = numbers.memory_id
WHERE revision.memory_id = numbers.memory_id AND revision.verb = 'create';

CREATE TEMPORARY TABLE one_clock ON COMMIT DROP AS
SELECT memory_id, least(0, state.clock[consolidation_level + 1] - clock_then) AS left_now,
    CASE WHEN fades THEN coalesce(clock_then, state.clock[consolidation_level + 1]) ELSE '-Infinity' END AS mark,
    clock_then IS NULL OR slept_in = state.runs AS is_known
FROM (
    SELECT *, status = 'active' AND NOT pinned AND (valid_to IS NULL OR valid_to > now())
        AND (valid_from IS NULL OR valid_from <= now()) AS fades
    FROM strength_memorynumbers
) AS numbers
JOIN strength_rhythm AS state ON state.actor_id = numbers.actor_id;
ALTER TABLE one_clock ADD PRIMARY KEY (memory_id);

UPDATE strength_perspectivestrength AS perspective SET mark = one.mark,
    strength = CASE WHEN perspective.strength < 1e-200 THEN 0
        ELSE perspective.strength * exp(greatest(-200, least(200, numbers.faded - perspective.faded
            + CASE WHEN one.mark = '-Infinity' THEN coalesce(one.left_now, 0) ELSE 0 END))) END
FROM strength_memorynumbers AS numbers JOIN one_clock AS one ON one.memory_id = numbers.memory_id
WHERE numbers.memory_id = perspective.memory_id;

UPDATE strength_memorynumbers AS numbers SET mark = one.mark,
    strength = CASE WHEN one.mark > '-Infinity' OR one.left_now IS NULL THEN strength WHEN strength < 1e-200 THEN 0
        ELSE strength * exp(greatest(-200, one.left_now)) END,
    slept_in = CASE WHEN is_known THEN slept_in END,
    taken = CASE WHEN is_known AND slept_in IS NOT NULL THEN coalesce(before_strength - strength, 0) ELSE 0 END,
    began_at = CASE WHEN slept_in = state.runs THEN coalesce(before_decay_at, began_at) ELSE began_at END,
    began_task = CASE WHEN slept_in = state.runs THEN coalesce(before_task, began_task) ELSE began_task END
FROM one_clock AS one, strength_rhythm AS state
WHERE one.memory_id = numbers.memory_id AND state.actor_id = numbers.actor_id;

SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


def _clock(**options):
    return django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=6, **options)


def _new_clock():
    return _clock(default=strength.domain.strength.new_clock, db_default=[0.0] * 6)


NEVER = float("-inf")


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0003_said_on'),
    ]

    operations = [
        migrations.RunSQL("DROP VIEW strength_currentnumbers", VIEW),
        migrations.DeleteModel('CurrentNumbers'),
        migrations.RenameField('memorynumbers', 'last_decay_at', 'began_at'),
        migrations.RenameField('memorynumbers', 'decayed_at_task', 'began_task'),
        migrations.AddField('memorynumbers', 'mark', models.FloatField(default=NEVER, db_default=NEVER)),
        migrations.AddField('memorynumbers', 'taken', models.FloatField(db_default=0.0)),
        migrations.AddField('perspectivestrength', 'mark', models.FloatField(default=NEVER, db_default=NEVER, help_text="Where the clock of the memory's level stood then.")),
        migrations.AddField('strengthpoint', 'mark', models.FloatField(null=True)),
        migrations.AddField('sleepstate', 'rates', _new_clock()),
        migrations.AddField('sleepstate', 'by_task', models.BooleanField(db_default=False)),
        migrations.AddField('sleepstate', 'thresholds', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), default=list, db_default=[], size=None)),
        migrations.AddField('sleepstate', 'clock_before', _clock(null=True)),
        migrations.AddField('sleeprun', 'clock', _clock(null=True)),
        migrations.AddField('sleeprun', 'before', models.JSONField(default=dict)),
        migrations.RunSQL(CARRY_OVER, migrations.RunSQL.noop),
        *(
            migrations.RemoveField('memorynumbers', name)
            for name in (
                'before_decay_at', 'before_faded', 'before_strength', 'before_task', 'before_level', 'faded', 'clock_then',
                'pinned', 'status', 'valid_from', 'valid_to',
            )
        ),
        migrations.RemoveField('perspectivestrength', 'faded'),
        *(migrations.RemoveField('strengthpoint', name) for name in ('faded', 'began_at', 'faded_before')),
        *(
            migrations.RemoveField('sleepstate', name)
            for name in ('clock_of', 'before_clock', 'before_clock_at', 'before_clock_task')
        ),
        migrations.RemoveField('sleeprun', 'slept_count'),
        migrations.AlterField('memorynumbers', 'began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When it began to fade; or was written.')),
        migrations.AlterField('memorynumbers', 'memory', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='numbers', serialize=False, to='strength.memory')),
        migrations.AlterField('perspectivestrength', 'strength', models.FloatField(help_text='As of its mark.')),
        migrations.AlterField('sleepstate', 'actor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='sleep_state', serialize=False, to='memoryhub.actor')),
        migrations.AddField('memorynumbers', 'due', models.GeneratedField(
            db_persist=True,
            expression=django.db.models.expressions.CombinedExpression(
                django.db.models.functions.math.Ln(django.db.models.functions.comparison.Greatest('strength', models.Value(1e-200))), '-', models.F('mark')
            ),
            output_field=models.FloatField(),
        )),
        migrations.AddIndex('memorynumbers', models.Index(fields=['actor', 'consolidation_level', 'due'], include=['mark'], name='numbers_due')),
        migrations.AddIndex('memory', models.Index(condition=models.Q(('valid_to__isnull', False)), fields=['actor', 'valid_to'], name='memory_ends')),
        migrations.AddIndex('memory', models.Index(condition=models.Q(('valid_from__isnull', False)), fields=['actor', 'valid_from'], name='memory_begins')),
    ]

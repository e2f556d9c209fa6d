import memoryhub.ids
from django.db import migrations, models

COLUMNS = (
    "id, actor_id, memory_id, number, verb, who_kind, who_id, who_name, reason, changed_before, changed_after, after,"
    " beside, batch, created_at"
)


def as_python_writes(column):
    """Without fractions at full seconds, for else a revision would look like a change."""
    text = f"to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"')"
    return f"replace({text}, '.000000', '')"


# A revision keeps its id when it is written. Types are those of the table: else no filter would reach the rows.
VIEW = f"""
CREATE VIEW strength_memoryhistory AS
SELECT {COLUMNS} FROM strength_memoryrevision
UNION ALL
SELECT md5(memory.id::text || memory.version)::uuid, memory.actor_id, memory.id, memory.version, 'sleep'::varchar(20),
    run.who_kind, run.who_id, run.who_name, memory.archived_why::text, '{{"status": "active"}}'::jsonb,
    '{{"status": "archived"}}'::jsonb,
    jsonb_build_object(
        'content', memory.content, 'namespace', memory.namespace, 'kind', memory.kind, 'tags', to_jsonb(memory.tags),
        'scope_level', memory.scope_level, 'scope_domain', memory.scope_domain, 'scope_project', memory.scope_project,
        'status', memory.status, 'pinned', memory.pinned, 'locked', memory.locked, 'learnings', memory.learnings,
        'metadata', memory.metadata, 'confidence', memory.confidence,
        'valid_from', {as_python_writes("memory.valid_from")}, 'valid_to', {as_python_writes("memory.valid_to")}
    ),
    '{{}}'::jsonb, NULL::uuid, memory.updated_at
FROM strength_memory AS memory, LATERAL (
    SELECT who_kind, who_id, who_name FROM strength_sleeprun
    WHERE actor_id = memory.actor_id AND now = memory.updated_at AND NOT dry_run ORDER BY number DESC LIMIT 1
) AS run
WHERE memory.archived_why <> ''
"""

# Whoever goes back keeps what sleeps have archived in the history.
WRITTEN_DOWN = f"""
SELECT set_config('memoryhub.changes', 'by_set', true);
INSERT INTO strength_memoryrevision ({COLUMNS})
SELECT {COLUMNS} FROM strength_memoryhistory AS history
WHERE NOT EXISTS (SELECT FROM strength_memoryrevision AS written WHERE written.id = history.id);
SELECT set_config('memoryhub.changes', '', true);
SET CONSTRAINTS ALL IMMEDIATE;
DROP VIEW strength_memoryhistory
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0007_invitations'),
        ('strength', '0013_cheap_nights'),
    ]

    operations = [
        migrations.CreateModel(
            name='MemoryHistory',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('verb', models.CharField(max_length=20)),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('changed_before', models.JSONField(default=dict)),
                ('changed_after', models.JSONField(default=dict)),
                ('after', models.JSONField()),
                ('beside', models.JSONField(db_default={}, default=dict, help_text='What stood beside these values before: taking the change back brings it back.')),
                ('batch', models.UUIDField(editable=False, help_text='Shared by what was changed at once.', null=True)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'strength_memoryhistory',
                'ordering': ['-number'],
                'abstract': False,
                'managed': False,
            },
        ),
        migrations.RemoveConstraint(
            model_name='memory',
            name='memory_of_actor',
        ),
        migrations.RemoveIndex(
            model_name='memorynumbers',
            name='numbers_due',
        ),
        migrations.AddField(
            model_name='memory',
            name='archived_why',
            field=models.CharField(blank=True, db_default='', default='', editable=False, help_text='Why its latest change, a sleep at `updated_at`, archived it; not yet in a revision.', max_length=32),
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(condition=models.Q(('archived_why', ''), _negated=True), fields=['actor', 'updated_at'], name='memory_of_sleep'),
        ),
        migrations.AddIndex(
            model_name='memorynumbers',
            index=models.Index(condition=models.Q(('due__lt', float("inf"))), fields=['actor', 'consolidation_level', 'due'], include=('mark',), name='numbers_due'),
        ),
        migrations.RunSQL(VIEW, WRITTEN_DOWN),
    ]

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import memoryhub.ids
import memoryhub.search.models
import memoryhub.tenancy.policy
import strength.domain.memories
import strength.domain.sleep
import strength.domain.strength
import strength.models.task
from django.db import migrations, models


# Strengths as if every sleep had written them: rows that are on the actor's decay clock are decayed by what it has moved
# since they were written; the others are as stored.
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


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('memoryhub', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Memory',
            fields=[
                ('kind', models.CharField(choices=[('fact', 'fact'), ('preference', 'preference'), ('summary', 'summary'), ('episode', 'episode'), ('reflection', 'reflection'), ('learning', 'learning'), ('decision', 'decision'), ('note', 'note')], default=strength.domain.memories.Kind['NOTE'], max_length=12)),
                ('namespace', models.CharField(max_length=2500)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, size=None)),
                ('scope_level', models.CharField(choices=[('project', 'project'), ('domain', 'domain'), ('universal', 'universal')], default=strength.domain.memories.ScopeLevel['PROJECT'], max_length=10)),
                ('scope_domain', models.CharField(blank=True, max_length=255)),
                ('scope_project', models.CharField(blank=True, max_length=255)),
                ('status', models.CharField(choices=[('active', 'active'), ('pending', 'pending'), ('archived', 'archived'), ('rejected', 'rejected')], default=strength.domain.memories.Status['ACTIVE'], max_length=10)),
                ('pinned', models.BooleanField(default=False)),
                ('valid_from', models.DateTimeField(blank=True, null=True)),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('content', models.TextField()),
                ('content_digest', models.BinaryField(max_length=32)),
                ('locked', models.BooleanField(default=False, help_text='A person edited it; nothing rewrites it automatically.')),
                ('source', models.CharField(choices=[('education', 'education'), ('task', 'task'), ('manual', 'manual'), ('extraction', 'extraction'), ('import', 'import')], default=strength.domain.memories.Source['MANUAL'], max_length=12)),
                ('channel', models.CharField(blank=True, max_length=100)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('confidence', models.FloatField(blank=True, null=True)),
                ('learnings', models.JSONField(blank=True, default=dict, help_text='What was learnt, by perspective.')),
                ('supersedes', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), editable=False, help_text='Memories that approval ends, by id.', null=True, size=None)),
                ('version', models.PositiveIntegerField(default=1)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('superseded_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='strength.memory')),
            ],
            options={
                'verbose_name_plural': 'memories',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='ReflectionCursor',
            fields=[
                ('actor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='memoryhub.actor')),
                ('until', models.DateTimeField()),
                ('after', models.UUIDField(null=True)),
                ('has_passed', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='SleepState',
            fields=[
                ('actor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='memoryhub.actor')),
                ('tasks_completed', models.PositiveIntegerField(default=0)),
                ('runs', models.PositiveIntegerField(default=0)),
                ('clock', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6)),
                ('clock_at', models.DateTimeField(null=True)),
                ('clock_task', models.IntegerField(db_default=0)),
                ('clock_of', models.IntegerField(db_default=0)),
                ('before_clock', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6)),
                ('before_clock_at', models.DateTimeField(null=True)),
                ('before_clock_task', models.IntegerField(db_default=0)),
                ('slept_at', models.DateTimeField(null=True)),
                ('compared_until', models.DateTimeField(null=True)),
                ('compared_after', models.UUIDField(null=True)),
            ],
            options={
                'db_table': 'strength_rhythm',
            },
        ),
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
        migrations.CreateModel(
            name='MemoryIndex',
            fields=[
                ('vector', memoryhub.search.models.InlineHalfVectorField(null=True)),
                ('words', memoryhub.search.models.InlineSparseVectorField(dimensions=536870912)),
                ('words_version', models.PositiveSmallIntegerField(db_default=1, help_text='Which analysis of text the words are of.')),
                ('is_refused', models.BooleanField(db_default=False, help_text='The embedder refuses this text; it is found by words alone.')),
                ('kind', models.CharField(choices=[('fact', 'fact'), ('preference', 'preference'), ('summary', 'summary'), ('episode', 'episode'), ('reflection', 'reflection'), ('learning', 'learning'), ('decision', 'decision'), ('note', 'note')], default=strength.domain.memories.Kind['NOTE'], max_length=12)),
                ('namespace', models.CharField(max_length=2500)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, size=None)),
                ('scope_level', models.CharField(choices=[('project', 'project'), ('domain', 'domain'), ('universal', 'universal')], default=strength.domain.memories.ScopeLevel['PROJECT'], max_length=10)),
                ('scope_domain', models.CharField(blank=True, max_length=255)),
                ('scope_project', models.CharField(blank=True, max_length=255)),
                ('status', models.CharField(choices=[('active', 'active'), ('pending', 'pending'), ('archived', 'archived'), ('rejected', 'rejected')], default=strength.domain.memories.Status['ACTIVE'], max_length=10)),
                ('pinned', models.BooleanField(default=False)),
                ('valid_from', models.DateTimeField(blank=True, null=True)),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('pk', models.CompositePrimaryKey('actor_id', 'space_id', 'memory_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='memoryhub.embeddingspace')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='MemoryRevision',
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
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='strength.memory')),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='MemorySource',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('message_id', models.UUIDField()),
                ('session_id', models.UUIDField()),
                ('channel', models.CharField(blank=True, max_length=100)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], max_length=10)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='strength.memory')),
            ],
            options={
                'ordering': ['created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='PerspectiveStrength',
            fields=[
                ('pk', models.CompositePrimaryKey('actor_id', 'memory_id', 'perspective', blank=True, editable=False, primary_key=True, serialize=False)),
                ('perspective', models.CharField(max_length=100)),
                ('strength', models.FloatField(help_text='As of its last use.')),
                ('faded', models.FloatField(db_default=0.0, help_text='How far the memory had faded then; the rest is computed when read.')),
                ('as_of', models.DateTimeField(help_text='When it was last used.')),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='perspectives', to='strength.memory')),
            ],
        ),
        migrations.CreateModel(
            name='SleepRun',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField(help_text='Counted per actor; null for a preview.', null=True)),
                ('group', models.UUIDField(null=True)),
                ('trigger', models.CharField(choices=[('api', 'api'), ('task', 'task'), ('schedule', 'schedule'), ('command', 'command'), ('curator', 'curator')], max_length=10)),
                ('dry_run', models.BooleanField(default=False)),
                ('state', models.CharField(choices=[('running', 'running'), ('done', 'done'), ('undone', 'undone')], default=strength.domain.sleep.RunState['RUNNING'], max_length=8)),
                ('now', models.DateTimeField()),
                ('phase', models.CharField(choices=[('fade', 'fade'), ('crowd', 'crowd'), ('compare', 'compare')], default='fade', max_length=8)),
                ('after', models.UUIDField(null=True)),
                ('compared_at', models.DateTimeField(null=True)),
                ('compared_since', models.DateTimeField(null=True)),
                ('policy', models.JSONField(default=dict)),
                ('tasks_completed', models.PositiveIntegerField(default=0)),
                ('slept_count', models.PositiveIntegerField(default=0)),
                ('decayed_count', models.PositiveIntegerField(default=0)),
                ('archived_count', models.PositiveIntegerField(default=0)),
                ('consolidated_count', models.PositiveIntegerField(default=0)),
                ('merged_count', models.PositiveIntegerField(default=0)),
                ('proposed_count', models.PositiveIntegerField(default=0)),
                ('changes', models.JSONField(default=list)),
                ('errors', models.JSONField(default=list)),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('processed_at', models.DateTimeField(null=True)),
                ('undone_at', models.DateTimeField(null=True)),
                ('undone_by', models.CharField(blank=True, max_length=150)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'verbose_name': 'sleep',
                'verbose_name_plural': 'sleeps',
                'ordering': ['-now', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Merge',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kept_version', models.PositiveIntegerField()),
                ('absorbed_version', models.PositiveIntegerField()),
                ('likeness', models.FloatField()),
                ('state', models.CharField(choices=[('proposed', 'proposed'), ('merged', 'merged'), ('dismissed', 'dismissed'), ('withdrawn', 'withdrawn'), ('undone', 'undone')], default=strength.domain.sleep.MergeState['PROPOSED'], max_length=10)),
                ('undo', models.JSONField(default=dict)),
                ('decided_by', models.CharField(blank=True, max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('decided_at', models.DateTimeField(null=True)),
                ('batch', models.UUIDField(editable=False, help_text='Shared by decisions made at once.', null=True)),
                ('absorbed', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('kept', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='merges', to='strength.sleeprun')),
            ],
            options={
                'verbose_name': 'merge proposal',
                'verbose_name_plural': 'merge proposals',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='StrategyCursor',
            fields=[
                ('pk', models.CompositePrimaryKey('actor_id', 'session_id', 'strategy', blank=True, editable=False, primary_key=True, serialize=False)),
                ('strategy', models.CharField(choices=[('semantic', 'semantic'), ('user_preference', 'user_preference'), ('episodic', 'episodic'), ('summary', 'summary')], max_length=20)),
                ('session_id', models.UUIDField()),
                ('read_until', models.PositiveIntegerField(default=0)),
                ('passed_until', models.PositiveIntegerField(default=0)),
                ('passed_after', models.PositiveIntegerField(db_default=0)),
                ('memory_id', models.UUIDField(null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
        ),
        migrations.CreateModel(
            name='StrengthPoint',
            fields=[
                ('pk', models.CompositePrimaryKey('actor_id', 'memory_id', 'day', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('day', models.DateField()),
                ('kind', models.CharField(choices=[('created', 'created'), ('used', 'used'), ('impact', 'impact'), ('set', 'set'), ('slept', 'slept'), ('now', 'now')], max_length=10)),
                ('at', models.DateTimeField()),
                ('before', models.FloatField()),
                ('strength', models.FloatField()),
                ('faded', models.FloatField()),
                ('level', models.PositiveSmallIntegerField()),
                ('times', models.PositiveIntegerField(default=1)),
                ('began_at', models.DateTimeField(null=True)),
                ('faded_before', models.FloatField(null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
            ],
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('begun', 'begun'), ('completed', 'completed'), ('failed', 'failed')], default=strength.models.task.TaskState['BEGUN'], max_length=9)),
                ('query', models.TextField()),
                ('perspective', models.CharField(max_length=100, null=True)),
                ('offered', models.JSONField(default=list, help_text="The memories' ids with their scores, best first.")),
                ('result', models.JSONField(null=True)),
                ('used_memory_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('recorded_memory_id', models.UUIDField(null=True)),
                ('errors', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('completed_at', models.DateTimeField(null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Tombstone',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('decision', models.CharField(choices=[('deleted', 'deleted'), ('rejected', 'rejected'), ('edited', 'edited')], max_length=10)),
                ('digest', models.BinaryField(max_length=32)),
                ('terms', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                ('marks', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                ('order', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), default=list, size=None)),
                ('memory_id', models.UUIDField(null=True)),
                ('kind', models.CharField(blank=True, max_length=12)),
                ('message_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_name', models.CharField(max_length=150)),
                ('held_back', models.PositiveIntegerField(default=0)),
                ('last_held_back_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'verbose_name': 'decision',
                'verbose_name_plural': 'decisions',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='UseReport',
            fields=[
                ('pk', models.CompositePrimaryKey('actor_id', 'memory_id', 'task', blank=True, editable=False, primary_key=True, serialize=False)),
                ('task', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
            ],
        ),
        migrations.CreateModel(
            name='MemoryNumbers',
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
                ('memory', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='strength.memory')),
                ('clock_then', models.FloatField(help_text='Where the clock of its level stood when it was put on it; null beside the clock.', null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'verbose_name_plural': 'memory numbers',
            },
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(fields=['actor', 'status', '-created_at', '-id'], name='memory_newest_first'),
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(fields=['actor', 'updated_at', 'id'], name='memory_last_changed'),
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(condition=models.Q(('pinned', True)), fields=['actor'], name='memory_pinned'),
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(condition=models.Q(('status', strength.domain.memories.Status['PENDING'])), fields=['created_at', 'id'], name='memory_waiting'),
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(fields=['actor', 'namespace'], name='memory_by_namespace', opclasses=['', 'text_pattern_ops']),
        ),
        migrations.AddConstraint(
            model_name='memory',
            constraint=models.UniqueConstraint(fields=('actor', 'id'), name='memory_of_actor'),
        ),
        migrations.AddConstraint(
            model_name='memory',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', [strength.domain.memories.Status['ACTIVE'], strength.domain.memories.Status['PENDING']]), ('superseded_by', None), ('valid_to', None)), fields=('actor', 'namespace', 'content_digest'), name='memory_text_once'),
        ),
        migrations.AddConstraint(
            model_name='memory',
            constraint=models.CheckConstraint(condition=models.Q(('confidence', None), models.Q(('confidence__gte', 0), ('confidence__lte', 1)), _connector='OR'), name='memory_confidence_is_share'),
        ),
        migrations.AddConstraint(
            model_name='memory',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', strength.domain.memories.Status['ACTIVE']), _negated=True), ('trust', memoryhub.tenancy.policy.Trust['TRUSTED']), _connector='OR'), name='memory_active_is_trusted'),
        ),
        migrations.AddConstraint(
            model_name='memory',
            constraint=models.CheckConstraint(condition=models.Q(('valid_from', None), ('valid_to', None), ('valid_from__lte', models.F('valid_to')), _connector='OR'), name='memory_valid_in_order'),
        ),
        migrations.AddIndex(
            model_name='memoryindex',
            index=models.Index(condition=models.Q(('vector', None)), fields=['space', 'actor'], name='memoryindex_unembedded'),
        ),
        migrations.AddIndex(
            model_name='memoryindex',
            index=models.Index(condition=models.Q(('scope_level__in', [strength.domain.memories.ScopeLevel['DOMAIN'], strength.domain.memories.ScopeLevel['UNIVERSAL']])), fields=['actor', 'space'], name='memory_index_shared'),
        ),
        migrations.AddIndex(
            model_name='memoryrevision',
            index=models.Index(condition=models.Q(('verb', 'sleep')), fields=['actor', 'created_at'], name='revision_of_sleep'),
        ),
        migrations.AddIndex(
            model_name='memoryrevision',
            index=models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch'], name='revision_of_batch'),
        ),
        migrations.AddConstraint(
            model_name='memoryrevision',
            constraint=models.UniqueConstraint(fields=('actor', 'memory', 'number'), name='revision_number_once'),
        ),
        migrations.AddConstraint(
            model_name='memorysource',
            constraint=models.UniqueConstraint(fields=('actor', 'memory', 'message_id'), name='memory_source_once'),
        ),
        migrations.AddConstraint(
            model_name='perspectivestrength',
            constraint=models.CheckConstraint(condition=models.Q(('strength__gte', 0)), name='perspective_strength_not_negative'),
        ),
        migrations.AddIndex(
            model_name='sleeprun',
            index=models.Index(fields=['actor', '-now', '-id'], name='sleep_newest_first'),
        ),
        migrations.AddIndex(
            model_name='sleeprun',
            index=models.Index(condition=models.Q(('group__isnull', False)), fields=['group'], name='sleep_group'),
        ),
        migrations.AddConstraint(
            model_name='sleeprun',
            constraint=models.UniqueConstraint(fields=('actor', 'number'), name='sleep_number_once'),
        ),
        migrations.AddConstraint(
            model_name='sleeprun',
            constraint=models.UniqueConstraint(condition=models.Q(('dry_run', False), ('state', 'running')), fields=('actor',), name='sleep_one_at_a_time'),
        ),
        migrations.AddIndex(
            model_name='merge',
            index=models.Index(condition=models.Q(('state', 'proposed')), fields=['actor', '-created_at'], name='merge_open'),
        ),
        migrations.AddIndex(
            model_name='merge',
            index=models.Index(condition=models.Q(('state', 'proposed')), fields=['created_at', 'id'], name='merge_waiting'),
        ),
        migrations.AddIndex(
            model_name='merge',
            index=models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch'], name='merge_of_batch'),
        ),
        migrations.AddConstraint(
            model_name='merge',
            constraint=models.UniqueConstraint(fields=('actor', 'kept', 'absorbed'), name='merge_of_pair_once'),
        ),
        migrations.AddConstraint(
            model_name='merge',
            constraint=models.CheckConstraint(condition=models.Q(('kept', models.F('absorbed')), _negated=True), name='merge_of_two'),
        ),
        migrations.AddConstraint(
            model_name='merge',
            constraint=models.CheckConstraint(condition=models.Q(('likeness__gte', 0), ('likeness__lte', 1)), name='merge_likeness_is_share'),
        ),
        migrations.AddConstraint(
            model_name='strategycursor',
            constraint=models.CheckConstraint(condition=models.Q(('passed_until__lte', models.F('read_until'))), name='cursor_passed_is_read'),
        ),
        migrations.AddConstraint(
            model_name='strategycursor',
            constraint=models.CheckConstraint(condition=models.Q(('passed_after__lte', models.F('passed_until'))), name='cursor_passed_in_order'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['actor', '-created_at', '-id'], name='task_newest_first'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['created_at'], name='task_oldest_first'),
        ),
        migrations.AddConstraint(
            model_name='tombstone',
            constraint=models.UniqueConstraint(fields=('actor', 'digest'), name='tombstone_once'),
        ),
        migrations.AddIndex(
            model_name='usereport',
            index=models.Index(fields=['created_at'], name='use_oldest_first'),
        ),
        migrations.AddConstraint(
            model_name='memorynumbers',
            constraint=models.UniqueConstraint(fields=('actor', 'memory'), name='numbers_of_actor'),
        ),
        migrations.AddConstraint(
            model_name='memorynumbers',
            constraint=models.CheckConstraint(condition=models.Q(('strength__gte', 0)), name='numbers_strength_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='memorynumbers',
            constraint=models.CheckConstraint(condition=models.Q(('consolidation_level__gte', 0), ('consolidation_level__lte', 5)), name='numbers_level_0_to_5'),
        ),
        # Half of every page stays free, so that an update finds room beside its row (HOT) and touches no index.
        migrations.RunSQL(
            "ALTER TABLE strength_memorynumbers SET (fillfactor = 45)",
            "ALTER TABLE strength_memorynumbers RESET (fillfactor)",
        ),
        migrations.RunSQL(VIEW, "DROP VIEW strength_currentnumbers"),
    ]

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.math
import memoryhub.ids
import memoryhub.search.models
import memoryhub.tenancy.namespaces
import memoryhub.tenancy.policy
import pgvector.django.sparsevec
import strength.domain.memories
import strength.domain.sleep
import strength.domain.strength
import strength.models.expectation
import strength.models.memory
import strength.models.task
from django.conf import settings
from django.db import migrations, models


# Deferred: keys are drawn when a transaction commits, so that the lock is held for no longer than that. The lock is
# shared with other writers; a reader of the feed takes it alone. An actor that is being erased has no feed; where the actor
# is gone when the transaction commits, its user was erased, and the memory's earlier changes have the agent.
FEED = f"""
CREATE FUNCTION strength_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({0x51EEA});
    IF TG_OP = 'DELETE' THEN
        INSERT INTO strength_memorychange (agent_id, actor_id, memory_id, change, version, at)
        SELECT actor.agent_id, actor.id, OLD.id, 'erased', OLD.version + 1, now()
        FROM memoryhub_actor AS actor WHERE actor.id = OLD.actor_id;
        IF NOT FOUND THEN
            INSERT INTO strength_memorychange (agent_id, actor_id, memory_id, change, version, at)
            SELECT agent_id, NULL, OLD.id, 'erased', OLD.version + 1, now() FROM strength_memorychange
            WHERE memory_id = OLD.id AND actor_id IS NULL LIMIT 1;
        END IF;
    ELSE
        INSERT INTO strength_memorychange (agent_id, actor_id, memory_id, change, version, at)
        SELECT actor.agent_id, actor.id, NEW.memory_id, CASE
    WHEN NEW.verb = 'create' THEN 'created' WHEN NEW.verb = 'supersede' THEN 'superseded'
    WHEN NEW.changed_after->>'status' IN ('archived', 'rejected') THEN NEW.changed_after->>'status'
    ELSE 'changed' END, NEW.number, NEW.created_at
        FROM memoryhub_actor AS actor WHERE actor.id = NEW.actor_id;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note_change AFTER INSERT ON strength_memoryrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION strength_note_change();
CREATE CONSTRAINT TRIGGER note_change AFTER DELETE ON strength_memory
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION strength_note_change();
"""
WITHOUT_FEED = """
DROP TRIGGER note_change ON strength_memory;
DROP TRIGGER note_change ON strength_memoryrevision;
DROP FUNCTION strength_note_change();
"""


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('strength', '0001_initial'),
        ('strength', '0002_index_length'),
        ('strength', '0003_said_on'),
        ('strength', '0004_one_clock'),
        ('strength', '0005_standing'),
        ('strength', '0006_metadata'),
        ('strength', '0007_changes'),
        ('strength', '0008_wording'),
        ('strength', '0009_changes_of_erased_users'),
        ('strength', '0010_workroom'),
        ('strength', '0011_changes_by_set'),
        ('strength', '0012_profiles'),
        ('strength', '0013_cheap_nights'),
        ('strength', '0014_nights_in_the_row'),
        ('strength', '0015_room_for_archiving'),
        ('strength', '0016_place_of_comparing'),
        ('strength', '0017_plain_nights'),
        ('strength', '0018_passages'),
        ('strength', '0019_task_trust'),
        ('strength', '0020_profile_of_all_kinds'),
        ('strength', '0021_limited_nights'),
        ('strength', '0022_expectation'),
        ('strength', '0023_news'),
        ('strength', '0024_review_rules'),
        ('strength', '0025_review_plans'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('conversations', '0001_schema'),
        ('memoryhub', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Memory',
            fields=[
                ('kind', models.CharField(choices=[('fact', 'fact'), ('preference', 'preference'), ('summary', 'summary'), ('episode', 'episode'), ('reflection', 'reflection'), ('learning', 'learning'), ('decision', 'decision'), ('note', 'note')], default=memoryhub.tenancy.namespaces.Kind['NOTE'], max_length=12)),
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
                ('wording_digest', strength.models.memory.WordingDigestField(max_length=32, null=True)),
                ('locked', models.BooleanField(default=False, help_text='A person edited it; nothing rewrites it automatically.')),
                ('source', models.CharField(choices=[('education', 'education'), ('task', 'task'), ('manual', 'manual'), ('extraction', 'extraction'), ('import', 'import')], default=strength.domain.memories.Source['MANUAL'], max_length=12)),
                ('channel', models.CharField(blank=True, max_length=100)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('confidence', models.FloatField(blank=True, null=True)),
                ('learnings', models.JSONField(blank=True, default=dict, help_text='What was learnt, by perspective.')),
                ('metadata', models.JSONField(blank=True, db_default={}, default=dict, help_text='Metadata of the client, by key.')),
                ('said_on', models.DateField(blank=True, editable=False, null=True)),
                ('supersedes', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), editable=False, help_text='Memories that approval ends, by id.', null=True, size=None)),
                ('version', models.PositiveIntegerField(default=1)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('superseded_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='strength.memory')),
            ],
            options={
                'verbose_name_plural': 'memories',
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', 'status', '-created_at', '-id'], name='memory_newest_first'),
                    models.Index(fields=['actor', 'wording_digest'], name='memory_by_wording'),
                    models.Index(condition=models.Q(('status', strength.domain.memories.Status['ACTIVE'])), fields=['actor', 'updated_at', 'id'], name='memory_last_changed'),
                    models.Index(condition=models.Q(('superseded_by__isnull', False)), fields=['superseded_by'], name='memory_successor'),
                    models.Index(condition=models.Q(('pinned', True)), fields=['actor'], name='memory_pinned'),
                    models.Index(condition=models.Q(('status', strength.domain.memories.Status['PENDING'])), fields=['created_at', 'id'], name='memory_waiting'),
                    models.Index(condition=models.Q(('pinned', False), ('status', strength.domain.memories.Status['ACTIVE'])), fields=['actor', 'kind', '-created_at', '-id'], name='memory_standing'),
                    models.Index(fields=['actor', 'namespace'], name='memory_by_namespace', opclasses=['', 'text_pattern_ops']),
                    models.Index(condition=models.Q(('valid_to__isnull', False)), fields=['actor', 'valid_to'], name='memory_ends'),
                    models.Index(condition=models.Q(('valid_from__isnull', False)), fields=['actor', 'valid_from'], name='memory_begins'),
                ],
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('status__in', [strength.domain.memories.Status['ACTIVE'], strength.domain.memories.Status['PENDING']]), ('superseded_by', None), ('valid_to', None)), fields=('actor', 'namespace', 'content_digest'), name='memory_text_once'),
                    models.CheckConstraint(condition=models.Q(('confidence', None), models.Q(('confidence__gte', 0), ('confidence__lte', 1)), _connector='OR'), name='memory_confidence_is_share'),
                    models.CheckConstraint(condition=models.Q(models.Q(('status', strength.domain.memories.Status['ACTIVE']), _negated=True), ('trust', memoryhub.tenancy.policy.Trust['TRUSTED']), _connector='OR'), name='memory_active_is_trusted'),
                    models.CheckConstraint(condition=models.Q(('valid_from', None), ('valid_to', None), ('valid_from__lte', models.F('valid_to')), _connector='OR'), name='memory_valid_in_order'),
                ],
            },
        ),
        migrations.CreateModel(
            name='NewsPlace',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('place', models.BigIntegerField(null=True)),
                ('read_at', models.DateTimeField(null=True)),
                ('wants_mail', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'default_permissions': (),
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
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ReviewInstructions',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('text', models.TextField(blank=True, max_length=4000)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name_plural': 'review instructions',
            },
        ),
        migrations.CreateModel(
            name='SleepState',
            fields=[
                ('actor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='sleep_state', serialize=False, to='memoryhub.actor')),
                ('tasks_completed', models.PositiveIntegerField(default=0)),
                ('runs', models.PositiveIntegerField(default=0)),
                ('clock', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6)),
                ('clock_at', models.DateTimeField(null=True)),
                ('clock_task', models.IntegerField(db_default=0)),
                ('rates', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), db_default=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], default=strength.domain.strength.new_clock, size=6)),
                ('by_task', models.BooleanField(db_default=False)),
                ('thresholds', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), db_default=[], default=list, size=None)),
                ('clock_before', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), null=True, size=6)),
                ('slept_at', models.DateTimeField(null=True)),
                ('compared_until', models.DateTimeField(null=True)),
                ('compared_after', models.UUIDField(null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='MemoryChange',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('agent_id', models.CharField(max_length=255)),
                ('memory_id', models.UUIDField()),
                ('change', models.CharField(choices=[('created', 'created'), ('changed', 'changed'), ('superseded', 'superseded'), ('archived', 'archived'), ('rejected', 'rejected'), ('erased', 'erased')], max_length=10)),
                ('version', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('actor', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [
                    models.Index(fields=['actor', 'id'], name='change_of_actor'),
                    models.Index(fields=['agent_id', 'id'], name='change_of_agent'),
                    models.Index(condition=models.Q(('actor', None)), fields=['memory_id'], name='change_of_nobody'),
                    django.contrib.postgres.indexes.BrinIndex(fields=['at'], name='change_by_age'),
                ],
            },
        ),
        migrations.CreateModel(
            name='MemoryIndex',
            fields=[
                ('vector', memoryhub.search.models.InlineHalfVectorField(null=True)),
                ('words', memoryhub.search.models.InlineSparseVectorField(dimensions=536870912)),
                ('passages', memoryhub.search.models.SparseVectorsField(base_field=pgvector.django.sparsevec.SparseVectorField(dimensions=536870912), help_text='The words of each passage of a long text.', null=True, size=None)),
                ('length', models.PositiveIntegerField(db_default=0, help_text='In words, as the search counts them.')),
                ('words_version', models.PositiveSmallIntegerField(db_default=1, help_text='Which analysis of text the words are of.')),
                ('is_refused', models.BooleanField(db_default=False, help_text='The embedder refuses this text; it is found by words alone.')),
                ('kind', models.CharField(choices=[('fact', 'fact'), ('preference', 'preference'), ('summary', 'summary'), ('episode', 'episode'), ('reflection', 'reflection'), ('learning', 'learning'), ('decision', 'decision'), ('note', 'note')], default=memoryhub.tenancy.namespaces.Kind['NOTE'], max_length=12)),
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
                'indexes': [
                    models.Index(condition=models.Q(('vector', None)), fields=['space', 'actor'], name='memoryindex_unembedded'),
                    models.Index(condition=models.Q(('scope_level__in', [strength.domain.memories.ScopeLevel['DOMAIN'], strength.domain.memories.ScopeLevel['UNIVERSAL']])), fields=['actor', 'space'], name='memory_index_shared'),
                ],
            },
        ),
        migrations.CreateModel(
            name='MemoryRevision',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
                ('verb', models.CharField(max_length=20)),
                ('changed_before', models.JSONField(default=dict)),
                ('changed_after', models.JSONField(default=dict)),
                ('after', models.JSONField()),
                ('beside', models.JSONField(db_default={}, default=dict, help_text='What stood beside these values before: taking the change back brings it back.')),
                ('batch', models.UUIDField(editable=False, help_text='Shared by what was changed at once.', null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='strength.memory')),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'indexes': [
                    models.Index(condition=models.Q(('verb', 'sleep')), fields=['actor', 'created_at'], name='revision_of_sleep'),
                    models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch'], name='revision_of_batch'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'memory', 'number'), name='revision_number_once')],
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
                'constraints': [models.UniqueConstraint(fields=('actor', 'memory', 'message_id'), name='memory_source_once')],
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
            ],
            options={
                'verbose_name': 'merge proposal',
                'verbose_name_plural': 'merge proposals',
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(condition=models.Q(('state', 'proposed')), fields=['actor', '-created_at'], name='merge_open'),
                    models.Index(condition=models.Q(('state', 'proposed')), fields=['created_at', 'id'], name='merge_waiting'),
                    models.Index(condition=models.Q(('batch__isnull', False)), fields=['batch'], name='merge_of_batch'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'kept', 'absorbed'), name='merge_of_pair_once'),
                    models.CheckConstraint(condition=models.Q(('kept', models.F('absorbed')), _negated=True), name='merge_of_two'),
                    models.CheckConstraint(condition=models.Q(('likeness__gte', 0), ('likeness__lte', 1)), name='merge_likeness_is_share'),
                ],
            },
        ),
        migrations.CreateModel(
            name='PerspectiveStrength',
            fields=[
                ('pk', models.CompositePrimaryKey('actor_id', 'memory_id', 'perspective', blank=True, editable=False, primary_key=True, serialize=False)),
                ('perspective', models.CharField(max_length=100)),
                ('strength', models.FloatField(help_text='As of its mark.')),
                ('mark', models.FloatField(db_default=float("-inf"), default=float("-inf"), help_text="Where the clock of the memory's level stood then.")),
                ('as_of', models.DateTimeField(help_text='When it was last used.')),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='perspectives', to='strength.memory')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('strength__gte', 0)), name='perspective_strength_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('lines', models.JSONField(default=list)),
                ('generator', models.CharField(choices=[('llm', 'llm'), ('person', 'person')], max_length=10)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('locked', models.BooleanField(default=False, help_text='A person put it right; no job rewrites it.')),
                ('read_from', models.JSONField(default=list)),
                ('version', models.PositiveIntegerField(default=1)),
                ('written_at', models.DateTimeField(editable=False, help_text='When a model last wrote it.', null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['-updated_at', '-id'],
                'constraints': [models.UniqueConstraint(fields=('actor',), name='profile_once')],
            },
        ),
        migrations.CreateModel(
            name='ProfileVersion',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
                ('lines', models.JSONField(default=list)),
                ('generator', models.CharField(choices=[('llm', 'llm'), ('person', 'person')], max_length=10)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('locked', models.BooleanField(default=False, help_text='A person put it right; no job rewrites it.')),
                ('verb', models.CharField(choices=[('write', 'write'), ('edit', 'edit'), ('lock', 'lock'), ('unlock', 'unlock'), ('restore', 'restore')], max_length=10)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='strength.profile')),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'indexes': [models.Index(fields=['profile', '-number'], name='version_of_profile')],
                'constraints': [models.UniqueConstraint(fields=('actor', 'profile', 'number'), name='profile_version_once')],
            },
        ),
        migrations.CreateModel(
            name='ReviewComment',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('author_name', models.CharField(max_length=150)),
                ('text', models.TextField(max_length=2000)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('edited_at', models.DateTimeField(null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'default_permissions': (),
                'indexes': [models.Index(fields=['actor', 'memory', 'created_at'], name='review_comment_of_memory')],
            },
        ),
        migrations.CreateModel(
            name='ReviewHold',
            fields=[
                ('key', models.UUIDField(primary_key=True, serialize=False)),
                ('ends_at', models.DateTimeField()),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='ReviewPlan',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('snoozed_until', models.DateTimeField(null=True)),
                ('version', models.PositiveIntegerField(null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('assigned_to', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('memory', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
                ('merge', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.merge')),
            ],
            options={
                'default_permissions': (),
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'memory'), name='review_plan_of_memory'),
                    models.UniqueConstraint(fields=('actor', 'merge'), name='review_plan_of_merge'),
                    models.CheckConstraint(condition=models.Q(models.Q(('memory__isnull', True), ('merge__isnull', False)), models.Q(('memory__isnull', False), ('merge__isnull', True)), _connector='OR'), name='review_plan_of_one'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ReviewRule',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('verb', models.CharField(choices=[('approve', 'approve'), ('reject', 'reject')], max_length=10)),
                ('digest', models.BinaryField(max_length=32)),
                ('reasons', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), size=None)),
                ('memory_id', models.UUIDField()),
                ('kind', models.CharField(choices=[('fact', 'fact'), ('preference', 'preference'), ('summary', 'summary'), ('episode', 'episode'), ('reflection', 'reflection'), ('learning', 'learning'), ('decision', 'decision'), ('note', 'note')], max_length=12)),
                ('source', models.CharField(choices=[('education', 'education'), ('task', 'task'), ('manual', 'manual'), ('extraction', 'extraction'), ('import', 'import')], max_length=12)),
                ('channel', models.CharField(blank=True, max_length=100)),
                ('who_name', models.CharField(max_length=150, verbose_name='made by')),
                ('decided_count', models.PositiveIntegerField(default=0, verbose_name='decided')),
                ('last_decided_at', models.DateTimeField(null=True, verbose_name='last one')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('revoked_at', models.DateTimeField(null=True)),
                ('revoked_by', models.CharField(blank=True, max_length=150)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'rule',
                'verbose_name_plural': 'rules',
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['actor', '-created_at', '-id'], name='review_rule_newest_first')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('revoked_at', None)), fields=('actor', 'digest'), name='review_rule_once')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=60)),
                ('query', models.CharField(max_length=2000)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('person', 'name'), name='saved_view_name_once')],
            },
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
                ('compares', models.BooleanField(default=False)),
                ('compared_since', models.DateTimeField(null=True)),
                ('policy', models.JSONField(default=dict)),
                ('tasks_completed', models.PositiveIntegerField(default=0)),
                ('decayed_count', models.PositiveIntegerField(default=0)),
                ('archived_count', models.PositiveIntegerField(default=0)),
                ('consolidated_count', models.PositiveIntegerField(default=0)),
                ('merged_count', models.PositiveIntegerField(default=0)),
                ('proposed_count', models.PositiveIntegerField(default=0)),
                ('allowance', models.PositiveIntegerField(help_text='Memories that it may still archive; null: all.', null=True)),
                ('held_count', models.PositiveIntegerField(db_default=0, default=0)),
                ('held_decided_at', models.DateTimeField(null=True)),
                ('clock', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), null=True, size=6)),
                ('before', models.JSONField(default=dict)),
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
                'indexes': [
                    models.Index(fields=['actor', '-now', '-id'], name='sleep_newest_first'),
                    models.Index(condition=models.Q(('group__isnull', False)), fields=['group'], name='sleep_group'),
                    models.Index(condition=models.Q(('dry_run', False), ('held_count__gt', 0), ('held_decided_at', None)), fields=['actor', 'number'], name='sleep_held'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'number'), name='sleep_number_once'),
                    models.UniqueConstraint(condition=models.Q(('dry_run', False), ('state', 'running')), fields=('actor',), name='sleep_one_at_a_time'),
                ],
            },
        ),
        migrations.AddField(
            model_name='merge',
            name='run',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='merges', to='strength.sleeprun'),
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
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('passed_until__lte', models.F('read_until'))), name='cursor_passed_is_read'),
                    models.CheckConstraint(condition=models.Q(('passed_after__lte', models.F('passed_until'))), name='cursor_passed_in_order'),
                ],
            },
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
                ('mark', models.FloatField(null=True)),
                ('level', models.PositiveSmallIntegerField()),
                ('times', models.PositiveIntegerField(default=1)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('memory', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='strength.memory')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('begun', 'begun'), ('completed', 'completed'), ('failed', 'failed')], default=strength.models.task.TaskState['BEGUN'], max_length=9)),
                ('query', models.TextField()),
                ('perspective', models.CharField(max_length=100, null=True)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], db_default=memoryhub.tenancy.policy.Trust['TRUSTED'], default=memoryhub.tenancy.policy.Trust['TRUSTED'], help_text='Of who began and completed it; nothing is learnt from an untrusted query.', max_length=10)),
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
                'indexes': [
                    models.Index(fields=['actor', '-created_at', '-id'], name='task_newest_first'),
                    models.Index(fields=['created_at'], name='task_oldest_first'),
                ],
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
                'constraints': [models.UniqueConstraint(fields=('actor', 'digest'), name='tombstone_once')],
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
            options={
                'indexes': [models.Index(fields=['created_at'], name='use_oldest_first')],
            },
        ),
        migrations.CreateModel(
            name='Expectation',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('memory_id', models.UUIDField()),
                ('is_wanted', models.BooleanField(help_text='Whether the memory must be in the context; else it must not.')),
                ('state', models.CharField(choices=[('kept', 'kept'), ('broken', 'broken')], max_length=6)),
                ('created_at', models.DateTimeField()),
                ('checked_at', models.DateTimeField()),
                ('kept_at', models.DateTimeField(help_text='The last check at which it was kept.', null=True)),
                ('broken_at', models.DateTimeField(help_text='The check that found it broken.', null=True)),
                ('basis', models.CharField(max_length=64)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('receipt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.receipt')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', '-created_at', '-id'], name='expectation_newest_first'),
                    models.Index(condition=models.Q(('state', strength.models.expectation.ExpectationState['BROKEN'])), fields=['state'], name='expectation_broken'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'receipt', 'memory_id'), name='expectation_once')],
            },
        ),
        migrations.CreateModel(
            name='MemoryNumbers',
            fields=[
                ('memory', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='numbers', serialize=False, to='strength.memory')),
                ('strength', models.FloatField()),
                ('mark', models.FloatField(db_default=float("-inf"), default=float("-inf"))),
                ('due', models.GeneratedField(db_persist=True, expression=django.db.models.expressions.CombinedExpression(django.db.models.functions.math.Ln(django.db.models.functions.comparison.Greatest('strength', models.Value(1e-200))), '-', models.F('mark')), output_field=models.FloatField())),
                ('access_count', models.PositiveIntegerField(default=0)),
                ('candidate_count', models.PositiveIntegerField(default=0)),
                ('last_accessed_at', models.DateTimeField(null=True)),
                ('impact_score', models.FloatField(default=0.0)),
                ('consolidation_level', models.PositiveSmallIntegerField(default=0)),
                ('began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When it began to fade; or was written.')),
                ('began_task', models.IntegerField(db_default=0)),
                ('slept_in', models.IntegerField(null=True)),
                ('taken', models.FloatField(db_default=0.0)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'verbose_name_plural': 'memory numbers',
                'indexes': [models.Index(condition=models.Q(('due__lt', float("inf"))), fields=['actor', 'consolidation_level', 'due'], include=('mark',), name='numbers_due')],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'memory'), name='numbers_of_actor'),
                    models.CheckConstraint(condition=models.Q(('strength__gte', 0)), name='numbers_strength_not_negative'),
                    models.CheckConstraint(condition=models.Q(('consolidation_level__gte', 0), ('consolidation_level__lte', 5)), name='numbers_level_0_to_5'),
                ],
            },
        ),
        # Pages keep room for the next version of a row (HOT), so that an update touches no index.
        *(
            migrations.RunSQL(f'ALTER TABLE {table} SET (fillfactor = {percent})', f'ALTER TABLE {table} RESET (fillfactor)')
            for table, percent in (('strength_memorynumbers', 45), ('strength_memoryindex', 85))
        ),
        migrations.RunSQL(FEED, WITHOUT_FEED),
    ]

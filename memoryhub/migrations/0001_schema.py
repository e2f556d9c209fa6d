import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import memoryhub.ids
import memoryhub.jobs.retries
import uuid
from django.conf import settings
from django.db import migrations, models
from pgvector.django import VectorExtension


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('memoryhub', '0001_initial'),
        ('memoryhub', '0002_roles'),
        ('memoryhub', '0003_embeddingspace_calibration'),
        ('memoryhub', '0004_failed_logins'),
        ('memoryhub', '0005_imports'),
        ('memoryhub', '0006_curate_scope'),
        ('memoryhub', '0007_invitations'),
        ('memoryhub', '0008_format_of_imports'),
        ('memoryhub', '0009_clustering_state'),
        ('memoryhub', '0010_frequent_terms'),
        ('memoryhub', '0011_job_order'),
        ('memoryhub', '0012_job_lane'),
        ('memoryhub', '0013_term_actors'),
        ('memoryhub', '0014_job_turns'),
        ('memoryhub', '0015_term_tenants'),
        ('memoryhub', '0016_secret_counts'),
        ('memoryhub', '0017_key_caps'),
        ('memoryhub', '0018_import_columns'),
        ('memoryhub', '0019_deletions_of_actors'),
        ('memoryhub', '0020_capreached'),
        ('memoryhub', '0021_callsum'),
        ('memoryhub', '0022_hosts'),
        ('memoryhub', '0023_oauth_grants'),
    ]

    dependencies = [
        ('axes', '0010_accessattemptexpiration'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name='Actor',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('user_id', models.CharField(blank=True, max_length=255)),
                ('policy', models.JSONField(blank=True, default=dict, help_text="Values that differ from the agent's.")),
                ('version', models.PositiveIntegerField(default=1)),
                ('deletions', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='How often messages were deleted; receipts compare it.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['agent_id', 'user_id'],
            },
        ),
        migrations.CreateModel(
            name='CallSum',
            fields=[
                ('pk', models.CompositePrimaryKey('caller', 'host', blank=True, editable=False, primary_key=True, serialize=False)),
                ('caller', models.CharField(max_length=80)),
                ('host', models.CharField(max_length=255)),
                ('calls', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ClusteringState',
            fields=[
                ('table', models.CharField(max_length=63, primary_key=True, serialize=False)),
                ('since', models.UUIDField(default=uuid.UUID('00000000-0000-0000-0000-000000000000'))),
                ('until', models.UUIDField(null=True)),
                ('after_actor', models.UUIDField(default=uuid.UUID('00000000-0000-0000-0000-000000000000'))),
                ('after_owner', models.UUIDField(default=uuid.UUID('00000000-0000-0000-0000-000000000000'))),
            ],
        ),
        migrations.CreateModel(
            name='OAuthClient',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('redirect_uris', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), size=None)),
                ('metadata', models.JSONField(default=dict)),
                ('sealed_secret', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'OAuth client',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ScheduleState',
            fields=[
                ('name', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('next_at', models.DateTimeField()),
                ('last_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'verbose_name': 'schedule',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='TermStatistic',
            fields=[
                ('term', models.IntegerField(primary_key=True, serialize=False)),
                ('documents', models.BigIntegerField()),
                ('agents', models.BigIntegerField(db_default=0, help_text='A bit of 64 for each agent that has the term.')),
                ('users', models.BigIntegerField(db_default=0, help_text='A bit of 64 for each user that has the term.')),
            ],
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('host', models.CharField(max_length=255)),
                ('pid', models.PositiveIntegerField()),
                ('settings', models.JSONField(db_default={}, help_text='Settings of its host that all hosts must have alike.')),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['started_at'],
            },
        ),
        migrations.CreateModel(
            name='FailedLogin',
            fields=[
            ],
            options={
                'verbose_name': 'failed login',
                'ordering': ['-attempt_time'],
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('axes.accessattempt',),
        ),
        migrations.CreateModel(
            name='FrequentTerms',
            fields=[
                ('actor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='memoryhub.actor')),
                ('terms', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                ('counts', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
            ],
        ),
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('agent_id', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, max_length=255)),
                ('language', models.CharField(choices=[('en', 'English'), ('ja', 'Japanese')], default='en', max_length=2)),
                ('system_prompt', models.TextField(blank=True)),
                ('domain', models.CharField(blank=True, max_length=255)),
                ('related_domains', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, size=None)),
                ('current_project', models.CharField(blank=True, max_length=255)),
                ('fixed_user_id', models.CharField(blank=True, help_text='Owner mode: everything is stored for this one user.', max_length=255)),
                ('policy', models.JSONField(blank=True, default=dict, help_text='Values that differ from the defaults.')),
                ('strategies', models.JSONField(blank=True, default=dict, help_text='Long-term strategies switched off or on.')),
                ('topics_include', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, size=None)),
                ('topics_exclude', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, size=None)),
                ('retrieval_config', models.JSONField(blank=True, help_text='Namespace prefixes; empty: the defaults.', null=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['agent_id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('agent_id__regex', '^[-a-zA-Z0-9_]+$')), name='agent_id_is_slug')],
            },
        ),
        migrations.AddField(
            model_name='actor',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='actors', to='memoryhub.agent'),
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('prefix', models.CharField(editable=False, max_length=20)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('read', 'read'), ('write', 'write'), ('curate', 'curate'), ('admin', 'admin')], max_length=10), size=None)),
                ('agent_ids', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, help_text='The agents it may touch; empty: all.', null=True, size=None)),
                ('user_id', models.CharField(blank=True, help_text='Bound to this user; empty: any user of its agents.', max_length=255, null=True)),
                ('is_trusted', models.BooleanField(default=True, help_text='What an untrusted key writes waits for a curator before it enters contexts.')),
                ('daily_token_cap', models.PositiveBigIntegerField(blank=True, help_text='Tokens that its chat may read and write a day; empty: any number.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'verbose_name': 'API key',
                'ordering': ['-created_at'],
                'constraints': [
                    models.UniqueConstraint(fields=('digest',), name='api_key_digest_once'),
                    models.CheckConstraint(condition=models.Q(('scopes__len__gt', 0)), name='api_key_has_scope'),
                ],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('verb', models.CharField(max_length=50)),
                ('object_kind', models.CharField(max_length=50)),
                ('object_id', models.CharField(blank=True, max_length=255)),
                ('agent_id', models.CharField(blank=True, max_length=255)),
                ('user_id', models.CharField(blank=True, max_length=255)),
                ('reason', models.TextField(blank=True)),
                ('details', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'ordering': ['-at', '-id'],
                'indexes': [
                    models.Index(fields=['-at', '-id'], name='audit_newest_first'),
                    models.Index(fields=['agent_id', 'user_id'], name='audit_of_user'),
                    models.Index(fields=['object_kind', 'object_id'], name='audit_of_object'),
                    models.Index(condition=models.Q(('verb', 'redact')), fields=['-at'], name='audit_of_secrets'),
                    models.Index(condition=models.Q(('who_kind', 'curator')), fields=['-at', '-id'], name='audit_of_people'),
                ],
            },
        ),
        migrations.CreateModel(
            name='CapReached',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('owner_id', models.UUIDField()),
                ('agent_id', models.CharField(blank=True, max_length=255)),
                ('cap', models.CharField(max_length=30)),
                ('day', models.DateField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'ordering': ['-at', '-id'],
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('owner_id', 'cap', 'day'), name='cap_reached_once_a_day')],
            },
        ),
        migrations.CreateModel(
            name='EmbeddingSpace',
            fields=[
                ('id', models.SmallAutoField(primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=64)),
                ('model', models.CharField(max_length=255)),
                ('dimension', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('filling', 'Filling'), ('active', 'Active'), ('retired', 'Retired')], default='filling', max_length=8)),
                ('cosine_low', models.FloatField(help_text='The cosine of two unrelated texts.')),
                ('cosine_high', models.FloatField(help_text='The cosine of a text and its paraphrase.')),
                ('vector_weight', models.FloatField(help_text='The relevance of a perfect cosine without any shared word, 0 to 1.')),
                ('calibration', models.JSONField(blank=True, default=dict, help_text='Measured cosines, by script; empty: not yet.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('provider', 'model', 'dimension'), name='space_is_unique'),
                    models.UniqueConstraint(condition=models.Q(('state', 'active')), fields=('state',), name='space_active_is_one'),
                    models.CheckConstraint(condition=models.Q(('state__in', ['filling', 'active', 'retired'])), name='space_state_is_known'),
                    models.CheckConstraint(condition=models.Q(('dimension__gte', 1), ('dimension__lte', 16000)), name='space_dimension_fits_halfvec'),
                    models.CheckConstraint(condition=models.Q(('cosine_high__lte', 1), ('cosine_low__gte', -1), ('cosine_low__lt', models.F('cosine_high'))), name='space_bounds_are_ordered'),
                    models.CheckConstraint(condition=models.Q(('vector_weight__gte', 0), ('vector_weight__lte', 1)), name='space_weight_is_a_share'),
                ],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('route', models.CharField(max_length=200)),
                ('key', models.CharField(max_length=255)),
                ('body_digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField()),
                ('headers', models.JSONField(default=dict)),
                ('body', models.JSONField(null=True)),
                ('is_read', models.BooleanField(default=False, help_text="A search or a context: it may contain others' texts.")),
                ('created_at', models.DateTimeField()),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('api_key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.apikey')),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='idempotency_by_age')],
                'constraints': [models.UniqueConstraint(fields=('api_key', 'route', 'key'), name='idempotency_once')],
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('format', models.CharField(max_length=20)),
                ('columns', models.JSONField(blank=True, default=dict, help_text='Columns of a table by their meaning.')),
                ('names_users', models.BooleanField(default=False, help_text='The file says whose each memory is.')),
                ('file_name', models.CharField(blank=True, max_length=255)),
                ('size', models.PositiveBigIntegerField(default=0)),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(blank=True, max_length=255)),
                ('who_name', models.CharField(blank=True, max_length=150)),
                ('is_trusted', models.BooleanField(default=True)),
                ('report', models.JSONField(blank=True, default=dict)),
                ('previewed_at', models.DateTimeField(blank=True, null=True)),
                ('imported_at', models.DateTimeField(blank=True, null=True)),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['actor', '-created_at', '-id'], name='import_newest_first')],
                'constraints': [models.UniqueConstraint(fields=('actor', 'id'), name='import_of_actor')],
            },
        ),
        migrations.CreateModel(
            name='ImportedRow',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('import_id', models.UUIDField()),
                ('kind', models.CharField(max_length=10)),
                ('row_id', models.UUIDField()),
                ('key', models.CharField(blank=True, max_length=64)),
                ('details', models.JSONField(blank=True, default=dict)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [
                    models.Index(fields=['import_id', 'id'], name='imported_by_import'),
                    models.Index(condition=models.Q(('key', ''), _negated=True), fields=['actor', 'key'], name='imported_by_key'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'id'), name='imported_row_of_actor')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('email', models.EmailField(help_text="The invited person's address. Nothing is sent: give them the link yourself.", max_length=254)),
                ('role', models.CharField(max_length=150)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(editable=False, null=True)),
                ('invited_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'invitation',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=64)),
                ('key', models.CharField(blank=True, help_text='At most one job per key waits and one runs; empty: any number.', max_length=255)),
                ('payload', models.JSONField(blank=True, default=dict)),
                ('order', models.JSONField(blank=True, help_text='The caller that ordered it; empty: the server.', null=True)),
                ('lane', models.CharField(db_default='', help_text='Caller or user by whom jobs take turns.', max_length=64)),
                ('turn_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Its place in the order of the queue.')),
                ('state', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('failed', 'failed'), ('dead', 'dead')], default=memoryhub.jobs.retries.State['QUEUED'], max_length=7)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('excused', models.PositiveIntegerField(default=0, help_text='Attempts that do not count against it.')),
                ('excused_since', models.DateTimeField(blank=True, null=True)),
                ('due_at', models.DateTimeField(help_text='When it may next be offered to a worker.')),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('worker', models.UUIDField(blank=True, help_text='The worker that runs it.', null=True)),
                ('error', models.TextField(blank=True)),
                ('cursor', models.JSONField(blank=True, help_text='Where long work continues after an interruption.', null=True)),
                ('progress_done', models.PositiveBigIntegerField(blank=True, null=True)),
                ('progress_total', models.PositiveBigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(condition=models.Q(('state', memoryhub.jobs.retries.State['QUEUED'])), fields=['turn_at', 'due_at'], name='job_due'),
                    models.Index(condition=models.Q(('state__in', (memoryhub.jobs.retries.State['QUEUED'], memoryhub.jobs.retries.State['RUNNING']))), fields=['lane', 'turn_at'], name='job_turns'),
                    models.Index(condition=models.Q(('state', memoryhub.jobs.retries.State['RUNNING'])), fields=['lease_until'], name='job_leased'),
                    models.Index(condition=models.Q(('state', memoryhub.jobs.retries.State['DONE']), _negated=True), fields=['kind', 'state'], name='job_by_kind'),
                    models.Index(condition=models.Q(('state', memoryhub.jobs.retries.State['QUEUED']), models.Q(('key', ''), _negated=True)), fields=['actor', 'kind', 'key'], name='job_waiting_by_key'),
                    models.Index(fields=['-created_at', '-id'], name='job_newest_first'),
                ],
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('attempts', 0), ('state', memoryhub.jobs.retries.State['QUEUED']), models.Q(('key', ''), _negated=True)), fields=('actor', 'kind', 'key'), name='job_waits_once', nulls_distinct=False),
                    models.UniqueConstraint(condition=models.Q(('state', memoryhub.jobs.retries.State['RUNNING']), models.Q(('key', ''), _negated=True)), fields=('actor', 'kind', 'key'), name='job_runs_once', nulls_distinct=False),
                    models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'done', 'failed', 'dead'])), name='job_state_is_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('state', memoryhub.jobs.retries.State['RUNNING'])), models.Q(models.Q(('state', memoryhub.jobs.retries.State['RUNNING']), _negated=True), ('lease_until', None)), _connector='OR'), name='job_runs_under_a_lease'),
                ],
            },
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(help_text='When the call ended.')),
                ('agent_id', models.CharField(blank=True, help_text="Who pays; empty: the operator's own call.", max_length=255)),
                ('key_id', models.UUIDField(blank=True, help_text='The API key whose chat it was.', null=True)),
                ('operation', models.CharField(max_length=32)),
                ('provider', models.CharField(max_length=64)),
                ('model', models.CharField(max_length=255)),
                ('outcome', models.CharField(default='ok', help_text="`ok`, or the error's code.", max_length=64)),
                ('input_tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('output_tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('cache_read_tokens', models.PositiveBigIntegerField(default=0, help_text="Of the input tokens, those from the provider's cache.")),
                ('cache_write_tokens', models.PositiveBigIntegerField(default=0, help_text="Of the input tokens, those put into the provider's cache.")),
                ('estimated_tokens', models.PositiveBigIntegerField(help_text='Tokens that were estimated before the call.')),
                ('raw_latin', models.PositiveBigIntegerField(default=0)),
                ('raw_japanese', models.PositiveBigIntegerField(default=0)),
                ('raw_code', models.PositiveBigIntegerField(default=0)),
                ('raw_other', models.PositiveBigIntegerField(default=0)),
                ('messages', models.PositiveIntegerField(default=0)),
                ('is_sample', models.BooleanField(default=False, help_text='Only texts were sent, so factors can be fitted.')),
                ('latency_ms', models.FloatField()),
                ('cost', models.DecimalField(blank=True, decimal_places=8, help_text='US dollars; empty: no price known.', max_digits=16, null=True)),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'verbose_name': 'call',
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['agent_id', 'created_at'], include=('cost', 'input_tokens', 'output_tokens'), name='ledger_by_agent_and_time'),
                    models.Index(condition=models.Q(('key_id__isnull', False)), fields=['key_id', 'created_at'], name='ledger_by_key_and_time'),
                    models.Index(fields=['-created_at', '-id'], name='ledger_newest_first'),
                    models.Index(condition=models.Q(('is_sample', True)), fields=['provider', 'model', '-created_at'], name='ledger_samples'),
                ],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('input_tokens__isnull', False), ('outcome', 'ok')), models.Q(('outcome', 'ok'), _negated=True), _connector='OR'), name='ledger_entry_counts_what_was_answered')],
            },
        ),
        migrations.CreateModel(
            name='OAuthGrant',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('client', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='memoryhub.oauthclient')),
                ('key', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='grant', to='memoryhub.apikey')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'connected client',
                'ordering': ['-created_at'],
                'default_permissions': ('add', 'change', 'view'),
            },
        ),
        migrations.CreateModel(
            name='OAuthToken',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('code', 'code'), ('access', 'access'), ('refresh', 'refresh')], max_length=10)),
                ('redirect_uri', models.CharField(blank=True, max_length=500)),
                ('code_challenge', models.CharField(blank=True, max_length=43)),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('used_at', models.DateTimeField(null=True)),
                ('grant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='memoryhub.oauthgrant')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='SharedValue',
            fields=[
                ('pk', models.CompositePrimaryKey('cache', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('cache', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=250)),
                ('value', models.JSONField(null=True)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(fields=['cache', 'expires_at'], name='shared_value_expires')],
            },
        ),
        migrations.CreateModel(
            name='TokenFactors',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=64)),
                ('model', models.CharField(max_length=255)),
                ('latin', models.FloatField()),
                ('japanese', models.FloatField()),
                ('code', models.FloatField()),
                ('other', models.FloatField()),
                ('per_message', models.PositiveIntegerField()),
                ('per_request', models.PositiveIntegerField()),
                ('samples', models.PositiveIntegerField()),
                ('error_before_median', models.FloatField(help_text='With the factors from the table; a share of the tokens.')),
                ('error_before_p95', models.FloatField()),
                ('error_after_median', models.FloatField(help_text='With these factors.')),
                ('error_after_p95', models.FloatField()),
                ('fitted_at', models.DateTimeField()),
            ],
            options={
                'verbose_name': 'token factors',
                'verbose_name_plural': 'token factors',
                'ordering': ['provider', 'model'],
                'constraints': [models.UniqueConstraint(fields=('provider', 'model'), name='factors_once_a_model')],
            },
        ),
        migrations.CreateModel(
            name='UploadedPiece',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('import_id', models.UUIDField()),
                ('offset', models.PositiveBigIntegerField()),
                ('data', models.BinaryField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'default_permissions': (),
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'id'), name='uploaded_piece_of_actor'),
                    models.UniqueConstraint(fields=('actor', 'import_id', 'offset'), name='uploaded_piece_once'),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name='actor',
            constraint=models.UniqueConstraint(fields=('agent', 'user_id'), name='actor_is_agent_and_user'),
        ),
        # Values of some minutes or hours, of no use after a crash; an unlogged table is in no backup of files.
        *(
            migrations.RunSQL(f'ALTER TABLE {table} SET UNLOGGED', f'ALTER TABLE {table} SET LOGGED')
            for table in ('memoryhub_callsum', 'memoryhub_sharedvalue')
        ),
    ]

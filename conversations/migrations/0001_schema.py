import conversations.models
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import memoryhub.ids
import memoryhub.search.models
import memoryhub.tenancy.policy
import pgvector.django.sparsevec
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('conversations', '0001_initial'),
        ('conversations', '0002_index_length'),
        ('conversations', '0003_message_offset'),
        ('conversations', '0004_abandoned_messages'),
        ('conversations', '0005_session_client_id'),
        ('conversations', '0006_message_opening'),
        ('conversations', '0007_passages'),
        ('conversations', '0008_session_deletions'),
        ('conversations', '0009_deleted_messages'),
        ('conversations', '0010_kept_receipts'),
    ]

    dependencies = [
        ('memoryhub', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('client_id', models.UUIDField(editable=False, null=True)),
                ('channel', models.CharField(default='api', max_length=100)),
                ('title', models.CharField(blank=True, max_length=500)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('last_message_at', models.DateTimeField(blank=True, null=True)),
                ('message_count', models.PositiveIntegerField(default=0)),
                ('authors', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), blank=True, default=list, editable=False, help_text='Names of the speakers.', size=None)),
                ('deletions', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='How often messages of it were deleted.')),
                ('actor', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['-started_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', '-started_at', '-id'], name='session_newest_first'),
                    models.Index(condition=models.Q(('ended_at', None)), fields=['id'], name='session_open'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'id'), name='session_of_actor'),
                    models.UniqueConstraint(condition=models.Q(('client_id__isnull', False)), fields=('client_id', 'actor'), name='session_of_client'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Receipt',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField()),
                ('query', models.TextField()),
                ('token_limit', models.PositiveBigIntegerField()),
                ('total_tokens', models.PositiveBigIntegerField()),
                ('metadata', models.JSONField(default=dict)),
                ('items', models.JSONField(default=list)),
                ('source_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None)),
                ('is_kept', models.BooleanField(db_default=False, default=False, help_text='Retention leaves it: an expectation is about its call.')),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('session', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.session')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', '-created_at', '-id'], name='receipt_newest_first'),
                    django.contrib.postgres.indexes.GinIndex(fields=['source_ids'], name='receipt_by_source'),
                    django.contrib.postgres.indexes.BrinIndex(fields=['created_at'], name='receipt_by_age'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'id'), name='receipt_of_actor')],
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('seq', models.PositiveIntegerField()),
                ('role', models.CharField(choices=[('user', 'user'), ('assistant', 'assistant'), ('system', 'system'), ('tool', 'tool')], max_length=10)),
                ('author', models.CharField(blank=True, max_length=255)),
                ('content', models.TextField(blank=True)),
                ('blocks', models.JSONField(blank=True, null=True)),
                ('token_count', models.PositiveIntegerField()),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('client_message_id', models.CharField(blank=True, max_length=255, null=True)),
                ('created_at', models.DateTimeField()),
                ('utc_offset_minutes', models.SmallIntegerField(blank=True, null=True)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('abandoned_at', models.DateTimeField(blank=True, help_text='When the client continued from an earlier message; this one is not read any more.', null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='conversations.session')),
            ],
            options={
                'ordering': ['session', 'seq'],
                'indexes': [
                    models.Index(fields=['session', 'seq'], name='message_of_session'),
                    models.Index(fields=['actor', '-created_at', '-id'], name='message_newest_first'),
                    models.Index(models.F('actor'), conversations.models.OpeningHash(conversations.models.Opening('content')), models.OrderBy(models.F('created_at'), descending=True), name='message_opening'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'id'), name='message_of_actor'),
                    models.UniqueConstraint(fields=('actor', 'session', 'seq'), name='message_seq_once'),
                    models.UniqueConstraint(fields=('actor', 'session', 'client_message_id'), name='message_client_id_once'),
                    models.CheckConstraint(condition=models.Q(('seq__gte', 1)), name='message_seq_from_one'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ChatTurn',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(editable=False, max_length=64, null=True)),
                ('body_digest', models.CharField(editable=False, max_length=64)),
                ('state', models.CharField(choices=[('answering', 'answering'), ('answered', 'answered'), ('failed', 'failed')], max_length=9)),
                ('attempt', models.PositiveIntegerField(default=1)),
                ('until', models.DateTimeField()),
                ('error', models.CharField(blank=True, help_text='The code of the error.', max_length=64)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('context_metadata', models.JSONField(null=True)),
                ('routing', models.JSONField(help_text='The project that it was routed to, and the confidence.', null=True)),
                ('usage', models.JSONField(null=True)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('use_noted_at', models.DateTimeField(help_text='When use of its memories was determined.', null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('answer', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.message')),
                ('question', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.message')),
                ('receipt', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.receipt')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='turns', to='conversations.session')),
            ],
            options={
                'verbose_name': 'question',
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', '-created_at', '-id'], name='turn_newest_first'),
                    models.Index(condition=models.Q(('state', 'answered'), ('use_noted_at', None)), fields=['session'], name='turn_use_not_noted'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'id'), name='turn_of_actor'),
                    models.UniqueConstraint(fields=('actor', 'key'), name='turn_key_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='DeletedMessage',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.UUIDField()),
                ('digest', models.BinaryField(max_length=32)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('actor', 'session_id', 'digest'), name='deleted_message_once')],
            },
        ),
        migrations.CreateModel(
            name='MessageIndex',
            fields=[
                ('vector', memoryhub.search.models.InlineHalfVectorField(null=True)),
                ('words', memoryhub.search.models.InlineSparseVectorField(dimensions=536870912)),
                ('passages', memoryhub.search.models.SparseVectorsField(base_field=pgvector.django.sparsevec.SparseVectorField(dimensions=536870912), help_text='The words of each passage of a long text.', null=True, size=None)),
                ('length', models.PositiveIntegerField(db_default=0, help_text='In words, as the search counts them.')),
                ('words_version', models.PositiveSmallIntegerField(db_default=1, help_text='Which analysis of text the words are of.')),
                ('is_refused', models.BooleanField(db_default=False, help_text='The embedder refuses this text; it is found by words alone.')),
                ('pk', models.CompositePrimaryKey('actor_id', 'space_id', 'message_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('session_id', models.UUIDField()),
                ('seq', models.PositiveIntegerField()),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('author', models.CharField(blank=True, max_length=255)),
                ('asks', models.BooleanField(default=False)),
                ('is_abandoned', models.BooleanField(db_default=False, default=False)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.message')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='memoryhub.embeddingspace')),
            ],
            options={
                'abstract': False,
                'indexes': [models.Index(condition=models.Q(('vector', None)), fields=['space', 'actor'], name='messageindex_unembedded')],
            },
        ),
    ]

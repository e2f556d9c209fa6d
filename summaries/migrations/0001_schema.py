import django.db.models.deletion
import memoryhub.ids
import memoryhub.tenancy.policy
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('summaries', '0001_initial'),
        ('summaries', '0002_written_by_a_person'),
        ('summaries', '0003_life_of_a_project'),
        ('summaries', '0004_document_deleted_at'),
        ('summaries', '0005_waiting_entries'),
    ]

    dependencies = [
        ('conversations', '0001_schema'),
        ('memoryhub', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64)),
                ('description', models.CharField(blank=True, max_length=300)),
                ('version', models.PositiveIntegerField(default=1)),
                ('archived_at', models.DateTimeField(null=True)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('merged_into', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='summaries.project')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('actor', 'name'), name='project_name_once'),
                    models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z0-9]+(-[a-z0-9]+)*$')), name='project_name_is_kebab'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=74)),
                ('text', models.TextField(blank=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('token_count', models.PositiveIntegerField(default=0)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='summaries.project')),
            ],
            options={
                'ordering': ['project', 'name'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('actor', 'project', 'name'), name='document_name_once')],
            },
        ),
        migrations.CreateModel(
            name='ProjectCursor',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('read_until', models.PositiveIntegerField(default=0)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.session')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('actor', 'session'), name='project_cursor_once')],
            },
        ),
        migrations.CreateModel(
            name='ProjectEvent',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('project_name', models.CharField(blank=True, max_length=64)),
                ('kind', models.CharField(choices=[('read', 'read'), ('route', 'route'), ('correct', 'correct'), ('update', 'update'), ('compact', 'compact'), ('restore', 'restore'), ('sync', 'sync'), ('export', 'export'), ('create', 'create'), ('archive', 'archive'), ('reactivate', 'reactivate'), ('merge', 'merge'), ('move', 'move'), ('delete', 'delete'), ('undo', 'undo')], max_length=10)),
                ('tokens', models.PositiveIntegerField(default=0)),
                ('outcome', models.CharField(blank=True, max_length=64)),
                ('details', models.JSONField(default=dict)),
                ('undo', models.JSONField(null=True)),
                ('undone_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='summaries.project')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['actor', '-created_at', '-id'], name='event_newest_first')],
                'constraints': [models.UniqueConstraint(fields=('actor', 'id'), name='project_event_of_actor')],
            },
        ),
        migrations.CreateModel(
            name='RoutingDecision',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('message', models.TextField()),
                ('channel', models.CharField(max_length=100)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('proposed_name', models.CharField(blank=True, max_length=64)),
                ('confidence', models.CharField(choices=[('high', 'high'), ('medium', 'medium'), ('low', 'low')], max_length=6)),
                ('action', models.CharField(choices=[('route', 'route'), ('route_and_disclose', 'route_and_disclose'), ('ask', 'ask'), ('propose_new', 'propose_new')], max_length=18)),
                ('reason', models.TextField(blank=True)),
                ('corrected_by', models.CharField(blank=True, max_length=150)),
                ('corrected_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('corrected_project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='summaries.project')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='summaries.project')),
                ('session', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.session')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['actor', '-created_at', '-id'], name='routing_newest_first'),
                    models.Index(condition=models.Q(('corrected_project__isnull', False)), fields=['actor', '-corrected_at'], name='routing_corrected'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'id'), name='routing_of_actor')],
            },
        ),
        migrations.CreateModel(
            name='Summary',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('text', models.TextField()),
                ('message_count', models.PositiveIntegerField()),
                ('start_time', models.DateTimeField()),
                ('end_time', models.DateTimeField()),
                ('model', models.CharField(blank=True, max_length=255)),
                ('generator', models.CharField(choices=[('llm', 'llm'), ('extractive', 'extractive'), ('person', 'person')], max_length=10)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('locked', models.BooleanField(default=False, help_text='A person put it right; no job rewrites it.')),
                ('version', models.PositiveIntegerField(default=1)),
                ('written', models.PositiveIntegerField(default=1, editable=False)),
                ('written_at', models.DateTimeField(editable=False)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.session')),
            ],
            options={
                'verbose_name_plural': 'summaries',
                'ordering': ['-end_time', '-id'],
                'indexes': [models.Index(fields=['actor', '-end_time', '-id'], name='summary_newest_first')],
                'constraints': [
                    models.UniqueConstraint(fields=('actor', 'id'), name='summary_of_actor'),
                    models.UniqueConstraint(fields=('actor', 'session'), name='summary_once'),
                    models.CheckConstraint(condition=models.Q(('start_time__lte', models.F('end_time'))), name='summary_begins_before_it_ends'),
                ],
            },
        ),
        migrations.CreateModel(
            name='SummaryDraft',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('job_id', models.UUIDField()),
                ('base_version', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('covered', models.PositiveIntegerField()),
                ('start_time', models.DateTimeField()),
                ('end_time', models.DateTimeField()),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], max_length=10)),
                ('model', models.CharField(blank=True, max_length=255)),
                ('generator', models.CharField(choices=[('llm', 'llm'), ('extractive', 'extractive'), ('person', 'person')], max_length=10)),
                ('updated_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.session')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('actor', 'session'), name='summary_draft_once')],
            },
        ),
        migrations.CreateModel(
            name='SummaryVersion',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
                ('verb', models.CharField(choices=[('write', 'write'), ('edit', 'edit'), ('lock', 'lock'), ('unlock', 'unlock'), ('restore', 'restore'), ('delete', 'delete')], max_length=10)),
                ('text', models.TextField()),
                ('message_count', models.PositiveIntegerField()),
                ('start_time', models.DateTimeField()),
                ('end_time', models.DateTimeField()),
                ('model', models.CharField(blank=True, max_length=255)),
                ('generator', models.CharField(choices=[('llm', 'llm'), ('extractive', 'extractive'), ('person', 'person')], max_length=10)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], max_length=10)),
                ('locked', models.BooleanField()),
                ('seconds', models.FloatField(help_text='How long a program took to write it.', null=True)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('summary', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='summaries.summary')),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'indexes': [
                    models.Index(fields=['summary', '-number'], name='version_of_summary'),
                    models.Index(condition=models.Q(('verb', 'write')), fields=['created_at'], name='version_written'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'summary', 'number'), name='summary_version_once')],
            },
        ),
        migrations.CreateModel(
            name='DocumentEntry',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('text_digest', models.BinaryField(max_length=32)),
                ('pinned', models.BooleanField(default=False)),
                ('source', models.JSONField(default=dict)),
                ('trust', models.CharField(choices=[('trusted', 'trusted'), ('untrusted', 'untrusted')], default=memoryhub.tenancy.policy.Trust['TRUSTED'], max_length=10)),
                ('in_text', models.BooleanField(db_default=True, default=True, help_text="The document's text has the line.")),
                ('created_at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('document', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='summaries.document')),
            ],
            options={
                'verbose_name_plural': 'document entries',
                'ordering': ['-created_at', '-id'],
                'indexes': [
                    models.Index(fields=['document', '-created_at'], name='entry_of_document'),
                    models.Index(condition=models.Q(('in_text', True), ('trust', memoryhub.tenancy.policy.Trust['UNTRUSTED'])), fields=['created_at', 'id'], name='entry_waiting'),
                ],
                'constraints': [models.UniqueConstraint(fields=('actor', 'document', 'text_digest'), name='document_entry_once')],
            },
        ),
        migrations.CreateModel(
            name='DocumentVersion',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('who_kind', models.CharField(choices=[('key', 'key'), ('curator', 'curator'), ('job', 'job'), ('command', 'command')], max_length=10)),
                ('who_id', models.CharField(max_length=64)),
                ('who_name', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
                ('text', models.TextField(blank=True)),
                ('kind', models.CharField(choices=[('create', 'create'), ('edit', 'edit'), ('append', 'append'), ('compaction', 'compaction'), ('restore', 'restore'), ('sync', 'sync'), ('merge', 'merge'), ('move', 'move')], max_length=10)),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
                ('document', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='summaries.document')),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'indexes': [models.Index(fields=['document', '-number'], name='version_of_document')],
                'constraints': [models.UniqueConstraint(fields=('actor', 'document', 'number'), name='document_version_once')],
            },
        ),
    ]

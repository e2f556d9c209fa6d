import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
import memoryhub.ids
from django.db import migrations, models


# Deferred, and under the lock of the feed of memories (`strength`): keys are drawn in the order of commits from the
# sequence of that feed. An actor that is being erased has no events.
FUNCTION = f"""
CREATE FUNCTION webhooks_note_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhooks_endpoint) THEN
        PERFORM pg_advisory_xact_lock_shared({0x51EEA});
        INSERT INTO webhooks_event (id, agent_id, actor_id, kind, object_id, at)
        SELECT nextval(pg_get_serial_sequence('strength_memorychange', 'id')), actor.agent_id, actor.id, TG_ARGV[0],
            (to_jsonb(NEW)->>TG_ARGV[1])::uuid, now()
        FROM memoryhub_actor AS actor WHERE actor.id = NEW.actor_id;
    END IF;
    RETURN NULL;
END $$;
"""

# Kind, table, event, condition, column of the id.
EVENTS = [
    ("session.ended", "conversations_session", "UPDATE OF ended_at",
     "OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL", "id"),
    ("session.summarised", "summaries_summary", "INSERT", "TRUE", "id"),
    ("session.summarised", "summaries_summary", "UPDATE OF written", "OLD.written < NEW.written", "id"),
    ("project.routed_low", "summaries_routingdecision", "INSERT", "NEW.confidence = 'low'", "id"),
    ("document.compacted", "summaries_documentversion", "INSERT", "NEW.kind = 'compaction'", "document_id"),
    ("sleep.finished", "strength_sleeprun", "INSERT", "NEW.state = 'done' AND NOT NEW.dry_run", "id"),
    ("sleep.finished", "strength_sleeprun", "UPDATE OF state",
     "OLD.state = 'running' AND NEW.state = 'done' AND NOT NEW.dry_run", "id"),
    ("import.finished", "memoryhub_import", "UPDATE OF imported_at",
     "OLD.imported_at IS NULL AND NEW.imported_at IS NOT NULL", "id"),
    ("expectation.broken", "strength_expectation", "UPDATE OF broken_at",
     "OLD.broken_at IS NULL AND NEW.broken_at IS NOT NULL", "id"),
]  # fmt: skip

TRIGGER = """
CREATE CONSTRAINT TRIGGER {name} AFTER {event} ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ({condition}) EXECUTE FUNCTION webhooks_note_event('{kind}', '{column}');
"""


def name_of(event):
    return f"note_webhook_event_{event.split()[0].lower()}"


TRIGGERS = "".join(
    TRIGGER.format(name=name_of(event), kind=kind, table=table, event=event, condition=condition, column=column)
    for kind, table, event, condition, column in EVENTS
)
# As `webhooks_note_event`, for rows of an agent or a key, which have no actor.
CAP = f"""
CREATE FUNCTION webhooks_note_cap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM webhooks_endpoint) THEN
        PERFORM pg_advisory_xact_lock_shared({0x51EEA});
        INSERT INTO webhooks_event (id, agent_id, actor_id, kind, object_id, at)
        VALUES (nextval(pg_get_serial_sequence('strength_memorychange', 'id')), NEW.agent_id, NULL, 'cap.reached',
            NEW.owner_id, now());
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note_webhook_event_insert AFTER INSERT ON memoryhub_capreached
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION webhooks_note_cap();
"""

WITHOUT = "DROP TRIGGER note_webhook_event_insert ON memoryhub_capreached;" + "".join(
    f"DROP TRIGGER {name_of(event)} ON {table};" for _kind, table, event, *_rest in EVENTS
)


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('webhooks', '0001_initial'),
        ('webhooks', '0002_broken_expectations_and_caps'),
    ]

    dependencies = [
        ('memoryhub', '0001_schema'),
        ('conversations', '0001_schema'),
        ('summaries', '0001_schema'),
        ('strength', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=2000, verbose_name='address')),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=30), blank=True, default=list, help_text='The events to send; none chosen: all.', size=None)),
                ('with_texts', models.BooleanField(default=False, help_text='Whether events carry the text of the memory, summary or document.')),
                ('state', models.CharField(choices=[('active', 'active'), ('disabled', 'disabled')], default='active', editable=False, max_length=8)),
                ('place', models.BigIntegerField(default=0, editable=False)),
                ('secret', models.TextField(editable=False)),
                ('old_secret', models.TextField(blank=True, editable=False)),
                ('rotating_until', models.DateTimeField(editable=False, null=True)),
                ('failures', models.PositiveIntegerField(default=0, editable=False, help_text='Failed deliveries in a row.')),
                ('is_slow', models.BooleanField(default=False, editable=False)),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
                ('retry_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('agent', models.ForeignKey(blank=True, help_text='Empty: all agents.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.agent')),
            ],
            options={
                'verbose_name': 'webhook',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=memoryhub.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('place', models.BigIntegerField()),
                ('kind', models.CharField(max_length=30)),
                ('status', models.PositiveSmallIntegerField(help_text="The answer's status; empty: no answer.", null=True)),
                ('error', models.CharField(blank=True, max_length=30)),
                ('duration_ms', models.PositiveIntegerField(default=0)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='webhooks.endpoint')),
            ],
            options={
                'verbose_name': 'delivery',
                'verbose_name_plural': 'deliveries',
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['endpoint', '-at', '-id'], name='delivery_newest_first'), models.Index(fields=['at'], name='delivery_by_age')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('agent_id', models.CharField(max_length=255)),
                ('kind', models.CharField(max_length=30)),
                ('object_id', models.UUIDField()),
                ('at', models.DateTimeField()),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['agent_id', 'id'], name='event_of_agent'), django.contrib.postgres.indexes.BrinIndex(fields=['at'], name='event_by_age')],
            },
        ),
        migrations.RunSQL(
            FUNCTION + TRIGGERS + CAP, WITHOUT + 'DROP FUNCTION webhooks_note_event(); DROP FUNCTION webhooks_note_cap();'
        ),
    ]

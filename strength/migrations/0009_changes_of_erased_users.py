import django.db.models.deletion
from django.db import migrations, models

CHANGE_OF = """CASE
    WHEN NEW.verb = 'create' THEN 'created' WHEN NEW.verb = 'supersede' THEN 'superseded'
    WHEN NEW.changed_after->>'status' IN ('archived', 'rejected') THEN NEW.changed_after->>'status'
    ELSE 'changed' END"""

# As in 0007, with the agent; where the actor is gone when the transaction commits, its user was erased, and the memory's
# earlier changes say of which agent.
NOTE = f"""
CREATE OR REPLACE FUNCTION strength_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
        SELECT actor.agent_id, actor.id, NEW.memory_id, {CHANGE_OF}, NEW.number, NEW.created_at
        FROM memoryhub_actor AS actor WHERE actor.id = NEW.actor_id;
    END IF;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0004_failed_logins'),
        ('strength', '0008_wording'),
    ]

    operations = [
        migrations.AddField(
            model_name='memorychange',
            name='agent_id',
            field=models.CharField(default='', max_length=255),
            preserve_default=False,
        ),
        migrations.RunSQL(
            "UPDATE strength_memorychange SET agent_id = actor.agent_id FROM memoryhub_actor AS actor"
            " WHERE actor.id = actor_id; SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED",
            migrations.RunSQL.noop,
        ),
        migrations.AlterField(
            model_name='memorychange',
            name='actor',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memoryhub.actor'),
        ),
        migrations.AddIndex(
            model_name='memorychange',
            index=models.Index(fields=['agent_id', 'id'], name='change_of_agent'),
        ),
        migrations.AddIndex(
            model_name='memorychange',
            index=models.Index(condition=models.Q(('actor', None)), fields=['memory_id'], name='change_of_nobody'),
        ),
        migrations.RunSQL(NOTE, migrations.RunSQL.noop),
    ]

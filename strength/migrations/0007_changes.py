import django.db.models.deletion
from django.db import migrations, models

CHANGE_OF = """CASE
    WHEN {row}.verb = 'create' THEN 'created' WHEN {row}.verb = 'supersede' THEN 'superseded'
    WHEN {row}.changed_after->>'status' IN ('archived', 'rejected') THEN {row}.changed_after->>'status'
    ELSE 'changed' END"""

# Deferred: keys are drawn when a transaction commits, so that the lock is held for no longer than that. The lock is
# shared with other writers; who reads the feed takes it alone. An actor that is being erased has no feed.
TRIGGERS = f"""
CREATE FUNCTION strength_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({0x51EEA});
    IF TG_OP = 'DELETE' THEN
        INSERT INTO strength_memorychange (actor_id, memory_id, change, version, at)
        SELECT actor.id, OLD.id, 'erased', OLD.version + 1, now() FROM memoryhub_actor AS actor WHERE actor.id = OLD.actor_id;
    ELSE
        INSERT INTO strength_memorychange (actor_id, memory_id, change, version, at)
        SELECT actor.id, NEW.memory_id, {CHANGE_OF.format(row="NEW")}, NEW.number, NEW.created_at
        FROM memoryhub_actor AS actor WHERE actor.id = NEW.actor_id;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note_change AFTER INSERT ON strength_memoryrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION strength_note_change();
CREATE CONSTRAINT TRIGGER note_change AFTER DELETE ON strength_memory
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION strength_note_change();
INSERT INTO strength_memorychange (actor_id, memory_id, change, version, at)
SELECT actor_id, memory_id, {CHANGE_OF.format(row="revision")}, number, created_at
FROM strength_memoryrevision AS revision ORDER BY created_at, memory_id, number;
"""
WITHOUT = """
DROP TRIGGER note_change ON strength_memory;
DROP TRIGGER note_change ON strength_memoryrevision;
DROP FUNCTION strength_note_change();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0003_embeddingspace_calibration'),
        ('strength', '0006_metadata'),
    ]

    operations = [
        migrations.CreateModel(
            name='MemoryChange',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('memory_id', models.UUIDField()),
                ('change', models.CharField(choices=[('created', 'created'), ('changed', 'changed'), ('superseded', 'superseded'), ('archived', 'archived'), ('rejected', 'rejected'), ('erased', 'erased')], max_length=10)),
                ('version', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('actor', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memoryhub.actor')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['actor', 'id'], name='change_of_actor')],
            },
        ),
        migrations.RunSQL(TRIGGERS, WITHOUT),
    ]

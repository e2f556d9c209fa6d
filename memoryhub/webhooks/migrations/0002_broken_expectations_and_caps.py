from django.db import migrations

# As `webhooks_note_event` (0001), for rows of an agent or a key, which have no actor.
FUNCTION = f"""
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
"""

TRIGGERS = """
CREATE CONSTRAINT TRIGGER note_webhook_event_insert AFTER INSERT ON memoryhub_capreached
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION webhooks_note_cap();
CREATE CONSTRAINT TRIGGER note_webhook_event_update AFTER UPDATE OF broken_at ON strength_expectation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.broken_at IS NULL AND NEW.broken_at IS NOT NULL)
    EXECUTE FUNCTION webhooks_note_event('expectation.broken', 'id');
"""
WITHOUT = """
DROP TRIGGER note_webhook_event_update ON strength_expectation;
DROP TRIGGER note_webhook_event_insert ON memoryhub_capreached;
DROP FUNCTION webhooks_note_cap();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('webhooks', '0001_initial'),
        ('memoryhub', '0020_capreached'),
        ('strength', '0022_expectation'),
    ]

    operations = [migrations.RunSQL(FUNCTION + TRIGGERS, WITHOUT)]

from django.db import migrations

# A night notes in one statement what it has archived.
TRIGGER = """
DROP TRIGGER note_change ON strength_memoryrevision;
CREATE CONSTRAINT TRIGGER note_change AFTER INSERT ON strength_memoryrevision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW {condition} EXECUTE FUNCTION strength_note_change();
"""
UNLESS = "WHEN (current_setting('memoryhub.changes', true) IS DISTINCT FROM 'by_set')"


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0010_workroom'),
    ]

    operations = [
        migrations.RunSQL(TRIGGER.format(condition=UNLESS), TRIGGER.format(condition="")),
    ]

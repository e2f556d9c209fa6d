from django.db import connection, migrations, models

import strength.models.memory
from strength.domain.duplicates import wording_digest

AT_ONCE = 2_000
NEXT = "SELECT id, content FROM strength_memory WHERE id > %s ORDER BY id LIMIT %s"
STORE = """UPDATE strength_memory AS memory SET wording_digest = known.digest
FROM unnest(%s::uuid[], %s::bytea[]) AS known (id, digest) WHERE memory.id = known.id"""


def compute(apps: object, schema_editor: object) -> None:
    after = "00000000-0000-0000-0000-000000000000"
    with connection.cursor() as cursor:
        while True:
            cursor.execute(NEXT, [after, AT_ONCE])
            rows = cursor.fetchall()
            if not rows:
                return
            keys = [key for key, _content in rows]
            cursor.execute(STORE, [keys, [wording_digest(content) for _key, content in rows]])
            after = keys[-1]


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0007_changes'),
    ]

    operations = [
        migrations.AddField(
            model_name='memory',
            name='wording_digest',
            field=strength.models.memory.WordingDigestField(),
        ),
        migrations.RunPython(compute, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(fields=['actor', 'wording_digest'], name='memory_by_wording'),
        ),
    ]

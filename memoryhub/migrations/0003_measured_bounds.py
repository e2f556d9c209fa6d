"""Spaces that were made with the first, unmeasured bounds get the measured ones."""

from django.db import migrations

MEASURED = """
UPDATE memoryhub_embeddingspace SET cosine_low = 0.4, cosine_high = 0.8, vector_weight = 0.1
WHERE provider = 'hashing' AND (cosine_low, cosine_high, vector_weight) = (0.3, 0.6, 0.2);
UPDATE memoryhub_embeddingspace SET cosine_low = 0.3, cosine_high = 0.8, vector_weight = 0.3
WHERE replace(lower(model), '_', '-') LIKE '%all-minilm%' AND (cosine_low, vector_weight) IN ((0.1, 0.5), (0.2, 0.5));
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0002_policy_versions_and_recorded_reads'),
    ]

    operations = [
        migrations.RunSQL(MEASURED, migrations.RunSQL.noop),
    ]

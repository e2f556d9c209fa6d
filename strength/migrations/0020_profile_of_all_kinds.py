from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('strength', '0019_task_trust'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='memory',
            name='memory_standing',
        ),
        migrations.AddIndex(
            model_name='memory',
            index=models.Index(condition=models.Q(('pinned', False), ('status', 'active')), fields=['actor', 'kind', '-created_at', '-id'], name='memory_standing'),
        ),
    ]

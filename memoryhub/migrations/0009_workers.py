from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memoryhub', '0008_audit_of_people'),
    ]

    operations = [
        migrations.RenameModel(old_name='Crew', new_name='Worker'),
        migrations.RenameField(model_name='job', old_name='crew', new_name='worker'),
        migrations.AlterField(
            model_name='job',
            name='worker',
            field=models.UUIDField(blank=True, help_text='The worker that runs it.', null=True),
        ),
    ]

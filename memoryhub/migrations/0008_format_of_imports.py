from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0007_invitations")]

    operations = [migrations.RenameField(model_name="import", old_name="form", new_name="format")]

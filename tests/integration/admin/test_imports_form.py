"""The form that takes a file to import."""

import re

from django.test import Client
from django.urls import reverse


def test_every_field_of_the_form_is_styled(boss: Client) -> None:
    page = boss.get(reverse("importer")).content.decode()
    form = page[page.index('id="upload-form"') :].partition("</form>")[0]
    fields = [tag for tag in re.findall(r"<(?:input|select)\b[^>]*>", form, re.DOTALL) if 'type="hidden"' not in tag]
    assert len(fields) == 5
    assert all(re.search(r'class="[^"]+"', tag) for tag in fields)

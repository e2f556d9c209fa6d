"""Names of models, fields and choices in the reader's language, without a line in any migration.

Models name their fields in English, as the API does; where a page shows such a name it is looked up in the catalogue.
"""

from typing import Any

from django.apps import apps
from django.db.models import Model
from django.utils import translation
from django.utils.translation import gettext_lazy as _

OURS = ("memoryhub", "conversations", "summaries", "strength")


def label_models() -> None:
    """Make the names that pages show of our models look themselves up; called once, when all models are loaded.

    Migrations are made from what a field was declared with (`Field.deconstruct` reads `_verbose_name`; options are read
    from `original_attrs`; a lazy choice equals its English text), so none follows from this.
    """
    with translation.override(None):  # Django makes plurals of what a model was declared with, lazily
        for config in map(apps.get_app_config, OURS):
            config.verbose_name = _looked_up(config.verbose_name)
            for model in config.get_models():
                _label(model)


def _label(model: type[Model]) -> None:
    options: Any = model._meta
    options.verbose_name = _looked_up(options.verbose_name)
    options.verbose_name_plural = _looked_up(options.verbose_name_plural)
    for field in options.local_fields:
        field.verbose_name = _looked_up(field.verbose_name)
        field.help_text = _looked_up(field.help_text)
        if field.choices:
            field.choices = [(value, _looked_up(label)) for value, label in field.flatchoices]


def _looked_up(text: Any) -> Any:
    return _(str(text)) if text else text

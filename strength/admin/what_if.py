"""Names of changes of memories, as their effects on contexts are headed."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from strength.actions.curation import TRANSITIONS
from strength.actions.what_if import DELETE, EDIT
from strength.admin import bulk

VERB_LABELS: Final[Mapping[str, Any]] = {
    EDIT: _("Save"),
    **{verb: bulk.LABELS[verb] for verb in TRANSITIONS},
    DELETE: bulk.LABELS[bulk.DELETE],
    "merge": bulk.LABELS["merge"],
}


def heading(verb: str) -> str:
    return gettext("What would change: %(verb)s") % {"verb": VERB_LABELS[verb]}

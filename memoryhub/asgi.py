"""The ASGI entry point: what the web server imports."""

import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
os.environ.setdefault("MEMORYHUB_PROCESS", "web")

# Static files are sent by a synchronous iterator, which Django wraps and warns about once per process.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

django_application = get_asgi_application()

# Load the vocabulary now (a quarter of a second), not in somebody's first request.
from memoryhub.tokens import count_raw  # noqa: E402

count_raw("memoryhub")

from memoryhub.api.streams import BodyLimit  # noqa: E402 - its settings must be there first

application = BodyLimit(django_application)

"""The ground that all apps share, as a Django app."""

from django.apps import AppConfig


class MemoryhubConfig(AppConfig):
    name = "memoryhub"
    verbose_name = "Memory hub"

    def ready(self) -> None:
        from memoryhub import checks  # noqa: F401  registering the start-up checks

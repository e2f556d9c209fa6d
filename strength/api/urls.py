"""Addresses of memories."""

from django.urls import path

from strength.actions.curate import TRANSITIONS
from strength.api import views

urlpatterns = [
    path("memories", views.Memories.as_view(), name="memories"),
    path("memories/count", views.MemoryCount.as_view(), name="memories-count"),
    path("memories/search", views.MemorySearchView.as_view(), name="memories-search"),
    path("memories/retrieve", views.MemoryRetrieve.as_view(), name="memories-retrieve"),
    path("memories/<uuid:memory_id>", views.OneMemory.as_view(), name="memory"),
    path("memories/<uuid:memory_id>/revisions", views.MemoryRevisions.as_view(), name="memory-revisions"),
    path("memories/<uuid:memory_id>/restore", views.MemoryRestore.as_view(), name="memory-restore"),
    *(
        path(f"memories/<uuid:memory_id>/{verb}", views.MemoryVerb.as_view(verb=verb), name=f"memory-{verb}")
        for verb in TRANSITIONS
    ),
]

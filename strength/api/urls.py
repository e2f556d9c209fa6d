"""Addresses of memories."""

from django.urls import path

from strength.actions.curate import TRANSITIONS
from strength.api import sleeping, uses, views

urlpatterns = [
    path("memories", views.Memories.as_view(), name="memories"),
    path("memories/count", views.MemoryCount.as_view(), name="memories-count"),
    path("memories/search", views.MemorySearchView.as_view(), name="memories-search"),
    path("memories/retrieve", views.MemoryRetrieve.as_view(), name="memories-retrieve"),
    path("memories/used", uses.MemoriesUsed.as_view(), name="memories-used"),
    path("memories/candidates", uses.MemoriesCandidates.as_view(), name="memories-candidates"),
    path("memories/archive", uses.MemoriesArchive.as_view(), name="memories-archive"),
    path("memories/strengths", uses.MemoriesStrengths.as_view(), name="memories-strengths"),
    path("memories/<uuid:memory_id>", views.OneMemory.as_view(), name="memory"),
    path("memories/<uuid:memory_id>/revisions", views.MemoryRevisions.as_view(), name="memory-revisions"),
    path("memories/<uuid:memory_id>/restore", views.MemoryRestore.as_view(), name="memory-restore"),
    *(
        path(f"memories/<uuid:memory_id>/{verb}", views.MemoryVerb.as_view(verb=verb), name=f"memory-{verb}")
        for verb in TRANSITIONS
    ),
    path("memories/<uuid:memory_id>/supersede", views.MemorySupersede.as_view(), name="memory-supersede"),
    path("memories/<uuid:memory_id>/used", uses.MemoryUsed.as_view(), name="memory-used"),
    path("memories/<uuid:memory_id>/impact", uses.MemoryImpact.as_view(), name="memory-impact"),
    path("memories/<uuid:memory_id>/strength", uses.MemoryStrength.as_view(), name="memory-strength"),
    path("tasks", uses.Tasks.as_view(), name="tasks"),
    path("tasks/<uuid:task_id>", uses.OneTask.as_view(), name="task"),
    path("tasks/<uuid:task_id>/complete", uses.TaskComplete.as_view(), name="task-complete"),
    path("sleep-runs", sleeping.SleepRuns.as_view(), name="sleep-runs"),
    path("sleep-runs/<uuid:run_id>", sleeping.OneSleepRun.as_view(), name="sleep-run"),
    path("sleep-runs/<uuid:run_id>/undo", sleeping.SleepUndo.as_view(), name="sleep-run-undo"),
    path("merges", sleeping.Merges.as_view(), name="merges"),
    *(
        path(f"merges/<uuid:merge_id>/{verb}", sleeping.MergeVerb.as_view(verb=verb), name=f"merge-{verb}")
        for verb in sleeping.MergeVerb.verbs
    ),
]

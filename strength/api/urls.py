"""Addresses of memories."""

from django.urls import path

from strength.actions.curation import TRANSITIONS
from strength.api import batches, expectations, extraction, memories, profiles, search, sleep, usage, what_if
from strength.api.memories import with_operation_id

urlpatterns = [
    path("memories", memories.Memories.as_view(), name="memories"),
    path("memories/batch", batches.MemoriesBatch.as_view(), name="memories-batch"),
    path("memories/bulk", batches.MemoriesBulk.as_view(), name="memories-bulk"),
    path("memories/bulk/<uuid:batch_id>", batches.MemoriesBulkState.as_view(), name="memories-bulk-state"),
    path("memories/bulk/<uuid:batch_id>/undo", batches.MemoriesBulkUndo.as_view(), name="memories-bulk-undo"),
    path("memories/count", memories.MemoryCount.as_view(), name="memories-count"),
    path("memories/search", search.MemorySearchView.as_view(), name="memories-search"),
    path("memories/retrieve", search.MemoryRetrieve.as_view(), name="memories-retrieve"),
    path("memories/used", usage.MemoriesUsed.as_view(), name="memories-used"),
    path("memories/candidates", usage.MemoriesCandidates.as_view(), name="memories-candidates"),
    path("memories/archive", usage.MemoriesArchive.as_view(), name="memories-archive"),
    path("memories/strengths", usage.MemoriesStrengths.as_view(), name="memories-strengths"),
    path("memories/<uuid:memory_id>", memories.OneMemory.as_view(), name="memory"),
    path("memories/<uuid:memory_id>/revisions", memories.MemoryRevisions.as_view(), name="memory-revisions"),
    path("memories/<uuid:memory_id>/restore", memories.MemoryRestore.as_view(), name="memory-restore"),
    *(
        path(
            f"memories/<uuid:memory_id>/{verb}",
            with_operation_id(memories.MemoryVerb, f"memory_{verb}", verb=verb).as_view(),
            name=f"memory-{verb}",
        )
        for verb in TRANSITIONS
    ),
    path("memories/<uuid:memory_id>/what-if", what_if.MemoryWhatIf.as_view(), name="memory-what-if"),
    path("memories/<uuid:memory_id>/supersede", memories.MemorySupersede.as_view(), name="memory-supersede"),
    path("memories/<uuid:memory_id>/used", usage.MemoryUsed.as_view(), name="memory-used"),
    path("memories/<uuid:memory_id>/impact", usage.MemoryImpact.as_view(), name="memory-impact"),
    path("memories/<uuid:memory_id>/strength", usage.MemoryStrength.as_view(), name="memory-strength"),
    path("expectations", expectations.Expectations.as_view(), name="expectations"),
    path("expectations/check", expectations.ExpectationCheck.as_view(), name="expectations-check"),
    path("expectations/<uuid:expectation_id>", expectations.OneExpectation.as_view(), name="expectation"),
    path("profile", profiles.OneProfile.as_view(), name="profile"),
    path("profile/versions", profiles.ProfileVersions.as_view(), name="profile-versions"),
    path("profile/restore", profiles.ProfileRestore.as_view(), name="profile-restore"),
    path("changes", batches.Changes.as_view(), name="changes"),
    path("sessions/<uuid:session_id>/extract", extraction.SessionExtract.as_view(), name="session-extract"),
    path("sessions/<uuid:session_id>/extraction", extraction.SessionExtraction.as_view(), name="session-extraction"),
    path("tasks", usage.Tasks.as_view(), name="tasks"),
    path("tasks/<uuid:task_id>", usage.OneTask.as_view(), name="task"),
    path("tasks/<uuid:task_id>/complete", usage.TaskComplete.as_view(), name="task-complete"),
    path("sleep-runs", sleep.SleepRuns.as_view(), name="sleep-runs"),
    path("sleep-runs/<uuid:run_id>", sleep.OneSleepRun.as_view(), name="sleep-run"),
    path("sleep-runs/<uuid:run_id>/undo", sleep.SleepUndo.as_view(), name="sleep-run-undo"),
    path("merges", sleep.Merges.as_view(), name="merges"),
    path("merges/<uuid:merge_id>/what-if", what_if.MergeWhatIf.as_view(), name="merge-what-if"),
    *(
        path(
            f"merges/<uuid:merge_id>/{verb}",
            with_operation_id(sleep.MergeVerb, f"merge_{verb}", verb=verb).as_view(),
            name=f"merge-{verb}",
        )
        for verb in sleep.MergeVerb.verbs
    ),
]

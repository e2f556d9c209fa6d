"""Test files of the apps are named after the module that they test, at the place that mirrors it."""

from pathlib import Path

import pytest

from memoryhub.env import CHECKOUT

TESTS = CHECKOUT / "tests"
APPS = ("conversations", "memoryhub", "strength", "summaries")
MIRRORED = sorted(
    file
    for kind in ("unit", "integration")
    for folder in (*APPS, "admin")
    for file in (TESTS / kind / folder).rglob("test_*.py")
)


def sources(test: Path) -> list[Path]:
    """Return the folders that a test file's folder mirrors."""
    _, *folders = test.parent.relative_to(TESTS).parts
    if folders == ["admin"]:
        return [CHECKOUT / app / "admin" for app in APPS]
    return [CHECKOUT.joinpath(*folders)]


def modules(test: Path) -> set[str]:
    """Return the names of modules and packages that a test file may be called after.

    A unit test's module is in the very folder that is mirrored. An integration test goes through several floors of an
    app or package, so its module may be on any of them.
    """
    integration = test.is_relative_to(TESTS / "integration")
    return {
        path.stem
        for folder in sources(test)
        for path in (folder.rglob("*") if integration else folder.glob("*"))
        if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())
    } - {"__init__"}


def named_module(test: Path) -> str | None:
    """Return the longest module name that a test file's name begins with."""
    name = test.stem.removeprefix("test_")
    return max((each for each in modules(test) if f"{name}_".startswith(f"{each}_")), key=len, default=None)


def test_mirrored_tests_are_found() -> None:
    assert len(MIRRORED) > 150


@pytest.mark.parametrize(
    "folder", sorted({test.parent for test in MIRRORED}), ids=lambda each: str(each.relative_to(TESTS))
)
def test_a_mirrored_test_file_names_a_module(folder: Path) -> None:
    wrong = [test.name for test in MIRRORED if test.parent == folder and named_module(test) is None]
    assert not wrong, f"name them test_<module>.py or test_<module>_<aspect>.py, after a module of {folder.name}"


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("unit/strength/domain/test_usage_detection_judging.py", "usage_detection"),
        ("unit/strength/domain/test_usage.py", None),
        ("unit/strength/domain/test_memories.py", "memories"),
        ("unit/strength/domain/test_memoriesque.py", None),
        ("integration/strength/test_usage.py", "usage"),
        ("integration/admin/test_review_queue.py", "review"),
        ("integration/admin/test_search.py", None),
        ("integration/memoryhub/importexport/test_formats.py", "formats"),
    ],
)
def test_modules_are_matched_by_whole_words(test: str, module: str | None) -> None:
    assert named_module(TESTS / test) == module

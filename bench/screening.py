#!/usr/bin/env python
"""Measure the screening for secrets: processor time per text, harmless texts that it changes, made-up secrets it finds.

.venv/bin/python bench/screening.py                 this repository's documents and code, made-up texts
.venv/bin/python bench/screening.py FILE…           also the paragraphs of these files
"""

import argparse
import random
import string
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from memoryhub.privacy.screening import screen  # noqa: E402
from tests.factories.secrets import SECRETS, harmless_texts, made_secrets  # noqa: E402

LENGTHS: Final = (1_000, 100_000)
ROUNDS: Final = 9
TEXTS: Final = 3_000


def texts() -> Mapping[str, str]:
    """Return long texts by their kind."""
    documents = "".join(file.read_text() for file in sorted(ROOT.glob("docs/**/*.md")))
    code = "".join(file.read_text() for file in sorted(ROOT.glob("memoryhub/**/*.py")))
    picture = "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=max(LENGTHS)))
    secrets = "\n".join(text for _kind, text, _secret in made_secrets(2_000))
    japanese = (ROOT / "README.ja.md").read_text()
    return {"documents": documents, "code": code, "Japanese": japanese * 20, "base64": picture, "secrets": secrets}


def milliseconds(text: str) -> float:
    """Return the shortest processor time of several runs."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        screen(text)
        times.append(time.process_time() - began)
    return 1000 * min(times)


def report(files: list[Path]) -> Iterator[str]:
    for kind, text in texts().items():
        figures = ", ".join(f"{milliseconds(text[:length]):.3f} ms for {length:,} characters" for length in LENGTHS)
        yield f"{kind}: {figures}"
    found = sum(secret not in screen(text).text for _kind, text, secret in made_secrets(TEXTS, seed=1))
    yield f"{found} of {TEXTS} made-up secrets of {len(SECRETS)} kinds removed"
    changed = sum(screen(text).text != text for text in harmless_texts(TEXTS))
    yield f"{changed} of {TEXTS} harmless texts changed"
    for file in files:
        paragraphs = [part for part in file.read_text(errors="replace").split("\n\n") if part.strip()]
        changed = sum(bool(screen(part).removed) for part in paragraphs)
        yield f"{file.name}: {changed} of {len(paragraphs)} paragraphs changed"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the screening for secrets.")
    parser.add_argument("files", nargs="*", type=Path, help="texts whose changed paragraphs are counted")
    for line in report(parser.parse_args().files):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()

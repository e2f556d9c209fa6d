#!/usr/bin/env python
"""Run one of memoryhub's commands: `manage.py help` lists them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            f"manage.py: {error}. The packages are not installed in this Python; "
            "use `make run`, or the interpreter in .venv/bin."
        ) from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()

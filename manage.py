#!/usr/bin/env python
"""Run one of memoryhub's commands: `manage.py help` lists them."""

import io
import os
import sys

STOPPED = 130  # as a shell says of a program that Ctrl-C has ended
PIPE_CLOSED = 141  # and of one that SIGPIPE has


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            f"manage.py: {error}. The packages are not installed in this Python; "
            "use `make run`, or the interpreter in .venv/bin."
        ) from error
    # What an operator can put right is said in one line, not in a traceback.
    from django.db import OperationalError

    from memoryhub.env import EnvironmentProblem
    from memoryhub.runtime.postgres import PostgresError, explain_outage

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Whatever the locale: an export is UTF-8. Bytes of a file's name that are not go out as they came.
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        raise SystemExit(STOPPED) from None
    except BrokenPipeError:  # `… | head` has read enough; Python would complain once more when it closes the stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED) from None
    except (EnvironmentProblem, PostgresError) as error:
        raise SystemExit(f"memoryhub: {error}") from None
    except OperationalError as error:
        raise SystemExit(f"memoryhub: {explain_outage(error)}") from None


if __name__ == "__main__":
    main()

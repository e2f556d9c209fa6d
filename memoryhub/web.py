"""`python -m memoryhub.web`: the web server, in `MEMORYHUB_WEB_PROCESSES` processes.

They are forked from one that has loaded the application, and share its memory. uvicorn would start Python again for
each, which takes twice the memory for two.
"""

import logging
import os
import signal
import sys
from multiprocessing.context import ForkProcess
from pathlib import Path
from socket import socket
from types import SimpleNamespace

import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors.multiprocess import SIGNALS, Multiprocess

from memoryhub.api.protocol import LimitedProtocol
from memoryhub.asgi import application
from memoryhub.env import REPLACED, Environment, private_folder, read_environment
from memoryhub.runtime.processes import die_with_parent, listen
from memoryhub.telemetry.spans import is_tracing

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
"""For running requests at shutdown; the supervisor waits longer."""

SILENT_SECONDS = 20
"""A process that does not answer its parent for so long is replaced; a busy machine may stall one for seconds."""


def run(environment: Environment) -> None:
    """Serve until a signal ends it."""
    try:
        sockets = listen(environment.host, environment.port)
    except OSError as problem:
        sys.exit(f"Cannot listen on HOST {environment.host!r}, PORT {environment.port}: {problem}.")
    config = configuration(environment)
    if environment.web_processes > 1:
        _subprocess.spawn = SimpleNamespace(Process=forked_of(os.getpid()))  # type: ignore[assignment]
        WebProcesses(config, sockets, environment.web_folder).run()
    else:
        uvicorn.Server(config).run(sockets)


class WebProcesses(Multiprocess):
    """uvicorn's processes; one that died or fell silent is replaced, logged and counted."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket], folder: Path) -> None:
        super().__init__(config, sockets)
        self.folder, self.replaced = folder, 0

    def keep_subprocess_alive(self) -> None:
        before = [process.pid for process in self.processes]
        super().keep_subprocess_alive()
        for pid, process in zip(before, self.processes, strict=True):
            if process.pid != pid:
                self.replaced += 1
                log.warning("a web process was replaced", extra={"pid": pid, "by": process.pid})
                (private_folder(self.folder) / REPLACED).write_text(str(self.replaced))


def configuration(environment: Environment) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        workers=environment.web_processes,
        http=LimitedProtocol,
        ws="none",
        lifespan="on" if is_tracing() else "off",  # what is left of traces is sent at the end
        proxy_headers=bool(environment.tls_proxies),
        forwarded_allow_ips=list(environment.tls_proxies),
        server_header=False,
        access_log=False,  # it would contain search texts; our middleware logs requests with ids
        log_config=None,  # use Django's logging configuration
        log_level="warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=SILENT_SECONDS,
    )


def forked_of(parent: int) -> type[ForkProcess]:
    """Return the class of this process's children."""
    arrange = die_with_parent(parent)

    class Forked(ForkProcess):
        def run(self) -> None:
            arrange()  # otherwise it would outlive its parent and keep the port
            # Reset the parent's signal handlers; otherwise a worker ignores SIGTERM until its last request thread
            # ends.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            super().run()

    return Forked


if __name__ == "__main__":
    run(read_environment())

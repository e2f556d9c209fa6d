"""`python -m memoryhub.web`: the web server, in as many processes as `MEMORYHUB_WEB_PROCESSES` says.

They are forked from one that has loaded the application, and share its memory. uvicorn would start Python anew for
each, which takes twice the memory for two.
"""

import multiprocessing
import os
import socket

import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors import Multiprocess

from memoryhub.api.protocol import LimitedProtocol
from memoryhub.asgi import application
from memoryhub.env import Environment, read_environment
from memoryhub.mcp.application import McpApplication
from memoryhub.runtime.processes import die_with_parent

GRACE_SECONDS = 10
"""For requests at work when the server is told to end; the supervisor waits longer."""

SILENT_SECONDS = 20
"""A process that does not answer its parent for so long is replaced; a busy machine may stall one for seconds."""


def run(environment: Environment) -> None:
    """Serve until told to end."""
    arrange = die_with_parent(os.getpid())

    def application_of_a_child() -> McpApplication:
        arrange()  # it would otherwise outlive its parent, and keep the port
        return application

    several = environment.web_processes > 1
    config = uvicorn.Config(
        application_of_a_child if several else application,
        factory=several,
        host=environment.host,
        port=environment.port,
        workers=environment.web_processes,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        forwarded_allow_ips=list(environment.tls_proxies) or "127.0.0.1",
        server_header=False,
        access_log=False,  # it would hold people's search words; requests are logged by ourselves, with ids
        log_level="warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=SILENT_SECONDS,
    )
    if several:
        _subprocess.spawn = multiprocessing.get_context("fork")  # type: ignore[assignment]
        listening = config.bind_socket()
        # asyncio does this for sockets that it binds itself; without it a long answer waits 40 ms for the client's ACK.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Multiprocess(config, sockets=[listening]).run()
    else:
        uvicorn.Server(config).run()


if __name__ == "__main__":
    run(read_environment())

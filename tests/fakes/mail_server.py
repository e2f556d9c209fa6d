"""A real SMTP server on loopback that keeps what it is sent.

with MailServer() as server:
    … mails to smtp://name:secret@127.0.0.1:{server.port}
    server.mails[0].message["Subject"]
"""

import base64
import email.policy
import socketserver
import threading
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from typing import Any, Self


@dataclass(frozen=True)
class Mail:
    """One mail: its envelope, who was logged in, and the message."""

    sender: str
    recipients: list[str]
    user: str
    message: EmailMessage


class MailServer:
    """Accepts all mails but those to addresses in `refused`."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.refused: set[str] = set()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                server._talk(self.rfile, self.wfile)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _talk(self, lines: Any, answers: Any) -> None:
        user, sender, recipients = "", "", list[str]()
        answers.write(b"220 loopback ESMTP\r\n")
        for line in lines:
            verb, _, rest = line.decode().strip().partition(" ")
            answer = "250 OK"
            if verb.upper() == "EHLO":
                answer = "250-loopback\r\n250 AUTH PLAIN"
            elif verb.upper() == "AUTH":
                user, answer = base64.b64decode(rest.partition(" ")[2]).split(b"\0")[1].decode(), "235 OK"
            elif verb.upper() == "MAIL":
                sender, recipients = rest.partition("<")[2].partition(">")[0], []
            elif verb.upper() == "RCPT":
                recipient = rest.partition("<")[2].partition(">")[0]
                answer = "550 no such mailbox" if recipient in self.refused else answer
                recipients.append(recipient)
            elif verb.upper() == "DATA":
                answers.write(b"354 go on\r\n")
                data = b"".join(iter(lines.readline, b".\r\n")).replace(b"\r\n..", b"\r\n.")
                message = message_from_bytes(data, policy=email.policy.default)
                assert isinstance(message, EmailMessage)
                self.mails.append(Mail(sender, recipients, user, message))
            elif verb.upper() == "QUIT":
                answers.write(b"221 bye\r\n")
                return
            answers.write(f"{answer}\r\n".encode())

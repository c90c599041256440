"""The one error type of the project: a stable code, what is wrong, the command that helps.

Domain and storage code raise `AgentChatError`; only `cli.output` turns it into a line or a JSON
object and an exit status. Codes are listed in the protocol; a code not named in `EXIT` exits 2.
"""

from __future__ import annotations

OK = 0
FAILED = 1  # could not: I/O outside the families, internal error
REFUSED = 2
HELD = 3  # somebody else has it
TIMED_OUT = 4

EXIT = {
    "CLAIM_LOST": HELD,
    "DEMO_FAILED": FAILED,
    "INTERNAL_ERROR": FAILED,
    "MESSAGE_NOT_DURABLE": FAILED,
    "OUTPUT_FAILED": FAILED,
    "STORAGE_IO_ERROR": FAILED,
}


class AgentChatError(Exception):
    """A refusal or failure that the user can act on.

    `next` is the command that helps, as words without the program's name; the words are quoted
    when they are printed. `details` holds plain JSON values for `--json`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        next: tuple[str, ...] = (),
        details: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.next = next
        self.details = details or {}

    @property
    def exit_status(self) -> int:
        return EXIT.get(self.code, REFUSED)

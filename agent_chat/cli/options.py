"""Command lines: the call that a command gets, and a quick reader of the plain ones.

Importing argparse costs more than most commands do. The reader serves `--name value`, `--name=value`
and positionals exactly as argparse would; for anything else it returns None and argparse decides.
"""

from __future__ import annotations

import os

from agent_chat import channel as channels
from agent_chat import names
from agent_chat.cli.table import EVERYWHERE
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.arrivals import Exclusion
    from agent_chat.cli.table import Spec
    from agent_chat.workspace import Workspace

    Values = dict[str, object]

FORMATS = ("auto", "envelope", "markdown", "json")


def read(words: list[str], spec: Spec) -> Values | None:
    """The settings in a plain command line; None when argparse must decide."""
    _, _, positionals, options = spec
    values: Values = {}
    given: list[str] = []
    runs = 0  # of positionals; argparse takes only one run for `+`
    was_option = True
    rest = iter(words)
    for word in rest:
        if word[:1] != "-":
            runs += was_option
            was_option = False
            given.append(word)
            continue
        was_option = True
        name, equals, value = word.partition("=") if word[:2] == "--" else (word, "", "")
        target = options.get(name) or EVERYWHERE.get(name)
        if target is None:
            return None
        if target[-1] == "?":
            if equals:
                return None
            values[target[:-1]] = True
            continue
        if not equals:
            value = next(rest, "-")
            if value[:1] == "-":
                return None
        if target[-1] == "*":
            values.setdefault(target[:-1], []).append(value)  # type: ignore[attr-defined]
        else:
            values[target] = value
    if positionals and positionals[-1][-1] in "+*" and (given or positionals[-1][-1] == "+"):
        many = len(positionals) - 1
        if len(given) <= many or runs != 1:
            return None
        values[positionals[-1][:-1]] = given[many:]
        values.update(zip(positionals[:many], given))
    elif len(given) != len(positionals) or runs > 1:
        return None if given or len(positionals) > 1 or positionals[0][-1] not in "?*" else values
    else:
        values.update(zip((name.rstrip("?") for name in positionals), given))
    return values


class Call:
    """One call of a command: its settings, and what of the environment they fall back on."""

    __slots__ = ("_values", "command", "root", "usage_code")

    def __init__(self, command: str, values: Values, root: str) -> None:
        self.command = command
        self.usage_code = "TASK_INVALID_ARGUMENT" if command.startswith("task") else "USAGE_ERROR"
        typed = values.get("root") or root
        self._values = {**values, "root": typed} if typed else values
        typed = typed or os.environ.get("AGENT_CHAT_ROOT")
        self.root = os.path.abspath(os.path.expanduser(str(typed) if typed else os.path.join("~", "agent-chat")))

    def by(self, agent: str) -> Call:
        """The same call, made by `agent`."""
        return Call(self.command, {**self._values, "agent": agent}, self.root)

    def usage(self, message: str) -> AgentChatError:
        return AgentChatError(self.usage_code, message, (*self.command.split(), "--help"))

    def text(self, name: str, default: str = "") -> str:
        found = self._values.get(name)
        return default if found is None else str(found)

    def given(self, name: str) -> bool:
        return self._values.get(name) is not None

    def flag(self, name: str) -> bool:
        return bool(self._values.get(name))

    def words(self, name: str) -> list[str]:
        found = self._values.get(name)
        return list(found) if isinstance(found, list) else []

    def needed(self, name: str, option: str) -> str:
        if not self.given(name):
            raise self.usage(f"{self.command} needs {option}")
        return self.text(name)

    def number(self, name: str, option: str, default: int = 0, least: int = 0) -> int:
        text = self.text(name)
        if not self.given(name):
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 18) or int(text) < least:
            raise self.usage(f"{option} takes a whole number from {least}, not {text!r}")
        return int(text)

    def is_agent_known(self) -> bool:
        return bool(self._name())

    def _name(self) -> str:
        """--as or --from, $AGENT_CHAT_NAME, the token's name, else that of the session of the host around this."""
        name = self.text("agent") if self.given("agent") else os.environ.get("AGENT_CHAT_NAME", "")
        if name and "CODEX_THREAD_ID" in os.environ and not self.given("agent"):
            from agent_chat import hosts

            name = hosts.told_name(os.environ)
        given = os.environ.get("AGENT_CHAT_TOKEN")
        if given:
            from agent_chat.cli import admission

            name = admission.own_name(self, given, name)
        is_in_host = "CLAUDE_CODE_SESSION_ID" in os.environ or "CODEX_THREAD_ID" in os.environ
        if not name and is_in_host and not self.given("agent"):
            from agent_chat import hosts

            name = hosts.name_of(os.environ, self.root)
        return name

    def session(self) -> str:
        """--session, else $AGENT_CHAT_SESSION; empty for none. SESSION_INVALID_ID."""
        typed = self.text("session") or os.environ.get("AGENT_CHAT_SESSION", "")
        if typed and not names.is_id(typed):
            from agent_chat import people

            people.check_session(typed)
        return typed

    def agent(self, code: str = "AGENT_INVALID_NAME") -> str:
        """Who acts. IDENTITY_MISMATCH when the token is another's."""
        name = self._name()
        if not name and not self.given("agent"):
            unfit = " (not here: it is that of Codex's background server)" if os.environ.get("AGENT_CHAT_NAME") else ""
            raise self.usage(f"{self.command} needs to know who you are: --as NAME or $AGENT_CHAT_NAME{unfit}")
        return names.agent(name, code)

    def channel(self, invalid: str = "CHANNEL_INVALID_NAME", missing: str = "CHANNEL_NOT_FOUND") -> channels.Channel:
        found = channels.find(self.root, self.text("channel"), invalid, missing)
        found.recovery = os.environ.get("AGENT_CHAT_RECOVERY", "")
        try:
            self.admit(found)
        except BaseException:
            found.folder.close()
            raise
        return found

    def admit(self, channel: channels.Channel) -> None:
        """Refuse what the channel's policy or the caller's token does not allow; see cli/admission.py."""
        session = self.session()
        if session:
            channel.signature = [("session", session)]
        if channel.folder.exists(names.POLICY_FILE) or "AGENT_CHAT_TOKEN" in os.environ:
            from agent_chat.cli import admission

            admission.admit(self, channel)

    def listed(self, name: str) -> list[str] | None:
        """The words of a list option, which repeats and splits on commas; None when it was not given."""
        if not self.given(name):
            return None
        return [part.strip() for word in self.words(name) for part in word.split(",") if part.strip()]

    def excluded(self) -> Exclusion | None:
        """What --exclude-topic and --exclude-from leave out; None for nothing. MESSAGE_INVALID_TOPIC."""
        topics, senders = self.words("exclude_topic"), self.words("exclude_from")
        if not topics and not senders:
            return None
        from agent_chat import arrivals, messages

        for topic in topics:
            messages.check_topic(topic)
        for name in senders:
            if not names.is_id(name):
                raise self.usage(f"--exclude-from takes the name of an agent or of a session, not {name!r}")
        return arrivals.Exclusion(topics, senders)

    def workspace(self, channel: channels.Channel) -> Workspace:
        """What paths are relative to: --workspace, $AGENT_CHAT_WORKSPACE, the git top level, the channel."""
        from agent_chat import workspace

        typed = self.text("workspace") if self.given("workspace") else None
        return workspace.find(typed, os.environ.get("AGENT_CHAT_WORKSPACE"), os.getcwd(), channel.folder.path)

    @property
    def wants_json(self) -> bool:
        return self.flag("json") or self.text("format") == "json"

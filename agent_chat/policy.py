"""What a person has decided about a channel: `_policy.json`, an object of words by key.

For: every command, through one look whether the file is there; only then is this imported. A person may write the
file by hand and commit it, so it is read strictly: a key or a word that is not in the table closes the channel
(POLICY_INVALID) rather than pass for nothing said. A missing file, or key, means the first word of the table.
"""

from __future__ import annotations

from agent_chat import names
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

LIMIT = 64 * 1024  # bytes
DAYS = "14d"  # stands for any whole number of days
ON, OFF = "on", "off"

# The limits of the guards (guards.py), as numbers that stand for any others; `guards: on` sets all of them.
LIMITS = {
    "guard_size": "8192",  # bytes of one body
    "guard_rate": "30/2",  # so many messages of one sender at once, then one each so many seconds
    "guard_duplicate": "30",  # seconds in which the same text to the same recipients is dropped
    "guard_hops": "24",  # messages in a chain without a person
    "guard_pingpong": "12/300",  # so many messages of a pair in so many seconds, no person writing
}
KEYS: dict[str, tuple[str, ...]] = {
    "access": (ON, OFF),  # off: nothing is sent, shown or waited for
    "identity": ("open", "required"),  # required: whoever changes something shows the token of its name
    "recovery": ("explicit", "auto"),  # auto: whoever comes next settles what a crash left
    "turn_guard": (ON, OFF),  # on: the guard hook keeps the one who has not the turn from writing
    "guards": (OFF, ON),
    **{key: (OFF, numbers) for key, numbers in LIMITS.items()},
    "ledger": (OFF, ON),
    "reach": ("open", "joined"),  # joined: only joined agents post and are addressed
    "retention": (OFF, DAYS),
}


class Policy:
    """A sound policy. `said`: the keys that the file has."""

    __slots__ = ("said",)

    def __init__(self, said: dict[str, str]) -> None:
        self.said = said

    def value(self, key: str) -> str:
        """What counts for a key: what was said, else the first word; ledger and limits go with the guards."""
        if key == "ledger" and key not in self.said:
            return self.value("guards")
        if key in LIMITS and key not in self.said and self.value("guards") == ON:
            return LIMITS[key]
        return self.said.get(key, KEYS[key][0])

    def limit(self, key: str) -> tuple[int, ...] | None:
        """The numbers of a guard's limit; None where it is off."""
        said = self.value(key)
        return None if said == OFF else tuple(map(int, said.split("/")))

    def is_guarded(self) -> bool:
        return any(self.value(key) != OFF for key in LIMITS)

    def values(self) -> dict[str, str]:
        return {key: self.value(key) for key in KEYS}

    def changed(self, key: str, value: str) -> Policy:
        return Policy({**self.said, key: value})

    def encode(self) -> bytes:
        from agent_chat.storage import records

        return records.dump({key: self.said[key] for key in KEYS if key in self.said})


def is_word(key: str, value: object) -> bool:
    """Whether `value` may stand for `key`."""
    if not isinstance(value, str):
        return False
    days = value[:-1]
    if DAYS in KEYS[key] and value[-1:] == "d" and days.isascii() and days.isdigit():
        return len(days) <= 4 and int(days) > 0
    if key in LIMITS and value != OFF:
        parts = value.split("/")
        return len(parts) == LIMITS[key].count("/") + 1 and all(map(_is_number, parts))
    return value in KEYS[key]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 7 and text[0] != "0"


def choices(key: str) -> str:
    """The words of a key, for people."""
    like = {DAYS: f"a number of days such as {DAYS}", LIMITS.get(key, ""): f"numbers such as {LIMITS.get(key)}"}
    return ", ".join(like.get(word, word) for word in KEYS[key])


def load(folder: disk.Folder, channel: str) -> Policy:
    """The policy of a channel. POLICY_INVALID when it cannot be read, or says what nobody understands."""
    try:
        data = folder.read(names.POLICY_FILE, LIMIT)
    except FileNotFoundError:
        return Policy({})
    except AgentChatError as error:  # a link, a folder, far too long
        raise invalid(channel, error.message) from None
    except OSError as error:
        raise invalid(channel, error.strerror or str(error)) from None
    return decode(data, channel)


def decode(data: bytes | None, channel: str) -> Policy:
    """The policy in the file's bytes, None for no file. POLICY_INVALID."""
    plain = _plain(data) if data is not None else {}
    if plain is not None:
        return Policy(plain)
    from agent_chat.storage import records

    try:
        said = records.load(data) if data is not None else {}
    except records.Damaged as error:
        raise invalid(channel, str(error)) from None
    for key, value in said.items():
        if key not in KEYS:
            raise invalid(channel, f"no policy is called {key!a} ({', '.join(KEYS)})")
        if not is_word(key, value):
            raise invalid(channel, f"{key} is {value!a}, and can be {choices(key)}")
    return Policy(said)


def _plain(data: bytes) -> dict[str, str] | None:
    """A sound policy spelled exactly as we write it, without importing json; None for any other."""
    said: dict[str, str] = {}
    lines = data.decode("utf-8", "replace").split("\n")
    if len(lines) < 4 or lines[0] != "{" or lines[-2:] != ["}", ""]:
        return None
    for at, line in enumerate(lines[1:-2], 1):
        parts = line.split('"')
        ends = "," if at < len(lines) - 3 else ""
        if len(parts) != 5 or (parts[0], parts[2], parts[4]) != ("  ", ": ", ends) or parts[1] in said:
            return None
        if parts[1] not in KEYS or not is_word(parts[1], parts[3]):
            return None
        said[parts[1]] = parts[3]
    return said


def invalid(channel: str, why: str) -> AgentChatError:
    text = f"{names.POLICY_FILE} of channel {channel!r} cannot be understood, so the channel is closed: {why};"
    text += " a person mends the file, or sets one key, which keeps a copy of it and begins anew"
    return AgentChatError("POLICY_INVALID", text, ("policy", "set", channel, "access", ON))


def channel_off(channel: str) -> AgentChatError:
    """The refusal of everything that sends, shows or waits."""
    text = f"channel {channel!r} was turned off by a person, who alone turns it on again, at a terminal;"
    text += " every message is kept"
    return AgentChatError("CHANNEL_OFF", text, ("policy", "set", channel, "access", ON))

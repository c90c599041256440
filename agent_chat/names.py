"""The grammar of every file name and identifier: build them and parse them.

One grammar for channels, agents and task ids (protocol, section 1): `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`,
not ending in a dot, not a device name of Windows, so that a channel folder can be copied to any
system. No regular expressions: importing `re` costs more than reading a mailbox.
"""

from __future__ import annotations

from agent_chat.errors import AgentChatError

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SLUG = frozenset(_LETTERS + "0123456789")
_SLUG_OR_DASH = _SLUG | {"-"}
_FIRST = _SLUG | frozenset(_LETTERS.upper())
_REST = _FIRST | frozenset("._-")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul"] + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789"]
)
# What YAML 1.1 or 1.2 reads as a truth value or null: names are written plain in headers.
_YAML_WORDS = frozenset(["yes", "no", "true", "false", "on", "off", "null"])
EVERYONE = "all"
LAST_NUMBER = 999_999_999
SYSTEM = "system"  # the sender of messages without an actor


def is_device(part: str) -> bool:
    """Whether Windows would open a device for this file name, whatever its extension."""
    return part.split(".", 1)[0].rstrip(" ").lower() in _DEVICES


def is_name(text: str) -> bool:
    """Whether `text` fits the one name grammar."""
    return (
        0 < len(text) <= 64 and text[0] in _FIRST and _REST.issuperset(text) and text[-1] != "." and not is_device(text)
    )


def is_agent(text: str) -> bool:
    """Whether `text` may be an agent's name: the grammar, and a YAML header reads it as a string."""
    low = text.lower()
    return is_name(text) and low not in _YAML_WORDS and low not in (EVERYONE, SYSTEM) and not _is_number(low)


def _is_number(low: str) -> bool:
    """Whether YAML may read it as a number or a date."""
    if low[0] not in "0123456789":
        return False
    plain = low.replace("_", "")
    if plain.replace("-", "").isdigit() or plain in ("0x", "0b"):  # also 2026-11-30, a date to YAML 1.1, and 0x_
        return True
    for read in (float, lambda text: int(text, 0)):
        try:
            read(plain)
            return True
        except ValueError:
            continue
    return False


def agent(text: str, code: str = "AGENT_INVALID_NAME") -> str:
    """`text` itself; refused with `code` when it is no agent's name."""
    if not is_agent(text):
        raise AgentChatError(
            code,
            f"{text!r} is no agent name (letters, digits, . _ -, at most 64, not all, system, a number or a YAML word)",
            ("--help",),
        )
    return text


def channel(text: str, code: str = "CHANNEL_INVALID_NAME") -> str:
    """`text` itself; refused with `code` when it is no channel's name."""
    if not is_name(text):
        raise AgentChatError(
            code,
            f"{text!r} is no channel name (letters, digits, . _ -, at most 64, no device name)",
            ("channels",),
        )
    return text


def slug(text: str) -> str:
    """Lower case, each run outside a-z0-9 one dash, at most 40 characters, `msg` if nothing is left."""
    kept = "".join(ch if ch in _SLUG else " " for ch in text.lower())
    return "-".join(kept.split())[:40].rstrip("-") or "msg"


# ---- messages: NNNN-<sender slug>-<title slug>.md -------------------------------------------------


def message_file(number: int, sender: str, title: str) -> str:
    return f"{number:04d}-{slug(sender)}-{slug(title)}.md"


def message_number(name: str) -> int:
    """The number of a message file's name; 0 when the name is no message's."""
    number = claimed_number(name)
    if number and name.endswith(".md"):
        rest = name[name.index("-") + 1 : -3]
        if rest and _SLUG_OR_DASH.issuperset(rest):
            return number
    return 0


def taken_number(name: str) -> int:
    """The number that a file in `.numbers/` takes; 0 for any other name."""
    return int(name) if len(name) <= 9 and name.isascii() and name.isdigit() else 0


def claimed_number(name: str) -> int:
    """The number that a name takes out of use, a message or not: 4 to 9 digits and a dash; 0 for none."""
    digits = name.partition("-")[0]
    if 4 <= len(digits) <= 9 and len(digits) < len(name) and digits.isascii() and digits.isdigit():
        return int(digits)
    return 0


# ---- the archive: archive/NNNN-NNNN/, each for the messages numbered so -------------------------------------

ARCHIVE = "archive"


def archive_folder(low: int, high: int) -> str:
    return f"{low:04d}-{high:04d}"


def archive_range(name: str) -> tuple[int, int]:
    """The lowest and the highest number in an archive's folder of this name; (0, 0) when it is none."""
    low, dash, high = name.partition("-")
    if all(4 <= len(part) <= 9 and part.isascii() and part.isdigit() for part in (low, high)) and dash:
        return (int(low), int(high)) if 0 < int(low) <= int(high) else (0, 0)
    return 0, 0


# ---- records: tasks/<id>.json, claims/<id>.<owner>.json, locks/<lock id>.json ------------------------


def is_record(stem: str) -> bool:
    """Whether `stem` may name a record's file: one part, no dot at its beginning."""
    return 0 < len(stem) <= 160 and stem[0] in _FIRST and _REST.issuperset(stem)


def is_lock_id(text: str) -> bool:
    return len(text) == 32 and frozenset("0123456789abcdef").issuperset(text)


def task_file(task_id: str) -> str:
    return f"tasks/{task_id}.json"


def claim_file(task_id: str, owner: str) -> str:
    return f"claims/{task_id}.{owner}.json"


def lock_file(lock_id: str) -> str:
    return f"locks/{lock_id}.json"


# ---- what people decide: _policy.json, _turn.json, .sessions/<name>.json, requests/R-<n>.json ---------------

POLICY_FILE, TURN_FILE = "_policy.json", "_turn.json"
SESSIONS, REQUESTS = ".sessions", "requests"


def session_file(agent_name: str) -> str:
    return f"{SESSIONS}/{agent_name.lower()}.json"


def request_file(request_id: str) -> str:
    return f"{REQUESTS}/{request_id}.json"


def request_number(request_id: str) -> int:
    """The number in a request's id `R-<n>`; 0 when it is none."""
    digits = request_id[2:]
    is_id = request_id[:2] == "R-" and digits.isascii() and digits.isdigit() and len(digits) <= 9
    return int(digits) if is_id and digits[0] != "0" else 0


_ID = _FIRST | frozenset("_.:-")


def is_id(text: str) -> bool:
    """Whether it is an id that a caller chose: of a session, or of a request that may be repeated."""
    return 0 < len(text) <= 128 and _ID.issuperset(text)


_TOPIC = frozenset(_LETTERS + "0123456789._/-")
GENERAL = "general"  # the topic of what has none


def is_topic(text: str) -> bool:
    """Whether it may be a message's topic: 1 to 100 of `a-z 0-9 . _ / -`, the first a letter or digit."""
    return 0 < len(text) <= 100 and text[0] in _SLUG and _TOPIC.issuperset(text)


# ---- cursors -------------------------------------------------------------------------------------


def cursor_file(agent_name: str) -> str:
    return agent_name.lower() + ".txt"


def expiring_folder(agent_name: str) -> str:
    return agent_name.lower() + ".expiring"


def late_folder(agent_name: str) -> str:
    return agent_name.lower() + ".late"


# ---- markers: task-<id>.md, task-<id>.CLAIMED-<agent>.md --------------------------------------------


def marker_id(name: str) -> str:
    """The id of a free marker `task-<id>.md`; empty when the name is none."""
    if not (name.startswith("task-") and name.endswith(".md")):
        return ""
    inner = name[5:-3]
    if inner and inner[0] in _FIRST and (_FIRST | {"_", "-"}).issuperset(inner):
        return inner
    return ""


def claimed_marker(name: str, agent_name: str) -> str:
    """`task-7.md` claimed by Bob is `task-7.CLAIMED-bob.md`."""
    return f"{name[:-3]}.CLAIMED-{agent_name.lower()}.md"


def marker_owner(name: str, marker: str) -> str:
    """Who holds `marker`, when `name` is its claimed form; else empty."""
    head = marker[:-3] + ".CLAIMED-"
    return name[len(head) : -3] if name.startswith(head) and name.endswith(".md") else ""

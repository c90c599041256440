"""Guards against conversations that nobody watches: how long, how fast, how often and how far agents may talk.

For: `post` and `ring` in a channel whose policy sets a limit; nobody else imports this. `Guards` is the gate of such a
post: it decides under the channel's lock in which the message is then published, so many processes of one sender share
one bucket. Everything is told from the newest messages (at most 1,024 of them) as the arrival index knows them; nothing
is counted anywhere. Older ones are looked at in one case: a pair stays cut until a person posts, however long ago that
was; `.index/cuts` remembers it, is derived, and is made anew by one pass over the index when it is missing.

A person is whoever posts as an operator would (`operator: yes`): no limit holds for them, and what they post ends every
cut and begins every chain anew. Times in the future count as now, up to 5 minutes; beyond that a clock was wrong, and
the message is as old as can be, so that a clock that jumped back does not close a bucket until it has caught up.
"""

from __future__ import annotations

from agent_chat import clock, frontmatter, messages, names
from agent_chat.arrivals import INDEX
from agent_chat.errors import AgentChatError
from agent_chat.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel
    from agent_chat.messages import Content, Draft
    from agent_chat.policy import Policy

SKEW = 5 * 60 * clock.SECOND
CUT, RESET = "guard.cut", "guard.reset"
_MOST = 1024  # messages that are looked at
_instants: dict[str, int] = {}  # of the times in them: each is asked for several times, and many are of one second
_OLDEST = 8  # of them, so that one with a wrong clock misleads nobody
_CUTS, _VERSION, _CUTS_LIMIT, _BEHIND = "cuts", "1", 1024 * 1024, 24


class Guards:
    """The gate of one post. `is_repeat`: the same was said just now."""

    __slots__ = ("_is_person", "_policy", "is_repeat")

    def __init__(self, policy: Policy, is_person: bool) -> None:
        self._policy = policy
        self._is_person = is_person
        self.is_repeat = False

    def earlier(self, channel: Channel, draft: Draft, content: Content) -> Entry | None:
        """GUARD_SIZE, GUARD_PINGPONG, GUARD_HOPS, GUARD_RATE; the first one where the same was said just now."""
        if self._is_person:
            draft.header.append(("operator", "yes"))
            return None
        limit = self._policy.limit
        _check_size(content, limit("guard_size"))
        now = clock.now()
        rate, pingpong = limit("guard_rate"), limit("guard_pingpong")
        found = _window(channel, now, content.sender, rate, pingpong)
        said = _said_just_now(channel, content, found, now, limit("guard_duplicate"))
        if said:
            self.is_repeat = True
            return said
        if pingpong:
            _check_pairs(channel, content, found, now, pingpong)
        hops = limit("guard_hops")
        if hops:
            hop = _hop(channel, content, found)
            _check_hops(channel, content, hop, hops[0])
            draft.header.append(("hop", hop))
        if rate:
            _check_rate(channel, content, found, now, rate)
        return None


# ---- the newest messages ----------------------------------------------------------------------------------------


def _at(entry: Entry, now: int) -> int:
    """When it was posted, at most now; 0, long ago, when that cannot be told."""
    at = _instants.get(entry.ts)
    if at is None:
        try:
            at = clock.parse_stamp(entry.ts)
        except ValueError:
            at = 0
        _instants[entry.ts] = at
    return min(at, now) if at <= now + SKEW else 0


def _is_talk(entry: Entry) -> bool:
    """Whether an agent or a person said it; records of changes and status events are no conversation."""
    return not entry.about and entry.status[:6].lower() != "event."


def _window(
    channel: Channel, now: int, sender: str, rate: tuple[int, ...] | None, pingpong: tuple[int, ...] | None
) -> list[Entry]:
    """The newest messages, as many as the limits need: by number, the newest last."""
    low, seconds = sender.lower(), max(60, pingpong[1] if pingpong else 0)

    def is_enough(found: Sequence[Entry]) -> bool:
        """Whether nothing earlier matters: the oldest are from before, and the sender's bucket was refilled since."""
        if _at(found[-1], now) >= now - seconds * clock.SECOND:
            return False
        own = sum(entry.sender.lower() == low for entry in found)
        refilled = (rate[0] + own) * rate[1] if rate else 0
        since = now - max(seconds, refilled) * clock.SECOND
        return all(0 < _at(entry, now) < since for entry in found[-_OLDEST:])  # 0: nobody knows when

    return channel.log.look().above(0, _MOST, is_enough=is_enough)


# ---- size, repetition, rate -------------------------------------------------------------------------------------


def _check_size(content: Content, limit: tuple[int, ...] | None) -> None:
    size = len(content.body.encode("utf-8"))
    if limit and size > limit[0]:
        text = f"the body has {size} bytes, at most {limit[0]} are taken here: put it into a file and post the path"
        raise AgentChatError("GUARD_SIZE", text, ("post", "--help"), {"bytes": size, "limit": limit[0]})


def _said_just_now(
    channel: Channel, content: Content, found: list[Entry], now: int, limit: tuple[int, ...] | None
) -> Entry | None:
    """The message of the same sender that says the same to the same, not older than the limit."""
    if limit is None:
        return None
    low, to = content.sender.lower(), frozenset(name.lower() for name in content.to)
    for entry in reversed(found):
        if entry.sender.lower() != low or entry.recipients != to or now - _at(entry, now) > limit[0] * clock.SECOND:
            continue
        from agent_chat import conditions

        said = channel.log.message(entry.name)
        if said and not conditions.differing(content, said):
            return entry
    return None


def debt(times: Iterable[int], now: int, each: int) -> int:
    """How far a bucket is from full, in microseconds of refilling, after messages at these times."""
    found = 0
    for count, at in enumerate(sorted(times, reverse=True), 1):
        found = max(found, count * each * clock.SECOND - (now - at))
    return found


def _times(found: Iterable[Entry], sender: str, now: int) -> list[int]:
    low = sender.lower()
    return [_at(entry, now) for entry in found if entry.sender.lower() == low and _is_talk(entry)]


def _check_rate(channel: Channel, content: Content, found: list[Entry], now: int, rate: tuple[int, ...]) -> None:
    burst, each = rate
    over = debt(_times(found, content.sender, now), now, each) - (burst - 1) * each * clock.SECOND
    if over > 0:
        seconds = -(-over // clock.SECOND)
        text = f"{content.sender} has posted {burst} messages at once; after that one each {each} s is taken"
        words = ("wait", channel.name, "--as", content.sender, "--timeout", str(seconds))
        raise AgentChatError("GUARD_RATE", f"{text}: wait {seconds} s", words, {"seconds": seconds})


# ---- chains -----------------------------------------------------------------------------------------------------


def _hop(channel: Channel, content: Content, found: list[Entry]) -> int:
    """How long the chain is that ends with this message: it goes on from what it answers, or its sender read last."""
    if content.reply_to:
        parents = [entry for entry in found if entry.number == content.reply_to]
        parents = parents or messages.entries(channel, content.reply_to - 1)[:1]
    else:
        parents = _read_last(channel, content.sender, found)
    return 1 + max((0 if entry.is_persons() else entry.hop for entry in parents), default=0)


def _read_last(channel: Channel, sender: str, found: list[Entry]) -> list[Entry]:
    """The newest message that was delivered to `sender`."""
    try:
        cursor = channel.cursor_of(sender)
    except AgentChatError:
        return []  # a damaged one delivers nothing
    for entry in reversed(found):
        if entry.number <= cursor and _is_talk(entry) and entry.is_news(sender):
            return [entry]
    return []


def _check_hops(channel: Channel, content: Content, hop: int, limit: int) -> None:
    if hop > limit:
        text = f"{limit} messages in a row, each an answer to the one before, and no person among them: tell your user,"
        text += " whose next message, posted at a terminal, begins anew"
        words = ("wait", channel.name, "--as", content.sender)
        raise AgentChatError("GUARD_HOPS", text, words, {"limit": limit})


# ---- pairs ------------------------------------------------------------------------------------------------------


class Cut:
    """A pair that is cut off, since message `number` at `ts`."""

    __slots__ = ("number", "pair", "ts")

    def __init__(self, pair: str, number: int, ts: str) -> None:
        self.pair = pair  # two names in lower case, in order, a comma between
        self.number = number
        self.ts = ts

    def record(self) -> dict[str, object]:
        return {"pair": self.pair.split(","), "seq": self.number, "since": self.ts}

    def line(self) -> str:
        return f"{self.pair.replace(',', ' and ')} are cut off from each other since {self.ts} (#{self.number})"


def pair_of(one: str, other: str) -> str:
    return ",".join(sorted((one.lower(), other.lower())))


def is_pair(text: str) -> bool:
    parts = text.split(",")
    return len(parts) == 2 and parts[0] < parts[1] and all(map(names.is_agent, parts))


def _check_pairs(channel: Channel, content: Content, found: list[Entry], now: int, limit: tuple[int, ...]) -> None:
    """GUARD_PINGPONG when this goes to somebody from whom its sender is cut off, or is to be now."""
    low = content.sender.lower()
    to = {name.lower() for name in content.to}
    cut = cuts(channel, found)
    for pair in sorted(cut):
        others = set(pair.split(",")) - {low}
        if len(others) == 1 and (not to or others <= to):
            raise _is_cut(channel, pair, cut[pair].line())
    lately = exchanged(found, low, now, limit[1])
    for other in sorted(to or lately):
        if lately.get(other, 0) >= limit[0]:
            pair = pair_of(low, other)
            _cut(channel, pair, lately[other], limit[1])
            text = f"{pair.replace(',', ' and ')} exchanged {lately[other]} messages within {limit[1]} s"
            raise _is_cut(channel, pair, f"{text}, no person among them, and are cut off from each other")


def exchanged(found: list[Entry], name: str, now: int, seconds: int) -> dict[str, int]:
    """How many messages `name` (in lower case) and each of the others wrote to each other, or to all, lately.

    Counted since a person posted or let the two talk again. Not where one of them wrote less than a quarter of it:
    who reports to a silent one goes round in no circle.
    """
    own: dict[str, int] = {}
    theirs: dict[str, int] = {}
    opened: dict[str, int] = {}  # others with whom `name` may talk again, and what it wrote to all after that
    to_all = 0
    since = now - seconds * clock.SECOND
    for entry in reversed(found):
        if entry.is_persons():
            break
        sender = entry.sender.lower()
        if entry.about:
            if entry.status.lower() == RESET and name in entry.about.split(","):
                (other,) = set(entry.about.split(",")) - {name} or {name}
                opened.setdefault(other, to_all)
        elif sender == name:
            if _is_talk(entry) and _at(entry, now) >= since:
                to_all += not entry.recipients
                for other in entry.recipients - opened.keys():
                    own[other] = own.get(other, 0) + 1
        elif sender not in opened and (not entry.recipients or name in entry.recipients) and _is_talk(entry):
            theirs[sender] = theirs.get(sender, 0) + (_at(entry, now) >= since)
    both = {other: (own.get(other, 0) + opened.get(other, to_all), count) for other, count in theirs.items()}
    return {other: sum(two) for other, two in both.items() if min(two) * 4 >= sum(two)}


def _is_cut(channel: Channel, pair: str, why: str) -> AgentChatError:
    text = f"{why}; it ends when your user posts here at a terminal, or resets it there: tell your user"
    return AgentChatError("GUARD_PINGPONG", text, ("guards", "reset", channel.name, pair), {"pair": pair.split(",")})


def _cut(channel: Channel, pair: str, count: int, seconds: int) -> None:
    """Publish that a pair is cut off: both are told, and it is remembered by this message."""
    from agent_chat import recovery

    signature, channel.signature = channel.signature, []  # its sender is the program
    notice = "what they post to each other is refused until a person posts at a terminal, or resets it there by"
    body: dict[str, object] = {"channel": channel.name, "event": CUT, "messages": count, "pair": pair}
    body.update({"seconds": seconds, "notice": f"{notice} `guards reset {channel.name} {pair}`"})
    try:
        while True:
            number = channel.log.take_number()
            stamp, subject = clock.micro_stamp(clock.now()), {"pair": pair}
            name, data = recovery.audit_message(channel, number, names.SYSTEM, CUT, subject, body, stamp, pair)
            try:
                channel.log.publish(name, data)
            except FileExistsError:
                continue
            except disk.NotDurable:
                pass  # lost in a power cut: the next post of the two says so again
            except BaseException:
                if not channel.folder.exists(name):
                    channel.log.give_back(number)
                raise
            break
    finally:
        channel.signature = signature
    channel.log.forget_numbers(number)


def reset(channel: Channel, pair: str) -> Cut | None:
    """Let a pair talk again, as a person decided; what was cut, None when it was not."""
    with channel.change(RESET, names.SYSTEM) as change:
        found = cuts(channel).get(pair)
        if found:
            change.audit(RESET, {"pair": pair}, {}, pair.split(","))
    return found


# ---- which pairs are cut ----------------------------------------------------------------------------------------


def cut_off(channel: Channel) -> list[Cut]:
    """The pairs that are cut off just now, for people; none where no limit holds."""
    from agent_chat import policy

    if not channel.folder.exists(names.POLICY_FILE):
        return []
    try:
        is_on = policy.load(channel.folder, channel.name).limit("guard_pingpong") is not None
    except AgentChatError:
        return []  # the channel is closed, and says why
    return sorted(cuts(channel).values(), key=lambda cut: cut.number) if is_on else []


def cuts(channel: Channel, newest: list[Entry] | None = None) -> dict[str, Cut]:
    """The pairs that were cut off, and not opened since.

    With the `newest` messages at hand: under the channel's lock, and what is found is remembered now and then.
    """
    upto, found = _remembered(channel)
    if newest and newest[0].number <= upto <= newest[-1].number:
        behind = [entry for entry in newest if entry.number > upto]
    else:
        here = channel.log.look()
        if upto > here.last:  # it speaks of messages that are not there
            upto, found = 0, {}
        behind = here.above(upto)
    _follow(behind, found)
    if newest and (len(behind) > _BEHIND or not upto):
        known = (f"{cut.number}\t{cut.ts}\t{cut.pair}" for cut in found.values())
        lines = [f"{_VERSION}\t{newest[-1].number}", *known, "end\n"]
        with channel.folder.sub(INDEX, create=True) as index:
            index.replace(_CUTS, "\n".join(lines).encode("utf-8"), derived=True)
    return found


def _follow(entries: Iterable[Entry], found: dict[str, Cut]) -> None:
    for entry in entries:
        status = entry.status.lower()
        if entry.is_persons():
            found.clear()
        elif status == CUT and is_pair(entry.about):
            found[entry.about] = Cut(entry.about, entry.number, frontmatter.one_line(entry.ts)[:40])
        elif status == RESET:
            found.pop(entry.about, None)


def _remembered(channel: Channel) -> tuple[int, dict[str, Cut]]:
    """Up to which number it is known which pairs are cut, and which; 0 when it is not."""
    found: dict[str, Cut] = {}
    try:
        with channel.folder.sub(INDEX) as index:
            head, *lines = index.read(_CUTS, _CUTS_LIMIT).decode("utf-8").split("\n")
        version, upto = head.split("\t")
        if version != _VERSION or lines[-2:] != ["end", ""]:
            return 0, {}
        for line in lines[:-2]:
            number, ts, pair = line.split("\t")
            if is_pair(pair):
                found[pair] = Cut(pair, int(number), ts)
        return max(0, int(upto)), found
    except (FileNotFoundError, AgentChatError, ValueError):
        return 0, {}  # it is derived


# ---- for people -------------------------------------------------------------------------------------------------


def near(channel: Channel, policy: Policy) -> list[dict[str, object]]:
    """Who has used at least half of a limit: the guard, who, how much of it, and the limit."""
    now, found = clock.now(), channel.log.look().above(0, _MOST)
    senders = {entry.sender.lower(): entry.sender for entry in found if _is_talk(entry) and not entry.is_operators}
    near: list[dict[str, object]] = []

    def note(guard: str, who: Sequence[str], used: int, limit: int) -> None:
        if used * 2 >= limit:
            near.append({"guard": guard, "who": list(who), "used": used, "limit": limit})

    rate, hops, pingpong = map(policy.limit, ("guard_rate", "guard_hops", "guard_pingpong"))
    for low, name in sorted(senders.items()):
        if rate:
            second = rate[1] * clock.SECOND
            note("guard_rate", [name], -(-debt(_times(found, name, now), now, rate[1]) // second), rate[0])
        if hops:
            last = next(entry for entry in reversed(found) if entry.sender.lower() == low and _is_talk(entry))
            note("guard_hops", [name], last.hop, hops[0])
        lately = exchanged(found, low, now, pingpong[1]) if pingpong else {}
        for other in sorted(senders):
            if low < other and pingpong:
                note("guard_pingpong", [name, senders[other]], lately.get(other, 0), pingpong[0])
    return near

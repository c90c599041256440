"""archive: move old messages out of the way, or, for a person at a terminal, delete them."""

from __future__ import annotations

from agent_chat import archive, clock
from agent_chat.cli import operator, output
from agent_chat.cli.options import Call
from agent_chat.errors import AgentChatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_chat.arrivals import Entry
    from agent_chat.channel import Channel

_NAMED = 5  # kept messages named in one answer


def run(call: Call) -> int:
    with call.channel() as channel:
        wanted = _age(call, channel)
        if call.flag("force") and not call.flag("delete"):
            raise call.usage("--force is for --delete")
        if call.flag("delete"):
            return _delete(call, channel, wanted)
        moved = archive.move(channel, wanted)
        for notice in channel.notices:
            output.note(f"agent-chat: {notice}")
        return _answer(call, channel, "archived", moved, [])


def _age(call: Call, channel: Channel) -> archive.Age:
    """What counts as old: --before, --older-than, else what the policy says."""
    if call.given("before") and call.given("older_than"):
        raise call.usage("--before and --older-than exclude each other")
    if call.given("before"):
        return archive.Age(before=call.number("before", "--before", least=1))
    if call.given("older_than"):
        try:
            return archive.Age(until=clock.now() - archive.age(call.text("older_than")))
        except ValueError:
            raise call.usage(f"--older-than takes an age such as 14d or 36h, not {call.text('older_than')!r}") from None
    found = archive.retention(channel)
    if found is None:
        text = f"channel {channel.name!r} has no policy of retention: say --older-than 14d or --before N"
        raise AgentChatError("USAGE_ERROR", text, ("archive", channel.name, "--older-than", "14d"))
    return found


def _delete(call: Call, channel: Channel, wanted: archive.Age) -> int:
    listed = archive.old(channel, wanted, is_everywhere=True)
    chosen, kept = listed, list[tuple[int, str]]()
    if not call.flag("force"):
        needed, chosen = archive.needs(channel), []
        for entry in listed:
            message = channel.log.message(entry.name)
            why = needed(entry, message) if message else ""
            if why:
                kept.append((entry.number, why))
            else:
                chosen.append(entry)
    if chosen or not operator.is_person():
        first, last = (chosen[0].number, chosen[-1].number) if chosen else (0, 0)
        operator.confirm(call, channel, f"deleting {len(chosen)} messages (#{first} to #{last}) for good")
        archive.delete(channel, chosen)
    return _answer(call, channel, "deleted", chosen, kept)


def _answer(call: Call, channel: Channel, did: str, done: list[Entry], kept: list[tuple[int, str]]) -> int:
    text = f"{did} {len(done)} message{'s' * (len(done) != 1)} of {channel.name}"
    if done:
        text += f" (#{done[0].number} to #{done[-1].number})"
    if kept:
        shown = ", ".join(f"#{number} {why}" for number, why in kept[:_NAMED])
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        text += f"; kept {len(kept)}: {shown}{more} (--force deletes them, too)"
    result: dict[str, object] = {"channel": channel.name, "deleted": did == "deleted", "count": len(done)}
    result.update(first_seq=done[0].number if done else None, last_seq=done[-1].number if done else None)
    result["kept"] = [{"seq": number, "why": why} for number, why in kept]
    return output.answer(call, result, text)

"""Now, timestamps and durations. Every instant is an int: microseconds since 1970, UTC.

Integers, because a lease must end exactly its length after it began and a float of today's
seconds has no room for more than a microsecond. `datetime` is not imported: it would cost a hot
command more than all the rest of this module.
"""

from __future__ import annotations

import time

SECOND = 1_000_000
_LATEST = 253_402_300_799 * SECOND  # 9999-12-31T23:59:59, the last second an ISO timestamp holds


def _system_now() -> int:
    return time.time_ns() // 1000


# What micro_stamp and seconds_stamp write, with every digit a 0: told apart first, since thousands of them are read.
_MICRO_FORM = "0000-00-00T00:00:00.000000"
_OUR_FORMS = (_MICRO_FORM, _MICRO_FORM[:19])
_midnight = ("", 0)  # the last date that was read, and its instant: most are of one day
_ZEROS = dict.fromkeys(range(ord("1"), ord("9") + 1), "0")

now = _system_now  # tests put a frozen clock here; callers say clock.now()


def seconds_stamp(instant: int) -> str:
    """`2026-07-17T14:03:22+00:00`: the form of messages."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(instant // SECOND))


def micro_stamp(instant: int) -> str:
    """`2026-07-17T14:03:22.000123+00:00`: the form of records."""
    whole, micro = divmod(instant, SECOND)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micro:06d}+00:00"


def parse_stamp(text: str) -> int:
    """An ISO-8601 time with an offset or `Z`, as an instant. ValueError for anything else."""
    global _midnight
    if text[-6:] == "+00:00" and text[:-6].translate(_ZEROS) in _OUR_FORMS:
        date, midnight = _midnight
        if text[:10] != date:
            midnight = _instant(text, int(text[:4]), int(text[5:7]), int(text[8:10]), 0, 0, 0)
            _midnight = text[:10], midnight
        hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError(f"no such time: {text!r}")
        return midnight + (hour * 3600 + minute * 60 + second) * SECOND + int(text[20:-6] or 0)
    date, clock_part, offset = text[:10], text[11:], 0
    if text[10:11] not in ("T", "t", " ") or not text.isascii():
        raise ValueError(f"not an ISO-8601 time: {text!r}")
    if clock_part[-1:] in ("Z", "z"):
        clock_part = clock_part[:-1]
    else:
        at = max(clock_part.rfind("+"), clock_part.rfind("-"))
        if at < 0:
            raise ValueError(f"no offset in {text!r}")
        offset = _offset(clock_part[at:])
        clock_part = clock_part[:at]
    year, month, day = _digits(date, "-", (4, 2, 2))
    clock_part, dot, fraction = clock_part.replace(",", ".").partition(".")
    if len(clock_part) == 5 and not dot:
        clock_part += ":00"
    hour, minute, second = _digits(clock_part, ":", (2, 2, 2))
    micro = int(_all_digits(fraction)[:6].ljust(6, "0")) if dot else 0
    return _instant(text, year, month, day, hour, minute, second) - offset * SECOND + micro


def _instant(text: str, year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    if hour > 23 or minute > 59 or second > 59 or not 1 <= day <= _month_days(year, month):
        raise ValueError(f"no such time: {text!r}")
    return (_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second) * SECOND


def parse_duration(text: str) -> int:
    """Seconds as typed, in microseconds. ValueError unless finite and above 0."""
    micro = _microseconds(text)
    if micro <= 0:
        raise ValueError(f"not above 0: {text!r}")
    return micro


def parse_timeout(text: str) -> int:
    """As `parse_duration`, but 0 is allowed: look once."""
    micro = _microseconds(text)
    if micro < 0:
        raise ValueError(f"below 0: {text!r}")
    return micro


def expiry(instant: int, duration: int) -> int:
    """`instant` + `duration`. ValueError when that does not fit a timestamp."""
    if instant + duration > _LATEST:
        raise ValueError("the expiry lies beyond the year 9999")
    return instant + duration


def _microseconds(text: str) -> int:
    value = float(text) * SECOND  # ValueError by itself
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"not finite: {text!r}")
    return round(value) or (value > 0) - (value < 0)


def _offset(text: str) -> int:
    colon = text[3:4] == ":"
    digits = _all_digits(text[1:3] + text[3 + colon :])
    if len(digits) != 4 and (colon or len(digits) != 2):
        raise ValueError(f"not an offset: {text!r}")
    hours, minutes = int(digits[:2]), int(digits[2:] or "0")
    if hours > 23 or minutes > 59:
        raise ValueError(f"not an offset: {text!r}")
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def _digits(text: str, separator: str, widths: tuple[int, ...]) -> list[int]:
    parts = text.split(separator)
    if len(parts) != len(widths) or any(len(p) != w for p, w in zip(parts, widths)):
        raise ValueError(f"not an ISO-8601 time: {text!r}")
    return [int(_all_digits(part)) for part in parts]


def _all_digits(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not digits: {text!r}")
    return text


def _month_days(year: int, month: int) -> int:
    if not (1 <= month <= 12 and year >= 1):
        return 0
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar (the era method of Hinnant's `days_from_civil`)."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468

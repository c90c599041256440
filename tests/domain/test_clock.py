"""clock.py: instants, stamps, durations."""

from __future__ import annotations

import pytest

from agent_chat import clock

S = clock.SECOND


@pytest.mark.parametrize(
    "text, instant",
    [
        ("1970-01-01T00:00:00+00:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", S),
        ("1970-01-01 00:00:01Z", S),
        ("1970-01-01T00:01Z", 60 * S),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00,5Z", S // 2),
        ("1970-01-01T00:00:00.1234567Z", 123456),
        ("1970-01-01T07:00:00+07:00", 0),
        ("1970-01-01T07:00:00+0700", 0),
        ("1970-01-01T07:00:00+07", 0),
        ("1969-12-31T20:30:00-03:30", 0),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * S),
        ("1969-12-31T23:59:59.5Z", -S // 2),
    ],
)
def test_a_time_with_an_offset(text: str, instant: int) -> None:
    assert clock.parse_stamp(text) == instant


# fmt: off
@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00.5", "2026-01-01T24:00:00Z",
     "2026-01-01T23:60:00Z", "2026-01-01T23:59:60Z", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
     "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z", "0000-01-01T00:00:00Z", "2026-1-1T00:00:00Z",
     "2026-01-01T00:00:00ZZ", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+07:60", "2026-01-01T00:00:00+7",
     "2026-01-01T00:00:00+0:700", "2026-01-01T00:00:00+:0700", "2026-01-01T00:00:00+07:", "2026-01-01T00:00:00+",
     "2026-01-01T00:00:00.Z", "2026-01-01T00:00.5Z", "2026-01-01T00:00:00.5.5Z", "2026-01-01T00Z",
     "٢٠٢٦-01-01T00:00:00Z", "2026-01-01T00:00:00−03:00", "2026-01-01X00:00:00Z", " 2026-01-01T00:00:00Z",
     "2026-01-01T00:00:00Z\n", "+026-01-01T00:00:00Z", "2026-01-01T-1:00:00Z", "20260101T000000Z"],
)
def test_anything_else_is_damage(text: str) -> None:
    with pytest.raises(ValueError):
        clock.parse_stamp(text)
# fmt: on


@pytest.mark.parametrize(
    "text, micro", [("1", S), ("0.5", S // 2), ("300", 300 * S), ("1e3", 1000 * S), ("1e-9", 1), (" 5 ", 5 * S)]
)
def test_a_duration(text: str, micro: int) -> None:
    assert clock.parse_duration(text) == clock.parse_timeout(text) == micro


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-inf", "Infinity", "-1", "-1e-300", "1e305", "1e400", "", "x", "1s", "0x1"]
)
def test_no_duration(text: str) -> None:
    for read in (clock.parse_duration, clock.parse_timeout):
        with pytest.raises(ValueError):
            read(text)


@pytest.mark.parametrize("text", ["0", "0.0", "-0"])
def test_zero_is_a_timeout_and_no_duration(text: str) -> None:
    assert clock.parse_timeout(text) == 0
    with pytest.raises(ValueError):
        clock.parse_duration(text)


def test_an_expiry_is_exactly_the_length_later_and_must_fit_a_timestamp() -> None:
    assert clock.expiry(1, 300 * S) == 300 * S + 1
    last = clock.parse_stamp("9999-12-31T23:59:59Z")
    assert clock.micro_stamp(clock.expiry(last - S, S)) == "9999-12-31T23:59:59.000000+00:00"
    for duration in (S + 1, 10**30, clock.parse_duration("1e300")):
        with pytest.raises(ValueError):
            clock.expiry(last - S, duration)


def test_now_is_now() -> None:
    import time

    assert abs(clock.now() / S - time.time()) < 60

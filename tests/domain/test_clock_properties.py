"""clock.py against datetime."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from agent_chat import clock

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=OFFSETS)
INSTANTS = st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(timezone.utc))


def micro(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@given(TIMES)
def test_what_datetime_writes_is_read(moment: datetime) -> None:
    assert clock.parse_stamp(moment.isoformat()) == micro(moment)
    assert clock.parse_stamp(moment.isoformat(" ").replace("+00:00", "Z")) == micro(moment)


@given(INSTANTS)
def test_stamps_are_datetimes_own(moment: datetime) -> None:
    at = micro(moment)
    assert clock.seconds_stamp(at) == moment.isoformat(timespec="seconds")
    assert clock.micro_stamp(at) == moment.isoformat(timespec="microseconds")
    assert clock.parse_stamp(clock.micro_stamp(at)) == at
    assert clock.parse_stamp(clock.seconds_stamp(at)) == at - at % clock.SECOND


@given(st.text("0123456789-:.,+TZz ", max_size=36))
def test_what_we_read_datetime_reads_alike(text: str) -> None:
    try:
        found = clock.parse_stamp(text)
    except ValueError:
        return
    plain = text.upper().replace("Z", "+00:00").replace(",", ".")
    try:
        assert found == micro(datetime.fromisoformat(plain))
    except ValueError:  # before Python 3.11 it knew only what it writes itself
        return


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_duration_is_finite_and_above_zero_or_refused(seconds: float) -> None:
    try:
        found = clock.parse_duration(repr(seconds))
    except ValueError:
        assert not 0 < seconds < 1e302
        return
    assert found >= 1 and abs(found - seconds * clock.SECOND) <= max(1.0, seconds * 1e-6)

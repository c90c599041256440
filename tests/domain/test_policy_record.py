"""policy.py: what is read quickly and what is read strictly is the same."""

from __future__ import annotations

import json

import pytest

from agent_chat import policy
from agent_chat.errors import AgentChatError

SOUND = [
    {},
    {"recovery": "auto"},
    {"access": "off", "retention": "14d"},
    {key: words[0] for key, words in policy.KEYS.items()},
]


@pytest.mark.parametrize("said", SOUND, ids=str)
@pytest.mark.parametrize("indent", [None, 2, 4])
def test_any_spelling_says_the_same(said: dict[str, str], indent: int | None) -> None:
    for text in (json.dumps(said, indent=indent), json.dumps(said, indent=indent) + "\n"):
        assert policy.decode(text.encode(), "c").said == said


@pytest.mark.parametrize("said", SOUND, ids=str)
def test_what_is_written_is_read_without_json(said: dict[str, str]) -> None:
    data = policy.Policy(said).encode()
    assert (policy._plain(data) == said) == bool(said)
    assert policy.decode(data, "c").said == said


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "access": "off",\n  "access": "on"\n}\n',
        '{\n  "access": "off",\n}\n',
        '{\n  "access": "off"\n  "identity": "open"\n}\n',
        '{\n  "access": "of\\u0066"\n}\n}\n',
        '{\n  "acess": "off"\n}\n',
        '{\n  "access": "x"\n}\n',
        '{\n  "access": "off" "\n}\n',
        '{\n}\n"\n',
    ],
)
def test_what_only_looks_like_a_policy_is_refused(text: str) -> None:
    with pytest.raises(AgentChatError) as caught:
        policy.decode(text.encode(), "c")
    assert caught.value.code == "POLICY_INVALID"

"""schemas/answers/: what every command answers with --json, held against real answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import schema
import tour
from schema import ANSWERS, FOLDER
from tour import Answer

from agent_chat.cli.table import COMMANDS

ERROR = ANSWERS / "error.schema.json"
OF = {command: path for path in schema.files() for command in schema.commands_of(path)}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    return tour.run(tmp_path_factory.mktemp("tour"))


def shown(answers: list[Answer]) -> list[tuple[Path, Answer, object]]:
    """(schema, answer, value) of everything that was answered, refusals too."""
    values = [(OF[answer.command], answer, answer.value) for answer in answers if answer.result.out]
    return values + [(ERROR, answer, refusal) for answer in answers for refusal in answer.refusals]


def test_every_command_has_one_schema_and_every_schema_a_command() -> None:
    named = Counter(command for path in schema.files() for command in schema.commands_of(path))
    assert set(named) == set(COMMANDS), "schemas/answers/ needs a file whose x-commands names the command"
    assert not [command for command, count in named.items() if count > 1]
    without = [path for path in sorted(ANSWERS.iterdir()) if not schema.commands_of(path)]
    assert without == [ERROR]


def test_the_tour_shows_an_answer_of_every_command(answers: list[Answer]) -> None:
    answered = {answer.command for answer in answers if answer.result.out}
    missing = set(COMMANDS) - answered
    assert missing <= {command for command in COMMANDS if command.startswith("guard")}, "tests/tour.py needs a line"


def test_every_answer_and_every_refusal_is_as_its_schema_says(answers: list[Answer]) -> None:
    wrong = {answer.line: found for path, answer, value in shown(answers) if (found := schema.problems(path, value))}
    assert not wrong


def test_everything_that_a_schema_describes_comes_up(answers: list[Answer]) -> None:
    check, there = schema.Check(), set(COMMANDS) - {answer.command for answer in answers if answer.result.out}
    for path, _, value in shown(answers):
        check.problems(path, value)
    skipped = {OF[command] for command in there}
    described = {one for path in ANSWERS.iterdir() if path not in skipped for one in schema.described(path)}
    assert not sorted(f"{path.name}{pointer} {key}" for path, pointer, key in described - check.seen)


@pytest.mark.parametrize("path", sorted(ANSWERS.iterdir()), ids=lambda path: path.name.partition(".")[0])
def test_an_answer_may_grow(path: Path) -> None:
    """Whoever reads by the schema takes a key that is new to it: no answer is closed, wherever it nests."""

    def closed(part: object) -> bool:
        if isinstance(part, dict):
            words = ("additionalProperties", "unevaluatedProperties")
            return any(part.get(word) is False for word in words) or any(map(closed, part.values()))
        return isinstance(part, list) and any(map(closed, part))

    assert not closed(schema.load(path))


def test_a_refusal_answers_on_standard_error_alone(answers: list[Answer]) -> None:
    refused = [answer for answer in answers if answer.result.status == 2 and not answer.result.out]
    assert len(refused) > 5 and all(len(answer.refusals) == 1 for answer in refused)


def test_jsonschema_says_the_same(answers: list[Answer]) -> None:
    pytest.importorskip("jsonschema")
    for path in schema.files():
        validator(path).check_schema(schema.load(path))
    wrong = [
        (answer.line, error.message)
        for path, answer, value in shown(answers)
        for error in validator(path).iter_errors(value)
    ]
    assert not wrong


def validator(path: Path):  # type: ignore[no-untyped-def]
    """jsonschema's own, with references resolved in the folder."""
    import jsonschema
    import referencing
    import referencing.jsonschema

    def retrieve(uri: str) -> referencing.Resource:  # type: ignore[type-arg]
        text = schema.load(Path(uri.removeprefix("file://")))
        return referencing.Resource.from_contents(text, default_specification=referencing.jsonschema.DRAFT202012)

    registry = referencing.Registry(retrieve=retrieve)  # type: ignore[call-arg]
    return jsonschema.Draft202012Validator({"$ref": f"file://{path}"}, registry=registry)


@pytest.mark.parametrize("path", schema.files(), ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_schema_has_a_title_and_its_references_lead_somewhere(path: Path) -> None:
    found = schema.load(path)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema" and found["title"]

    def references(part: object) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            return own + [one for inner in part.values() for one in references(inner)]
        return [one for inner in part for one in references(inner)] if isinstance(part, list) else []

    for reference in references(found):
        assert schema.resolve(path, reference)[1]


class TestTheValidator:
    """What the checks above rest on."""

    @pytest.mark.parametrize(
        "value, word",
        [
            ({}, "required"),
            ({"version": 1}, "type"),
            ({"version": "1", "more": 2}, "not described"),
            ([], "type"),
        ],
    )
    def test_it_finds_what_is_wrong(self, value: object, word: str) -> None:
        (found,) = schema.problems(ANSWERS / "version.schema.json", value)
        assert word in found

    def test_it_looks_into_what_is_nested(self) -> None:
        lines = schema.problems(ANSWERS / "channels.schema.json", {"root": "r", "channels": [{"channel": "a/b"}]})
        assert any("$.channels[0].channel" in line and "pattern" in line for line in lines)

    def test_it_takes_one_of_several(self) -> None:
        path = ANSWERS / "read.schema.json"
        news = {"channel": "c", "agent": "bob", "count": 1, "from": ["alice"], "next": "read"}
        assert not schema.problems(path, news) and schema.problems(path, {**news, "count": 0})

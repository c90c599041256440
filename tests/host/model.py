"""A model that follows a script, on the loopback: the APIs that Claude Code, Codex and Gemini CLI speak.

Each session talks to a path of its own, `http://127.0.0.1:PORT/NAME`, and gets the steps of the script NAME one by
one, the last one again and again. A step is a text, which ends the turn, or a Call of a tool. What the host sent is
kept: `heard(NAME)` is what was new to the model in each request.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import Any, Union


class Call:
    """A call of a tool."""

    def __init__(self, tool: str, **given: object) -> None:
        self.tool, self.given = tool, given


Step = Union[str, Call]


class Model:
    """Answers every session until `close`."""

    def __init__(self) -> None:
        self.scripts: dict[str, list[Step]] = {}
        self._at: dict[str, int] = {}
        self._heard: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{name}"

    def script(self, name: str, *steps: Step) -> None:
        """What the session does from now on."""
        with self._lock:
            self.scripts[name], self._at[name], self._heard[name] = list(steps), 0, []

    def heard(self, name: str) -> list[str]:
        with self._lock:
            return list(self._heard[name])

    def waits_for(self, name: str, text: str, seconds: float = 60) -> str:
        """The request in which the model of this session heard `text`."""
        deadline = time.monotonic() + seconds
        while True:
            found = [heard for heard in self.heard(name) if text in heard]
            if found:
                return found[0]
            assert time.monotonic() < deadline, (text, self.heard(name))
            time.sleep(0.05)

    def step(self, name: str, heard: str) -> tuple[int, Step]:
        with self._lock:
            at = self._at[name]
            self._at[name] = at + 1
            self._heard[name].append(heard)
            steps = self.scripts[name]
            return at, steps[min(at, len(steps) - 1)] if steps else "ok"


def _text(content: Any) -> str:
    """Every text in a message's content, results of tools too."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part.get("text") or "") + _text(part.get("content")) for part in parts if isinstance(part, dict)
    )


def _result(part: dict[str, Any]) -> dict[str, Any]:
    """What a tool of Gemini CLI answered, as a text."""
    answered = part.get("functionResponse")
    return {"text": str(answered["response"].get("output"))} if answered else {}


def _new(items: list[dict[str, Any]], is_models: Any) -> str:
    """What came after the model's own last word."""
    own = [at for at, item in enumerate(items) if is_models(item)]
    return "\n".join(_text(item.get("content", item.get("output"))) for item in items[own[-1] + 1 if own else 0 :])


def _handler(model: Model) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer({})

        def do_GET(self) -> None:
            self.answer({"data": [], "models": [], "has_more": False})

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(data)
            except ValueError:
                body = {}
            _, name, *rest = self.path.partition("?")[0].split("/")
            if name in model.scripts and rest[-1:] == ["responses"]:
                self.answer_codex(name, body)
            elif name in model.scripts and rest[-1:] == ["messages"]:
                self.answer_claude(name, body)
            elif name in model.scripts and rest[-1:] and rest[-1].endswith(":streamGenerateContent"):
                self.answer_gemini(name, body)
            else:
                self.answer({"input_tokens": len(data) // 4} if "count_tokens" in rest else {})

        def answer(self, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def stream(self, *events: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                for event in events:
                    named = f"event: {event['type']}\n" if "type" in event else ""
                    self.wfile.write(f"{named}data: {json.dumps(event)}\n\n".encode())
            except OSError:
                pass  # the session ended meanwhile

        def answer_claude(self, name: str, body: dict[str, Any]) -> None:
            at, step = 0, "ok"
            if body.get("tools"):  # else a title, a summary, a probe
                at, step = model.step(name, _new(body["messages"], lambda one: one.get("role") == "assistant"))
            if isinstance(step, Call):
                block = {"type": "tool_use", "id": f"toolu_{name}_{at}", "name": step.tool, "input": step.given}
                begun: dict[str, Any] = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(step.given)}
            else:
                block = {"type": "text", "text": step}
                begun = {**block, "text": ""}
                delta = {"type": "text_delta", "text": step}
            reason = "tool_use" if isinstance(step, Call) else "end_turn"
            message = {"id": f"msg_{name}_{at}", "type": "message", "role": "assistant", "model": body.get("model")}
            message.update(usage={"input_tokens": 1, "output_tokens": 1}, content=[block], stop_reason=reason)
            if not body.get("stream"):
                return self.answer(message)
            self.stream(
                {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": begun},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            )

        def answer_codex(self, name: str, body: dict[str, Any]) -> None:
            items = body.get("input") or []

            def is_models(one: dict[str, Any]) -> bool:
                return one.get("role") == "assistant" or str(one.get("type")).endswith("_call")

            at, step = 0, "a title"
            if body.get("tools"):  # else an interactive session wants a title
                at, step = model.step(name, _new(items, is_models))
            if isinstance(step, Call) and step.tool == "apply_patch":
                item = {"type": "custom_tool_call", "id": f"c{at}", "call_id": f"call{at}", "name": step.tool}
                item["input"] = step.given["input"]
            elif isinstance(step, Call):
                item = {"type": "function_call", "id": f"f{at}", "call_id": f"call{at}", "name": step.tool}
                item["arguments"] = json.dumps(step.given)
            else:
                item = {"type": "message", "role": "assistant", "id": f"m{at}"}
                item["content"] = [{"type": "output_text", "text": step}]
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            usage.update(input_tokens_details=None, output_tokens_details=None)
            self.stream(
                {"type": "response.created", "response": {"id": f"r{at}"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": f"r{at}", "output": [item], "usage": usage}},
            )

        def answer_gemini(self, name: str, body: dict[str, Any]) -> None:
            contents = [
                {"role": one.get("role"), "content": [{**part, **_result(part)} for part in one.get("parts") or []]}
                for one in body.get("contents") or []
            ]
            _, step = model.step(name, _new(contents, lambda one: one.get("role") == "model"))
            call = isinstance(step, Call) and {"functionCall": {"name": step.tool, "args": step.given}}
            said = {"content": {"role": "model", "parts": [call or {"text": step}]}, "finishReason": "STOP", "index": 0}
            usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
            self.stream({"candidates": [said], "usageMetadata": usage})

    return Handler

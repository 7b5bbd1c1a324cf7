"""What the tests share: a home of its own per test, clients that end with their test, events that are collected.

Every event that arrives is parsed by the SDK's strict classes; one that does not parse would be lost without a word, so
it fails the test here.
"""

import asyncio
import http.server
import json
import logging
import os
import pathlib
import shutil
import tempfile
import threading
import time
import unittest

import copilot.client
from copilot import CopilotClient, RuntimeConnection
from copilot.session import PermissionHandler

LODGE = os.environ["LODGE_BIN"]
logging.getLogger("copilot").setLevel(logging.CRITICAL)
approve_all = PermissionHandler.approve_all

_parse = copilot.client.session_event_from_dict
_lost = []


def _parse_strictly(raw):
    try:
        event = _parse(raw)
    except Exception as error:
        _lost.append(f"{raw.get('type')}: {error!r}: {raw}")
        raise
    if type(event.data).__name__ == "RawSessionEventData":
        _lost.append(f"{raw.get('type')}: unknown to the SDK: {raw}")
    return event


copilot.client.session_event_from_dict = _parse_strictly


class Test(unittest.IsolatedAsyncioTestCase):
    """A test with its own home and working directory."""

    async def asyncSetUp(self):
        _lost.clear()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lodge-python-"))
        self.home = self.dir / "home"
        self.work = self.dir / "work"
        self.work.mkdir()
        self.clients = []

    async def asyncTearDown(self):
        for client in self.clients:
            try:
                await asyncio.wait_for(client.force_stop(), 10)
            except Exception as error:
                print("while stopping:", error)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.assertEqual(_lost, [], "events that the SDK could not parse")

    async def start(self, **options):
        options.setdefault("connection", RuntimeConnection.for_stdio(path=LODGE))
        if not hasattr(options["connection"], "url"):
            options.setdefault("working_directory", str(self.work))
            options.setdefault("base_directory", str(self.home))
            options.setdefault("env", environment())
        client = CopilotClient(**options)
        self.clients.append(client)
        await client.start()
        return client

    async def session(self, client=None, **config):
        """A session that allows everything, and the list in which its events gather."""
        client = client or await self.start()
        events = []
        config.setdefault("on_permission_request", approve_all)
        return await client.create_session(on_event=events.append, **config), events

    async def resume(self, client, session_id, **config):
        events = []
        config.setdefault("on_permission_request", approve_all)
        return await client.resume_session(session_id, on_event=events.append, **config), events


def environment(**more):
    """Nothing of this machine's configuration but the path to its programs."""
    return {"PATH": os.environ["PATH"], "HOME": tempfile.gettempdir(), **more}


async def ask(session, prompt, **options):
    """Sends a prompt and returns the text of the last answer."""
    answer = await session.send_and_wait(prompt, timeout=30, **options)
    return answer.data.content if answer else None


async def until(what, holds, limit=20.0):
    end = time.monotonic() + limit
    while True:
        found = holds()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        await asyncio.sleep(0.005)


def kind(event):
    return getattr(event.type, "value", event.type)


def kinds(events):
    return [kind(event) for event in events]


def of_kind(events, wanted):
    return [event for event in events if kind(event) == wanted]


async def wait_for(events, wanted):
    return (await until(f"there is {wanted}", lambda: of_kind(events, wanted)))[0]


def persisted(events):
    return [event for event in events if not event.ephemeral]


class ModelServer:
    """A model on loopback that speaks chat completions and remembers what it was sent."""

    def __init__(self, answer="hello"):
        outer = self
        self.bodies = []
        self.headers = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.bodies.append(body)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
                usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
                reply = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage})
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

"""What the SDK for .NET needs beyond the others, on the raw wire: it cannot be run where .NET is not installed.

Its reader is strict: ids and times that do not parse, a missing property that it requires, or a number of another kind
than it expects lose the message. And it sends what others do not: a list with one null for no parameters, `$/cancelRequest`
for a call that is given up, an editor's names instead of a client's, the kinds of tasks that it knows.
"""

import asyncio
import datetime
import json
import re
import uuid

from help import LODGE, Test, environment, until


class Wire:
    """Frames by hand. Ids count from 1, as in that SDK."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.next = reader, writer, 0
        self.events, self.answers = [], {}
        self.task = asyncio.create_task(self.read())

    async def read(self):
        while head := await self.reader.readuntil(b"\r\n\r\n"):
            # Exactly this header, exactly so.
            length = re.fullmatch(rb"Content-Length: (\d+)\r\n\r\n", head)[1]
            message = json.loads(await self.reader.readexactly(int(length)))
            if message.get("method") == "session.event":
                self.events.append(message["params"]["event"])
            elif "method" not in message:
                self.answers[message["id"]].set_result(message)

    def write(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def start(self, method, *params):
        self.next += 1
        self.answers[self.next] = asyncio.get_running_loop().create_future()
        given = {} if not params else {"params": params[0]}
        self.write({"id": self.next, "method": method, **given})
        return self.next, self.answers[self.next]

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    async def call(self, method, *params):
        _, answer = self.start(method, *params)
        answer = await asyncio.wait_for(answer, 30)
        self.last_error = answer.get("error")
        return answer.get("result")


class DotNet(Test):
    async def wire(self, *args, **variables):
        """The process as that SDK starts it, and what it says first."""
        env = environment(COPILOT_HOME=str(self.home), **variables)
        pipe = asyncio.subprocess.PIPE
        args = ["--headless", "--no-auto-update", "--log-level", "info", *args, "--no-auto-login"]
        self.child = await asyncio.create_subprocess_exec(LODGE, *args, cwd=self.work, env=env, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
        self.addAsyncCleanup(self.end)
        return self.child

    async def end(self):
        if self.child.returncode is None:
            self.child.kill()
        await self.child.wait()

    async def shake_hands(self, wire, token=None):
        hello = {"clientInfo": {"editorName": "vs", "editorVersion": "18", "extensionName": "mine"}, "supportedTaskKinds": ["agent", "shell"]}
        greeting = await wire.call("connect", {**hello, **({"token": token} if token else {})})
        self.assertEqual((greeting["ok"], greeting["protocolVersion"]), (True, 3))
        self.assertIsInstance(greeting["version"], str)

    async def test_a_session_by_standard_input_and_output(self):
        child = await self.wire("--stdio")
        wire = Wire(child.stdout, child.stdin)
        await self.shake_hands(wire)
        pong = await wire.call("ping", {"message": "hi"})
        self.assertEqual((pong["message"], pong["protocolVersion"]), ("pong: hi", 3))
        self.when(pong["timestamp"])
        for nothing in ([], [[None]], [None], [[]]):
            status = await wire.call("status.get", *nothing)
            self.assertEqual(status["protocolVersion"], 3, nothing)
        self.assertFalse((await wire.call("auth.getStatus", []))["isAuthenticated"])
        for model in (await wire.call("models.list", []))["models"]:
            self.assertIsInstance(model["id"] + model["name"], str)
            supports, limits = model["capabilities"]["supports"], model["capabilities"]["limits"]
            self.assertIsInstance(supports.get("vision", False), bool)
            self.assertIsInstance(limits["max_context_window_tokens"], int)
        self.assertEqual(await wire.call("session.getLastId", []), {})
        deleted = await wire.call("session.delete", {"sessionId": "nobody"})
        self.assertEqual((deleted["success"], type(deleted["error"])), (False, str))

        made = await wire.call("session.create", {"sessionId": "mine", "requestPermission": True, "streaming": True, "envValueMode": "direct"})
        self.assertEqual(made["sessionId"], "mine")
        self.assertIsInstance(made["workspacePath"], str)
        self.assertIsInstance(made["capabilities"]["ui"]["elicitation"], bool)
        sent = await wire.call("session.send", {"sessionId": "mine", "prompt": 'call bash {"command":"touch made"} then say done'})
        self.assertIsInstance(sent["messageId"], str)
        asked = (await until("there is a question", lambda: wire.of("permission.requested")))[0]["data"]
        answer = {"sessionId": "mine", "requestId": asked["requestId"], "result": {"kind": "approve-once"}}
        self.assertEqual(await wire.call("session.permissions.handlePendingPermissionRequest", answer), {"success": True})
        await until("the turn is over", lambda: wire.of("session.idle"))
        for event in wire.events:
            self.envelope(event)
        got = (await wire.call("session.getMessages", {"sessionId": "mine"}))["events"]
        self.assertEqual([event["id"] for event in got], [event["id"] for event in wire.events if "ephemeral" not in event])

        listed = (await wire.call("session.list", {}))["sessions"]
        self.assertEqual([session["sessionId"] for session in listed], ["mine"])
        self.when(listed[0]["startTime"])
        self.when(listed[0]["modifiedTime"])
        self.assertIsInstance(listed[0]["isRemote"], bool)
        self.assertEqual((await wire.call("session.getMetadata", {"sessionId": "mine"}))["session"]["sessionId"], "mine")
        self.assertEqual(await wire.call("session.abort", {"sessionId": "mine"}), {"success": True})
        self.assertEqual((await wire.call("session.detach", {"sessionId": "mine"}))["success"], True)
        await wire.call("session.send", {"sessionId": "mine", "prompt": "gone"})
        self.assertEqual((wire.last_error["code"], type(wire.last_error["message"])), (-32603, str))
        self.assertIsNone(await wire.call("runtime.shutdown", []))
        wire.task.cancel()
        child.stdin.close()
        self.assertEqual(await asyncio.wait_for(child.wait(), 30), 0)

    async def test_a_call_that_is_given_up_harms_nothing(self):
        child = await self.wire("--stdio")
        wire = Wire(child.stdout, child.stdin)
        await self.shake_hands(wire)
        number, _ = wire.start("models.list", [])
        wire.write({"method": "$/cancelRequest", "params": {"id": number}})
        self.assertEqual((await wire.call("ping", {}))["message"], "pong")
        wire.task.cancel()

    async def test_tcp_without_a_port_and_with_a_token(self):
        child = await self.wire(COPILOT_CONNECTION_TOKEN="secret")
        line = (await asyncio.wait_for(child.stdout.readline(), 30)).decode()
        port = int(re.search(r"listening on port (\d+)", line)[1])
        refused = Wire(*await asyncio.open_connection("127.0.0.1", port))
        await refused.call("connect", {"token": "wrong"})
        self.assertEqual(refused.last_error["code"], -32002)
        wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
        await self.shake_hands(wire, "secret")
        for one in (refused, wire):
            one.task.cancel()
            one.writer.close()

    def envelope(self, event):
        uuid.UUID(event["id"])
        if event["parentId"] is not None:
            uuid.UUID(event["parentId"])
        self.when(event["timestamp"])
        self.assertIsInstance(event["data"], dict)
        self.assertIn(event.get("ephemeral", True), [True])

    def when(self, text):
        """Times carry their zone, or that SDK takes them for local ones."""
        self.assertIsNotNone(datetime.datetime.fromisoformat(text).tzinfo, text)

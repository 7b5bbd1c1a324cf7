"""Capabilities 3 and 4: TCP, the token, several clients, streaming."""

import asyncio
import re
import subprocess

from copilot import RuntimeConnection
from help import LODGE, Test, ask, environment, kinds, of_kind, persisted, until, wait_for


class Several(Test):
    def host(self, **variables):
        """A host on a port of its own choice: the process and its address."""
        child = subprocess.Popen(
            [LODGE, "--headless", "--no-auto-update", "--port", "0"],
            cwd=self.work,
            env=environment(COPILOT_HOME=str(self.home), **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

        def end():
            child.kill()
            child.wait()
            child.stdout.close()

        self.addCleanup(end)
        for line in child.stdout:
            if found := re.search(r"listening on port (\d+)", line):
                return child, f"127.0.0.1:{found[1]}"
        raise AssertionError("the host ended without naming its port")

    async def to(self, url, token=None):
        return await self.start(connection=RuntimeConnection.for_uri(url, connection_token=token))

    async def test_the_sdk_starts_a_tcp_host_itself(self):
        client = await self.start(connection=RuntimeConnection.for_tcp(path=LODGE))
        chat, _ = await self.session(client)
        self.assertEqual(await ask(chat, "say over TCP"), "over TCP")

    async def test_the_token_is_checked(self):
        _, url = self.host(COPILOT_CONNECTION_TOKEN="open sesame")
        for token in [None, "wrong"]:
            with self.assertRaisesRegex(Exception, "AUTHENTICATION_FAILED"):
                await self.to(url, token)
        self.assertEqual((await (await self.to(url, "open sesame")).ping()).message, "pong")

    async def test_both_clients_of_a_session_see_everything(self):
        _, url = self.host()
        mine, seen_by_me = await self.session(await self.to(url), streaming=True)
        yours, seen_by_you = await self.resume(await self.to(url), mine.session_id, streaming=True)
        await ask(mine, "stream 20 chunks")
        await ask(yours, "say from the other side")
        both = (seen_by_me, seen_by_you)
        await until("both saw both turns", lambda: all(len(of_kind(seen, "session.idle")) == 2 for seen in both))
        turns = [[event.id for event in seen[kinds(seen).index("user.message") :]] for seen in both]
        self.assertEqual(turns[0], turns[1])

    async def test_every_delta_comes_exactly_once_and_in_order(self):
        chat, events = await self.session(streaming=True)
        text = await ask(chat, "stream 5000 chunks of 16 bytes")
        deltas = [delta.data.delta_content for delta in of_kind(events, "assistant.message_delta")]
        self.assertEqual("".join(deltas), text)
        self.assertEqual([int(number) for number in re.findall(r"\d+", text)], list(range(1, 5001)))

    async def test_kill_9_loses_nothing_that_was_seen(self):
        child, url = self.host()
        chat, events = await self.session(await self.to(url), streaming=True)
        await chat.send('call bash {"command":"echo kept"} then slowly 2 ms, stream 2000 chunks')
        await wait_for(events, "assistant.message_delta")
        child.kill()
        child.wait()
        _, url = self.host()
        again, _ = await self.resume(await self.to(url), chat.session_id)
        ids = {event.id for event in await again.get_events()}
        self.assertEqual([kind for kind in kinds(e for e in persisted(events) if e.id not in ids)], [])
        self.assertEqual(await ask(again, "say and on it goes"), "and on it goes")

    async def test_ten_sessions_at_once(self):
        client = await self.start()
        chats = await asyncio.gather(*(self.session(client) for _ in range(10)))
        answers = await asyncio.gather(*(ask(chat, f"say number {n}") for n, (chat, _) in enumerate(chats)))
        self.assertEqual(answers, [f"number {n}" for n in range(10)])

"""Capability 1: the core loop, status, models, list, metadata, delete, resume, abort."""

from help import Test, ask, kinds, of_kind, persisted, until, wait_for


class Core(Test):
    async def test_a_client_connects_and_pings(self):
        client = await self.start()
        self.assertEqual((await client.ping("hello")).message, "pong: hello")
        await client.stop()

    async def test_status_login_and_models_need_no_login(self):
        client = await self.start()
        self.assertEqual((await client.get_status()).protocol_version, 3)
        self.assertIsInstance((await client.get_auth_status()).isAuthenticated, bool)
        self.assertIn("rehearsal", [model.id for model in await client.list_models()])

    async def test_a_prompt_is_answered_and_its_events_come_in_order(self):
        chat, events = await self.session(streaming=True)
        self.assertEqual(await ask(chat, "say hello there"), "hello there")
        await wait_for(events, "session.idle")
        seen = kinds(events)
        order = ["user.message", "assistant.turn_start", "assistant.message", "assistant.turn_end", "session.idle"]
        places = [seen.index(kind) for kind in order]
        self.assertEqual(places, sorted(places), seen)
        deltas = of_kind(events, "assistant.message_delta")
        self.assertEqual("".join(delta.data.delta_content for delta in deltas), "hello there")

    async def test_every_kind_of_turn_parses_in_the_strict_classes(self):
        chat, events = await self.session(streaming=True)
        for prompt in [
            "hello",
            "think aloud then say done",
            "think secretly",
            'call bash {"command":"echo hi","description":"Greet"}',
            'call create {"path":"a.txt","file_text":"one\\n"} then call view {"path":"a.txt"}',
            'call grep {"pattern":"one","path":"."} and glob {"pattern":"*"}',
            'call edit {"path":"a.txt","old_str":"one","new_str":"two"}',
            "call an unknown tool",
            "call bash with malformed arguments",
            "report usage 1000 in 50 out 900 cached",
        ]:
            await ask(chat, prompt)
        with self.assertRaisesRegex(Exception, "Session error|rehearsal model failed"):
            await ask(chat, "fail with quota")
        self.assertGreater(len(await chat.get_events()), 40)

    async def test_get_events_gives_what_was_persisted(self):
        chat, events = await self.session()
        await ask(chat, "say one")
        await wait_for(events, "session.idle")
        told = await chat.get_events()
        self.assertEqual([event.id for event in told], [event.id for event in persisted(events)])

    async def test_a_session_resumes_in_a_new_process(self):
        first = await self.start()
        chat, events = await self.session(first)
        await ask(chat, "say remember me")
        await wait_for(events, "session.idle")
        await first.stop()
        again, _ = await self.resume(await self.start(), chat.session_id)
        self.assertEqual(await ask(again, "say I do"), "I do")
        answers = [event.data.content for event in of_kind(await again.get_events(), "assistant.message")]
        self.assertEqual(answers, ["remember me", "I do"])

    async def test_resuming_what_does_not_exist_says_so(self):
        client = await self.start()
        with self.assertRaisesRegex(Exception, "Session not found: no-such-session"):
            await client.resume_session("no-such-session")

    async def test_abort_ends_the_turn_and_the_session_goes_on(self):
        chat, events = await self.session(streaming=True)
        await chat.send("slowly 20 ms, stream 2000 chunks")
        await wait_for(events, "assistant.message_delta")
        await chat.abort()
        self.assertTrue((await wait_for(events, "session.idle")).data.aborted)
        self.assertIn("abort", kinds(events))
        self.assertEqual(await ask(chat, "say still alive"), "still alive")

    async def test_sessions_are_listed_described_and_deleted(self):
        client = await self.start()
        await self.session(client)
        chat, _ = await self.session(client, session_id="mine")
        await ask(chat, "say hello")
        self.assertEqual([found.session_id for found in await client.list_sessions()], ["mine"])
        self.assertEqual(await client.get_last_session_id(), "mine")
        self.assertEqual((await client.get_session_metadata("mine")).session_id, "mine")
        await chat.disconnect()
        await client.delete_session("mine")
        self.assertEqual(await client.list_sessions(), [])
        self.assertIsNone(await client.get_session_metadata("mine"))

    async def test_lifecycle_is_told(self):
        client = await self.start()
        told = []
        client.on_lifecycle(lambda notification: told.append(notification.type))
        chat, _ = await self.session(client)
        await ask(chat, "say hello")
        await chat.disconnect()
        await client.delete_session(chat.session_id)
        await until("it was deleted", lambda: "session.deleted" in told)
        self.assertEqual(told[0], "session.created")
        self.assertIn("session.updated", told)

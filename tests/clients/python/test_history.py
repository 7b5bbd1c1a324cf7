"""Capabilities 10, 11 and 12: history, the event log, the queue, schedules, sessions by server methods."""

import uuid

from copilot import rpc
from help import Test, ask, of_kind, until, wait_for


class History(Test):
    async def test_history_becomes_a_summary(self):
        chat, events = await self.session()
        await ask(chat, "say one")
        self.assertTrue((await chat.rpc.history.compact()).success)
        done = await wait_for(events, "session.compaction_complete")
        self.assertTrue(done.data.success)
        self.assertEqual(await ask(chat, "say two"), "two")

    async def test_history_is_cut_off_and_points_to_go_back_to_are_told(self):
        chat, _ = await self.session()
        await ask(chat, "say one")
        await ask(chat, "say two")
        self.assertEqual(len((await chat.rpc.history.list_rewind_points()).points), 2)
        second = of_kind(await chat.get_events(), "user.message")[1]
        removed = await chat.rpc.history.truncate(rpc.HistoryTruncateRequest(event_id=str(second.id)))
        self.assertGreater(removed.events_removed, 0)
        self.assertEqual(len(of_kind(await chat.get_events(), "user.message")), 1)

    async def test_the_event_log_is_read_from_a_cursor(self):
        chat, _ = await self.session()
        await ask(chat, "say one")
        cursor = (await chat.rpc.event_log.tail()).cursor
        await ask(chat, "say two")
        read = await chat.rpc.event_log.read(rpc.EventLogReadRequest(cursor=cursor))
        said = [event.data.content for event in read.events if event.type.value == "assistant.message"]
        self.assertEqual(said, ["two"])

    async def test_waiting_messages_are_looked_at_and_taken_back(self):
        chat, events = await self.session(streaming=True)
        await chat.send("slowly 20 ms, stream 2000 chunks")
        await wait_for(events, "assistant.message_delta")
        await chat.send("say later")
        await until("it waits", lambda: self.waiting(chat, 1))
        self.assertTrue((await chat.rpc.queue.remove_most_recent()).removed)
        self.assertEqual((await chat.rpc.queue.pending_items()).items, [])
        await chat.abort()

    async def waiting(self, chat, count):
        return len((await chat.rpc.queue.pending_items()).items) == count

    async def test_schedules_are_listed(self):
        chat, _ = await self.session()
        self.assertEqual((await chat.rpc.schedule.list()).entries, [])

    async def test_sessions_are_forked_found_measured_and_deleted_by_the_server(self):
        client = await self.start()
        name = str(uuid.uuid4())
        chat, _ = await self.session(client, session_id=name)
        await ask(chat, "say one")
        fork = await client.rpc.sessions.fork(rpc.SessionsForkRequest(session_id=name))
        self.assertNotEqual(fork.session_id, name)
        found = await client.rpc.sessions.find_by_prefix(rpc.SessionsFindByPrefixRequest(prefix=name[:13]))
        self.assertEqual(found.session_id, name)
        self.assertGreater((await client.rpc.sessions.get_sizes()).sizes[name], 0)
        await client.rpc.sessions.close(rpc.SessionsCloseRequest(session_id=name))
        await client.rpc.sessions.bulk_delete(rpc.SessionsBulkDeleteRequest(session_ids=[name]))
        self.assertNotIn(name, [listed.session_id for listed in await client.list_sessions()])

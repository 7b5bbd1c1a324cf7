"""Capability 9: work that was pending, over resume, suspend and shutdown."""

import asyncio

from copilot import rpc
from copilot.tools import define_tool
from help import Test, ask, of_kind, until, wait_for
from pydantic import BaseModel


class Nothing(BaseModel):
    pass


class Pending(Test):
    async def test_a_tool_call_that_nobody_answered_is_answered_after_a_restart(self):
        called = asyncio.Event()

        @define_tool("slow", description="Never ends", skip_permission=True)
        async def slow(params: Nothing) -> str:
            called.set()
            await asyncio.Event().wait()

        first = await self.start()
        chat, events = await self.session(first, tools=[slow])
        await chat.send("call slow {}")
        await asyncio.wait_for(called.wait(), 20)
        asked = await wait_for(events, "external_tool.requested")
        await first.force_stop()

        again, seen = await self.resume(await self.start(), chat.session_id, tools=[slow], continue_pending_work=True)
        answer = rpc.HandlePendingToolCallRequest(request_id=asked.data.request_id, result="at last")

        async def answered():
            return (await again.rpc.tools.handle_pending_tool_call(answer)).success

        await until("the answer was taken", answered)
        await wait_for(seen, "session.idle")
        self.assertIn("at last", of_kind(seen, "tool.execution_complete")[-1].data.result.content)

    async def test_without_going_on_the_call_counts_as_interrupted(self):
        first = await self.start()
        chat, events = await self.session(first)
        await chat.send('call bash {"command":"sleep 60"}')
        await wait_for(events, "tool.execution_start")
        await first.force_stop()
        again, _ = await self.resume(await self.start(), chat.session_id)
        done = of_kind(await again.get_events(), "tool.execution_complete")[-1]
        self.assertFalse(done.data.success)
        self.assertEqual(await ask(again, "say goes on"), "goes on")

    async def test_a_suspended_session_comes_back(self):
        client = await self.start()
        chat, _ = await self.session(client)
        await ask(chat, "say before")
        await chat.rpc.suspend()
        again, _ = await self.resume(client, chat.session_id)
        self.assertEqual(await ask(again, "say after"), "after")

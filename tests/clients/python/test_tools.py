"""Capability 2: permissions, built-in tools, the SDK's own tools."""

from copilot.generated.rpc import PermissionDecisionReject
from copilot.tools import ToolResult, define_tool
from help import Test, ask, kinds, of_kind, wait_for
from pydantic import BaseModel


class City(BaseModel):
    city: str


class Tools(Test):
    async def test_a_built_in_tool_asks_and_runs(self):
        asked = []

        def decide(request, invocation):
            from help import approve_all

            asked.append(request)
            return approve_all(request, invocation)

        chat, events = await self.session(on_permission_request=decide)
        answer = await ask(chat, 'call bash {"command":"echo from the shell; touch made"}')
        self.assertIn("from the shell", answer)
        self.assertEqual(asked[0].full_command_text, "echo from the shell; touch made")
        done = await wait_for(events, "tool.execution_complete")
        self.assertTrue(done.data.success)
        self.assertIn("<exited with exit code 0>", done.data.result.content)

    async def test_a_rejection_ends_the_loop(self):
        chat, events = await self.session(on_permission_request=lambda *_: PermissionDecisionReject(feedback="no"))
        await chat.send('call bash {"command":"touch forbidden"} then say never said')
        await wait_for(events, "session.idle")
        self.assertNotIn("never said", [event.data.content for event in of_kind(events, "assistant.message")])

    async def test_an_own_tool_is_called_with_typed_arguments(self):
        @define_tool("weather", description="Tells the weather", skip_permission=True)
        def weather(params: City) -> str:
            return f"Sunny in {params.city}"

        chat, events = await self.session(tools=[weather])
        self.assertIn("Sunny in Oslo", await ask(chat, 'call weather {"city":"Oslo"}'))
        self.assertIn("external_tool.requested", kinds(events))

    async def test_what_a_raising_tool_says_is_hidden_from_the_model(self):
        @define_tool("weather", description="Tells the weather", skip_permission=True)
        def weather(params: City) -> str:
            raise RuntimeError("the secret is 42")

        chat, events = await self.session(tools=[weather])
        self.assertNotIn("42", await ask(chat, 'call weather {"city":"Rome"}'))
        self.assertFalse((await wait_for(events, "tool.execution_complete")).data.success)

    async def test_a_result_object_says_how_it_went(self):
        for result_type, success in [("success", True), ("failure", False), ("denied", False)]:

            @define_tool("weather", description="Tells the weather", skip_permission=True)
            def weather(params: City) -> ToolResult:
                return ToolResult(text_result_for_llm="as it is", result_type=result_type)

            chat, events = await self.session(tools=[weather])
            await ask(chat, 'call weather {"city":"Paris"}')
            self.assertEqual((await wait_for(events, "tool.execution_complete")).data.success, success)

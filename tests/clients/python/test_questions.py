"""Capability 8: ask_user, forms, commands, leaving plan mode, the end of a task."""

from copilot import rpc
from copilot.generated.session_events import SessionMode
from copilot.session import CommandDefinition
from help import Test, ask, of_kind, until, wait_for


class Questions(Test):
    async def test_ask_user_reaches_the_app_and_its_answer_the_model(self):
        asked = []

        def answer(request, _):
            asked.append(request)
            return {"answer": "blue", "wasFreeform": False}

        chat, events = await self.session(on_user_input_request=answer)
        self.assertIn("User selected: blue", await ask(chat, 'ask "Which colour?" choices red, blue'))
        self.assertEqual(asked[0]["choices"], ["red", "blue"])
        self.assertEqual(len(of_kind(events, "user_input.completed")), 1)

    async def test_forms_are_shown_by_the_app(self):
        shown = []

        def show(context):
            shown.append(context)
            return {"action": "accept", "content": {"name": "Ada"}}

        chat, events = await self.session(on_elicitation_request=show)
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = await chat.ui.elicitation({"message": "Who are you?", "requestedSchema": schema})
        self.assertEqual(answer["content"], {"name": "Ada"})
        self.assertEqual(shown[0]["message"], "Who are you?")
        await wait_for(events, "elicitation.completed")

    async def test_commands_of_the_app_are_carried_out(self):
        called = []
        chat, events = await self.session(commands=[CommandDefinition(name="deploy", handler=called.append, description="Ships it")])
        listed = await chat.rpc.commands.list(rpc.SessionCommandsListRequest())
        self.assertIn("deploy", [command.name for command in listed.commands])
        await chat.rpc.commands.execute(rpc.ExecuteCommandParams(command_name="deploy", args="to production"))
        await until("it was called", lambda: called)
        self.assertEqual((called[0].command_name, called[0].args), ("deploy", "to production"))
        await wait_for(events, "command.completed")

    async def test_the_end_of_a_task_is_told(self):
        chat, events = await self.session()
        await chat.rpc.mode.set(rpc.ModeSetRequest(mode=SessionMode.AUTOPILOT))
        await ask(chat, 'call task_complete {"summary":"All done"}')
        self.assertEqual((await wait_for(events, "session.task_complete")).data.summary, "All done")

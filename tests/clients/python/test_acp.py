"""Editors: the official client of the Agent Client Protocol for Python against `lodge acp`."""

import asyncio

import acp
from acp import schema
from acp.meta import AGENT_METHODS

from help import LODGE, Test, environment, until


class Editor(acp.Client):
    """What an editor shows, and what its person chooses."""

    def __init__(self, choice="allow-once"):
        self.choice = choice
        self.updates = []
        self.asked = []

    def on_connect(self, conn):
        pass

    async def request_permission(self, options, session_id, tool_call, **_):
        self.asked.append(tool_call)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    def told(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.told(kind))


class Owner(Editor):
    """An editor with a file that is not saved, and with forms."""

    def __init__(self):
        super().__init__()
        self.written = []
        self.forms = []

    async def read_text_file(self, session_id, path, **_):
        return schema.ReadTextFileResponse(content="unsaved text")

    async def write_text_file(self, session_id, path, content, **_):
        self.written.append((path, content))

    async def create_elicitation(self, message, mode, **_):
        self.forms.append(message)
        return schema.AcceptElicitationResponse(action="accept", content={"answer": "blue"})


class Acp(Test):
    def start(self, editor):
        """`lodge acp` with an editor at the other end."""
        env = environment(LODGE_HOME=str(self.home), LODGE_HOST_LINGER="3")
        return acp.spawn_agent_process(editor, LODGE, "acp", env=env, cwd=self.work, use_unstable_protocol=True)

    async def test_every_method(self):
        editor, cwd = Editor(), str(self.work)
        async with self.start(editor) as (agent, _):
            told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            self.assertEqual((told.protocol_version, told.agent_info.name), (1, "lodge"))
            await agent.authenticate(method_id="lodge-configuration")
            made = await agent.new_session(cwd=cwd, mcp_servers=[])
            id = made.session_id
            script = 'think about doors then call create {"path":"a","file_text":"x"} then say done'
            stopped = await agent.prompt(session_id=id, prompt=[acp.text_block(script)])
            self.assertEqual(stopped.stop_reason, "end_turn")
            self.assertEqual(editor.text(), "done")
            self.assertEqual(editor.text("agent_thought_chunk"), "Let me think about doors. There is much to say about doors.")
            self.assertEqual([call.title for call in editor.asked], ["Create a"])
            self.assertEqual((self.work / "a").read_text(), "x")
            listed = await agent.list_sessions(cwd=cwd)
            self.assertEqual([session.session_id for session in listed.sessions], [id])
            editor.updates.clear()
            await agent.load_session(cwd=cwd, session_id=id, mcp_servers=[])
            self.assertEqual(editor.text("user_message_chunk"), script)
            self.assertEqual(editor.text(), "done")
            await agent.set_session_mode(session_id=id, mode_id="plan")
            options = await agent.set_config_option(session_id=id, config_id="approval", value="all")
            chosen = {option.id: option.current_value for option in options.config_options}
            self.assertEqual((chosen["mode"], chosen["approval"]), ("plan", "all"))
            turn = asyncio.create_task(agent.prompt(session_id=id, prompt=[acp.text_block("say begun then wait 50 s")]))
            await until("the turn has begun", lambda: editor.text().endswith("begun"), 45)
            await agent.cancel(session_id=id)
            self.assertEqual((await turn).stop_reason, "cancelled")
            await agent.resume_session(cwd=cwd, session_id=id)
            await agent.close_session(session_id=id)
            with self.assertRaises(acp.RequestError) as failed:
                await agent.prompt(session_id=id, prompt=[acp.text_block("hello")])
            self.assertEqual(failed.exception.code, -32002)
            # The client has only the types of this method.
            request = schema.DeleteSessionRequest(session_id=id)
            params = request.model_dump(by_alias=True, exclude_none=True)
            await agent._conn.send_request(AGENT_METHODS["session_delete"], params)
            self.assertEqual((await agent.list_sessions(cwd=cwd)).sessions, [])

    async def test_two_editors_share_a_session(self):
        one, other, cwd = Editor(), Editor(), str(self.work)
        async with self.start(one) as (first, _), self.start(other) as (second, _):
            for agent in (first, second):
                await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            id = (await first.new_session(cwd=cwd, mcp_servers=[])).session_id
            await second.load_session(cwd=cwd, session_id=id, mcp_servers=[])
            await first.prompt(session_id=id, prompt=[acp.text_block("say to both")])
            await until("the other has it", lambda: other.text() == "to both", 45)
            self.assertEqual(other.text("user_message_chunk"), "say to both")
            self.assertEqual(one.text("user_message_chunk"), "")

    async def test_an_editor_has_files_and_forms(self):
        editor, cwd = Owner(), str(self.work)
        (self.work / "a").write_text("on disk")
        async with self.start(editor) as (agent, _):
            await agent.initialize(
                protocol_version=acp.PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(
                    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
                    elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()),
                ),
            )
            id = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
            script = 'call edit {"path":"a","old_str":"unsaved","new_str":"changed"} then call ask_user {"question":"Which?","choices":["red","blue"]}'
            stopped = await agent.prompt(session_id=id, prompt=[acp.text_block(script)])
            self.assertEqual(stopped.stop_reason, "end_turn")
            self.assertEqual(editor.written, [(str(self.work / "a"), "changed text")])
            self.assertEqual((self.work / "a").read_text(), "on disk", "the editor saves it")
            self.assertEqual(editor.forms, ["Which?"])
            self.assertIn("blue", editor.text())

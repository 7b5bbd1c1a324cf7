"""Capability 5: the session's state by methods. And what the user has set, runs and approves."""

from copilot import rpc
from copilot.generated.session_events import PermissionRule, SessionMode
from help import Test, ask, kinds, of_kind, until, wait_for


class State(Test):
    async def test_mode_plan_and_name_are_set_and_told(self):
        chat, events = await self.session()
        await chat.rpc.mode.set(rpc.ModeSetRequest(mode=SessionMode.PLAN))
        self.assertEqual(await chat.rpc.mode.get(), SessionMode.PLAN)
        await chat.rpc.plan.update(rpc.PlanUpdateRequest(content="# The plan"))
        self.assertEqual((await chat.rpc.plan.read()).content, "# The plan")
        await chat.rpc.plan.delete()
        self.assertFalse((await chat.rpc.plan.read()).exists)
        await chat.rpc.name.set(rpc.NameSetRequest(name="Mine"))
        self.assertEqual((await chat.rpc.name.get()).name, "Mine")
        for kind in ["session.mode_changed", "session.plan_changed", "session.title_changed"]:
            self.assertIn(kind, kinds(events))

    async def test_workspace_files_are_written_listed_and_read(self):
        chat, events = await self.session()
        await chat.rpc.workspaces.create_file(rpc.WorkspacesCreateFileRequest(path="a/b.txt", content="hello"))
        self.assertEqual((await chat.rpc.workspaces.list_files()).files, ["a/b.txt"])
        read = await chat.rpc.workspaces.read_file(rpc.WorkspacesReadFileRequest(path="a/b.txt"))
        self.assertEqual(read.content, "hello")
        await wait_for(events, "session.workspace_file_changed")

    async def test_metadata_usage_and_context_are_told(self):
        chat, _ = await self.session()
        await ask(chat, "report usage 1000 in 50 out 900 cached")
        snapshot = await chat.rpc.metadata.snapshot()
        self.assertEqual(snapshot.working_directory, str(self.work))
        self.assertFalse((await chat.rpc.metadata.is_processing()).processing)
        metrics = await chat.rpc.usage.get_metrics()
        self.assertEqual(sum(model.usage.input_tokens for model in metrics.model_metrics.values()), 1000)
        self.assertGreater((await chat.rpc.metadata.get_context_attribution()).context_attribution.total_tokens, 0)

    async def test_a_client_writes_into_the_log(self):
        chat, events = await self.session()
        for level, kind in [("info", "session.info"), ("warning", "session.warning"), ("error", "session.error")]:
            await chat.log("look here", level=level)
            self.assertEqual((await wait_for(events, kind)).data.message, "look here")

    async def test_an_app_that_asks_for_it_can_count_what_happens(self):
        told = []
        chat, _ = await self.session(await self.start(on_github_telemetry=told.append))
        await ask(chat, 'call bash {"command":"echo in secret"} then report usage 1000 in 50 out')
        await until("usage is told", lambda: any(one.event.metrics.get("inputTokens") == 1000 for one in told))
        self.assertEqual(told[0].event.kind, "session.start")
        self.assertEqual({(one.session_id, one.restricted) for one in told}, {(chat.session_id, False)})
        self.assertIn({"success": "true"}, [one.event.properties for one in told])
        self.assertNotIn("secret", str(told))

    async def test_todos_that_the_agent_notes_are_told(self):
        chat, events = await self.session()
        self.assertEqual((await chat.rpc.plan.read_sql_todos()).rows, [])
        query = "INSERT INTO todos (id, title) VALUES ('a', 'First'), ('b', 'Second'); INSERT INTO todo_deps VALUES ('b', 'a')"
        await ask(chat, 'call sql {"description":"Plan","query":"%s"}' % query)
        await wait_for(events, "session.todos_changed")
        todos = await chat.rpc.plan.read_sql_todos_with_dependencies()
        self.assertEqual([(row.id, row.title, row.status) for row in todos.rows], [("a", "First", "pending"), ("b", "Second", "pending")])
        self.assertEqual([(edge.todo_id, edge.depends_on) for edge in todos.dependencies], [("b", "a")])

    async def test_a_person_runs_commands_beside_the_agent(self):
        chat, events = await self.session()
        done = await chat.rpc.shell.execute_user_requested(
            rpc.ShellExecuteUserRequestedRequest(request_id="r1", command="echo by hand; exit 3")
        )
        self.assertEqual((done.success, done.exit_code, done.output.strip()), (False, 3, "by hand"))
        self.assertIn("tool.user_requested", kinds(events))
        self.assertIn("sent 2 messages", await ask(chat, "describe the request"))
        started = await chat.rpc.shell.exec(rpc.ShellExecRequest(command="sleep 60"))
        killed = await chat.rpc.shell.kill(rpc.ShellKillRequest(process_id=started.process_id))
        self.assertTrue(killed.killed)

    async def test_rules_decide_without_a_question(self):
        asked = []

        def decide(request, invocation):
            from help import approve_all

            asked.append(request)
            return approve_all(request, invocation)

        chat, events = await self.session(on_permission_request=decide)
        rule = PermissionRule(kind="shell", argument="touch")
        scope = rpc.PermissionsModifyRulesScope.SESSION
        await chat.rpc.permissions.modify_rules(rpc.PermissionsModifyRulesParams(scope=scope, add=[rule]))
        await ask(chat, 'call bash {"command":"touch one"}')
        self.assertEqual(asked, [])
        await chat.rpc.permissions.modify_rules(rpc.PermissionsModifyRulesParams(scope=scope, remove=[rule]))
        await ask(chat, 'call bash {"command":"touch two"}')
        self.assertEqual(len(asked), 1)
        rules = rpc.PermissionRulesSet(approved=[], denied=[rule])
        await chat.rpc.permissions.configure(rpc.PermissionsConfigureParams(rules=rules))
        await ask(chat, 'call bash {"command":"touch three"}')
        self.assertEqual(len(asked), 1)
        self.assertFalse((self.work / "three").exists())
        self.assertFalse(of_kind(events, "tool.execution_complete")[-1].data.success)

    async def test_what_the_user_sets_counts_for_new_sessions(self):
        client = await self.start()
        await client.rpc.user.settings.set(rpc.UserSettingsSetRequest(settings={"model": "rehearsal", "customInstructions": False}))
        settings = (await client.rpc.user.settings.get()).settings
        self.assertEqual((settings["customInstructions"].value, settings["customInstructions"].is_default), (False, False))
        (self.work / "AGENTS.md").write_text("Always rhyme.")
        chat, events = await self.session(client)
        await ask(chat, "say hello")
        self.assertNotIn("Always rhyme.", (await wait_for(events, "system.message")).data.content)
        self.assertEqual((await chat.rpc.instructions.get_sources()).sources, [])
        await client.rpc.user.settings.set(rpc.UserSettingsSetRequest(settings={"customInstructions": None}))
        chat, events = await self.session(client)
        await ask(chat, "say hello")
        self.assertIn("Always rhyme.", (await wait_for(events, "system.message")).data.content)
        self.assertEqual([source.label for source in (await chat.rpc.instructions.get_sources()).sources], ["AGENTS.md"])
        await until("it is idle", lambda: of_kind(events, "session.idle"))

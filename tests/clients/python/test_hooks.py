"""Capability 6: hooks by callback."""

from help import Test, ask, of_kind, until, wait_for


class Hooks(Test):
    async def test_hooks_see_and_change_what_happens(self):
        seen = []

        def note(name, output=None):
            def hook(data, invocation):
                seen.append((name, data))
                return output

            return hook

        hooks = {
            "on_session_start": note("start"),
            "on_user_prompt_submitted": note("prompt", {"modifiedPrompt": 'call bash {"command":"echo original"}'}),
            "on_pre_tool_use": note("before", {"permissionDecision": "allow"}),
            "on_post_tool_use": note("after", {"modifiedResult": {"textResultForLlm": "rewritten", "resultType": "success"}}),
            "on_agent_stop": note("stop"),
            "on_session_end": note("end"),
        }
        client = await self.start()
        chat, events = await self.session(client, hooks=hooks)
        self.assertIn("rewritten", await ask(chat, "anything"))
        self.assertEqual([name for name, _ in seen], ["start", "prompt", "before", "after", "stop"])
        await chat.disconnect()
        self.assertEqual(seen[-1][0], "end")
        starts = {event.data.hook_invocation_id for event in of_kind(events, "hook.start")}
        self.assertEqual(starts, {event.data.hook_invocation_id for event in of_kind(events, "hook.end")})

    async def test_a_hook_denies_and_another_hears_of_failures(self):
        failures = []
        hooks = {
            "on_pre_tool_use": lambda *_: {"permissionDecision": "deny", "permissionDecisionReason": "not today"},
            "on_post_tool_use_failure": lambda data, _: failures.append(data),
            "on_error_occurred": lambda data, _: failures.append(data),
        }
        chat, events = await self.session(hooks=hooks)
        await ask(chat, 'call bash {"command":"touch forbidden"} then say I could not')
        done = await wait_for(events, "tool.execution_complete")
        self.assertEqual(done.data.error.message, "Denied by preToolUse hook: not today")
        self.assertFalse((self.work / "forbidden").exists())
        await chat.send("fail with quota")
        await wait_for(events, "session.error")
        await until("both hooks have been called", lambda: len(failures) == 2)

    async def test_a_hook_keeps_the_agent_going(self):
        stops = []

        def stop(data, _):
            stops.append(data)
            return {"decision": "block", "reason": "say one more"} if len(stops) == 1 else None

        chat, events = await self.session(hooks={"on_agent_stop": stop})
        self.assertEqual(await ask(chat, "say first"), "one more")
        self.assertTrue(stops[1]["stopHookActive"])
        # The SDKs in other languages know it by the name on the wire only.
        asked = [event.data.input for event in of_kind(events, "hook.start") if event.data.hook_type == "agentStop"]
        self.assertEqual([given.get("stop_hook_active") for given in asked], [None, True])

"""Capability 4: streaming, the system message, models, attachments, headers."""

from help import ModelServer, Test, ask, of_kind, persisted, wait_for


class Streaming(Test):
    async def test_every_delta_comes_exactly_once_and_in_order(self):
        chat, events = await self.session(streaming=True)
        answer = await ask(chat, "stream 200 chunks")
        await wait_for(events, "session.idle")
        deltas = of_kind(events, "assistant.message_delta")
        self.assertEqual("".join(delta.data.delta_content for delta in deltas), answer)
        self.assertNotIn("assistant.message_delta", [event.type.value for event in persisted(events)])

    async def test_without_streaming_there_are_no_deltas(self):
        chat, events = await self.session(streaming=False)
        await ask(chat, "stream 20 chunks")
        self.assertEqual(of_kind(events, "assistant.message_delta"), [])

    async def test_the_system_message_can_be_added_to_replaced_and_transformed(self):
        with ModelServer() as server:
            provider = {"base_url": server.url, "api_key": "k"}
            seen = []

            def louder(content):
                seen.append(content)
                return content.upper()

            for message, holds in [
                ({"mode": "append", "content": "Speak Latin."}, lambda text: text.endswith("Speak Latin.")),
                ({"mode": "replace", "content": "Only this."}, lambda text: text == "Only this."),
                (
                    {
                        "mode": "customize",
                        "sections": {"identity": {"action": "replace", "content": "You are Ada."}, "tone": {"action": louder}},
                    },
                    lambda text: "You are Ada." in text and seen[0].upper() in text,
                ),
            ]:
                chat, _ = await self.session(provider=provider, model="m", system_message=message)
                await ask(chat, "hello")
                self.assertTrue(holds(server.bodies[-1]["messages"][0]["content"]), message)

    async def test_the_model_can_be_switched(self):
        with ModelServer() as server:
            chat, events = await self.session(provider={"base_url": server.url, "api_key": "k"}, model="one")
            await ask(chat, "hello")
            await chat.set_model("two")
            await ask(chat, "hello")
            self.assertEqual([body["model"] for body in server.bodies], ["one", "two"])
            self.assertEqual((await wait_for(events, "session.model_change")).data.new_model, "two")

    async def test_attachments_and_headers_reach_the_model(self):
        (self.work / "note.txt").write_text("one\ntwo\n")
        with ModelServer() as server:
            provider = {"base_url": server.url, "api_key": "k", "headers": {"x-of": "provider"}}
            chat, _ = await self.session(provider=provider, model="m")
            file = {"type": "file", "path": str(self.work / "note.txt"), "displayName": "note.txt"}
            await ask(chat, "read it", attachments=[file], request_headers={"x-of-this": "request"})
            self.assertIn("note.txt (2 lines)", server.bodies[-1]["messages"][-1]["content"])
            self.assertEqual(server.headers[-1]["x-of"], "provider")
            self.assertEqual(server.headers[-1]["x-of-this"], "request")

"""Capability 7: providers of the app's own."""

from copilot import rpc
from help import ModelServer, Test, ask


class Providers(Test):
    async def test_several_named_providers_serve_one_session(self):
        with ModelServer() as one, ModelServer() as two:
            chat, _ = await self.session(
                providers=[
                    {"name": "one", "type": "openai", "base_url": one.url, "api_key": "key-one"},
                    {"name": "two", "type": "openai", "base_url": two.url, "api_key": "key-two"},
                ],
                models=[{"provider": "one", "id": "m"}, {"provider": "two", "id": "m"}],
                model="one/m",
            )
            await ask(chat, "hello")
            await chat.set_model("two/m")
            await ask(chat, "hello")
            self.assertEqual(one.headers[-1]["authorization"], "Bearer key-one")
            self.assertEqual(two.headers[-1]["authorization"], "Bearer key-two")

    async def test_a_token_is_asked_for_before_every_request(self):
        tokens = []

        def token(_):
            tokens.append(f"token-{len(tokens)}")
            return tokens[-1]

        with ModelServer() as server:
            chat, _ = await self.session(provider={"base_url": server.url, "bearer_token_provider": token}, model="m")
            await ask(chat, "hello")
            await ask(chat, "hello")
            self.assertEqual([headers["authorization"] for headers in server.headers], ["Bearer token-0", "Bearer token-1"])

    async def test_the_endpoint_can_be_asked_for(self):
        with ModelServer() as server:
            chat, _ = await self.session(provider={"base_url": server.url, "api_key": "mine"}, model="m")
            endpoint = await chat.rpc.provider.get_endpoint(rpc.SessionProviderGetEndpointRequest())
            self.assertEqual((endpoint.base_url, endpoint.api_key), (server.url, "mine"))

// Capability 7: providers of models, per session and by name, tokens by callback.

import assert from "node:assert/strict";

import { ask, lastUser, modelServer, session, test, toolCall } from "./help.mjs";

test("several named providers serve one session, each with its own key", async ({ t, start }) => {
  const red = await modelServer(t, () => ({ content: "I am red" }));
  const blue = await modelServer(t, () => ({ content: "I am blue" }));
  const { session: chat } = await session(start(), {
    providers: [
      { name: "red", type: "openai", baseUrl: red.url, apiKey: "red-key" },
      { name: "blue", type: "openai", baseUrl: blue.url, apiKey: "blue-key", headers: { "x-colour": "blue" } },
    ],
    models: [
      { id: "r", provider: "red", wireModel: "red-large" },
      { id: "b", provider: "blue" },
    ],
    model: "red/r",
  });
  assert.equal(await ask(chat, "who are you?"), "I am red");
  await chat.setModel("blue/b");
  assert.equal(await ask(chat, "and now?"), "I am blue");
  assert.equal(red.requests[0].headers.authorization, "Bearer red-key");
  assert.equal(red.requests[0].body.model, "red-large");
  assert.equal(blue.requests[0].headers.authorization, "Bearer blue-key");
  assert.equal(blue.requests[0].headers["x-colour"], "blue");
  assert.ok(blue.requests[0].body.messages.some(({ content }) => content === "I am red"), "the conversation goes along");
});

test("a token is asked for before every request and never kept", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  let count = 0;
  const asked = [];
  const { session: chat } = await session(start(), {
    model: "m",
    provider: {
      type: "openai",
      baseUrl: server.url,
      bearerTokenProvider: async (args) => {
        asked.push(args);
        return `token-${(count += 1)}`;
      },
    },
  });
  await ask(chat, "one");
  await ask(chat, "two");
  assert.deepEqual(server.requests.map(({ headers }) => headers.authorization), ["Bearer token-1", "Bearer token-2"]);
  assert.equal(asked[0].sessionId, chat.sessionId);
});

test("tool calls go to the model and back, arguments letter for letter", async ({ t, start }) => {
  const args = { command: 'echo "quoted \\u00e9"   ' };
  const server = await modelServer(t, (body) =>
    body.messages.at(-1).role === "tool" ? { content: "done" } : toolCall("bash", args, "call_7"));
  const { session: chat } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url, apiKey: "k" } });
  assert.equal(await ask(chat, "go"), "done");
  const [, second] = server.requests;
  const [call] = second.body.messages.find(({ tool_calls }) => tool_calls).tool_calls;
  assert.equal(call.id, "call_7");
  assert.equal(call.function.arguments, JSON.stringify(args));
  const result = second.body.messages.at(-1);
  assert.equal(result.tool_call_id, "call_7");
  assert.match(result.content, /quoted/);
});

test("an Anthropic provider is spoken to in its own language", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    response.setHeader("content-type", "text/event-stream");
    const send = (data) => response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
    const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, content: [], stop_reason: null, usage: { input_tokens: 3, output_tokens: 0 } };
    send({ type: "message_start", message });
    send({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
    send({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello " } });
    send({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "there" } });
    send({ type: "content_block_stop", index: 0 });
    send({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } });
    send({ type: "message_stop" });
    response.end();
    return undefined;
  });
  const provider = { type: "anthropic", baseUrl: server.url.replace("/v1", ""), apiKey: "secret" };
  const { session: chat } = await session(start(), { model: "claude", provider, streaming: true });
  assert.equal(await ask(chat, "hi"), "Hello there");
  const { path, headers, body } = server.requests[0];
  assert.match(path, /\/v1\/messages$/);
  assert.equal(headers["x-api-key"], "secret");
  assert.match(lastUser(body), /hi/);
});

test("a secret key is never in the events", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    response.writeHead(401, { "content-type": "application/json" }).end('{"error":{"message":"bad key very-secret-key"}}');
    return undefined;
  });
  const { session: chat, events } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url, apiKey: "very-secret-key" } });
  await assert.rejects(ask(chat, "hi"));
  assert.doesNotMatch(JSON.stringify(events), /very-secret-key/);
});

test("the endpoint of a session's provider can be asked", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const { session: chat } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url, apiKey: "k" } });
  const endpoint = await chat.rpc.provider.getEndpoint();
  assert.equal(endpoint.type, "openai");
  assert.equal(endpoint.baseUrl, server.url);
});

// Capability 7: providers of models, per session and by name, tokens by callback.

import assert from "node:assert/strict";

import { defineTool } from "@github/copilot-sdk";

import { ask, environment, event, lastUser, modelServer, ofType, resume, session, test, toolCall, until } from "./help.mjs";

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

const SCHEMA = { type: "object", properties: { z: { type: "number" }, a: { type: "string" } }, required: ["z"] };
const answersByTool = (body, request, response, count) =>
  count === 1 ? { tool_calls: [{ id: "c1", type: "function", function: { name: "glob", arguments: '{"pattern":"*"}' } }] } : { content: "{}" };

test("the form of an answer goes to the provider, for the whole turn and no other", async ({ t, start }) => {
  const server = await modelServer(t, answersByTool);
  const { session: chat, events } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url } });
  const responseFormat = { type: "json_schema", jsonSchema: { name: "answer", schema: SCHEMA, strict: true } };
  await chat.rpc.send({ prompt: "in that form", responseFormat });
  await event(events, "session.idle");
  await ask(chat, "in any form");
  const formats = server.requests.map(({ body }) => body.response_format);
  const expected = { type: "json_schema", json_schema: { name: "answer", schema: SCHEMA, strict: true } };
  assert.deepEqual(formats, [expected, expected, undefined]);
  await assert.rejects(chat.rpc.send({ prompt: "now", mode: "immediate", responseFormat }), /immediate/);
});

test("a PDF is shown to the model, and what an answer takes from it is told", async ({ t, start }) => {
  const citation = {
    type: "page_location", cited_text: "It is so.", document_index: 0, document_title: "source.pdf", start_page_number: 2, end_page_number: 3,
  };
  const server = await modelServer(t, (body, request, response) => {
    const content = [{ type: "text", text: "Ünlike: " }, { type: "text", text: "it is so", citations: [citation] }, { type: "text", text: "." }];
    const usage = { input_tokens: 3, output_tokens: 3 };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ id: "msg_1", type: "message", role: "assistant", model: body.model, content, stop_reason: "end_turn", usage }));
  });
  const provider = { type: "anthropic", baseUrl: server.url, modelId: "claude-sonnet-5" };
  const { session: chat, events } = await session(start(), { model: "claude-sonnet-5", provider, enableCitations: true });
  const attachments = [{ type: "blob", data: "JVBERi0xLjQK", displayName: "source.pdf", mimeType: "application/pdf" }];
  assert.equal(await ask(chat, { prompt: "Is it so?", attachments }), "Ünlike: it is so.");
  const blocks = server.requests[0].body.messages.flatMap(({ content }) => content);
  assert.deepEqual(blocks.find(({ type }) => type === "document"), {
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data: "JVBERi0xLjQK" },
    title: "source.pdf",
    citations: { enabled: true },
    cache_control: { type: "ephemeral" },
  });
  const { data } = await event(events, "assistant.message");
  assert.deepEqual(data.citations, {
    sources: [{ id: "document_index-0", provider: "anthropic", title: "source.pdf" }],
    spans: [{
      startIndex: 8, endIndex: 16,
      references: [{
        sourceId: "document_index-0", providerMetadata: citation, citedText: "It is so.", location: { type: "page", startPage: 2, endPage: 2 },
      }],
    }],
  });
});

test("what a tool of the app found can be cited, and is cited as the app calls it", async ({ t, start }) => {
  const found = { id: "note-1", content: "Otters hold hands.", title: "Otters", path: "notes/otters.md" };
  const citation = {
    type: "search_result_location", cited_text: found.content, source: found.path, title: found.title,
    search_result_index: 0, start_block_index: 0, end_block_index: 1,
  };
  const server = await modelServer(t, (body, request, response) => {
    const asked = body.messages.length > 1;
    const content = asked
      ? [{ type: "text", text: "They do.", citations: [citation] }]
      : [{ type: "tool_use", id: "call_1", name: "notes", input: {} }];
    response.setHeader("content-type", "application/json");
    const usage = { input_tokens: 3, output_tokens: 3 };
    const stop_reason = asked ? "end_turn" : "tool_use";
    response.end(JSON.stringify({ id: "msg_1", type: "message", role: "assistant", model: body.model, content, stop_reason, usage }));
  });
  const provider = { type: "anthropic", baseUrl: server.url, modelId: "claude-sonnet-5" };
  const notes = defineTool("notes", {
    description: "Looks into the notes",
    parameters: { type: "object", properties: {} },
    handler: () => ({ textResultForLlm: "1 note", resultType: "success", citableSources: [found] }),
  });
  const { session: chat, events } = await session(start(), { model: "claude-sonnet-5", provider, enableCitations: true, tools: [notes] });
  assert.equal(await ask(chat, "Do otters hold hands?"), "They do.");
  const blocks = server.requests[1].body.messages.flatMap(({ content }) => content);
  assert.deepEqual(blocks.find(({ type }) => type === "tool_result").content, [
    { type: "text", text: "1 note" },
    {
      type: "search_result", source: found.path, title: found.title,
      content: [{ type: "text", text: found.content }], citations: { enabled: true },
    },
  ]);
  const done = await event(events, "tool.execution_complete");
  assert.deepEqual(done.data.result.citableSources, [found]);
  const said = ofType(events, "assistant.message").at(-1).data;
  assert.deepEqual(said.citations.sources, [{ id: "note-1", provider: "client", title: "Otters", path: "notes/otters.md" }]);
  assert.equal(said.citations.spans[0].references[0].sourceId, "note-1");
});

test("what the provider shall prefer when it chooses the model counts once it has chosen", async ({ t, start }) => {
  const choices = [];
  const server = await modelServer(t, (body, request, response) => {
    if (request.url === "/models") return void response.end('{"data":[{"id":"chosen"}]}');
    if (request.url !== "/auto") return { content: "ok" };
    choices.push(body.auto_tier);
    response.setHeader("content-type", "application/json");
    if (body.auto_tier === "intelligence") return void response.writeHead(500).end('{"error":{"message":"no"}}');
    response.end(JSON.stringify({ session_token: `token-${choices.length}`, selected_model: { id: "chosen" } }));
  });
  const options = { gitHubToken: "any", env: environment({ COPILOT_API_URL: server.url.replace("/v1", "") }) };
  const client = start(options);
  const { session: chat, events } = await session(client, { model: "auto", capi: { autoTier: "efficiency" } });
  const tiers = async (of = chat) => {
    const { autoTier, pendingAutoTier } = await of.rpc.model.getCurrent();
    return [autoTier, pendingAutoTier];
  };
  const asked = () => server.requests.findLast(({ path }) => path === "/chat/completions");
  assert.deepEqual(await tiers(), ["efficiency", undefined]);
  await ask(chat, "one");
  assert.equal(asked().body.model, "chosen");
  assert.equal(asked().headers["copilot-session-token"], "token-1");
  await ask(chat, "two");
  assert.deepEqual(choices, ["efficiency"], "it has chosen");

  const { switchAutoTier } = chat.rpc.model;
  const pending = { status: "pending", effectiveAutoTier: "efficiency" };
  assert.deepEqual(await switchAutoTier({ autoTier: "balance" }), { ...pending, pendingAutoTier: "balance" });
  assert.deepEqual(await switchAutoTier({ autoTier: null }), { ...pending, pendingAutoTier: null, supersededAutoTier: "balance" });
  assert.deepEqual(await switchAutoTier({ autoTier: "efficiency" }), {
    status: "unchanged", effectiveAutoTier: "efficiency", supersededAutoTier: null,
  });
  await switchAutoTier({ autoTier: "fast" });
  assert.deepEqual(await tiers(), ["efficiency", "fast"]);
  await ask(chat, "three");
  assert.deepEqual(await tiers(), ["fast", undefined]);
  const { data } = await event(events, "session.model_change", ({ data }) => data.autoTier);
  assert.deepEqual([data.previousModel, data.newModel, data.previousAutoTier, data.autoTier], ["auto", "auto", "efficiency", "fast"]);

  await switchAutoTier({ autoTier: "intelligence" });
  await ask(chat, "four");
  const failed = await event(events, "session.auto_tier_switch_failed");
  assert.deepEqual(failed.data, { effectiveAutoTier: "fast", requestedAutoTier: "intelligence", reason: "request_failed" });
  assert.deepEqual(await tiers(), ["fast", undefined]);
  assert.equal(asked().headers["copilot-session-token"], "token-2", "what was chosen before stays");
  await client.stop();
  const { session: again } = await resume(start(options), chat.sessionId);
  assert.deepEqual(await tiers(again), ["fast", undefined]);
});

test("a session that says nothing has the provider's first model and the host's login", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    if (request.url === "/models") return void response.end('{"data":[{"id":"zeta"},{"id":"auto"}]}');
    if (request.url !== "/copilot_internal/user") return { content: "ok" };
    return void response.end('{"login":"ada"}');
  });
  const url = server.url.replace("/v1", "");
  const env = environment({ COPILOT_API_URL: url, COPILOT_DEBUG_GITHUB_API_URL: url });
  const client = start({ gitHubToken: "any", env });
  const { session: chat } = await session(client);
  assert.equal((await chat.rpc.model.getCurrent()).modelId, "zeta");
  assert.equal((await chat.rpc.gitHubAuth.getStatus()).login, "ada");
  await client.deleteSession(chat.sessionId);
  await chat.disconnect();
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

/** An answer whose provider says what it cost. */
const costing = (cost) => (body, request, response) => {
  const choices = [{ index: 0, message: { role: "assistant", content: "done" }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, cost };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ id: "c", object: "chat.completion", created: 1, model: body.model, choices, usage }));
};

test("a session stops at its limit, unless somebody raises it", async ({ t, start }) => {
  const server = await modelServer(t, costing(20));
  const { session: chat, events } = await session(start(), {
    provider: { type: "openai", baseUrl: server.url },
    model: "m",
    sessionLimits: { maxAiCredits: 30 },
  });
  assert.equal((await event(events, "session.start")).data.sessionLimits.maxAiCredits, 30);
  for (const left of ["30", "10"]) {
    await ask(chat, "go on");
    assert.match(lastUser(server.requests.at(-1).body), new RegExp(`^<session_limits_status>\nRemaining session limits: ${left} AI credits\\.`));
  }
  await assert.rejects(ask(chat, "go on"), /has used 40 of the 30/);
  assert.equal(server.requests.length, 2);

  await chat.rpc.eventLog.registerInterest({ eventType: "session_limits_exhausted.requested" });
  await chat.send({ prompt: "go on" });
  const asked = await event(events, "session_limits_exhausted.requested");
  assert.deepEqual([asked.data.usedAiCredits, asked.data.maxAiCredits], [40, 30]);
  const response = { action: "add", additionalAiCredits: 15 };
  assert.equal((await chat.rpc.ui.handlePendingSessionLimitsExhausted({ requestId: asked.data.requestId, response })).success, true);
  await event(events, "session_limits_exhausted.completed");
  const changed = await event(events, "session.session_limits_changed");
  assert.equal(changed.data.sessionLimits.maxAiCredits, 45);
  await until("the model was asked", () => server.requests.length === 3);
  assert.match(lastUser(server.requests.at(-1).body), /Remaining session limits: 5 AI credits/);
});

test("a model that is rate limited is replaced by the provider's choice when the person agrees", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    if (body.model === "auto") return { content: "chosen for you" };
    response.writeHead(429, { "content-type": "application/json", "retry-after": "120" });
    response.end(JSON.stringify({ error: { code: "user_weekly_rate_limited", message: "Enough for this week." } }));
  });
  const provider = { type: "openai", baseUrl: server.url };
  const asked = [];
  let answer = "no";
  const { session: chat, events } = await session(start(), {
    provider,
    model: "m",
    onAutoModeSwitchRequest: (request) => {
      asked.push(request);
      return answer;
    },
  });
  await assert.rejects(ask(chat, "hello"), /Enough for this week/);
  await event(events, "session.idle");
  answer = "yes";
  assert.equal(await ask(chat, "hello"), "chosen for you");
  assert.deepEqual(asked.map(({ errorCode, retryAfterSeconds }) => [errorCode, retryAfterSeconds]), [
    ["user_weekly_rate_limited", 120],
    ["user_weekly_rate_limited", 120],
  ]);
  assert.deepEqual(ofType(events, "auto_mode_switch.completed").map(({ data }) => data.response), ["no", "yes"]);
  const change = await event(events, "session.model_change");
  assert.deepEqual([change.data.newModel, change.data.cause], ["auto", "rate_limit_auto_switch"]);
});

test("the Copilot API is told who asks, and apps are told how to reach it and GitHub's own MCP server", async ({ t, start }) => {
  const answers = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "gh", version: "1" } }),
    "tools/list": () => ({ tools: [{ name: "get_me", description: "Who", inputSchema: { type: "object" } }] }),
  };
  const server = await modelServer(t, (body, request, response) => {
    if (request.url === "/models") return void response.end('{"data":[{"id":"m"}]}');
    if (!request.url.startsWith("/mcp")) return { content: "ok" };
    if (request.method !== "POST") return void response.writeHead(405).end();
    if (body.id === undefined) return void response.writeHead(202).end();
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ jsonrpc: "2.0", id: body.id, result: answers[body.method]?.(body.params) ?? {} }));
  });
  const url = server.url.replace("/v1", "");
  const client = start({ gitHubToken: "gh-token", env: environment({ COPILOT_API_URL: url, GITHUB_COPILOT_INTEGRATION_ID: "my-app" }) });
  const { session: chat } = await session(client, { model: "m", clientName: "shown" });
  await ask(chat, "hello");
  const { headers: sent } = server.requests.find(({ path }) => path === "/chat/completions");
  const { headers, ...endpoint } = await chat.rpc.provider.getEndpoint({});
  assert.deepEqual(endpoint, { type: "openai", wireApi: "completions", baseUrl: url, apiKey: "gh-token", transport: "http" });
  assert.equal(headers["Copilot-Integration-Id"], "my-app");
  assert.match(headers["User-Agent"], /^shown lodge\/\S+ \(Copilot API\)$/);
  for (const name of ["Copilot-Integration-Id", "X-GitHub-Api-Version", "User-Agent", "Authorization"]) {
    assert.equal(headers[name], sent[name.toLowerCase()], name);
  }
  assert.ok(headers["X-Interaction-Id"] && sent["x-interaction-id"]);
  assert.deepEqual((await chat.rpc.mcp.list()).servers, [], "only who asks for what there is gets the server");

  const asked = () => server.requests.findLast(({ path }) => path.startsWith("/mcp"));
  for (const [githubMcpToolConfig, path, toolsets, tools] of [
    [undefined, "/mcp/readonly", undefined, undefined],
    [{ enableAllTools: true, additionalTools: ["get_me"] }, "/mcp", "all", undefined],
    [{ additionalToolsets: ["actions"], additionalTools: ["get_me"], enableInsidersMode: true }, "/mcp", "default,actions", "get_me"],
  ]) {
    const { session: chat } = await session(client, { model: "m", enableConfigDiscovery: true, githubMcpToolConfig });
    const { servers } = await chat.rpc.mcp.list();
    assert.deepEqual(servers.map(({ name, status, source }) => [name, status, source]), [["github-mcp-server", "connected", "builtin"]]);
    const { path: called, headers } = asked();
    assert.deepEqual([called, headers["x-mcp-toolsets"], headers["x-mcp-tools"]], [path, toolsets, tools]);
    assert.equal(headers["x-mcp-insiders"], githubMcpToolConfig?.enableInsidersMode ? "true" : undefined);
    assert.equal(headers.authorization, "Bearer gh-token");
    assert.deepEqual(await chat.rpc.mcp.removeGitHub(), { removed: true });
    assert.deepEqual(await chat.rpc.mcp.removeGitHub(), { removed: false });
    assert.deepEqual((await chat.rpc.mcp.list()).servers, []);
  }
});

test("an app gives out GitHub tokens on demand, and a session without one is not made", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    if (request.url === "/models") return void response.end('{"data":[{"id":"m"}]}');
    return { content: "ok" };
  });
  const client = start({ env: environment({ COPILOT_API_URL: server.url.replace("/v1", "") }) });
  const asked = [];
  const lives = [7200, 1800, 7200];
  const gitHubTokenProvider = ({ sessionId, reason }) => {
    asked.push([sessionId, reason]);
    return { kind: "token", accessToken: `token-${asked.length}`, expiresIn: lives.shift() };
  };
  const used = () => server.requests.findLast(({ path }) => path === "/chat/completions").headers.authorization;
  const { session: long } = await session(client, { model: "m", gitHubTokenProvider });
  await ask(long, "one");
  await ask(long, "two");
  assert.equal(used(), "Bearer token-1");
  assert.deepEqual(asked, [[long.sessionId, "initial"]], "one that lives long is kept");
  assert.equal((await long.rpc.gitHubAuth.getStatus()).isAuthenticated, true);
  asked.length = 0;
  const { session: short } = await session(client, { model: "m", gitHubTokenProvider });
  await ask(short, "three");
  assert.deepEqual(asked.map(([, reason]) => reason), ["initial", "refresh"]);
  assert.equal(used(), "Bearer token-2");
  const cancelled = { model: "m", gitHubTokenProvider: () => ({ kind: "cancelled" }) };
  await assert.rejects(session(client, cancelled), /no GitHub token for the session/);
});

// What MCP servers ask of the model: only when they may, with permission or by the app, and never for longer than the call.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { ask, event, modelServer, ofType, session, test, until } from "./help.mjs";
import { both, calls, test as seen, texts } from "./vscode.mjs";

const program = join(dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")), "dist/index.js");
const everything = (more = {}) => ({ command: process.execPath, args: [program, "stdio"], tools: ["*"], ...more });
const TOOL = "every-trigger-sampling-request";
const QUESTION = "Resource trigger-sampling-request context: what is it?";
const wish = (more = {}) => JSON.stringify({ prompt: "what is it?", maxTokens: 50, ...more });
const isSampling = (body) => JSON.stringify(body.messages).includes("context: what is it?") && !body.tools;

/** A model that calls the tool that asks, and answers what is asked. */
async function asking(t, answer = () => ({ content: "a teapot" })) {
  const model = await modelServer(t, (body, ...more) => {
    if (isSampling(body)) return answer(body, ...more);
    const last = body.messages.at(-1);
    if (last.role === "tool") return { content: `told: ${last.content}` };
    if (/go on|hello/.test(JSON.stringify(last.content))) return { content: "gone on" };
    return { tool_calls: [{ id: "c1", type: "function", function: { name: TOOL, arguments: wish() } }] };
  });
  const provider = { type: "openai", baseUrl: model.url, apiKey: "k" };
  return { model: "m", provider, requests: model.requests };
}

test("a server that may asks the model, after the person was asked", async ({ t, start }) => {
  const { requests, ...config } = await asking(t);
  const asked = [];
  const { session: chat, events } = await session(start(), {
    ...config,
    mcpServers: { every: everything({ sampling: true }) },
    onPermissionRequest: (request) => {
      asked.push(request);
      return { kind: "approve-once" };
    },
  });
  assert.match(await ask(chat, "please"), /told: LLM sampling result: [^]*a teapot/);
  const [, request] = asked;
  assert.equal(asked.length, 2);
  assert.deepEqual(
    { ...request, args: undefined },
    { kind: "mcp", serverName: "every", toolName: "sampling/createMessage", toolTitle: "Ask the model", args: undefined, readOnly: false },
  );
  assert.equal(request.args.messages[0].content.text, QUESTION);
  const requested = await event(events, "sampling.requested");
  const { requestId, mcpRequestId } = requested.data;
  assert.deepEqual(requested.data, { requestId, serverName: "every", mcpRequestId, request: request.args });
  assert.ok(requestId && mcpRequestId !== undefined && requested.ephemeral);
  const completed = await event(events, "sampling.completed");
  assert.deepEqual(completed.data, { requestId });
  const used = ofType(events, "assistant.usage").filter((usage) => usage.data.initiator);
  assert.deepEqual(used.map(({ data }) => [data.initiator, data.interactionType, data.outputTokens]), [["mcp-sampling", "conversation-sampling", 7]]);
  const sent = requests.filter(({ body }) => isSampling(body));
  assert.equal(sent.length, 1);
  assert.deepEqual(sent[0].body.messages.map(({ role }) => role), ["system", "user"], "nothing of the conversation");
  assert.equal(sent[0].body.max_tokens ?? sent[0].body.max_completion_tokens, 50);
  assert.equal(ofType(events, "assistant.message").length, 2, "it is no part of the conversation");
  const { totalUserRequests, modelMetrics } = await chat.rpc.usage.getMetrics();
  assert.equal(modelMetrics.m.requests.count, 3, JSON.stringify({ totalUserRequests, modelMetrics }));
});

test("a server that may not cannot ask, and one that was refused goes on without", async ({ t, start }) => {
  const { requests, ...config } = await asking(t);
  const client = start();
  const { session: mute } = await session(client, { ...config, mcpServers: { every: everything() } });
  await mute.rpc.mcp.list();
  const { tools } = await mute.rpc.mcp.listTools({ serverName: "every" });
  assert.ok(!tools.some(({ name }) => name.includes("sampling")), "the server knows that it may not");
  const { session: chat } = await session(client, {
    ...config,
    mcpServers: { every: everything({ sampling: true }) },
    onPermissionRequest: ({ toolName }) => ({ kind: toolName === "sampling/createMessage" ? "denied" : "approve-once" }),
  });
  assert.match(await ask(chat, "please"), /told: .*denied this tool call/);
  assert.equal(requests.filter(({ body }) => isSampling(body)).length, 0);
});

test("an app that wants to deals with it itself", async ({ t, start }) => {
  let hold;
  const { requests, ...config } = await asking(t, (_body, _request, response) => {
    if (!hold) return { content: "a teapot" };
    hold = { closed: new Promise((go) => response.on("close", go)) };
    return undefined;
  });
  const asked = [];
  const { session: chat, events } = await session(start(), {
    ...config,
    mcpServers: { every: everything() },
    onPermissionRequest: (request) => {
      asked.push(request.toolName);
      return { kind: "approve-once" };
    },
  });
  const { handle } = await chat.rpc.eventLog.registerInterest({ eventType: "sampling.requested" });
  const { mcp, ui } = chat.rpc;
  const next = async (count) => (await until(`there are ${count}`, () => ofType(events, "sampling.requested")[count - 1])).data;
  const idle = (count) => until(`idle ${count} times`, () => ofType(events, "session.idle").length === count);
  const answered = () => ofType(events, "assistant.message").at(-1).data.content;

  await chat.send({ prompt: "please" });
  const first = await next(1);
  const done = await mcp.executeSampling({ ...first, requestId: "mine" });
  assert.equal(done.action, "success");
  assert.deepEqual({ ...done.result.content, ...done.result, content: undefined }, {
    type: "text", text: "a teapot", role: "assistant", model: "m", stopReason: "endTurn", content: undefined,
  });
  const response = { ...done.result, content: { type: "text", text: "two teapots" } };
  assert.deepEqual(await ui.handlePendingSampling({ requestId: "other", response }), { success: false });
  assert.deepEqual(await ui.handlePendingSampling({ requestId: first.requestId, response }), { success: true });
  assert.deepEqual(await ui.handlePendingSampling({ requestId: first.requestId, response }), { success: false });
  await idle(1);
  assert.match(answered(), /two teapots/);

  await chat.send({ prompt: "please" });
  const second = await next(2);
  hold = {};
  const execution = mcp.executeSampling({ ...second, requestId: "held" });
  await until("the model is asked", () => "closed" in hold);
  assert.deepEqual(await mcp.cancelSamplingExecution({ requestId: "held" }), { cancelled: true });
  assert.deepEqual(await execution, { action: "cancelled" });
  assert.deepEqual(await mcp.cancelSamplingExecution({ requestId: "held" }), { cancelled: false });
  await hold.closed;
  assert.deepEqual(await ui.handlePendingSampling({ requestId: second.requestId }), { success: true });
  await idle(2);
  assert.match(answered(), /rejected/);
  const bad = await mcp.executeSampling({ ...second, request: {} });
  assert.equal(bad.action, "failure");
  assert.match(bad.error, /sampling request/);
  assert.ok(!asked.includes("sampling/createMessage"), "the app decides, so nobody else is asked");
  await chat.rpc.eventLog.releaseInterest({ handle });
});

test("what a server asks ends with the turn", async ({ t, start }) => {
  let closed;
  const { requests, ...config } = await asking(t, (_body, _request, response) => {
    closed = new Promise((go) => response.on("close", go));
    return undefined;
  });
  let held = true;
  const { session: chat, events } = await session(start(), {
    ...config,
    mcpServers: { every: everything({ sampling: true }) },
    onPermissionRequest: ({ toolName }) =>
      held && toolName === "sampling/createMessage" ? new Promise(() => {}) : { kind: "approve-once" },
  });
  const about = (type, count) => until(`${count} ${type}`, () => ofType(events, type).length === count);
  // First while the person is asked, then while the model is.
  for (const [count, begun] of [[1, () => ofType(events, "sampling.requested").length === 1], [2, () => closed !== undefined]]) {
    await chat.send({ prompt: "please" });
    await until("it is asked", begun);
    await chat.abort();
    await about("session.idle", count);
    await about("sampling.completed", count);
    await about("permission.completed", 2 * count);
    held = false;
  }
  await closed;
  assert.equal(await ask(chat, "go on"), "gone on");
});

seen("a window sees what a server wants of the model, and decides", async (place) => {
  const { requests, ...config } = await asking(place.t);
  const { made, events, chat } = await both(place, {
    ...config,
    mcpServers: { every: everything({ sampling: true }) },
    onPermissionRequest: ({ toolName }) => (toolName === "sampling/createMessage" ? { kind: "no-result" } : { kind: "approve-once" }),
  });
  await made.send({ prompt: "please" });
  const isAsked = ({ status, confirmationTitle }) => status === "pending-confirmation" && confirmationTitle === "Let every ask the model?";
  const question = await until("the window is asked", () => chat.shown.activeTurn && calls(chat.shown.activeTurn).find(isAsked));
  assert.match(JSON.stringify(question.toolInput), /what is it\?/);
  chat.say({ type: "chat/toolCallConfirmed", turnId: chat.shown.activeTurn.id, toolCallId: question.toolCallId, approved: true, confirmed: "user-action" });
  await until("the turn is over", () => !chat.shown.activeTurn && chat.shown.turns.length);
  const turn = chat.shown.turns.at(-1);
  assert.match(texts(turn), /a teapot/);
  assert.deepEqual(calls(turn).map(({ status }) => status), ["completed", "completed"]);
  assert.equal(ofType(events, "sampling.completed").length, 1);
});

test("what a server wishes of the answer reaches the model, also which model it is", async ({ t, start }) => {
  const model = await modelServer(t, () => ({ content: "a teapot" }));
  const { session: chat } = await session(start(), {
    providers: [{ name: "p", type: "openai", baseUrl: model.url, apiKey: "k" }],
    models: ["large", "small"].map((id) => ({ id, provider: "p" })),
    model: "p/large",
  });
  const sample = async (requestId, more) => {
    const request = { messages: [{ role: "user", content: { type: "text", text: "?" } }], maxTokens: 5, ...more };
    const { action } = await chat.rpc.mcp.executeSampling({ serverName: "s", mcpRequestId: requestId, requestId, request });
    assert.equal(action, "success");
    const { model: name, temperature, stop } = model.requests.at(-1).body;
    return { name, temperature, stop };
  };
  const hints = (...names) => ({ modelPreferences: { hints: names.map((name) => ({ name })) } });
  assert.deepEqual(await sample("1", { temperature: 0.5, stopSequences: ["END"] }), { name: "large", temperature: 0.5, stop: ["END"] });
  const none = { temperature: undefined, stop: undefined };
  assert.deepEqual(await sample("2", hints("nobody's", "SMALL")), { name: "small", ...none });
  assert.deepEqual(await sample("3", hints("p/")), { name: "large", ...none }, "the session's own goes first");
  assert.deepEqual(await sample("4", hints("nobody's")), { name: "large", ...none });
});

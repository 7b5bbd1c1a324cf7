// Turns from outside: waiting for their end, interrupting them, fleets; and the models that a session may use.

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ask, event, modelServer, ofType, session, test, until } from "./help.mjs";

test("a message that is to be waited for is answered when it is dealt with", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const { messageId } = await chat.rpc.send({ prompt: "say hello", wait: true });
  const said = events.find(({ type }) => type === "user.message");
  assert.equal(said.data.messageId, messageId);
  assert.equal(ofType(events, "session.idle").length, 1);
});

test("a turn is interrupted, and what works in the background goes on", async ({ start }) => {
  const { session: chat, events } = await session(start());
  assert.deepEqual(await chat.rpc.interruptMainTurn({}), { interrupted: false });
  const { agentId } = await chat.rpc.tasks.startAgent({ agentType: "task", prompt: 'call bash {"command":"sleep 60"}', name: "long" });
  const status = async () => (await chat.rpc.tasks.list()).tasks.find(({ id }) => id === agentId).status;
  await event(events, "tool.execution_start", ({ agentId: of }) => of === agentId);
  await chat.send({ prompt: 'call bash {"command":"sleep 60"}' });
  await event(events, "tool.execution_start", ({ agentId: of }) => of === undefined);
  await chat.send({ prompt: "say what waited" });
  assert.deepEqual(await chat.rpc.interruptMainTurn({ flushQueued: true }), { interrupted: true });
  await event(events, "assistant.message", ({ data }) => data.content === "what waited");
  assert.equal(await status(), "running");
  await event(events, "assistant.idle", ({ data }) => !data.aborted);
  await chat.send({ prompt: 'call bash {"command":"sleep 60"}' });
  await until("it runs", () => events.filter(({ type, agentId }) => type === "tool.execution_start" && !agentId).length === 2);
  await chat.send({ prompt: "say never said" });
  assert.deepEqual(await chat.rpc.interruptMainTurn({}), { interrupted: true });
  assert.equal(await status(), "running");
  assert.equal(await chat.rpc.cancelAllBackgroundAgents(), 1);
  assert.equal(await status(), "cancelled");
  assert.equal(await chat.rpc.cancelAllBackgroundAgents(), 0);
  await event(events, "session.idle");
  assert.ok(!ofType(events, "user.message").some(({ data }) => data.content === "say never said"));
});

test("a fleet is started by words that the person does not see", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "On it." }));
  const { session: chat, events } = await session(start(), { model: "m", provider: { type: "openai", baseUrl: server.url, apiKey: "k" } });
  assert.deepEqual(await chat.rpc.fleet.start({ prompt: "tidy up", wait: true }), { started: true });
  const [said] = ofType(events, "user.message");
  assert.equal(said.data.content, "tidy up");
  assert.match(said.data.transformedContent, /Work as a fleet.*What is wanted: tidy up/s);
  assert.match(JSON.stringify(server.requests[0].body.messages), /Work as a fleet/);
  assert.equal(ofType(events, "assistant.message")[0].data.content, "On it.");
});

test("a session uses only the models that it may", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const { session: chat, events } = await session(start(), {
    providers: [{ name: "p", type: "openai", baseUrl: server.url, apiKey: "k" }],
    models: ["a", "b", "c"].map((id) => ({ id, provider: "p" })),
    model: "p/a",
  });
  const { model } = chat.rpc;
  const ids = async () => (await model.list()).list.map(({ id }) => id);
  assert.ok((await ids()).includes("p/a"));
  for (const allowedModels of [[], ["nobody's"]]) {
    await assert.rejects(model.setAllowedModels({ allowedModels }), /at least one model/);
  }
  const allowedModels = ["p/b", "p/c"];
  assert.deepEqual(await model.setAllowedModels({ allowedModels: [" p/b ", "p/c", "p/b"] }), {
    allowedModels,
    effectiveAllowedModels: allowedModels,
    modelId: "p/b",
  });
  assert.deepEqual(await ids(), allowedModels);
  assert.equal(ofType(events, "session.model_change").at(-1).data.newModel, "p/b");
  await assert.rejects(chat.setModel("p/a"), /not allowed in this session/);
  await assert.rejects(chat.rpc.tasks.startAgent({ agentType: "task", prompt: "x", name: "y", model: "p/a" }), /not allowed/);
  await chat.setModel("p/c");
  await ask(chat, "hello");
  assert.equal(server.requests.at(-1).body.model, "c");
  assert.deepEqual(await model.setAllowedModels({ allowedModels: null }), { modelId: "p/c" });
  await chat.setModel("p/a");
});

test("a model that no list names may be the only one of a session", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const provider = { type: "openai", baseUrl: server.url };
  const { session: chat } = await session(start(), { model: "listed", provider });
  const allowed = await chat.rpc.model.setAllowedModels({ allowedModels: ["unlisted"] });
  assert.equal(allowed.modelId, "unlisted");
  await ask(chat, "hello");
  assert.equal(server.requests.at(-1).body.model, "unlisted");
  await assert.rejects(chat.setModel("listed"), /not allowed in this session/);
});

test("several messages are one turn, which answers the last of them", async ({ t, start }) => {
  const server = await modelServer(t, () => ({ content: "both" }));
  const provider = { type: "openai", baseUrl: server.url };
  const { session: chat, events } = await session(start(), { model: "m", provider });
  const { messageIds } = await chat.rpc.sendMessages({
    messages: [{ prompt: "first", source: "system" }, { prompt: "second", displayPrompt: "shown" }],
    wait: true,
  });
  assert.equal(server.requests.length, 1);
  const said = ofType(events, "user.message").map(({ data }) => data);
  assert.deepEqual(said.map(({ messageId }) => messageId), messageIds);
  assert.deepEqual(said.map(({ content }) => content), ["first", "shown"]);
  assert.equal(said[0].source, "system");
  assert.equal(ofType(events, "assistant.message")[0].data.originatingMessageId, messageIds[1]);
  const texts = server.requests[0].body.messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content));
  assert.match(texts.join("\n"), /first[\s\S]*second/);
  await assert.rejects(chat.rpc.sendMessages({ messages: [] }), /at least one/);
});

test("control from GitHub's pages is off, and what an app says of it is kept", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client);
  const { sessions } = client.rpc;
  const status = { state: "off" };
  assert.deepEqual(await sessions.getRemoteControlStatus(), { status });
  assert.deepEqual(await sessions.setRemoteControlSteering({ enabled: true }), { status });
  assert.deepEqual(await sessions.stopRemoteControl({}), { status, stopped: false });
  const move = { toSessionId: chat.sessionId };
  assert.deepEqual(await sessions.transferRemoteControl(move), { status, transferred: false });
  assert.deepEqual(await chat.rpc.remote.enable({ mode: "off" }), { remoteSteerable: false });
  await chat.rpc.remote.disable();
  await assert.rejects(chat.rpc.remote.enable({ mode: "on" }), /not available/);
  await chat.rpc.remote.notifySteerableChanged({ remoteSteerable: true });
  assert.equal((await event(events, "session.remote_steerable_changed")).data.remoteSteerable, true);
});

test("what options.update names is in force from then on", async ({ t, start, work }) => {
  const server = await modelServer(t, () => ({ content: "ok" }));
  const provider = { type: "openai", baseUrl: server.url };
  const { session: chat } = await session(start(), { model: "m", provider, sessionLimits: { maxAiCredits: 50 } });
  await mkdir(join(work, "skills/tidy"), { recursive: true });
  await writeFile(join(work, "skills/tidy/SKILL.md"), "---\nname: tidy\ndescription: Tidies up\n---\nTidy.");
  const names = async () => (await chat.rpc.skills.list()).skills.map(({ name }) => name);
  assert.ok(!(await names()).includes("tidy"));
  await chat.rpc.options.update({
    organizationCustomInstructions: "Speak of badgers.",
    skillDirectories: [join(work, "skills")],
    sessionLimits: null,
  });
  assert.ok((await names()).includes("tidy"));
  assert.equal((await chat.rpc.metadata.snapshot()).sessionLimits?.maxAiCredits ?? null, null);
  await ask(chat, "hello");
  assert.match(JSON.stringify(server.requests[0].body.messages[0]), /Speak of badgers/);
  await chat.rpc.options.update({ enableSkills: false });
  assert.deepEqual(await names(), []);
});

test("a session's first turn belongs to the span in which the session was made", async ({ start, work }) => {
  const path = join(work, "traces.jsonl");
  const [trace, span] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
  let asked = 0;
  const client = start({
    telemetry: { exporterType: "file", filePath: path },
    onGetTraceContext: () => ((asked += 1) === 1 ? { traceparent: `00-${trace}-${span}-01` } : {}),
  });
  const { session: chat } = await session(client);
  await ask(chat, "say hello");
  await ask(chat, "say more");
  await chat.disconnect();
  await client.stop();
  const spans = (await readFile(path, "utf8")).trim().split("\n").map((line) => JSON.parse(line));
  const agents = spans.filter(({ attributes }) => attributes["gen_ai.operation.name"] === "invoke_agent");
  assert.equal(agents.length, 2);
  assert.deepEqual([agents[0].traceId, agents[0].parentSpanId], [trace, span]);
  assert.notEqual(agents[1].parentSpanId, span);
});

test("what waits can be put in between, doubled, reworded and told at once", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const { queue } = chat.rpc;
  const waiting = async () => (await queue.pendingItems()).items.map(({ displayText }) => displayText);
  const said = () => ofType(events, "assistant.message").map(({ data }) => data.content).filter(Boolean);
  await queue.insertAt({ position: 3, message: { prompt: "say at once" } });
  await until("what comes to a session at rest is next", () => said().includes("at once"));
  await event(events, "session.idle");
  await chat.send({ prompt: 'call bash {"command":"sleep 60"}' });
  await event(events, "tool.execution_start");
  await chat.send({ prompt: "say two" });
  const { id: first } = await queue.insertAt({ position: -1, message: { prompt: "say one" } });
  assert.deepEqual(await waiting(), ["say one", "say two"]);
  const { id: second } = await queue.duplicateAt({ id: first });
  assert.deepEqual(await waiting(), ["say one", "say one", "say two"]);
  assert.deepEqual(await queue.updateText({ id: second, prompt: "say half", displayPrompt: "a half" }), { updated: true });
  assert.deepEqual(await queue.updateText({ id: second, prompt: "say half", displayPrompt: "a half" }), { updated: false });
  assert.deepEqual(await waiting(), ["say one", "a half", "say two"]);
  assert.deepEqual(await queue.sendNow({ id: second }), { steered: true });
  assert.deepEqual(await queue.pendingItems().then(({ steeringMessages }) => steeringMessages), ["a half"]);
  assert.deepEqual(await waiting(), ["say one", "say two"]);
  for (const [method, params] of [["sendNow", { id: second }], ["updateText", { id: second, prompt: "x" }]]) {
    assert.deepEqual(Object.values(await queue[method](params)), [false], method);
  }
  await assert.rejects(queue.duplicateAt({ id: "nobody's" }), /Queued item not found/);
  await assert.rejects(queue.insertAt({ position: 0, message: { prompt: "x", source: "system" } }), /cannot be queued/);
  assert.deepEqual(await chat.rpc.interruptMainTurn({ flushQueued: true }), { interrupted: true });
  await until("all of it is dealt with", () => said().length === 4);
  assert.deepEqual(said(), ["at once", "half", "one", "two"]);
});

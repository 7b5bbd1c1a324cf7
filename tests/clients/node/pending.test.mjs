// Capability 9: work that is pending when a client or the host goes away.

import assert from "node:assert/strict";

import { defineTool } from "@github/copilot-sdk";

import { RuntimeConnection, ask, checkChain, environment, event, lodge, ofType, resume, session, test, until } from "./help.mjs";

const never = () => new Promise(() => {});
const slow = (handler) => defineTool("slow", { description: "Takes its time", skipPermission: true, handler });

test("a permission that nobody answered is answered after a restart", async ({ start }) => {
  const first = start();
  const { session: chat, events } = await session(first, { onPermissionRequest: never });
  await chat.send({ prompt: 'call bash {"command":"echo allowed later"}' });
  const asked = await event(events, "permission.requested");
  await first.forceStop();
  const { session: again, events: more } = await resume(start(), chat.sessionId, { onPermissionRequest: never, continuePendingWork: true });
  const items = await until("it is asked again", async () => {
    const { items } = await again.rpc.permissions.pendingRequests();
    return items.length > 0 && items;
  });
  assert.deepEqual(items.map(({ requestId }) => requestId), [asked.data.requestId]);
  await again.rpc.permissions.handlePendingPermissionRequest({ requestId: asked.data.requestId, result: { kind: "approve-once" } });
  const done = await event(more, "tool.execution_complete");
  assert.match(done.data.result.content, /allowed later/);
  await event(more, "session.idle");
  checkChain(await again.getEvents());
});

test("a tool call that nobody answered is answered after a restart", async ({ start }) => {
  const first = start();
  const { session: chat, events } = await session(first, { tools: [slow(never)] });
  await chat.send({ prompt: "call slow {}" });
  const asked = await event(events, "external_tool.requested");
  await first.forceStop();
  const { session: again, events: more } = await resume(start(), chat.sessionId, { tools: [slow(never)], continuePendingWork: true });
  await again.rpc.tools.handlePendingToolCall({ requestId: asked.data.requestId, result: "at last" });
  const done = await event(more, "tool.execution_complete");
  assert.match(done.data.result.content, /at last/);
  const answer = await event(more, "assistant.message");
  assert.match(answer.data.content, /at last/);
});

test("without continuePendingWork the interrupted call is told as such", async ({ start }) => {
  const first = start();
  const { session: chat, events } = await session(first, { tools: [slow(never)] });
  await chat.send({ prompt: "call slow {}" });
  await event(events, "external_tool.requested");
  await first.forceStop();
  const { session: again } = await resume(start(), chat.sessionId);
  assert.equal(await ask(again, "say on we go"), "on we go");
  checkChain(await again.getEvents());
});

test("a pending call outlives its client, and a second answer is too late", async ({ t, start, home }) => {
  const client = start({ connection: RuntimeConnection.forTcp({ path: lodge }), env: environment({ COPILOT_HOME: home }) });
  const { session: chat, events } = await session(client, { tools: [slow(never)] });
  await chat.send({ prompt: "call slow {}" });
  const asked = await event(events, "external_tool.requested");
  const answer = { requestId: asked.data.requestId, result: "once" };
  assert.equal((await chat.rpc.tools.handlePendingToolCall(answer)).success, true);
  assert.equal((await chat.rpc.tools.handlePendingToolCall(answer)).success, false);
  await event(events, "session.idle");
  assert.equal(ofType(events, "tool.execution_complete").length, 1);
});

test("shutdown is written into the log, and the session can be resumed", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client);
  await ask(chat, "say hello");
  await chat.rpc.shutdown({ type: "routine" });
  const told = await event(events, "session.shutdown");
  assert.equal(told.data.shutdownType, "routine");
  const { session: again } = await resume(client, chat.sessionId);
  assert.equal(await ask(again, "say back again"), "back again");
  await until("both are in the log", async () => (await again.getEvents()).some(({ type }) => type === "session.resume"));
});

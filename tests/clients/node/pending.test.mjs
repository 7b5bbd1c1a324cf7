// Capability 9: work that is pending when a client or the host goes away.

import assert from "node:assert/strict";
import { join } from "node:path";

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

test("a permission that is taken up with nobody there is refused", async ({ start }) => {
  const first = start();
  const { session: chat, events } = await session(first, { onPermissionRequest: never });
  await chat.send({ prompt: 'call bash {"command":"echo never"} then say done' });
  const asked = await event(events, "permission.requested");
  await first.forceStop();
  const nobody = () => ({ kind: "user-not-available" });
  const { session: again, events: more } = await resume(start(), chat.sessionId, { onPermissionRequest: nobody, continuePendingWork: true });
  const done = await event(more, "tool.execution_complete");
  assert.equal(done.data.success, false);
  const late = { requestId: asked.data.requestId, result: { kind: "approve-once" } };
  assert.equal((await again.rpc.permissions.handlePendingPermissionRequest(late)).success, false);
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

test("a session that an app ends because of an error says so", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client);
  await ask(chat, "say hello");
  await assert.rejects(chat.rpc.shutdown({ type: "perhaps" }), /'routine' or 'error'/);
  await chat.rpc.shutdown({ type: "error", reason: "out of tea" });
  const { data } = await event(events, "session.shutdown");
  assert.deepEqual([data.shutdownType, data.errorReason, data.totalPremiumRequests], ["error", "out of tea", 0]);
  assert.ok(!Object.is(data.totalPremiumRequests, -0));
});

test("a permission decision that nobody knows is refused, so the SDK gives another one", async ({ start, work }) => {
  const { session: chat, events } = await session(start(), { onPermissionRequest: () => ({ kind: "perhaps" }) });
  assert.equal(await ask(chat, `call create ${JSON.stringify({ path: join(work, "a"), file_text: "x" })} then say went on`), "went on");
  const [done] = ofType(events, "tool.execution_complete");
  assert.equal(done.data.error.code, "denied");
});

test("a session whose only client died waits in its log: a question is answered by whoever comes, or closed", async ({ start, home }) => {
  const env = environment({ COPILOT_HOME: home });
  const server = start({ connection: RuntimeConnection.forTcp({ path: lodge, connectionToken: "t" }), env });
  await server.start();
  const join = () => start({ connection: RuntimeConnection.forUri(`localhost:${server.runtimePort}`, { connectionToken: "t" }) });
  const observer = start();
  await observer.start();
  const inUse = async (id) => (await observer.rpc.sessions.checkInUse({ sessionIds: [id] })).inUse.includes(id);
  for (const continuePendingWork of [true, false]) {
    const client = join();
    const { session: chat, events } = await session(client, { tools: [slow(never)] });
    await chat.send({ prompt: "call slow {}" });
    const { requestId } = (await event(events, "external_tool.requested")).data;
    await until("another process sees that it works", () => inUse(chat.sessionId));
    await client.forceStop();
    await until("it does not hold the session any more", async () => !(await inUse(chat.sessionId)));

    // Nobody who has the tool is back; the question is known all the same.
    const { session: again, events: more } = await resume(join(), chat.sessionId, { continuePendingWork });
    const resumed = await event(await again.getEvents(), "session.resume");
    assert.equal(resumed.data.sessionWasActive, false);
    const answered = await again.rpc.tools.handlePendingToolCall({ requestId, result: "from another" });
    assert.equal(answered.success, continuePendingWork);
    if (continuePendingWork) {
      const answer = await event(more, "assistant.message");
      assert.match(answer.data.content, /from another/);
      await event(more, "session.idle");
    }
    assert.match(await ask(again, "say on we go"), /on we go/);
    assert.deepEqual(await observer.rpc.sessions.releaseLock({ sessionId: chat.sessionId }), {});
    checkChain(await again.getEvents());
  }
});

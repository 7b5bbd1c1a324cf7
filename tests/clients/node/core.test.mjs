// Capability 1: the core loop, lifecycle notifications, status, models, list, metadata, last, delete, resume, abort.

import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";

import { ask, checkChain, event, log, ofType, persisted, resume, session, test, types, until } from "./help.mjs";

test("a client starts the binary, connects and pings", async ({ start }) => {
  const client = start();
  await client.start();
  const pong = await client.ping("are you there");
  assert.equal(pong.message, "pong: are you there");
  assert.equal(pong.protocolVersion, 3);
  assert.ok(!Number.isNaN(Date.parse(pong.timestamp)));
  assert.deepEqual(await client.stop(), []);
});

test("status, login state and models can be asked without a login", async ({ start }) => {
  const client = start();
  await client.start();
  const status = await client.getStatus();
  assert.equal(status.protocolVersion, 3);
  assert.match(status.version, /^\d+\.\d+\.\d+/);
  const auth = await client.getAuthStatus();
  assert.equal(typeof auth.isAuthenticated, "boolean");
  const models = await client.listModels();
  const rehearsal = models.find((model) => model.id === "rehearsal");
  assert.ok(rehearsal, `rehearsal is among ${models.map((model) => model.id)}`);
  assert.ok(rehearsal.capabilities.limits.max_context_window_tokens > 0);
  assert.equal(typeof rehearsal.capabilities.supports.vision, "boolean");
});

test("a prompt is answered and the turn's events come in order", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client, { streaming: true });
  assert.equal(await ask(chat, "say hello there"), "hello there");
  await event(events, "session.idle");
  const order = [
    "session.start",
    "user.message",
    "assistant.turn_start",
    "assistant.message_start",
    "assistant.message_delta",
    "assistant.message",
    "assistant.turn_end",
    "session.idle",
  ];
  const places = order.map((type) => types(events).indexOf(type));
  assert.deepEqual(places, [...places].sort((a, b) => a - b), `${types(events)}`);
  assert.ok(!places.includes(-1), `${order} in ${types(events)}`);
  assert.equal(events.at(-1).type, "session.idle");
  checkChain(events);
  const deltas = ofType(events, "assistant.message_delta").map((delta) => delta.data.deltaContent);
  assert.equal(deltas.join(""), "hello there");
  assert.equal(ofType(events, "assistant.turn_start")[0].data.turnId, "0");
});

test("send returns the id that the user message carries", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const id = await chat.send({ prompt: "say yes" });
  const message = await event(events, "user.message");
  assert.equal(message.data.content, "say yes");
  assert.equal(message.data.messageId, id);
  const answer = await event(events, "assistant.message");
  assert.equal(answer.data.originatingMessageId, id);
});

test("a session keeps the id it was created with, and the log is in its directory", async ({ start, home }) => {
  const { session: chat, events } = await session(start(), { sessionId: "my-own-id" });
  assert.equal(chat.sessionId, "my-own-id");
  await ask(chat, "say kept");
  await event(events, "session.idle");
  // Beside these the log holds events of Lodge's own, which are marked ephemeral and not sent to clients that did not ask.
  assert.deepEqual(persisted(await log(home, "my-own-id")), persisted(events));
});

test("getEvents gives the persisted events", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say one");
  await event(events, "session.idle");
  const told = await chat.getEvents();
  assert.deepEqual(told, persisted(events));
  checkChain(told);
});

test("a second prompt continues the conversation", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say the first");
  assert.equal(await ask(chat, "say the second"), "the second");
  assert.equal(ofType(events, "user.message").length, 2);
  assert.deepEqual(ofType(events, "assistant.turn_start").map((turn) => turn.data.turnId), ["0", "0"]);
  checkChain(events);
});

test("prompts sent while busy wait for their turn", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.send({ prompt: "wait 200 ms then say first" });
  await chat.send({ prompt: "say second" });
  await until("both were answered", () => ofType(events, "assistant.message").length === 2);
  assert.deepEqual(ofType(events, "assistant.message").map((answer) => answer.data.content), ["first", "second"]);
});

test("a session resumes in a new process with its history", async ({ start }) => {
  const first = start();
  const { session: chat, events } = await session(first);
  await ask(chat, "say remember me");
  await event(events, "session.idle");
  await first.stop();
  const { session: again, events: more } = await resume(start(), chat.sessionId);
  assert.equal(again.sessionId, chat.sessionId);
  const told = await again.getEvents();
  assert.deepEqual(types(told).slice(0, persisted(events).length), types(persisted(events)));
  assert.equal(await ask(again, "say I do"), "I do");
  assert.ok(ofType(more, "assistant.message").length === 1, "history is not sent again as events");
  checkChain(await again.getEvents());
});

test("resuming what does not exist is an error that says so", async ({ start }) => {
  const client = start();
  await client.start();
  await assert.rejects(client.resumeSession("no-such-session", {}), /Session not found: no-such-session/);
});

test("abort ends a turn with abort and idle, and the session goes on", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await chat.send({ prompt: "slowly 20 ms, stream 2000 chunks" });
  await event(events, "assistant.message_delta");
  await chat.abort();
  const idle = await event(events, "session.idle");
  assert.equal(idle.data.aborted, true);
  assert.ok(types(events).indexOf("abort") < types(events).indexOf("session.idle"));
  assert.equal(await ask(chat, "say still alive"), "still alive");
  checkChain(await chat.getEvents());
});

test("sessions are listed once they have a message, newest first, and can be filtered", async ({ start, work }) => {
  const client = start();
  const { session: empty } = await session(client);
  const { session: one } = await session(client, { workingDirectory: work });
  await ask(one, "say one");
  const { session: two } = await session(client);
  await ask(two, "say two");
  const listed = await client.listSessions();
  const ids = listed.map((found) => found.sessionId);
  assert.deepEqual(ids, [two.sessionId, one.sessionId]);
  assert.ok(!ids.includes(empty.sessionId));
  assert.ok(listed[0].startTime instanceof Date);
  assert.equal(listed[1].context.workingDirectory, work);
  assert.equal(listed[0].isRemote, false);
  assert.equal((await client.listSessions({ workingDirectory: "/nowhere" })).length, 0);
  assert.equal(await client.getLastSessionId(), two.sessionId);
});

test("metadata of one session", async ({ start }) => {
  const client = start();
  const { session: chat } = await session(client);
  await ask(chat, "say something to remember");
  const found = await client.getSessionMetadata(chat.sessionId);
  assert.equal(found.sessionId, chat.sessionId);
  assert.ok(found.modifiedTime >= found.startTime);
  assert.equal(await client.getSessionMetadata("no-such-session"), undefined);
});

test("a deleted session is gone from the list and the disk", async ({ start, home }) => {
  const client = start();
  const { session: chat } = await session(client);
  await ask(chat, "say goodbye");
  await chat.disconnect();
  await client.deleteSession(chat.sessionId);
  assert.deepEqual(await client.listSessions(), []);
  await assert.rejects(access(join(home, "session-state", chat.sessionId)));
  await assert.rejects(client.resumeSession(chat.sessionId, {}), /Session not found/);
});

test("lifecycle notifications tell of created, updated and deleted sessions", async ({ start }) => {
  const client = start();
  const told = [];
  client.onLifecycle((notification) => told.push(notification));
  await client.start();
  const { session: chat } = await session(client);
  await ask(chat, "say hello");
  await chat.disconnect();
  await client.deleteSession(chat.sessionId);
  const mine = () => told.filter((notification) => notification.sessionId === chat.sessionId).map(({ type }) => type);
  await until("all three were told", () => mine().includes("session.deleted"));
  assert.equal(mine()[0], "session.created");
  assert.ok(mine().includes("session.updated"));
});

test("there is no foreground session in a host without a terminal", async ({ start }) => {
  const client = start();
  await client.start();
  assert.equal(await client.getForegroundSessionId(), undefined);
  await assert.rejects(client.setForegroundSessionId("x"), /Not running in TUI\+server mode/);
});

test("a method that is not served says so and the connection lives on", async ({ start }) => {
  const client = start();
  const { session: chat } = await session(client);
  await assert.rejects(chat.connection.sendRequest("catalog.search", {}), (error) => error.code === -32601 || /Unhandled method/.test(error.message));
  assert.equal(await ask(chat, "say alive"), "alive");
});

test("an error of the model reaches the client and the session goes on", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.send({ prompt: "fail with authentication" });
  const error = await event(events, "session.error");
  assert.equal(error.data.errorType, "authentication");
  assert.equal(error.data.statusCode, 401);
  await event(events, "session.idle");
  assert.equal(await ask(chat, "say recovered"), "recovered");
});

test("reasoning is told beside the answer", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  assert.equal(await ask(chat, "think about doors then say They open."), "They open.");
  const thought = await event(events, "assistant.reasoning");
  assert.match(thought.data.content, /doors/);
  const deltas = ofType(events, "assistant.reasoning_delta").map((delta) => delta.data.deltaContent);
  assert.equal(deltas.join(""), thought.data.content);
});

test("twenty sessions at once do not get in each other's way", async ({ start }) => {
  const client = start();
  const chats = await Promise.all(Array.from({ length: 20 }, () => session(client, { streaming: true })));
  const answers = await Promise.all(chats.map(({ session: chat }, n) => ask(chat, `say I am number ${n}`)));
  assert.deepEqual(answers, chats.map((_, n) => `I am number ${n}`));
  for (const { events } of chats) checkChain(events);
});

test("after a shutdown everything is in the log and nothing more is served", async ({ start, home }) => {
  const client = start();
  const { session: chat } = await session(client);
  await ask(chat, "say hello");
  await client.rpc.runtime.shutdown();
  assert.equal((await log(home, chat.sessionId)).at(-1).type, "session.shutdown");
  await assert.rejects(client.rpc.user.settings.reload(), /shut down/);
});

// Capabilities 10 to 12: compaction, truncation, rewind; event log and queue; sessions by server methods.

import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { RuntimeConnection, ask, checkChain, event, ofType, persisted, resume, session, test, types } from "./help.mjs";

test("history can be compacted into a summary that the model gets instead", async ({ start }) => {
  const { session: chat, events } = await session(start());
  for (const n of [1, 2, 3]) await ask(chat, `say answer number ${n}`);
  const result = await chat.rpc.history.compact();
  assert.equal(result.success, true);
  const complete = await event(events, "session.compaction_complete");
  assert.equal(complete.data.success, true);
  assert.ok(types(events).indexOf("session.compaction_start") < types(events).indexOf("session.compaction_complete"));
  assert.equal(await ask(chat, "say after it"), "after it");
  checkChain(await chat.getEvents());
});

test("history can be cut off before an event", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say kept");
  await ask(chat, "say cut");
  const second = ofType(events, "user.message")[1];
  const { eventsRemoved } = await chat.rpc.history.truncate({ eventId: second.id });
  assert.ok(eventsRemoved > 0);
  const told = await chat.getEvents();
  assert.ok(!told.some(({ id }) => id === second.id));
  assert.equal(await ask(chat, "say went on"), "went on");
  checkChain(await chat.getEvents());
});

test("Copilot's own runtime takes up a session that was rewound, and sees what Lodge sees", async ({ t, start, home }) => {
  const own = `@github/copilot-sdk-${process.platform}-${process.arch}`;
  let path;
  try {
    const at = dirname(createRequire(import.meta.url).resolve(`${own}/package.json`));
    path = join(at, "prebuilds", `${process.platform}-${process.arch}`, "copilot-runtime");
    await access(path);
  } catch (error) {
    if (process.env.LODGE_REQUIRE_CLIENTS) throw error;
    return t.skip(`${own} holds no runtime`);
  }
  const client = start();
  const { session: chat, events } = await session(client);
  await ask(chat, "say kept");
  await ask(chat, "say open sesame");
  const second = ofType(events, "user.message")[1];
  const { outcome } = await chat.rpc.history.rewind({ eventId: second.id, mode: "conversation" });
  assert.equal(outcome, "success");
  await ask(chat, "say went on");
  const said = (told) => told.filter(({ type }) => type.endsWith(".message")).map(({ type, data }) => [type, data.content]);
  const expected = said(await chat.getEvents());
  assert.equal(expected.length, 5);
  const id = chat.sessionId;
  await client.stop();
  const log = await readFile(join(home, "session-state", id, "events.jsonl"), "utf8");
  assert.ok(!log.includes("open sesame") && !log.includes("lodge.rewound"));
  const runtime = start({ connection: RuntimeConnection.forStdio({ path }) });
  const nobody = { type: "openai", baseUrl: "http://127.0.0.1:9/v1", apiKey: "none" };
  const { session: again } = await resume(runtime, id, { model: "m", provider: nobody });
  assert.deepEqual(said(await again.getEvents()), expected);
  await runtime.stop();
  // And back: what the runtime wrote is no reason to doubt the log.
  const { session: third } = await resume(start(), id);
  assert.deepEqual(said(await third.getEvents()), expected);
  assert.equal(await ask(third, "say back again"), "back again");
});

test("the event log is read page by page and followed from its end", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say one");
  await event(events, "session.idle");
  const all = persisted(events);
  const read = [];
  let cursor;
  for (;;) {
    const page = await chat.rpc.eventLog.read({ cursor, max: 3 });
    assert.ok(page.events.length <= 3);
    read.push(...page.events);
    cursor = page.cursor;
    if (!page.hasMore) break;
  }
  assert.deepEqual(persisted(read).map(({ id }) => id), all.map(({ id }) => id));
  const { cursor: tail } = await chat.rpc.eventLog.tail();
  await ask(chat, "say two");
  const news = await chat.rpc.eventLog.read({ cursor: tail, max: 100 });
  assert.ok(news.events.some(({ type, data }) => type === "assistant.message" && data.content === "two"));
  assert.ok(!news.events.some(({ id }) => id === all[0].id));
});

test("waiting messages can be looked at and taken back", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await chat.send({ prompt: "slowly 10 ms, stream 300 chunks" });
  await event(events, "assistant.message_delta");
  await chat.send({ prompt: "say first in line" });
  await chat.send({ prompt: "say second in line" });
  const { items } = await chat.rpc.queue.pendingItems();
  assert.equal(items.length, 2);
  assert.equal((await chat.rpc.queue.removeMostRecent()).removed, true);
  await chat.rpc.queue.clear();
  assert.equal((await chat.rpc.queue.pendingItems()).items.length, 0);
  await chat.abort();
  await event(events, "session.idle");
  assert.deepEqual(ofType(events, "user.message").length, 1);
});

test("a session is forked, found by its beginning, measured and pruned by server methods", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client, { sessionId: "original-session" });
  await ask(chat, "say before the fork");
  await event(events, "session.idle");
  const { sessionId } = await client.rpc.sessions.fork({ sessionId: chat.sessionId });
  assert.notEqual(sessionId, chat.sessionId);
  const { session: fork } = await resume(client, sessionId);
  const answers = async (one) => ofType(await one.getEvents(), "assistant.message").map(({ data }) => data.content);
  assert.equal(await ask(fork, "say only here"), "only here");
  assert.deepEqual(await answers(fork), ["before the fork", "only here"]);
  assert.deepEqual(await answers(chat), ["before the fork"]);
  const found = await client.rpc.sessions.findByPrefix({ prefix: "original" });
  assert.equal(found.sessionId, "original-session");
  const { sessions } = await client.rpc.sessions.list({});
  assert.equal(sessions.length, 2);
  const { sizes } = await client.rpc.sessions.getSizes();
  assert.ok(sizes["original-session"] > 0);
});

test("session limits end a turn before they are passed", async ({ start }) => {
  const { session: chat } = await session(start(), { sessionLimits: { maxAiCredits: 1_000_000 } });
  assert.equal(await ask(chat, "say within the limits"), "within the limits");
});

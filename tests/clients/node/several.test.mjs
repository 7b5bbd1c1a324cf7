// Capability 3: TCP, the connection token, several clients on one session.

import assert from "node:assert/strict";
import { createConnection } from "node:net";

import { defineTool } from "@github/copilot-sdk";

import { RuntimeConnection, ask, bare, checkChain, event, host, lodge, ofType, persisted, resume, session, test, to, until } from "./help.mjs";

test("the SDK starts a TCP host itself, with a token it made", async ({ start }) => {
  const { session: chat } = await session(start({ connection: RuntimeConnection.forTcp({ path: lodge }) }));
  assert.equal(await ask(chat, "say over TCP"), "over TCP");
});

test("a host is reached by its address, and leaving it leaves it running", async ({ t, start, home }) => {
  const { url } = await host(t, home);
  const first = start({ ...bare, ...to(url) });
  const { session: chat } = await session(first);
  assert.equal(await ask(chat, "say hello"), "hello");
  assert.deepEqual(await first.stop(), []);
  const second = start({ ...bare, ...to(url) });
  await second.start();
  assert.equal((await second.listSessions())[0].sessionId, chat.sessionId);
});

test("a wrong or missing connection token is refused", async ({ t, start, home }) => {
  const { url } = await host(t, home, { token: "open sesame" });
  for (const token of [undefined, "wrong"]) {
    await assert.rejects(start({ ...bare, ...to(url, token) }).start(), /AUTHENTICATION_FAILED/);
  }
  const client = start({ ...bare, ...to(url, "open sesame") });
  await client.start();
  assert.equal((await client.ping()).message, "pong");
});

test("both clients of a session get all its events", async ({ t, start, home }) => {
  const { url } = await host(t, home);
  const { session: mine, events: seenByMe } = await session(start({ ...bare, ...to(url) }), { streaming: true });
  const { events: seenByYou, session: yours } = await resume(start({ ...bare, ...to(url) }), mine.sessionId, { streaming: true });
  await ask(mine, "stream 20 chunks");
  await event(seenByYou, "session.idle");
  await ask(yours, "say from the other side");
  await until("both saw both turns", () => [seenByMe, seenByYou].every((seen) => ofType(seen, "session.idle").length === 2));
  const turn = (events) => events.slice(events.findIndex(({ type }) => type === "user.message")).map(({ id }) => id);
  assert.deepEqual(turn(seenByYou), turn(seenByMe));
  checkChain(seenByMe);
});

test("the first answer to a permission request wins and both hear of it", async ({ t, start, home }) => {
  const { url } = await host(t, home);
  let asked = 0;
  const never = () => {
    asked += 1;
    return { kind: "no-result" };
  };
  const { session: mine, events: seenByMe } = await session(start({ ...bare, ...to(url) }), { onPermissionRequest: never });
  const { events: seenByYou } = await resume(start({ ...bare, ...to(url) }), mine.sessionId, {
    onPermissionRequest: () => ({ kind: "approve-once" }),
  });
  await ask(mine, 'call bash {"command":"touch allowed-by-the-other"}');
  for (const seen of [seenByMe, seenByYou]) {
    const done = await event(seen, "permission.completed");
    assert.equal(done.data.result.kind, "approved");
  }
  assert.equal(asked, 1);
});

test("tools are the union over the clients and go with their client", async ({ t, start, home }) => {
  const { url } = await host(t, home);
  const tool = (name) => defineTool(name, { description: name, skipPermission: true, handler: () => `${name} answers` });
  const { session: mine } = await session(start({ ...bare, ...to(url) }), { tools: [tool("apple")] });
  const other = start({ ...bare, ...to(url) });
  const { session: yours, events } = await resume(other, mine.sessionId, { tools: [tool("pear")] });
  assert.match(await ask(mine, "call apple {} and pear {}"), /apple answers.*pear answers/s);
  await event(events, "session.idle");
  assert.match(await ask(yours, "describe the request"), /apple.*pear|pear.*apple/s);
  await other.stop();
  await until("the tool is gone", async () => !/pear/.test(await ask(mine, "describe the request")));
  assert.match(await ask(mine, "call apple {}"), /apple answers/);
});

test("a client that vanishes does not end the turn", async ({ t, start, home }) => {
  const { url } = await host(t, home);
  const first = start({ ...bare, ...to(url) });
  const { session: chat, events } = await session(first, { streaming: true });
  await chat.send({ prompt: "slowly 5 ms, stream 100 chunks" });
  await event(events, "assistant.message_delta");
  await first.forceStop();
  const { session: again } = await resume(start({ ...bare, ...to(url) }), chat.sessionId);
  await until("the turn ended without us", async () => (await again.getEvents()).some(({ type }) => type === "assistant.message"));
});

test("bytes that are no frames end their connection and nothing else", async ({ t, start, home }) => {
  const { url, port } = await host(t, home);
  const { session: chat } = await session(start({ ...bare, ...to(url) }));
  for (const rubbish of ["GET / HTTP/1.1\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length: 99999999999\r\n\r\n{", "Content-Length: 3\r\n\r\n{]}"]) {
    const socket = createConnection({ port, host: "127.0.0.1" });
    socket.on("error", () => {});
    socket.write(rubbish);
    await new Promise((go) => setTimeout(go, 50));
    socket.destroy();
  }
  assert.equal(await ask(chat, "say untouched"), "untouched");
});

test("an unknown option fails as the SDK expects", async ({ start }) => {
  const client = start({ connection: RuntimeConnection.forStdio({ path: lodge, args: ["--no-such-option"] }) });
  await assert.rejects(client.start(), /unknown option '--no-such-option'/);
});

test("kill -9 in the middle of a turn loses nothing that a client saw", async ({ t, start, home }) => {
  const { child, url } = await host(t, home);
  const { session: chat, events } = await session(start({ ...bare, ...to(url) }), { streaming: true });
  await chat.send({ prompt: 'call bash {"command":"echo kept"} then slowly 2 ms, stream 2000 chunks' });
  await event(events, "assistant.message_delta");
  child.kill("SIGKILL");
  const { url: next } = await host(t, home);
  const { session: again } = await resume(start({ ...bare, ...to(next) }), chat.sessionId);
  const log = await again.getEvents();
  const ids = new Set(log.map(({ id }) => id));
  assert.deepEqual(persisted(events).filter(({ id }) => !ids.has(id)), []);
  assert.equal(await ask(again, "say and on it goes"), "and on it goes");
  checkChain(await again.getEvents());
});

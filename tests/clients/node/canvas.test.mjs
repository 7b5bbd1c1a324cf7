// Canvases: panels that an app provides, opened by the app and by the model, and open again after a restart.

import assert from "node:assert/strict";

import { createCanvas } from "@github/copilot-sdk";

import { RuntimeConnection, ask, event, lodge, log, ofType, resume, session, test, types, until } from "./help.mjs";

/** A counter that notes what it is asked for. */
function counter(url = "http://127.0.0.1:1/counter") {
  const calls = [];
  const canvas = createCanvas({
    id: "counter",
    displayName: "Counter",
    description: "Counts.",
    actions: [
      {
        name: "increment",
        description: "Counts more.",
        handler: ({ instanceId, input }) => {
          calls.push(["increment", instanceId, input]);
          return { value: 42 };
        },
      },
    ],
    open: ({ instanceId, input }) => {
      calls.push(["open", instanceId, input]);
      return { url, title: "The counter", status: "ready" };
    },
    onClose: ({ instanceId }) => void calls.push(["close", instanceId]),
  });
  return { canvas, calls };
}

const canvasProvider = { id: "app", name: "The app" };

/** The names of the open canvases. */
const open = async (chat) => (await chat.rpc.canvas.listOpen()).openCanvases.map(({ instanceId }) => instanceId).sort();

test("a canvas is opened, used and closed, and the log knows which are open", async ({ start, home }) => {
  const client = start();
  const { canvas, calls } = counter();
  const { session: chat, events } = await session(client, { canvases: [canvas], canvasProvider });
  const { canvases } = await chat.rpc.canvas.list();
  assert.equal(canvases.length, 1);
  const { canvasId, extensionId, extensionName, displayName, actions } = canvases[0];
  assert.deepEqual([canvasId, extensionId, extensionName, displayName], ["counter", "app", "The app", "Counter"]);
  assert.deepEqual(actions.map(({ name }) => name), ["increment"]);

  const input = { start: 1 };
  const opened = await chat.rpc.canvas.open({ canvasId: "counter", instanceId: "c-1", input });
  assert.deepEqual([opened.url, opened.title, opened.status], ["http://127.0.0.1:1/counter", "The counter", "ready"]);
  assert.deepEqual((await event(events, "session.canvas.opened")).data.input, input);
  assert.deepEqual((await chat.rpc.canvas.listOpen()).openCanvases.map(({ instanceId }) => instanceId), ["c-1"]);

  const done = await chat.rpc.canvas.action.invoke({ instanceId: "c-1", actionName: "increment", input: { by: 5 } });
  assert.deepEqual(done.result, { value: 42 });
  await assert.rejects(chat.rpc.canvas.action.invoke({ instanceId: "c-1", actionName: "nosuch" }), /no action 'nosuch'/);
  await assert.rejects(chat.rpc.canvas.open({ canvasId: "nosuch", instanceId: "c-2" }), /Canvas not found: nosuch/);
  await assert.rejects(chat.rpc.canvas.close({ instanceId: "nosuch" }), /Canvas instance not found: nosuch/);

  await chat.rpc.canvas.close({ instanceId: "c-1" });
  assert.deepEqual(calls, [["open", "c-1", input], ["increment", "c-1", { by: 5 }], ["close", "c-1"]]);
  assert.deepEqual((await chat.rpc.canvas.listOpen()).openCanvases, []);
  await event(events, "session.canvas.closed");
  const written = types(await log(home, chat.sessionId)).filter((type) => type.startsWith("session.canvas."));
  assert.deepEqual(written, ["session.canvas.recorded", "session.canvas.removed"]);
});

test("the model opens and uses canvases where the app shows them, and nowhere else", async ({ start }) => {
  const client = start();
  const { canvas, calls } = counter();
  const config = { canvases: [canvas], canvasProvider, requestCanvasRenderer: true };
  const { session: chat, events } = await session(client, config);
  assert.equal(chat.capabilities.ui.canvases, true);
  const open = 'call open_canvas {"canvasId":"counter","instanceId":"m-1"} then say opened';
  assert.equal(await ask(chat, open), "opened");
  const use = 'call invoke_canvas_action {"instanceId":"m-1","actionName":"increment","input":{"by":2}} then say used';
  assert.equal(await ask(chat, use), "used");
  assert.equal(await ask(chat, "call list_canvas_capabilities {} then say listed"), "listed");
  assert.deepEqual(calls, [["open", "m-1", undefined], ["increment", "m-1", { by: 2 }]]);
  const results = ofType(events, "tool.execution_complete").map(({ data }) => JSON.parse(data.result.content));
  assert.equal(results[0].url, "http://127.0.0.1:1/counter");
  assert.deepEqual(results[1], { result: { value: 42 } });
  assert.deepEqual(results[2].openCanvases.map(({ instanceId }) => instanceId), ["m-1"]);

  const { session: other } = await session(client, { canvases: [canvas] });
  await ask(other, "say hello");
  const { tools } = await other.rpc.tools.getCurrentMetadata();
  assert.ok(!tools.some(({ name }) => name === "open_canvas"));
});

test("open canvases outlive the app and the host", async ({ start }) => {
  const first = start();
  const before = counter();
  const { session: chat } = await session(first, { canvases: [before.canvas], canvasProvider });
  await chat.rpc.canvas.open({ canvasId: "counter", instanceId: "c-1", input: { start: 3 } });
  await ask(chat, "say hello");
  await first.forceStop();

  const after = counter("http://127.0.0.1:2/counter");
  const config = { canvases: [after.canvas], canvasProvider };
  const { session: again, events } = await resume(start(), chat.sessionId, config);
  const { data } = await event(events, "session.canvas.opened");
  assert.deepEqual([data.instanceId, data.url], ["c-1", "http://127.0.0.1:2/counter"]);
  assert.deepEqual(after.calls, [["open", "c-1", { start: 3 }]]);
  const { openCanvases } = await again.rpc.canvas.listOpen();
  assert.deepEqual(openCanvases.map(({ instanceId, url }) => [instanceId, url]), [["c-1", "http://127.0.0.1:2/counter"]]);
});

test("an abort leaves no canvas half open", async ({ start, home }) => {
  const { canvas } = counter();
  let asked, answer;
  const isAsked = new Promise((go) => (asked = go));
  canvas.open = () => (asked(), new Promise((go) => (answer = () => go({ url: "http://127.0.0.1:1/late" }))));
  const config = { canvases: [canvas], canvasProvider, requestCanvasRenderer: true };
  const { session: chat, events } = await session(start(), config);
  await chat.send({ prompt: 'call open_canvas {"canvasId":"counter","instanceId":"m-1"} then say opened' });
  await isAsked;
  await chat.abort();
  await event(events, "session.idle", ({ data }) => data.aborted);
  answer();
  assert.equal((await event(events, "session.canvas.opened")).data.url, "http://127.0.0.1:1/late");
  assert.deepEqual(await open(chat), ["m-1"]);
  assert.ok(types(await log(home, chat.sessionId)).includes("session.canvas.recorded"));
});

test("there are limits to what is open, and no name is empty", async ({ start }) => {
  const { canvas } = counter();
  const { session: chat } = await session(start(), { canvases: [canvas], canvasProvider });
  const show = (instanceId, input) => chat.rpc.canvas.open({ canvasId: "counter", instanceId, input });
  await assert.rejects(show("big", "x".repeat(64 * 1024)), /the limit is 65536/);
  await assert.rejects(show(""), /`instanceId` is empty/);
  const names = Array.from({ length: 101 }, (_, at) => `c-${at}`);
  const results = await Promise.allSettled(names.map((name) => show(name)));
  const refused = results.filter(({ status }) => status === "rejected");
  assert.deepEqual(refused.map(({ reason }) => /100 canvases are open/.test(reason.message)), [true]);
  const all = await open(chat);
  assert.equal(all.length, 100);
  await show(all[0]);
  await chat.rpc.canvas.close({ instanceId: all[0] });
  await show("another");
});

test("a provider that hangs when a canvas is closed holds nothing up", async ({ start }) => {
  const { canvas } = counter();
  canvas.onClose = () => new Promise(() => {});
  const { session: chat, events } = await session(start(), { canvases: [canvas], canvasProvider });
  await chat.rpc.canvas.open({ canvasId: "counter", instanceId: "c-1" });
  await chat.rpc.canvas.close({ instanceId: "c-1" });
  assert.deepEqual(await open(chat), []);
  await event(events, "session.canvas.closed");
});

test("what a provider says wrongly takes nothing else along", async ({ start }) => {
  const { canvas } = counter();
  canvas.open = () => ({ url: "http://127.0.0.1:1/counter", title: 5, status: "ready" });
  delete canvas.declaration.description;
  const client = start();
  const { session: chat } = await session(client, { canvases: [canvas], canvasProvider: { id: "connection:1" } });
  const [{ extensionId, description }] = (await chat.rpc.canvas.list()).canvases;
  assert.equal(description, "Counter");
  assert.match(extensionId, /^connection:.{36}$/);
  const opened = await chat.rpc.canvas.open({ canvasId: "counter", instanceId: "c-1" });
  assert.deepEqual([opened.url, opened.title, opened.status], ["http://127.0.0.1:1/counter", undefined, "ready"]);
  await ask(chat, "say hello");

  const fits = { instanceId: "c-2", extensionId: "app", canvasId: "counter" };
  const openCanvases = [{ instanceId: 7 }, { ...fits, instanceId: "" }, fits];
  const { session: again } = await resume(client, chat.sessionId, { openCanvases });
  assert.deepEqual(await open(again), ["c-1", "c-2"]);
});

test("canvases of a provider that is there twice go on with the attachment that is left", async ({ start, work }) => {
  const connection = RuntimeConnection.forTcp({ path: lodge, connectionToken: "t" });
  const first = start({ connection, workingDirectory: work });
  await first.start();
  const mine = counter();
  const { session: chat, events } = await session(first, { canvases: [mine.canvas], canvasProvider });
  await chat.rpc.canvas.open({ canvasId: "counter", instanceId: "c-1" });
  await ask(chat, "say hello");
  const second = start({ connection: RuntimeConnection.forUri(`localhost:${first.runtimePort}`, { connectionToken: "t" }) });
  const other = counter("http://127.0.0.1:2/counter");
  const { session: same } = await resume(second, chat.sessionId, { canvases: [other.canvas], canvasProvider });
  assert.equal((await same.rpc.canvas.list()).canvases.length, 1);
  await same.rpc.canvas.open({ canvasId: "counter", instanceId: "c-2" });
  assert.deepEqual(other.calls, [["open", "c-2", undefined]]);
  await second.forceStop();
  await until("the first one has it", () => mine.calls.some(([what, name]) => what === "open" && name === "c-2"));
  await event(events, "session.canvas.opened", ({ data }) => data.instanceId === "c-2" && data.url.includes(":1/"));
  assert.deepEqual(ofType(events, "session.canvas.unavailable"), []);

  const anew = counter("http://127.0.0.1:3/counter");
  const { events: later } = await resume(first, chat.sessionId, { canvases: [anew.canvas], canvasProvider });
  for (const name of ["c-1", "c-2"]) {
    await event(later, "session.canvas.opened", ({ data }) => data.instanceId === name && data.url.includes(":3/"));
  }
  assert.deepEqual(anew.calls.map(([, name]) => name).sort(), ["c-1", "c-2"]);
});

test("canvases are closed and opened again with a conversation that is taken back and put back", async ({ start }) => {
  const client = start();
  const { canvas, calls } = counter();
  const { session: chat, events } = await session(client, { canvases: [canvas], canvasProvider });
  const show = (instanceId) => chat.rpc.canvas.open({ canvasId: "counter", instanceId });
  await ask(chat, "say first");
  await show("kept");
  await ask(chat, "say second");
  await show("c-1");
  await chat.rpc.canvas.close({ instanceId: "kept" });
  const { points } = await chat.rpc.history.listRewindPoints();
  calls.length = 0;
  await chat.rpc.history.rewind({ eventId: points[1].eventId, mode: "conversation" });
  await event(events, "session.canvas.closed", ({ data }) => data.instanceId === "c-1");
  await until("the provider did both", () => calls.length === 2);
  assert.deepEqual(calls.sort(), [["close", "c-1"], ["open", "kept", undefined]]);
  assert.deepEqual(await open(chat), ["kept"]);

  // What is opened meanwhile does not stand in the way.
  await show("meanwhile");
  calls.length = 0;
  await chat.rpc.commands.invoke({ name: "undo" });
  await until("the provider did all", () => calls.length === 3);
  assert.deepEqual(calls.sort(), [["close", "kept"], ["close", "meanwhile"], ["open", "c-1", undefined]]);
  assert.deepEqual(await open(chat), ["c-1"]);
});

// Canvases: panels that an app provides, opened by the app and by the model, and open again after a restart.

import assert from "node:assert/strict";

import { createCanvas } from "@github/copilot-sdk";

import { ask, event, log, ofType, resume, session, test, types } from "./help.mjs";

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

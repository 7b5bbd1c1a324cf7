// What the tests share: a home of its own per test, clients that end with their test, events that are collected.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, mkdir, rm, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test as nodeTest } from "node:test";

import { CopilotClient, RuntimeConnection, approveAll } from "@github/copilot-sdk";

export { RuntimeConnection, approveAll };

export const lodge = process.env.LODGE_BIN;
assert.ok(lodge, "LODGE_BIN names the binary to test");

/** A test with its own home and working directory, and a limit that only a hang reaches. */
export function test(name, body) {
  nodeTest(name, { timeout: 60_000 }, async (t) => {
    const dir = await mkdtemp(join(tmpdir(), "lodge-node-"));
    const place = { home: join(dir, "home"), work: join(dir, "work") };
    await mkdir(place.work);
    const clients = [];
    const start = (options = {}) => {
      const client = new CopilotClient({
        connection: RuntimeConnection.forStdio({ path: lodge }),
        workingDirectory: place.work,
        baseDirectory: place.home,
        env: environment(),
        ...options,
      });
      clients.push(client);
      return client;
    };
    try {
      await body({ t, ...place, start });
    } finally {
      await Promise.allSettled(clients.map((client) => client.forceStop()));
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
}

/** Nothing of this machine's configuration but the path to its programs. */
export function environment(more = {}) {
  return { PATH: process.env.PATH, HOME: tmpdir(), ...more };
}

/** A host on a port of its own choice. */
export async function host(t, home, { token } = {}) {
  const child = spawn(lodge, ["--headless", "--no-auto-update", "--port", "0"], {
    cwd: join(home, "..", "work"),
    env: environment({ COPILOT_HOME: home, ...(token ? { COPILOT_CONNECTION_TOKEN: token } : {}) }),
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /listening on port (\d+)/.exec(line)?.[1];
    if (port) return { child, port: Number(port), url: `127.0.0.1:${port}` };
  }
  throw new Error("the host ended without naming its port");
}

export const to = (url, connectionToken) => ({ connection: RuntimeConnection.forUri(url, { connectionToken }) });

/** Only what a client that connects by address may say. */
export const bare = { workingDirectory: undefined, baseDirectory: undefined, env: undefined };

/** A session that allows everything and collects its events from the first on. */
export async function session(client, config = {}) {
  const events = [];
  const made = await client.createSession({
    onPermissionRequest: approveAll,
    ...config,
    onEvent: (event) => {
      events.push(event);
      config.onEvent?.(event);
    },
  });
  return { session: made, events };
}

/** Like `session`, for one that exists. */
export async function resume(client, id, config = {}) {
  const events = [];
  const made = await client.resumeSession(id, {
    onPermissionRequest: approveAll,
    ...config,
    onEvent: (event) => events.push(event),
  });
  return { session: made, events };
}

/** Sends a prompt and returns the text of the last answer. */
export async function ask(session, prompt) {
  const answer = await session.sendAndWait(typeof prompt === "string" ? { prompt } : prompt, 30_000);
  return answer?.data.content;
}

/** Waits until something is true. */
export async function until(what, holds, limit = 45_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await holds();
    if (found) return found;
    assert.ok(Date.now() < end, `waited in vain until ${what}`);
    await new Promise((go) => setTimeout(go, 5));
  }
}

/** The first event of a type that fits, waited for. */
export function event(events, type, fits = () => true) {
  return until(`there is ${type}`, () => events.find((event) => event.type === type && fits(event)));
}

export const types = (events) => events.map((event) => event.type);
export const ofType = (events, type) => events.filter((event) => event.type === type);
export const persisted = (events) => events.filter((event) => !event.ephemeral);

/** Each event's parent is the last persisted one before it. */
export function checkChain(events, from = null) {
  let last = from;
  const seen = new Set();
  for (const event of events) {
    assert.match(event.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, event.type);
    assert.ok(!seen.has(event.id), `${event.type} came twice`);
    seen.add(event.id);
    assert.match(event.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.equal(event.parentId, last, `parent of ${event.type}`);
    assert.notEqual(event.ephemeral, false);
    if (!event.ephemeral) last = event.id;
  }
  return last;
}

/** What stands in a session's log. */
export async function log(home, id) {
  const text = await readFile(join(home, "session-state", id, "events.jsonl"), "utf8");
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}

/** A model server on loopback: `answer(body, request)` gives the message, or writes the response itself. */
export async function modelServer(t, answer) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const body = text ? JSON.parse(text) : {};
    requests.push({ path: request.url, headers: request.headers, body });
    const message = await answer(body, request, response, requests.length);
    if (response.writableEnded || message === undefined) return;
    reply(response, body, message);
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/v1`, requests };
}

function reply(response, body, message) {
  const base = { id: "chatcmpl-1", created: 1, model: body.model };
  const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
  const finish_reason = message.tool_calls ? "tool_calls" : "stop";
  if (!body.stream) {
    const choices = [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason }];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...base, object: "chat.completion", choices, usage }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  const send = (choices, more = {}) =>
    response.write(`data: ${JSON.stringify({ ...base, object: "chat.completion.chunk", choices, ...more })}\n\n`);
  send([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
  for (const piece of message.content?.match(/.{1,4}/gs) ?? []) {
    send([{ index: 0, delta: { content: piece }, finish_reason: null }]);
  }
  const calls = message.tool_calls?.map((call, index) => ({ index, ...call }));
  if (calls) send([{ index: 0, delta: { tool_calls: calls }, finish_reason: null }]);
  send([{ index: 0, delta: {}, finish_reason }]);
  send([], { usage });
  response.end("data: [DONE]\n\n");
}

/** The text of the last user message that a model was sent. */
export function lastUser(body) {
  const message = body.messages.findLast((message) => message.role === "user");
  return typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("");
}

export const toolCall = (name, args, id = "call_1") => ({
  tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
});

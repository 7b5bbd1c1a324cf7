// Editors: the official client of the Agent Client Protocol against `lodge acp`. Whatever the host says is checked against
// the protocol's own schema.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { TransformStream } from "node:stream/web";

import * as acp from "@agentclientprotocol/sdk";
import Ajv2020 from "ajv/dist/2020.js";

import { environment, event, lodge, log, ofType, resume, test, until } from "./help.mjs";

const require = createRequire(import.meta.url);
const modules = join(require.resolve("@agentclientprotocol/sdk"), "../../../..");
const schema = JSON.parse(await readFile(join(modules, "schema/v1/schema.json"), "utf8"));
const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema(schema, "acp");

/** What the results of methods are called in the schema. */
const RESULTS = {
  initialize: "InitializeResponse",
  authenticate: "AuthenticateResponse",
  "session/new": "NewSessionResponse",
  "session/load": "LoadSessionResponse",
  "session/resume": "ResumeSessionResponse",
  "session/list": "ListSessionsResponse",
  "session/close": "CloseSessionResponse",
  "session/delete": "DeleteSessionResponse",
  "session/set_mode": "SetSessionModeResponse",
  "session/set_config_option": "SetSessionConfigOptionResponse",
  "session/prompt": "PromptResponse",
};
const PARAMS = {
  "session/update": "SessionNotification",
  "session/request_permission": "RequestPermissionRequest",
  "elicitation/create": "CreateElicitationRequest",
  "fs/read_text_file": "ReadTextFileRequest",
  "fs/write_text_file": "WriteTextFileRequest",
  "elicitation/complete": "CompleteElicitationNotification",
  "$/cancel_request": "CancelRequestNotification",
};

function check(name, value) {
  const valid = ajv.getSchema(`acp#/$defs/${name}`);
  assert.ok(valid, `the schema knows ${name}`);
  assert.ok(valid(value), `${name}: ${JSON.stringify(valid.errors)}\n${JSON.stringify(value, null, 1)}`);
}

/** An editor with a connection of its own; `answers` are its handlers. */
async function editor({ home, work }, answers = {}) {
  const child = spawn(lodge, ["acp"], {
    cwd: work,
    env: environment({ LODGE_HOME: home, LODGE_HOST_LINGER: "3" }),
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [updates, asked, sent, wrong] = [[], [], new Map(), []];
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const watch = (look) =>
    new TransformStream({
      transform(message, out) {
        try {
          look(message);
        } catch (error) {
          wrong.push(error);
        }
        out.enqueue(message);
      },
    });
  const outbound = watch((message) => message.method && "id" in message && sent.set(message.id, message.method));
  outbound.readable.pipeTo(stream.writable).catch(() => {});
  const inbound = watch((message) => {
    if (message.method) check(PARAMS[message.method] ?? message.method, message.params);
    else if ("result" in message) check(RESULTS[sent.get(message.id)] ?? message.id, message.result);
  });
  const app = acp
    .client({ name: "lodge-tests" })
    .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params.update))
    .onRequest(acp.methods.client.session.requestPermission, async (ctx) => {
      asked.push(ctx.params);
      const option = await (answers.permission ?? (() => "allow-once"))(ctx.params, ctx);
      return { outcome: option ? { outcome: "selected", optionId: option } : { outcome: "cancelled" } };
    })
    .onRequest(acp.methods.client.elicitation.create, async ({ params }) => {
      asked.push(params);
      return answers.form(params);
    })
    .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => ({ content: answers.files[params.path] }))
    .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
      answers.files[params.path] = params.content;
      return {};
    });
  const connection = app.connect({ writable: outbound.writable, readable: stream.readable.pipeThrough(inbound) });
  const agent = connection.agent;
  const started = await agent.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {
      elicitation: { form: {}, url: {} },
      session: { notices: {}, compaction: {} },
      auth: { terminal: true },
      ...(answers.files && { fs: { readTextFile: true, writeTextFile: true } }),
      ...(answers.terminals && { _meta: { terminal_output: true } }),
    },
    clientInfo: { name: "lodge-tests", version: "1" },
  });
  const { session } = acp.methods.agent;
  return {
    agent,
    started,
    updates,
    asked,
    session,
    make: (more = {}) => agent.request(session.new, { cwd: work, mcpServers: [], ...more }),
    say: (sessionId, text, options) =>
      agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] }, options),
    told: (kind) => updates.filter((update) => update.sessionUpdate === kind),
    text: () =>
      updates
        .filter((update) => update.sessionUpdate === "agent_message_chunk")
        .map((update) => update.content.text)
        .join(""),
    /** Ends, and says what was not as the schema has it. */
    async end() {
      child.stdin.end();
      const code = await new Promise((done) => (child.exitCode !== null ? done(child.exitCode) : child.on("exit", done)));
      assert.deepEqual(wrong, []);
      assert.equal(code, 0);
    },
  };
}

test("the official client drives a turn, with tools that are asked for", async (place) => {
  const client = await editor(place);
  assert.equal(client.started.protocolVersion, 1);
  assert.equal(client.started.authMethods[0].type, "terminal");
  await client.agent.request(acp.methods.agent.authenticate, { methodId: client.started.authMethods[1].id });
  const { sessionId, modes } = await client.make();
  assert.equal(modes.currentModeId, "interactive");
  const script = 'think about doors then say Look. then call create {"path":"a.txt","file_text":"x"} then call bash {"command":"cat a.txt"} then say done';
  const stopped = await client.say(sessionId, script);
  assert.equal(stopped.stopReason, "end_turn");
  assert.equal(client.text(), "Look.done");
  assert.equal(client.asked.length, 1, "reading needs no approval");
  assert.deepEqual(
    client.told("tool_call").map((call) => [call.name, call.kind]),
    [["create", "edit"], ["bash", "execute"]],
  );
  assert.ok(client.told("tool_call_update").some((update) => update.status === "completed"));
  assert.ok(client.told("usage_update").length > 0);
  await client.end();
});

test("the official client sends every kind of content", async (place) => {
  const client = await editor(place);
  const { sessionId } = await client.make();
  await writeFile(join(place.work, "linked.txt"), "linked");
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const prompt = [
    { type: "text", text: "say seen" },
    { type: "image", data: pixel, mimeType: "image/png" },
    { type: "resource_link", name: "linked.txt", uri: `file://${place.work}/linked.txt` },
    { type: "resource", resource: { uri: "file:///buffer.rs", text: "fn main() {}", mimeType: "text/x-rust" } },
  ];
  const stopped = await client.agent.request(client.session.prompt, { sessionId, prompt });
  assert.equal(stopped.stopReason, "end_turn");
  assert.equal(client.text(), "seen @linked.txt @buffer.rs");
  const [message] = ofType(await log(place.home, sessionId), "user.message");
  assert.deepEqual(message.data.attachments.map((attachment) => attachment.type), ["blob", "file"]);
  assert.match(message.data.transformedContent, /<attachment name="buffer.rs" uri="file:\/\/\/buffer\.rs">\nfn main\(\) \{\}/, "the model has the buffer");
  assert.doesNotMatch(message.data.content, /fn main/);
  await client.say(sessionId, "describe the request");
  assert.match(client.text(), /1 image,/, "and the picture");
  await client.end();
});

test("MCP servers that an editor names are programs of the session", async (place) => {
  const client = await editor(place, { form: () => ({ action: "accept", content: { name: "Ada", check: true } }) });
  const server = require.resolve("@modelcontextprotocol/server-everything/dist/index.js");
  const { sessionId } = await client.make({
    mcpServers: [{ name: "everything", command: process.execPath, args: [server, "stdio"], env: [{ name: "SEEN", value: "yes" }] }],
  });
  const stopped = await client.say(sessionId, 'call everything-echo {"message":"over there"} then say heard');
  assert.equal(stopped.stopReason, "end_turn");
  const done = client.told("tool_call_update").find((update) => update.status === "completed");
  assert.match(JSON.stringify(done.content), /over there/);
  client.updates.length = 0;
  await client.say(sessionId, "call everything-trigger-elicitation-request {} then say filled in");
  assert.ok(client.asked.some((form) => form.mode === "form" && form.requestedSchema.properties.name), "its form is shown");
  assert.match(JSON.stringify(client.told("tool_call_update")), /Ada/);
  await client.end();
});

test("sessions are listed, loaded, resumed, closed and deleted", async (place) => {
  const client = await editor(place);
  const { sessionId } = await client.make();
  await client.say(sessionId, "say first");
  const other = await editor(place);
  const { sessions } = await other.agent.request(other.session.list, { cwd: place.work });
  assert.deepEqual(
    sessions.map((session) => [session.sessionId, session.title, session.additionalDirectories]),
    [[sessionId, "say first", []]],
  );
  const open = { sessionId, cwd: place.work, mcpServers: [] };
  await other.agent.request(other.session.load, open);
  assert.equal(other.text(), "first");
  assert.equal(other.told("user_message_chunk")[0].content.text, "say first");
  await other.agent.request(other.session.resume, open);
  assert.equal(other.text(), "first", "nothing is told twice");
  await client.say(sessionId, "say second");
  await until("the other editor sees it", () => other.text() === "firstsecond");
  await other.agent.request(other.session.close, { sessionId });
  await client.say(sessionId, "say third");
  assert.equal(other.text(), "firstsecond", "it is closed there, and open here");
  await client.agent.request(client.session.delete, { sessionId });
  assert.deepEqual((await client.agent.request(client.session.list, {})).sessions, []);
  await Promise.all([client.end(), other.end()]);
});

test("modes, options, forms and plans", async (place) => {
  const client = await editor(place, {
    permission: ({ toolCall }) => (toolCall.kind === "switch_mode" ? "autopilot" : "allow-once"),
    form: () => ({ action: "accept", content: { answer: "blue" } }),
  });
  const { sessionId } = await client.make();
  await client.say(sessionId, 'ask "Which colour?" choices red, blue');
  assert.match(client.text(), /blue/);
  await client.agent.request(client.session.setMode, { sessionId, modeId: "plan" });
  const { configOptions } = await client.agent.request(client.session.setConfigOption, {
    sessionId,
    configId: "approval",
    value: "all",
  });
  const value = (id) => configOptions.find((option) => option.id === id).currentValue;
  assert.deepEqual(["mode", "model", "approval"].map(value), ["plan", "rehearsal", "all"]);
  await client.say(sessionId, "write the plan 1. Leap. then present the plan Leap. then say off");
  await until("the mode is told", () => client.told("current_mode_update").some((update) => update.currentModeId === "autopilot"));
  await client.say(sessionId, "/compact");
  assert.deepEqual(
    client.told("compaction_update").map((update) => update.status),
    ["in_progress", "completed"],
  );
  await client.end();
});

test("a turn is cancelled, and a request", async (place) => {
  const client = await editor(place);
  const { sessionId } = await client.make();
  const turn = client.say(sessionId, "say begun then wait 50 s");
  await until("it has begun", () => client.text() === "begun");
  await client.agent.notify(client.session.cancel, { sessionId });
  assert.equal((await turn).stopReason, "cancelled");
  const signal = new AbortController();
  const request = client.say(sessionId, "say again then wait 50 s", { cancellationSignal: signal.signal });
  await until("it has begun again", () => client.text().endsWith("again"));
  signal.abort();
  await assert.rejects(request, { code: -32800 });
  await assert.rejects(client.say(sessionId, "fail with authentication"), { code: -32000 });
  await assert.rejects(client.agent.request(client.session.prompt, { sessionId, prompt: [{ type: "smell" }] }), { code: -32602 });
  assert.equal((await client.say(sessionId, "say alive")).stopReason, "end_turn");
  await client.end();
});

test("a session is live in an editor and in an app on the SDK", async (place) => {
  let answer;
  const client = await editor(place, { permission: () => new Promise((done) => (answer = done)) });
  const { sessionId } = await client.make();
  await client.say(sessionId, "say from the editor");
  const { session, events } = await resume(place.start(), sessionId, { onPermissionRequest: undefined });
  await session.send({ prompt: 'call create {"path":"shared.txt","file_text":"x"} then say from the app' });
  await until("the editor is asked", () => answer);
  assert.deepEqual(client.told("user_message_chunk").map((update) => update.content.text.slice(0, 11)), ["call create"]);
  answer("allow-once");
  await event(events, "session.idle");
  await until("the editor has the answer", () => client.text() === "from the editorfrom the app");
  assert.equal(await readFile(join(place.work, "shared.txt"), "utf8"), "x");
  await client.end();
});

test("an editor's files are read and written, and commands are shown in its terminals", async ({ home, work }) => {
  const path = join(work, "a");
  await writeFile(path, "saved\n");
  const files = { [path]: "not saved\n" };
  const zed = await editor({ home, work }, { files, terminals: true });
  const { sessionId } = await zed.make();
  const script =
    'call edit {"path":"a","old_str":"not saved","new_str":"changed"} then call bash {"command":"echo out"} then say done';
  assert.equal((await zed.say(sessionId, script)).stopReason, "end_turn");
  assert.deepEqual(files, { [path]: "changed\n" });
  assert.equal(await readFile(path, "utf8"), "saved\n", "the editor saves it");
  const updates = zed.told("tool_call_update");
  const terminal = updates.flatMap((update) => update.content ?? []).find((content) => content.type === "terminal");
  const output = updates.map((update) => update._meta?.terminal_output).filter((part) => part?.terminal_id === terminal.terminalId);
  assert.equal(output.map((part) => part.data).join(""), "out\n");
  await zed.end();
});

// Capability 2: permissions, built-in tools, the SDK's own tools.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { defineTool } from "@github/copilot-sdk";

import { approveAll, ask, checkChain, event, ofType, persisted, session, test, types, until } from "./help.mjs";

const weather = (handler, more = {}) =>
  defineTool("weather", {
    description: "Tells the weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    handler,
    ...more,
  });

const result = (events) => event(events, "tool.execution_complete");

test("a built-in tool asks, runs when allowed, and its result reaches the model", async ({ start }) => {
  const asked = [];
  const { session: chat, events } = await session(start(), {
    onPermissionRequest: (request) => {
      asked.push(request);
      return { kind: "approve-once" };
    },
  });
  const answer = await ask(chat, 'call bash {"command":"echo from the shell; touch made","description":"Say it"}');
  assert.match(answer, /from the shell/);
  assert.equal(asked.length, 1);
  assert.equal(asked[0].kind, "shell");
  assert.equal(asked[0].fullCommandText, "echo from the shell; touch made");
  const done = await result(events);
  assert.equal(done.data.success, true);
  assert.match(done.data.result.content, /from the shell\n<exited with exit code 0>/);
  const order = ["permission.requested", "permission.completed", "tool.execution_complete"];
  const places = order.map((type) => types(events).indexOf(type));
  assert.deepEqual(places, [...places].sort((a, b) => a - b), `${types(events)}`);
  const completed = ofType(events, "permission.completed")[0];
  assert.equal(completed.data.result.kind, "approved");
  assert.deepEqual(ofType(events, "assistant.turn_start").map((turn) => turn.data.turnId), ["0", "1"]);
  checkChain(events);
});

test("a rejected permission ends the loop without another model call", async ({ start }) => {
  const { session: chat, events } = await session(start(), {
    onPermissionRequest: () => ({ kind: "reject", feedback: "not today" }),
  });
  await chat.send({ prompt: 'call bash {"command":"touch forbidden"} then say never said' });
  await event(events, "session.idle");
  const completed = ofType(events, "permission.completed")[0];
  assert.equal(completed.data.result.kind, "denied-interactively-by-user");
  assert.equal((await result(events)).data.success, false);
  assert.ok(!ofType(events, "assistant.message").some((answer) => answer.data.content === "never said"));
});

test("with no permission handler a tool is denied and the model is told", async ({ start, work }) => {
  const { session: chat, events } = await session(start(), { onPermissionRequest: undefined });
  await ask(chat, 'call create {"path":"x.txt","file_text":"x"} then say I could not');
  const done = await result(events);
  assert.equal(done.data.success, false);
  assert.match(done.data.error.message, /Permission denied and could not request permission from user/);
  await assert.rejects(readFile(join(work, "x.txt")));
});

test("an approval for the session is not asked for again, and covers no other command", async ({ start }) => {
  let asked = 0;
  const { session: chat } = await session(start(), {
    onPermissionRequest: (request) => {
      asked += 1;
      return { kind: "approve-for-session", approval: { kind: "commands", commandIdentifiers: request.commands?.map((c) => c.identifier) ?? [] } };
    },
  });
  await ask(chat, 'call bash {"command":"touch a"}');
  await ask(chat, 'call bash {"command":"touch a"}');
  assert.equal(asked, 1);
  await ask(chat, 'call bash {"command":"touch b"}');
  assert.equal(asked, 2);
});

test("create, view, edit, grep and glob work in the working directory", async ({ start, work }) => {
  const { session: chat, events } = await session(start());
  const path = join(work, "song.txt");
  await ask(chat, `call create ${JSON.stringify({ path, file_text: "one\ntwo\n" })}`);
  assert.equal(await readFile(path, "utf8"), "one\ntwo\n");
  await ask(chat, `call edit ${JSON.stringify({ path, old_str: "two", new_str: "three" })}`);
  assert.equal(await readFile(path, "utf8"), "one\nthree\n");
  await ask(chat, `call view ${JSON.stringify({ path })}`);
  await ask(chat, `call grep ${JSON.stringify({ pattern: "thr", path: work, output_mode: "content", "-n": true })}`);
  await ask(chat, `call glob ${JSON.stringify({ pattern: "**/*.txt" })}`);
  const texts = ofType(events, "tool.execution_complete").map((done) => done.data.result?.content);
  assert.match(texts[0], /Created file .*song\.txt with 8 characters/);
  assert.match(texts[1], /File .*song\.txt updated with changes\./);
  assert.match(texts[2], /one\nthree/);
  assert.match(texts[3], /song\.txt:2:three/);
  assert.match(texts[4], /\.\/song\.txt/);
});

test("an unknown tool is told to the model with what there is", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "call an unknown tool");
  const done = await result(events);
  assert.equal(done.data.success, false);
  const text = done.data.error?.message ?? done.data.result.content;
  assert.match(text, /Tool 'no_such_tool' does not exist\. Available tools that can be called are .*bash/);
});

test("an SDK tool is called with its arguments and its text goes to the model", async ({ start }) => {
  const calls = [];
  const { session: chat, events } = await session(start(), {
    tools: [weather((args, invocation) => {
      calls.push({ args, invocation });
      return `Sunny in ${args.city}`;
    })],
  });
  const answer = await ask(chat, 'call weather {"city":"Oslo"}');
  assert.match(answer, /Sunny in Oslo/);
  assert.deepEqual(calls[0].args, { city: "Oslo" });
  assert.equal(calls[0].invocation.toolName, "weather");
  assert.equal(calls[0].invocation.sessionId, chat.sessionId);
  const requested = ofType(events, "external_tool.requested")[0];
  const done = await result(events);
  assert.equal(requested.data.toolCallId, done.data.toolCallId);
  assert.equal(done.data.success, true);
  assert.ok(types(events).includes("external_tool.completed"));
  checkChain(events);
});

test("an SDK tool needs permission unless it says it does not", async ({ start }) => {
  for (const [skipPermission, expected] of [[false, ["custom-tool"]], [true, []]]) {
    const asked = [];
    const { session: chat } = await session(start(), {
      tools: [weather(() => "wet", { skipPermission })],
      onPermissionRequest: (request) => {
        asked.push(request.kind);
        return { kind: "approve-once" };
      },
    });
    await ask(chat, 'call weather {"city":"Bergen"}');
    assert.deepEqual(asked, expected);
  }
});

test("what a throwing SDK tool says is hidden from the model", async ({ start }) => {
  const { session: chat, events } = await session(start(), {
    tools: [weather(() => { throw new Error("the secret is 42"); }, { skipPermission: true })],
  });
  const answer = await ask(chat, 'call weather {"city":"Rome"}');
  assert.doesNotMatch(answer, /42/);
  const done = await result(events);
  assert.equal(done.data.success, false);
  assert.doesNotMatch(JSON.stringify(done.data.result ?? {}), /42/);
});

test("an SDK tool can answer with a result object of every kind", async ({ start }) => {
  const cases = [
    [{ textResultForLlm: "all good", resultType: "success" }, true],
    [{ textResultForLlm: "it broke", resultType: "failure", error: "broken" }, false],
    [{ textResultForLlm: "not allowed", resultType: "denied" }, false],
    [{ textResultForLlm: "too slow", resultType: "timeout" }, false],
    [{ textResultForLlm: "an image", resultType: "success", binaryResultsForLlm: [{ data: "iVBORw0KGgo=", mimeType: "image/png", type: "image" }] }, true],
  ];
  const client = start();
  for (const [object, success] of cases) {
    const { session: chat, events } = await session(client, { tools: [weather(() => object, { skipPermission: true })] });
    await ask(chat, 'call weather {"city":"Paris"}');
    const done = await result(events);
    assert.equal(done.data.success, success, JSON.stringify(done.data));
  }
});

test("a rejected result of an SDK tool ends the loop", async ({ start }) => {
  const rejected = { textResultForLlm: "no", resultType: "rejected" };
  const { session: chat, events } = await session(start(), { tools: [weather(() => rejected, { skipPermission: true })] });
  await chat.send({ prompt: 'call weather {"city":"Paris"} then say never said' });
  await event(events, "session.idle");
  assert.ok(!ofType(events, "assistant.message").some((answer) => answer.data.content === "never said"));
});

test("several SDK tools of one answer run side by side", async ({ start }) => {
  let open = 0;
  let most = 0;
  const slow = async () => {
    most = Math.max(most, (open += 1));
    await new Promise((go) => setTimeout(go, 100));
    open -= 1;
    return "done";
  };
  const { session: chat } = await session(start(), { tools: [weather(slow, { skipPermission: true })] });
  await ask(chat, 'call weather {"city":"A"} and weather {"city":"B"} and weather {"city":"C"}');
  assert.ok(most > 1, `at most ${most} at once`);
});

test("an SDK tool may take the place of a built-in one", async ({ start }) => {
  const grep = defineTool("grep", {
    description: "Mine",
    parameters: { type: "object", properties: { pattern: { type: "string" } } },
    overridesBuiltInTool: true,
    skipPermission: true,
    handler: ({ pattern }) => `my own grep for ${pattern}`,
  });
  const { session: chat } = await session(start(), { tools: [grep] });
  assert.match(await ask(chat, 'call grep {"pattern":"needle"}'), /my own grep for needle/);
});

test("availableTools and excludedTools decide what the model is offered", async ({ start }) => {
  const client = start();
  const offered = async (config) => {
    const { session: chat } = await session(client, config);
    return ask(chat, "describe the request");
  };
  const all = await offered({});
  assert.match(all, /bash/);
  assert.match(all, /view/);
  const few = await offered({ availableTools: ["view", "weather"], tools: [weather(() => "x")] });
  assert.match(few, /2 tools/);
  assert.match(few, /view/);
  assert.match(few, /weather/);
  assert.doesNotMatch(few, /bash/);
  assert.doesNotMatch(await offered({ excludedTools: ["bash"] }), /\bbash\b/);
});

test("another request is answered while a tool handler is running", async ({ start }) => {
  const client = start();
  const { session: chat } = await session(client, {
    tools: [weather(async () => `ping says ${(await client.ping("inside")).message}`, { skipPermission: true })],
  });
  assert.match(await ask(chat, 'call weather {"city":"X"}'), /pong: inside/);
});

test("abort while a tool runs ends the turn", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.send({ prompt: 'call bash {"command":"sleep 60"}' });
  await event(events, "permission.completed");
  await chat.abort();
  await event(events, "session.idle");
  assert.equal(await ask(chat, "say free again"), "free again");
});

test("what nobody waits for any more after an abort is taken back", async ({ start }) => {
  const never = new Promise(() => {});
  let cancelled;
  const gone = new Promise((go) => (cancelled = go));
  const handler = (_, { signal }) => signal.addEventListener("abort", cancelled) ?? never;
  for (const [prompt, config, asked, done, data] of [
    ['call bash {"command":"touch made"}', { onPermissionRequest: () => never }, "permission.requested", "permission.completed", { result: { kind: "cancelled" } }],
    ['call weather {"city":"X"}', { tools: [weather(handler, { skipPermission: true })] }, "external_tool.requested", "external_tool.completed", {}],
    ['call ask_user {"question":"Well?"}', { onUserInputRequest: () => never }, "user_input.requested", "user_input.completed", {}],
  ]) {
    const { session: chat, events } = await session(start(), config);
    await chat.send({ prompt });
    const { requestId } = (await event(events, asked)).data;
    await chat.abort();
    await event(events, "session.idle");
    const completed = ofType(events, done);
    assert.equal(completed.length, 1, done);
    const { toolCallId, ...rest } = completed[0].data;
    assert.deepEqual(rest, { requestId, ...data });
    const places = [done, "tool.execution_complete", "abort"].map((type) => types(events).indexOf(type));
    assert.deepEqual(places, [...places].sort((a, b) => a - b), `${types(events)}`);
    checkChain(events);
  }
  await gone;
});

test("output of a running command is told while it happens", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await ask(chat, 'call bash {"command":"for i in 1 2 3; do echo line $i; sleep 0.2; done"}');
  const parts = ofType(events, "tool.execution_partial_result");
  assert.ok(parts.length > 0);
  assert.match(parts.map((part) => part.data.partialOutput).join(""), /line 1[\s\S]*line 2/);
  // The newest SDKs have another name for it.
  const pieces = ofType(events, "tool.shell_output").map(({ data }) => data);
  assert.deepEqual(pieces.map(({ text }) => text), parts.map((part) => part.data.partialOutput));
  assert.deepEqual(pieces.map(({ sequence }) => sequence), pieces.map((_, at) => at));
  assert.ok(!persisted(events).some(({ type }) => type === "tool.execution_partial_result"));
});

test("commands in the background are tasks that can be looked at, stopped and forgotten", async ({ start }) => {
  const { session: chat } = await session(start());
  await ask(chat, 'call bash {"command":"echo at work; sleep 600","mode":"async","shellId":"server"}');
  const { tasks } = chat.rpc;
  const find = async () => (await tasks.list()).tasks.find(({ id }) => id === "server");
  const { startedAt, ...task } = await find();
  assert.ok(!Number.isNaN(Date.parse(startedAt)));
  assert.deepEqual(task, {
    type: "shell", id: "server", description: "echo at work; sleep 600", command: "echo at work; sleep 600", status: "running",
    attachmentMode: "attached", executionMode: "background", canPromoteToBackground: false,
  });
  const printed = () => tasks.getProgress({ id: "server" });
  await until("it has printed something", async () => (await printed()).progress.recentOutput === "at work\n");
  assert.deepEqual(await tasks.remove({ id: "server" }), { removed: false }, "it still runs");
  assert.deepEqual(await tasks.cancel({ id: "server" }), { cancelled: true });
  assert.equal((await find()).status, "failed");
  assert.deepEqual(await tasks.cancel({ id: "server" }), { cancelled: false });
  await until("all that it started is gone", async () => (await tasks.remove({ id: "server" })).removed);
  assert.equal(await find(), undefined);
});

test("the tool of an app that is traced is told the span of its call", async ({ start, work }) => {
  const path = join(work, "traces.jsonl");
  const client = start({ telemetry: { filePath: path, exporterType: "file" } });
  const told = [];
  const tool = weather((_, { traceparent }) => (told.push(traceparent), "sunny"), { skipPermission: true });
  const { session: chat } = await session(client, { tools: [tool] });
  await ask(chat, 'call weather {"city":"X"}');
  await client.stop();
  const spans = (await readFile(path, "utf8")).trimEnd().split("\n").map((line) => JSON.parse(line));
  const { traceId, spanId } = spans.find(({ name }) => name === "execute_tool weather");
  assert.deepEqual(told, [`00-${traceId}-${spanId}-01`]);
});

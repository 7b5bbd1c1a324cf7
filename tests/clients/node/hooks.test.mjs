// Capability 6: hooks by callback, and the events around them.

import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";

import { ask, checkChain, event, modelServer, ofType, resume, session, test, toolCall, until } from "./help.mjs";

test("hooks around a prompt see it, change it and add to it", async ({ start, work }) => {
  const seen = [];
  const { session: chat } = await session(start(), {
    hooks: {
      onUserPromptSubmitted: (input, { sessionId }) => {
        seen.push({ ...input, sessionId });
        return { modifiedPrompt: "say changed by a hook" };
      },
    },
  });
  assert.equal(await ask(chat, "say as it was"), "changed by a hook");
  assert.equal(seen[0].prompt, "say as it was");
  assert.equal(seen[0].workingDirectory, work);
  assert.ok(seen[0].timestamp instanceof Date);
  assert.equal(seen[0].sessionId, chat.sessionId);
});

test("a hook before a tool can deny it", async ({ start, work }) => {
  const { session: chat, events } = await session(start(), {
    hooks: { onPreToolUse: () => ({ permissionDecision: "deny", permissionDecisionReason: "not on a Sunday" }) },
  });
  await ask(chat, 'call bash {"command":"touch forbidden"} then say I could not');
  const done = await event(events, "tool.execution_complete");
  assert.equal(done.data.success, false);
  assert.match(JSON.stringify(done.data), /Denied by preToolUse hook: not on a Sunday/);
  await assert.rejects(access(join(work, "forbidden")));
});

test("a hook before a tool can allow it without a question, or change its arguments", async ({ start }) => {
  let asked = 0;
  const inputs = [];
  const { session: chat } = await session(start(), {
    onPermissionRequest: () => ((asked += 1), { kind: "approve-once" }),
    hooks: {
      onPreToolUse: (input) => {
        inputs.push(input);
        return { permissionDecision: "allow", modifiedArgs: { command: "echo another command" } };
      },
    },
  });
  assert.match(await ask(chat, 'call bash {"command":"touch this"}'), /another command/);
  assert.equal(asked, 0);
  assert.equal(inputs[0].toolName, "bash");
  const args = typeof inputs[0].toolArgs === "string" ? JSON.parse(inputs[0].toolArgs) : inputs[0].toolArgs;
  assert.equal(args.command, "touch this");
});

test("a hook after a tool sees its result and can change it", async ({ start }) => {
  const results = [];
  const { session: chat } = await session(start(), {
    hooks: {
      onPostToolUse: (input) => {
        results.push(input.toolResult);
        return { modifiedResult: { ...input.toolResult, textResultForLlm: "rewritten by a hook" } };
      },
    },
  });
  assert.match(await ask(chat, 'call bash {"command":"echo original"}'), /rewritten by a hook/);
  assert.match(results[0].textResultForLlm, /original/);
});

test("a failed tool, a model's error, the session's start and the agent's stop call their hooks", async ({ start }) => {
  const called = [];
  const note = (name) => (input) => void called.push({ name, ...input });
  const { session: chat, events } = await session(start(), {
    hooks: {
      onSessionStart: note("start"),
      onPostToolUseFailure: note("failure"),
      onErrorOccurred: note("error"),
      onAgentStop: note("stop"),
    },
  });
  await ask(chat, 'call view {"path":"no-such-file"}');
  await chat.send({ prompt: "fail with quota" });
  await event(events, "session.error");
  const names = () => called.map(({ name }) => name);
  await until("all were called", () => ["start", "failure", "error", "stop"].every((name) => names().includes(name)));
  assert.equal(called.find(({ name }) => name === "start").source, "new");
  assert.match(called.find(({ name }) => name === "error").error, /quota/);
});

test("the hook of a session's start says when it was resumed", async ({ start }) => {
  const first = start();
  const { session: chat } = await session(first);
  await ask(chat, "say hello");
  await first.stop();
  const sources = [];
  const { session: again } = await resume(start(), chat.sessionId, { hooks: { onSessionStart: ({ source }) => void sources.push(source) } });
  await ask(again, "say hello again");
  assert.deepEqual(sources, ["resume"]);
});

test("hooks leave hook.start and hook.end in the log", async ({ start }) => {
  const { session: chat, events } = await session(start(), { hooks: { onPreToolUse: () => undefined } });
  await ask(chat, 'call bash {"command":"true"}');
  await event(events, "session.idle");
  const starts = ofType(events, "hook.start").filter(({ data }) => data.hookType === "preToolUse");
  const ends = ofType(events, "hook.end").filter(({ data }) => data.hookType === "preToolUse");
  assert.equal(starts.length, 1);
  assert.equal(ends[0].data.hookInvocationId, starts[0].data.hookInvocationId);
  assert.equal(ends[0].data.success, true);
  checkChain(events);
});

test("a hook that throws does not stop the turn", async ({ start }) => {
  const { session: chat } = await session(start(), {
    hooks: { onUserPromptSubmitted: () => { throw new Error("broken hook"); } },
  });
  assert.equal(await ask(chat, "say anyway"), "anyway");
});

test("what a hook changed is what the model is told that it called", async ({ t, start }) => {
  const server = await modelServer(t, (body) =>
    body.messages.some(({ role }) => role === "tool") ? { content: "done" } : toolCall("bash", { command: "echo mine" }),
  );
  const { session: chat } = await session(start(), {
    provider: { type: "openai", baseUrl: server.url },
    model: "m",
    hooks: { onPreToolUse: () => ({ permissionDecision: "allow", modifiedArgs: { command: "echo yours" } }) },
  });
  await ask(chat, "go");
  const sent = server.requests.at(-1).body.messages;
  assert.deepEqual(JSON.parse(sent.find(({ tool_calls }) => tool_calls).tool_calls[0].function.arguments), { command: "echo yours" });
  assert.match(sent.find(({ role }) => role === "tool").content, /^yours/);
});

test("a hook hears of every failed model call, and whether it is tried again", async ({ t, start }) => {
  let calls = 0;
  const server = await modelServer(t, (body, request, response) => {
    calls += 1;
    if (calls === 2) return { content: "at last" };
    const status = calls === 1 ? 503 : 400;
    response.writeHead(status, { "content-type": "application/json", "retry-after": "0" });
    response.end('{"error":{"message":"not now"}}');
  });
  const heard = [];
  const { session: chat, events } = await session(start(), {
    provider: { type: "openai", baseUrl: server.url },
    model: "m",
    hooks: { onErrorOccurred: ({ error, errorContext, recoverable }) => void heard.push({ error, errorContext, recoverable }) },
  });
  assert.equal(await ask(chat, "go"), "at last");
  await chat.send({ prompt: "again" });
  await event(events, "session.error");
  await until("the hook heard both", () => heard.length === 2);
  assert.deepEqual(heard.map(({ errorContext, recoverable }) => [errorContext, recoverable]), [["model_call", true], ["model_call", false]]);
  assert.ok(heard.every(({ error }) => /not now/.test(error)));
});

// kill -9 in the middle of everything that can be under way: after the start each thing is gone on with or told as
// interrupted, for an app and for a window, and nothing hangs.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { defineTool } from "@github/copilot-sdk";

import { ask, checkChain, event, log, ofType, resume, until } from "./help.mjs";
import { URI, agree, app, both, calls, test, texts } from "./vscode.mjs";

const never = () => new Promise(() => {});
const everything = {
  command: process.execPath,
  args: [join(dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")), "dist/index.js"), "stdio"],
  tools: ["*"],
};
const task = (more) => JSON.stringify({ agent_type: "task", name: "lost", description: "Waits", prompt: 'call bash {"command":"sleep 600"}', ...more });
const INTERRUPTED = /interrupted/i;

/** Begins something, waits until it is under way, kills the host and brings it back. */
async function killed(place, { config = {}, prompt, underWay, before = () => {} }, windowStays = true) {
  const { made, events, chat } = await both(place, config);
  await before(made);
  await made.send({ prompt });
  const asked = await underWay(events);
  await place.host.kill();
  if (!windowStays) chat.window.client.dispose();
  await place.host.restart();
  if (windowStays) await until("the window is back", () => chat.window.client.connectionState === "connected");
  return { id: made.sessionId, asked, chat };
}

/** Whatever there was: the session goes on, every call has its one result, and nobody waits for anything. */
async function sound({ home, window }, id, chat, again) {
  assert.equal(await ask(again, "say still here"), "still here");
  const kept = await log(home, id);
  checkChain(kept);
  const started = ofType(kept, "tool.execution_start").map(({ data }) => data.toolCallId);
  const done = ofType(kept, "tool.execution_complete").map(({ data }) => data.toolCallId);
  assert.deepEqual(done.sort(), [...new Set(started)].sort(), "every call has exactly one result");
  await until("the window has it", () => texts(chat.shown?.turns.at(-1) ?? { responseParts: [] }) === "still here");
  assert.equal(chat.shown.activeTurn ?? undefined, undefined);
  assert.ok(!chat.about.inputNeeded?.length);
  await agree(window, chat);
  return kept;
}

const QUESTIONS = {
  "a question": {
    config: { onUserInputRequest: never },
    prompt: 'ask "Which colour?" choices red, blue',
    underWay: (events) => event(events, "user_input.requested"),
    answer: (again, requestId) => again.rpc.ui.handlePendingUserInput({ requestId, response: { answer: "blue", wasFreeform: false } }),
    said: /User selected: blue/,
  },
  "a plan": {
    config: { onExitPlanModeRequest: never },
    before: (made) => made.rpc.mode.set({ mode: "plan" }),
    prompt: "write the plan 1. Look then present the plan Look first",
    underWay: (events) => event(events, "exit_plan_mode.requested"),
    answer: (again, requestId) => again.rpc.ui.handlePendingExitPlanMode({ requestId, response: { approved: true, selectedAction: "interactive" } }),
    said: /approved/i,
  },
  "a tool of the app": {
    config: { tools: [defineTool("slow", { description: "Takes its time", skipPermission: true, handler: never })] },
    prompt: "call slow {}",
    underWay: (events) => event(events, "external_tool.requested"),
    answer: (again, requestId) => again.rpc.tools.handlePendingToolCall({ requestId, result: "at last" }),
    said: /at last/,
  },
  "a permission": {
    config: { onPermissionRequest: never },
    prompt: 'call bash {"command":"echo allowed later"}',
    underWay: (events) => event(events, "permission.requested"),
    answer: (again, requestId) => again.rpc.permissions.handlePendingPermissionRequest({ requestId, result: { kind: "approve-once" } }),
    said: /allowed later/,
  },
};

for (const [name, kind] of Object.entries(QUESTIONS)) {
  test(`${name} is asked again under its id and answered`, async (place) => {
    const { id, asked, chat } = await killed(place, kind);
    const { session: again, events } = await resume(app(place), id, { ...kind.config, continuePendingWork: true });
    await kind.answer(again, asked.data.requestId);
    await event(events, "session.idle");
    const done = ofType(events, "tool.execution_complete").at(-1);
    assert.match(done.data.result.content, kind.said);
    await sound(place, id, chat, again);
  });

  test(`${name} that is not taken up again is told as interrupted`, async (place) => {
    // A window that stays would be asked again, so that somebody can answer.
    const { id, chat: left } = await killed(place, kind, false);
    const { session: again } = await resume(app(place), id, kind.config);
    const chat = (await place.window()).look(left.session);
    await until("a new window sees the end of it", () => chat.about && chat.shown && !chat.shown.activeTurn);
    assert.equal(chat.shown.turns.at(-1).state, "error");
    assert.match(JSON.stringify(chat.shown.turns.at(-1)), INTERRUPTED);
    const kept = await sound(place, id, chat, again);
    assert.equal(ofType(kept, "tool.execution_complete").at(-1).data.error.code, "interrupted");
    assert.ok(ofType(kept, "session.info").some(({ data }) => data.infoType === "interrupted"));
  });
}

const RUNNING = {
  "a command": {
    prompt: 'call bash {"command":"echo once >> ran; sleep 600"}',
    underWay: (events) => event(events, "tool.execution_start"),
  },
  "a tool of an MCP server, with its form": {
    config: { mcpServers: { every: everything }, onElicitationRequest: never },
    prompt: "call every-trigger-elicitation-request {}",
    underWay: (events) => event(events, "elicitation.requested"),
  },
  "a tool of an MCP server, with its question to the model": {
    config: {
      mcpServers: { every: { ...everything, sampling: true } },
      onPermissionRequest: ({ toolName }) => (toolName === "sampling/createMessage" ? never() : { kind: "approve-once" }),
    },
    prompt: 'call every-trigger-sampling-request {"prompt":"x"}',
    underWay: (events) => event(events, "permission.requested", ({ data }) => data.permissionRequest.toolName === "sampling/createMessage"),
  },
  "a sub-agent that is waited for": {
    prompt: `call task ${task()}`,
    underWay: (events) => event(events, "tool.execution_start", ({ agentId }) => agentId),
  },
};

for (const [name, kind] of Object.entries(RUNNING)) {
  for (const continuePendingWork of [true, false]) {
    test(`${name} is told as interrupted and not run twice (${continuePendingWork ? "" : "not "}taken up)`, async (place) => {
      const { id, chat } = await killed(place, kind);
      const { session: again, events } = await resume(app(place), id, { ...kind.config, continuePendingWork });
      if (continuePendingWork) await event(events, "session.idle");
      const kept = await sound(place, id, chat, again);
      const called = ofType(kept, "tool.execution_start").filter(({ agentId }) => !agentId);
      assert.equal(called.length, 1, "nobody knows how far it came, so it is not begun again");
      const ended = ofType(kept, "tool.execution_complete").find(({ data }) => data.toolCallId === called[0].data.toolCallId);
      assert.equal(ended.data.error.code, "interrupted");
      assert.equal(calls(chat.shown.turns[1])[0].success, false);
      const agents = ofType(kept, "subagent.started").length;
      assert.equal(ofType(kept, "subagent.failed").length, agents);
    });
  }
}

test("a tool of an MCP server that changes nothing is called again", async (place) => {
  const config = { mcpServers: { every: everything } };
  const { id, chat } = await killed(place, {
    config,
    prompt: 'call every-trigger-long-running-operation {"duration":600,"steps":6000}',
    underWay: (events) => event(events, "tool.execution_progress"),
  });
  const { session: again, events } = await resume(app(place), id, { ...config, continuePendingWork: true });
  await event(events, "tool.execution_progress");
  await again.abort();
  await event(events, "session.idle");
  await sound(place, id, chat, again);
});

test("a tool of an MCP server that is not taken up again is told as interrupted", async (place) => {
  const config = { mcpServers: { every: everything } };
  const { id, chat } = await killed(place, {
    config,
    prompt: 'call every-trigger-long-running-operation {"duration":600,"steps":60}',
    underWay: (events) => event(events, "tool.execution_start"),
  });
  const { session: again } = await resume(app(place), id, config);
  const kept = await sound(place, id, chat, again);
  assert.equal(ofType(kept, "tool.execution_complete")[0].data.error.code, "interrupted");
});

test("a sub-agent in the background is told as interrupted", async (place) => {
  const { id, chat } = await killed(place, {
    prompt: `call task ${task({ mode: "background" })} then say I go on`,
    underWay: async (events) => {
      await event(events, "assistant.idle", () => ofType(events, "assistant.idle").length === 2);
      return event(events, "tool.execution_start", ({ agentId }) => agentId);
    },
  });
  const { session: again } = await resume(app(place), id, { continuePendingWork: true });
  const kept = await sound(place, id, chat, again);
  const [failed] = ofType(kept, "subagent.failed");
  assert.match(failed.data.error, INTERRUPTED);
  assert.equal(failed.agentId, "lost");
  assert.equal(ofType(kept, "system.notification")[0].data.kind.status, "failed");
});

test("a terminal ends with its host, also what does not care for hanging up", async (place) => {
  const mine = await place.window();
  const channel = "ahp-terminal:/1";
  const { clientId } = mine.client;
  await mine.client.createTerminal({ channel, claim: { kind: "client", clientId }, cwd: URI.file(place.work).toString() });
  mine.client.dispatch(channel, { type: "terminal/input", data: "(trap '' HUP; echo $BASHPID > pid; while :; do sleep 1; done)\r" });
  const pid = await until("it runs", () => readFile(join(place.work, "pid"), "utf8").then((text) => text.trim(), () => ""));
  const lives = () => readFile(`/proc/${pid}/stat`, "utf8").then((stat) => !/\) Z /.test(stat), () => false);
  assert.ok(await lives());
  await place.host.kill();
  await until("it is gone", async () => !(await lives()));
});

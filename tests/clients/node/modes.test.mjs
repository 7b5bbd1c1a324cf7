// Plan mode and autopilot: of an app, and of an app and an editor in one session.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { RuntimeConnection, ask, event, ofType, session, test as alone, until } from "./help.mjs";
import { test } from "./vscode.mjs";

alone("in plan mode nothing is written but the plan, whatever is approved", async ({ start, work }) => {
  const { session: chat, events } = await session(start());
  await chat.rpc.mode.set({ mode: "plan" });
  const path = join(work, "a.txt");
  for (const call of [
    `create ${JSON.stringify({ path, file_text: "x" })}`,
    `bash ${JSON.stringify({ command: `touch ${path}`, description: "Makes it" })}`,
    `bash ${JSON.stringify({ command: `echo x > ${path}`, description: "Makes it" })}`,
  ]) {
    assert.match(await ask(chat, `call ${call}`), /Plan mode/);
  }
  assert.ok(!existsSync(path));
  assert.equal(ofType(events, "permission.requested").length, 0);
  assert.match(await ask(chat, 'call bash {"command":"ls","description":"Looks"} then say looked'), /looked/);
  await ask(chat, "write the plan 1. Look then say planned");
  assert.deepEqual((await chat.rpc.plan.read()).content, "1. Look");
  assert.deepEqual(ofType(events, "session.plan_changed").map(({ data }) => data.operation), ["create"]);
  assert.equal(ofType(events, "user.message")[0].data.agentMode, "plan");
  await chat.rpc.mode.set({ mode: "interactive" });
  await ask(chat, `call create ${JSON.stringify({ path, file_text: "x" })}`);
  assert.ok(existsSync(path));
});

alone("a tool of the app runs in plan mode when it says that it changes nothing", async ({ start }) => {
  const called = [];
  const tool = (name, metadata) => ({ name, description: name, metadata, parameters: { type: "object" }, handler: () => void called.push(name) });
  const { session: chat } = await session(start(), { tools: [tool("looks", { readOnlyHint: true }), tool("acts")] });
  await chat.rpc.mode.set({ mode: "plan" });
  await ask(chat, "call looks {} then call acts {} then say done");
  assert.deepEqual(called, ["looks"]);
});

alone("autopilot goes on by itself until the task is complete", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.rpc.mode.set({ mode: "autopilot" });
  await ask(chat, "say half of it");
  const complete = await event(events, "session.task_complete");
  assert.equal(complete.data.summary, "I played your whole script.");
  const messages = ofType(events, "user.message").map(({ data }) => data.isAutopilotContinuation ?? false);
  assert.deepEqual(messages, [false, true]);
});

alone("a word that the task is complete which nobody can read ends nothing", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.rpc.mode.set({ mode: "autopilot" });
  await ask(chat, "call task_complete with malformed arguments then say that was nothing");
  const complete = await event(events, "session.task_complete");
  assert.equal(complete.data.summary, "I played your whole script.");
  assert.equal(ofType(events, "tool.execution_complete")[0].data.success, false);
  assert.ok(ofType(events, "assistant.message").some(({ data }) => data.content === "that was nothing"));
});

test("a plan of an app is decided upon in an editor, and the other way round", async ({ host, window, startApp }) => {
  const connection = RuntimeConnection.forUri(host.sdk.url, { connectionToken: host.sdk.connectionToken });
  const asked = [];
  let answer = () => new Promise(() => {});
  const { session: app, events } = await session(startApp({ connection, workingDirectory: undefined, baseDirectory: undefined, env: undefined }), {
    onExitPlanModeRequest: (request) => {
      asked.push(request);
      return answer();
    },
  });
  await app.rpc.mode.set({ mode: "plan" });
  const done = ask(app, "write the plan 1. Look then present the plan Look first then say so be it");
  const requested = await event(events, "exit_plan_mode.requested");
  const { requestId, ...asksFor } = requested.data;
  assert.deepEqual(asksFor, {
    summary: "Look first", planContent: "1. Look", actions: ["interactive", "autopilot", "exit_only"],
    recommendedAction: "interactive", model: "rehearsal",
  });
  assert.equal(requested.ephemeral, true);
  await until("the app is asked too", () => asked.length === 1);
  assert.deepEqual({ ...asked[0] }, { ...asked[0], summary: "Look first", planContent: "1. Look", recommendedAction: "interactive" });

  const mine = await window();
  const [listed] = await mine.client.listSessions();
  const chat = mine.look(listed.session);
  const request = await chat.inputRequest();
  assert.equal(request.id, requestId);
  assert.equal(request.message, "Look first");
  assert.equal(request.questions[0].message, "1. Look");
  assert.deepEqual(request.questions[0].options.map(({ id, recommended }) => [id, recommended ?? false]), [["interactive", true], ["autopilot", false], ["exit_only", false]]);
  chat.say({ type: "chat/inputCompleted", requestId, response: "accept", answers: { [request.questions[0].id]: { state: "submitted", value: { kind: "selected", value: "interactive" } } } });
  assert.equal(await done, "so be it");
  const completed = await event(events, "exit_plan_mode.completed");
  assert.deepEqual(completed.data, { requestId, approved: true, selectedAction: "interactive" });
  assert.equal(await app.rpc.mode.get(), "interactive");
  await until("the editor sees the mode", () => chat.about.config?.values?.mode === "interactive");

  // And now the app answers what the editor sees.
  chat.tell({ type: "session/configChanged", config: { mode: "plan" } });
  await until("the mode is taken", async () => (await app.rpc.mode.get()) === "plan");
  answer = () => ({ approved: false, feedback: "Shorter" });
  const turnId = chat.begin("present the plan Look again then say so be it");
  await chat.ended(turnId);
  const refused = await until("the app hears of it too", () => ofType(events, "exit_plan_mode.completed")[1]);
  assert.deepEqual(refused.data, { requestId: refused.data.requestId, approved: false, feedback: "Shorter" });
  assert.equal(await app.rpc.mode.get(), "plan");
});

alone("a message can be meant for plan mode, and an approved plan is to be begun at once", async ({ start }) => {
  const { session: chat, events } = await session(start(), {
    onExitPlanModeRequest: () => ({ approved: true, selectedAction: "interactive" }),
  });
  await ask(chat, { prompt: "write the plan 1. Look then present the plan Look first then say begun", agentMode: "plan" });
  const modes = ofType(events, "session.mode_changed").map(({ data }) => data.newMode);
  assert.deepEqual(modes, ["plan", "interactive"]);
  const told = ofType(events, "tool.execution_complete").at(-1).data.result.content;
  assert.match(told, /^Plan approved! Exited plan mode\.\n\nYou are now in interactive mode\. Start implementing the plan now/);
});

// One session, seen by an app of the Copilot SDK and by a window of VS Code at once: each family of events that the event
// reference describes, with its fields there and what the window makes of it here.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { defineTool } from "@github/copilot-sdk";

import { event, log, ofType, until } from "./help.mjs";
import { agree, below, both, calls, test, texts } from "./vscode.mjs";

const never = () => new Promise(() => {});
const task = (more) => JSON.stringify({ agent_type: "scout", name: "one", description: "Looks around", prompt: "say found it", ...more });
const SCOUT = { name: "scout", displayName: "The Scout", description: "Looks around", prompt: "You look.", tools: ["view"] };

/** Fields that the reference names are there; whatever else there is does not matter. */
const fields = (event, expected) => assert.deepEqual({ ...event.data, ...expected }, event.data, event.type);
/** The second event of a type. The app may hear of it after the window does. */
const another = (events, type) => until(`there is a second ${type}`, () => ofType(events, type)[1]);
const submitted = (kind, value) => ({ state: "submitted", value: { kind, value } });
const inLog = async (home, made, type) => ofType(await log(home, made.sessionId), type);

test("subagent.*: chosen, started, completed, failed, left", async (place) => {
  const { made, events, chat, mine } = await both(place, { customAgents: [SCOUT] });
  await made.send({ prompt: `call task ${task()} then call task ${task({ name: "two", prompt: "fail with authentication" })} then say seen` });
  const started = await event(events, "subagent.started");
  const { toolCallId } = started.data;
  const names = { agentName: "scout", agentDisplayName: "The Scout" };
  fields(started, { toolCallId, ...names, agentDescription: "Looks around" });
  fields(await event(events, "subagent.completed"), { toolCallId, ...names });
  const failed = await event(events, "subagent.failed");
  fields(failed, { toolCallId: (await another(events, "subagent.started")).data.toolCallId, ...names });
  assert.match(failed.data.error, /authentication/i);
  await until("the turn is over", () => chat.shown.turns.length === 2);
  const [first, second] = calls(chat.shown.turns[1]);
  assert.deepEqual([first.toolCallId, second.toolCallId], [toolCallId, failed.data.toolCallId]);
  const sub = await below(mine, chat, toolCallId);
  await until("its turn is over", () => sub.shown.turns.length === 1);
  assert.equal(texts(sub.shown.turns[0]), "found it");
  const broken = await below(mine, chat, failed.data.toolCallId);
  await until("its turn has failed", () => broken.shown.turns[0]?.state === "error");

  await made.rpc.agent.select({ name: "scout" });
  assert.deepEqual((await event(events, "subagent.selected")).data, { agentName: "scout", agentDisplayName: "The Scout", tools: ["view"] });
  assert.match(texts(await chat.ask("describe the request")), /1 tool: view\./, "the agent that the app chose answers the window");
  await made.rpc.agent.deselect();
  assert.deepEqual((await event(events, "subagent.deselected")).data, {});
  for (const [type, count] of [["started", 2], ["completed", 1], ["failed", 1], ["selected", 1], ["deselected", 1]]) {
    assert.equal((await inLog(place.home, made, `subagent.${type}`)).length, count, `subagent.${type} is kept`);
  }
  await agree(place.window, chat);
});

test("skill.invoked: the text that the model got", async (place) => {
  const dir = join(place.work, "skills");
  await mkdir(join(dir, "greeting"), { recursive: true });
  await writeFile(join(dir, "greeting", "SKILL.md"), "---\nname: greeting\ndescription: How to greet\nallowed-tools: view, glob\n---\n# Greeting\n\nSay PINEAPPLE.\n");
  const { made, events, chat } = await both(place, { skillDirectories: [dir] });
  const turn = await chat.ask("use the skill greeting then say done");
  const invoked = await event(events, "skill.invoked");
  fields(invoked, {
    name: "greeting",
    path: join(dir, "greeting", "SKILL.md"),
    content: "# Greeting\n\nSay PINEAPPLE.\n",
    allowedTools: ["view", "glob"],
  });
  assert.deepEqual(await inLog(place.home, made, "skill.invoked"), [invoked]);
  const [call] = calls(turn);
  assert.equal(call.toolName, "skill");
  assert.equal(call.success, true);
  assert.equal(texts(turn), "done");
  await agree(place.window, chat);
});

const everything = {
  command: process.execPath,
  args: [join(dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")), "dist/index.js"), "stdio"],
  tools: ["*"],
};

test("elicitation.*: a server's form, filled in by a window or by the app", async (place) => {
  let answer = never;
  const { made, events, chat } = await both(place, { mcpServers: { every: everything }, onElicitationRequest: () => answer() });
  const turnId = chat.begin("call every-trigger-elicitation-request {} then say thanks");
  const asked = await event(events, "elicitation.requested");
  const { requestId, message, requestedSchema } = asked.data;
  assert.equal(asked.ephemeral, true);
  assert.equal(asked.data.mode, "form");
  assert.equal(requestedSchema.type, "object");
  assert.equal(requestedSchema.properties.name.type, "string");
  assert.ok(requestedSchema.required.includes("name"));
  const request = await chat.inputRequest();
  assert.equal(request.id, requestId);
  assert.equal(request.message, message);
  assert.deepEqual(request.questions.map(({ id }) => id).sort(), Object.keys(requestedSchema.properties).sort());
  chat.say({ type: "chat/inputCompleted", requestId, response: "accept", answers: { name: submitted("text", "Ada") } });
  const turn = await chat.ended(turnId);
  const completed = await event(events, "elicitation.completed");
  assert.equal(completed.ephemeral, true);
  fields(completed, { requestId, action: "accept", content: { name: "Ada" } });
  assert.match(JSON.stringify(calls(turn)[0].content), /Ada/);

  answer = () => ({ action: "decline" });
  const declined = await chat.ask("call every-trigger-elicitation-request {} then say a pity");
  assert.equal(texts(declined), "a pity");
  const again = await another(events, "elicitation.requested");
  fields(await another(events, "elicitation.completed"), { requestId: again.data.requestId, action: "decline" });
  assert.equal(declined.responseParts.find(({ kind }) => kind === "inputRequest").request.id, again.data.requestId);
  assert.deepEqual(await inLog(place.home, made, "elicitation.requested"), []);
  await agree(place.window, chat);
});

test("user_input.*: a question, answered by a window or by the app", async (place) => {
  let answer = never;
  const { made, events, chat } = await both(place, { onUserInputRequest: () => answer() });
  const turnId = chat.begin('ask "Which colour?" choices red, blue');
  const asked = await event(events, "user_input.requested");
  assert.equal(asked.ephemeral, true);
  const { requestId } = asked.data;
  fields(asked, { requestId, question: "Which colour?", choices: ["red", "blue"], allowFreeform: true });
  const request = await chat.inputRequest();
  assert.equal(request.id, requestId);
  assert.deepEqual(request.questions[0].options.map(({ label }) => label), ["red", "blue"]);
  chat.say({ type: "chat/inputCompleted", requestId, response: "accept", answers: { [request.questions[0].id]: submitted("selected", "blue") } });
  assert.match(texts(await chat.ended(turnId)), /User selected: blue/);
  const completed = await event(events, "user_input.completed");
  assert.equal(completed.ephemeral, true);
  fields(completed, { requestId });

  answer = () => ({ answer: "green", wasFreeform: true });
  assert.match(texts(await chat.ask('ask "Which other?"')), /User responded: green/);
  const again = await another(events, "user_input.requested");
  assert.equal(again.data.question, "Which other?");
  fields(await another(events, "user_input.completed"), { requestId: again.data.requestId });
  assert.deepEqual(await inLog(place.home, made, "user_input.requested"), []);
  await agree(place.window, chat);
});

test("exit_plan_mode.*: a plan, decided upon by a window or by the app", async (place) => {
  let answer = never;
  const { made, events, chat } = await both(place, { onExitPlanModeRequest: () => answer() });
  await made.rpc.mode.set({ mode: "plan" });
  const turnId = chat.begin("write the plan 1. Look then present the plan Look first then say so be it");
  const asked = await event(events, "exit_plan_mode.requested");
  assert.equal(asked.ephemeral, true);
  const { requestId } = asked.data;
  const actions = ["interactive", "autopilot", "exit_only"];
  fields(asked, { requestId, summary: "Look first", planContent: "1. Look", actions, recommendedAction: "interactive" });
  const request = await chat.inputRequest();
  assert.equal(request.id, requestId);
  assert.equal(request.message, "Look first");
  assert.deepEqual(request.questions[0].options.map(({ id }) => id), actions);
  chat.say({ type: "chat/inputCompleted", requestId, response: "accept", answers: { [request.questions[0].id]: submitted("selected", "interactive") } });
  assert.equal(texts(await chat.ended(turnId)), "so be it");
  const completed = await event(events, "exit_plan_mode.completed");
  assert.equal(completed.ephemeral, true);
  fields(completed, { requestId, approved: true, selectedAction: "interactive" });
  await until("the window sees the mode", () => chat.about.config?.values?.mode === "interactive");

  await made.rpc.mode.set({ mode: "plan" });
  answer = () => ({ approved: false, feedback: "Shorter" });
  const refused = await chat.ask("present the plan Look again then say very well");
  assert.equal(texts(refused), "very well");
  const again = await another(events, "exit_plan_mode.requested");
  fields(await another(events, "exit_plan_mode.completed"), { requestId: again.data.requestId, approved: false, feedback: "Shorter" });
  assert.equal(await made.rpc.mode.get(), "plan");
  await agree(place.window, chat);
});

test("external_tool.*: a tool of the app, called from a window", async (place) => {
  const called = [];
  const weigh = defineTool("weigh", {
    description: "Weighs a thing",
    parameters: { type: "object", properties: { thing: { type: "string" } } },
    skipPermission: true,
    handler: (args) => {
      called.push(args);
      return "7 g";
    },
  });
  const { made, events, chat } = await both(place, { tools: [weigh] });
  const turn = await chat.ask('call weigh {"thing":"feather"} then say light');
  const asked = await event(events, "external_tool.requested");
  assert.equal(asked.ephemeral, true);
  const [call] = calls(turn);
  const { requestId } = asked.data;
  fields(asked, { requestId, sessionId: made.sessionId, toolCallId: call.toolCallId, toolName: "weigh", arguments: { thing: "feather" } });
  const completed = await event(events, "external_tool.completed");
  assert.equal(completed.ephemeral, true);
  assert.deepEqual(completed.data, { requestId });
  assert.deepEqual(called, [{ thing: "feather" }]);
  assert.deepEqual([call.toolName, call.success, call.content[0].text], ["weigh", true, "7 g"]);
  assert.equal(texts(turn), "light");
  await agree(place.window, chat);
});

test("command.*: a command of the app, given in a window, and one that waits for whoever deals with it", async (place) => {
  const called = [];
  let fail;
  const handler = ({ commandName, args }) => {
    called.push([commandName, args]);
    if (fail) throw new Error(fail);
  };
  const { made, events, chat, mine } = await both(place, { commands: [{ name: "deploy", description: "Ships it", handler }] });
  const text = "/dep";
  const { items } = await mine.client.completions({ channel: chat.uri.toString(), kind: "userMessage", text, offset: text.length });
  assert.deepEqual(items.map(({ insertText, attachment }) => [insertText, attachment._meta.description]), [["/deploy ", "Ships it"]]);
  const turn = await chat.ask("/deploy to production");
  assert.deepEqual(called, [["deploy", "to production"]]);
  assert.equal(turn.state, "complete");
  assert.match(texts(turn), /deploy/);
  const execute = await event(events, "command.execute");
  assert.equal(execute.ephemeral, true);
  const { requestId } = execute.data;
  assert.deepEqual(execute.data, { requestId, command: "/deploy to production", commandName: "deploy", args: "to production" });
  const ran = await event(events, "command.completed");
  assert.equal(ran.ephemeral, true);
  assert.deepEqual(ran.data, { requestId });
  fail = "No network";
  const failed = await chat.ask("/deploy again");
  assert.match(JSON.stringify(failed), /No network/);

  await made.rpc.commands.enqueue({ command: "/help" });
  const queued = await event(events, "command.queued");
  assert.equal(queued.ephemeral, true);
  assert.deepEqual(queued.data, { requestId: queued.data.requestId, command: "/help" });
  await made.rpc.commands.respondToQueuedCommand({ requestId: queued.data.requestId, result: { handled: true } });
  await event(events, "command.completed", ({ data }) => data.requestId === queued.data.requestId);
  assert.match(texts(await chat.ask("/help")), /\/deploy/);
  await agree(place.window, chat);
});

// Capability 8: ask_user, elicitation, leaving plan mode, commands.

import assert from "node:assert/strict";

import { ask, event, ofType, session, test, until } from "./help.mjs";

test("ask_user reaches the app and its answer the model", async ({ start }) => {
  const asked = [];
  const { session: chat, events } = await session(start(), {
    onUserInputRequest: (request) => {
      asked.push(request);
      return { answer: "blue", wasFreeform: false };
    },
  });
  assert.match(await ask(chat, 'ask "Which colour?" choices red, blue'), /User selected: blue/);
  assert.equal(asked[0].question, "Which colour?");
  assert.deepEqual(asked[0].choices, ["red", "blue"]);
  const requested = ofType(events, "user_input.requested")[0];
  const completed = ofType(events, "user_input.completed")[0];
  assert.equal(completed.data.requestId, requested.data.requestId);
});

test("a free answer is told as one", async ({ start }) => {
  const { session: chat } = await session(start(), { onUserInputRequest: () => ({ answer: "Ada", wasFreeform: true }) });
  assert.match(await ask(chat, 'ask "What is your name?"'), /User responded: Ada/);
});

test("an app that takes no questions is not offered ask_user", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.doesNotMatch(await ask(chat, "describe the request"), /ask_user/);
});

test("an app that shows forms is told of them and its answer comes back", async ({ start }) => {
  const shown = [];
  const { session: chat } = await session(start(), {
    onElicitationRequest: (context) => {
      shown.push(context);
      return { action: "accept", content: { name: "Ada" } };
    },
  });
  assert.equal(chat.capabilities.ui?.elicitation, true);
  const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const answer = await chat.ui.elicitation({ message: "Who are you?", requestedSchema });
  assert.deepEqual(answer, { action: "accept", content: { name: "Ada" } });
  assert.equal(shown[0].message, "Who are you?");
  assert.equal(await chat.ui.confirm("Sure?").catch((error) => error.message) !== undefined, true);
});

test("without a form handler there is no elicitation", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.ok(!chat.capabilities.ui?.elicitation);
  await assert.rejects(chat.ui.confirm("Sure?"));
});

test("commands of the app are listed and carried out", async ({ start }) => {
  const called = [];
  const { session: chat, events } = await session(start(), {
    commands: [{ name: "deploy", description: "Ships it", handler: (context) => void called.push(context) }],
  });
  const { commands } = await chat.rpc.commands.list();
  assert.ok(commands.some(({ name }) => name === "deploy"));
  await chat.rpc.commands.execute({ commandName: "deploy", args: "to production" });
  await until("it was called", () => called.length === 1);
  assert.equal(called[0].commandName, "deploy");
  assert.equal(called[0].args, "to production");
  await event(events, "command.execute");
});

test("leaving plan mode asks the app", async ({ start }) => {
  const asked = [];
  const { session: chat, events } = await session(start(), {
    onExitPlanModeRequest: (request) => {
      asked.push(request);
      return { approved: true, selectedAction: "interactive" };
    },
  });
  await chat.rpc.mode.set({ mode: "plan" });
  await chat.rpc.plan.update({ content: "# The plan" });
  const args = { summary: "All is planned", actions: ["interactive", "autopilot"], recommendedAction: "interactive" };
  await ask(chat, `call exit_plan_mode ${JSON.stringify(args)}`);
  assert.equal(asked[0].summary, "All is planned");
  assert.equal(asked[0].planContent, "# The plan");
  assert.ok(ofType(events, "exit_plan_mode.completed").length === 1);
});

test("commands wait for one another, can be looked at and taken back", async ({ start }) => {
  const { session: chat, events } = await session(start());
  const queue = async () => (await chat.rpc.queue.pendingItems()).items.map(({ kind, displayText }) => [kind, displayText]);
  for (const command of ["/one", "/two", "/three", "/four"]) {
    assert.equal((await chat.rpc.commands.enqueue({ command })).queued, true);
  }
  const one = await event(events, "command.queued");
  assert.equal(one.data.command, "/one");
  assert.deepEqual(await queue(), [["command", "/two"], ["command", "/three"], ["command", "/four"]]);
  assert.equal((await chat.rpc.queue.removeMostRecent()).removed, true);
  assert.deepEqual(await queue(), [["command", "/two"], ["command", "/three"]]);
  const respond = ({ data }, result = { handled: true }) => chat.rpc.commands.respondToQueuedCommand({ requestId: data.requestId, result });
  assert.equal((await respond(one)).success, true);
  assert.equal((await respond(one)).success, false);
  const two = await event(events, "command.queued", ({ data }) => data.command === "/two");
  await respond(two, { handled: true, stopProcessingQueue: true });
  assert.deepEqual(await queue(), [["command", "/three"]], "it waits until another is asked for");
  await chat.rpc.commands.enqueue({ command: "/five" });
  const three = await event(events, "command.queued", ({ data }) => data.command === "/three");
  await chat.rpc.queue.clear();
  assert.deepEqual(await queue(), []);
  await respond(three, { handled: false });
  assert.equal((await chat.rpc.queue.removeMostRecent()).removed, false);
});

test("a question aside is answered from the conversation and stays out of it", async ({ start }) => {
  const { session: chat } = await session(start());
  await ask(chat, "say the word is swordfish");
  const before = await chat.getEvents();
  assert.match((await chat.rpc.ui.ephemeralQuery({ question: "what did I say?" })).answer, /swordfish/);
  // The tools go along, as some gateways want them and caches expect them. None is called.
  assert.match((await chat.rpc.ui.ephemeralQuery({ question: "describe the request" })).answer, /and \d+ tools/);
  await chat.rpc.ui.ephemeralQuery({ question: 'call bash {"command":"echo called"}' }).catch(() => {});
  assert.deepEqual(await chat.getEvents(), before);
  await assert.rejects(chat.rpc.ui.ephemeralQuery({ question: "fail with bad request" }));
});

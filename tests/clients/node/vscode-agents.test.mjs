// Skills, custom agents and sub-agents of one session, seen by an app of the Copilot SDK and by a window of VS Code at once.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { event, ofType, until } from "./help.mjs";
import { URI, agree, below, both, calls, test, texts } from "./vscode.mjs";

test("a sub-agent has a chat of its own, and the same events for apps", async (place) => {
  const { made, events, chat, mine } = await both(place);
  const args = { agent_type: "explore", name: "scout", description: "Scouting", prompt: "say found it" };
  await made.send({ prompt: `call task ${JSON.stringify(args)} then say thank you` });
  const started = await event(events, "subagent.started");
  const { toolCallId } = started.data;
  assert.equal(started.data.agentName, "explore");
  assert.equal(started.agentId, toolCallId);
  const done = await event(events, "subagent.completed");
  assert.equal(done.data.toolCallId, toolCallId);
  await until("the turn is over", () => chat.shown.turns.length === 2);
  const [call] = calls(chat.shown.turns[1]);
  assert.equal(call.toolCallId, toolCallId);
  const link = call.content.find(({ type }) => type === "subagent");
  assert.equal(link.agentName, "explore");
  const sub = await below(mine, chat, toolCallId);
  assert.equal(sub.uri.toString(), URI.parse(link.resource).toString());
  await until("its turn is over", () => sub.shown.turns.length === 1);
  assert.equal(sub.shown.turns[0].message.text, "say found it");
  assert.equal(texts(sub.shown.turns[0]), "found it");
  assert.equal(sub.shown.interactivity, "read-only");
  await agree(place.window, chat);
});

test("one in the background lets the window's turn end, and comes back with a turn of its own", async (place) => {
  const { made, events, chat, mine } = await both(place);
  const args = { agent_type: "task", name: "worker", description: "Working", prompt: "wait 1 s then say done", mode: "background" };
  await made.send({ prompt: `call task ${JSON.stringify(args)} then say I wait` });
  await until("the turn is over", () => chat.shown.turns.length === 2);
  assert.equal(texts(chat.shown.turns[1]), "I wait");
  assert.equal(ofType(events, "session.idle").length, 1, "only that of the first message: an agent works");
  // This client does not know background work yet; the host says it all the same.
  const [{ action: { work } }] = mine.heardOf("chat/backgroundWorkSet");
  assert.equal(work.kind, "subagent");
  assert.ok(chat.about.chats.some(({ resource }) => resource === work.chat));
  await until("the agent is told", () => chat.shown.turns.length === 3);
  const { message } = chat.shown.turns[2];
  assert.equal(message.origin.kind, "systemNotification");
  assert.match(message.text, /^Agent "worker" \(task\) has completed successfully/);
  assert.match(texts(chat.shown.turns[2]), /read_agent answered: Agent completed/);
  assert.deepEqual(mine.heardOf("chat/backgroundWorkRemoved").map(({ action }) => action.id), [work.id]);
  assert.equal((await event(events, "system.notification")).data.kind.agentId, "worker");
  await until("all is quiet", () => ofType(events, "session.idle").length === 2);
});

test("a question of a sub-agent can be answered in its chat", async (place) => {
  const { made, events, chat, mine } = await both(place, { onPermissionRequest: () => ({ kind: "no-result" }) });
  const args = { agent_type: "task", name: "t", description: "d", prompt: 'call bash {"command":"touch made"} then say touched' };
  await made.send({ prompt: `call task ${JSON.stringify(args)}` });
  const { agentId } = await event(events, "subagent.started");
  const sub = await below(mine, chat, agentId);
  const { toolCallId } = await sub.toolCall("pending-confirmation");
  sub.say({ type: "chat/toolCallConfirmed", turnId: sub.shown.activeTurn.id, toolCallId, approved: true, confirmed: "user-action" });
  await event(events, "subagent.completed");
  await until("the turn is over", () => chat.shown.turns.length === 2);
  assert.equal((await event(events, "permission.completed")).agentId, agentId);
});

test("agents, skills and instructions are shown as customizations, chosen per message and turned off", async (place) => {
  const { work, window } = place;
  await mkdir(join(work, ".github", "agents"), { recursive: true });
  await mkdir(join(work, ".github", "skills", "greeting"), { recursive: true });
  await writeFile(join(work, "AGENTS.md"), "Be kind.");
  await writeFile(join(work, ".github", "agents", "poet.md"), "---\ndescription: Writes verse\ntools: [view]\n---\nYou are a poet.\n");
  await writeFile(join(work, ".github", "skills", "greeting", "SKILL.md"), "---\nname: greeting\ndescription: How to greet\n---\nSay hi.\n");
  const mine = await window();
  const chat = mine.create(work);
  await chat.ask("say hello");
  const children = () => (chat.about?.customizations ?? []).flatMap(({ children }) => children ?? []);
  await until("they are shown", () => children().length === 3);
  const named = (type) => children().find((child) => child.type === type);
  assert.equal(named("agent").name, "poet");
  assert.equal(named("agent").description, "Writes verse");
  assert.equal(named("rule").name, "AGENTS.md");
  assert.equal(named("skill").enabled, true);
  const turn = await chat.ask("describe the request", { agent: { uri: named("agent").uri } });
  assert.match(texts(turn), /1 tool: view\./);
  assert.equal(turn.message.agent.uri, named("agent").uri);
  const plainTurn = await chat.ask("describe the request");
  assert.match(texts(plainTurn), /skill/);
  chat.tell({ type: "session/customizationToggled", id: named("skill").id, enablement: [{ kind: "session", enabled: false }] });
  await until("it is off", () => named("skill").enabled === false);
  assert.doesNotMatch(texts(await chat.ask("describe the request")), /\bskill\b/);
  const unknown = await chat.ask("say no", { agent: { uri: "file:///nobody.md" } });
  assert.equal(unknown.state, "error");
  await agree(window, chat);
});

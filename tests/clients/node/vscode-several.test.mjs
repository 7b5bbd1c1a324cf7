// VS Code's own client: several windows on one session, tools that a window brings, sessions of apps.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { buildChatUri } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/state/sessionState";

import { RuntimeConnection, ask, event, resume, session, until } from "./help.mjs";
import { Chat, URI, agree, calls, generateUuid, plain, shared, test, texts } from "./vscode.mjs";

const tool = (name) => ({
  name,
  title: `Tool ${name}`,
  description: `Does ${name}`,
  inputSchema: { type: "object", properties: { word: { type: "string", description: "A word" } }, required: ["word"] },
  annotations: { readOnlyHint: true },
});

/** What a window says it can do. */
const activeClient = (window, tools) => ({
  clientId: window.client.clientId,
  displayName: "VS Code",
  tools,
  customizations: [{ type: "plugin", id: "file:///plugins/one", uri: "file:///plugins/one", name: "one", nonce: "1" }],
});

test("what a window says of itself is kept as it said it, and said once", async ({ window, work }) => {
  const mine = await window();
  const me = activeClient(mine, [tool("one"), tool("two")]);
  const chat = mine.create(work, { activeClient: me });
  await chat.ask("say hello");
  assert.deepEqual(plain(chat.sessionView.verifiedValue.activeClients), plain([me]));
  for (let again = 0; again < 5; again += 1) chat.tell({ type: "session/activeClientSet", activeClient: me });
  await mine.client.ping();
  assert.deepEqual(mine.heardOf("session/activeClientSet"), [], "what changes nothing is not echoed");
  const more = activeClient(mine, [tool("one")]);
  chat.tell({ type: "session/activeClientSet", activeClient: more });
  await until("it is taken", () => chat.sessionView.verifiedValue.activeClients[0].tools.length === 1);
  assert.deepEqual(plain(chat.sessionView.verifiedValue.activeClients), plain([more]));
});

test("a tool of one window runs there, whoever asks", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  other.tell({ type: "session/activeClientSet", activeClient: activeClient(other.window, [tool("greet")]) });
  await until("the tool is known", () => chat.about.activeClients.length === 1);
  const turnId = chat.begin('call greet {"word":"you"} then say done');
  const call = await other.toolCall("running");
  assert.deepEqual(call.contributor, { kind: "client", clientId: other.window.client.clientId });
  assert.deepEqual(JSON.parse(call.toolInput), { word: "you" });
  const { toolCallId } = call;
  const result = { success: true, pastTenseMessage: "Greeted you", content: [{ type: "text", text: "hello, you" }] };
  chat.say({ type: "chat/toolCallComplete", turnId, toolCallId, result: { ...result, success: false } });
  await until("who does not run it is refused", () => chat.window.heardOf("chat/toolCallComplete").some(({ rejectionReason }) => rejectionReason));
  other.say({ type: "chat/toolCallComplete", turnId, toolCallId, result });
  const [done] = calls(await chat.ended(turnId));
  assert.deepEqual([done.success, done.pastTenseMessage, done.content], [true, "Greeted you", result.content]);
  await other.ended(turnId);
  await agree(window, chat, other);
});

test("a window that closes takes its tools with it, and its calls fail", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  other.tell({ type: "session/activeClientSet", activeClient: activeClient(other.window, [tool("greet")]) });
  await until("the tool is known", () => chat.about.activeClients.length === 1);
  const turnId = chat.begin('call greet {"word":"you"} then say done');
  await other.toolCall("running");
  other.tell({ type: "session/activeClientRemoved", clientId: other.window.client.clientId });
  const turn = await chat.ended(turnId);
  assert.equal(calls(turn)[0].success, false);
  assert.equal(texts(turn), "done");
  assert.deepEqual(chat.about.activeClients, []);
});

test("titles, flags and settings are the same everywhere", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  const watcher = await window();
  // A window renames a session by its own URI or by its default chat's.
  chat.tell({ type: "session/titleChanged", title: "A title" });
  chat.say({ type: "session/titleChanged", title: "A better title" });
  await until("the other sees it", () => other.about.title === "A better title");
  other.tell({ type: "session/isArchivedChanged", isArchived: true });
  chat.tell({ type: "session/isReadChanged", isRead: true });
  other.tell({ type: "session/configChanged", config: { autoApprove: "autoApprove" } });
  await until("all is taken", () => (chat.about.status & 96) === 96 && chat.about.config.values.autoApprove === "autoApprove");
  const turn = await chat.ask('call bash {"command":"touch made"} then say done');
  assert.equal(texts(turn), "done");
  assert.equal(await readFile(join(work, "made"), "utf8"), "");
  await until("the others heard", () => watcher.notified.some(({ type, changes }) => type === "root/sessionSummaryChanged" && changes.title === "A better title"));
  const [listed] = await watcher.client.listSessions();
  assert.equal(listed.summary, "A better title");
  assert.equal(listed.status & 64, 64);
  await other.ended(turn.id);
  await until("they agree", () => other.about.status === chat.about.status);
  await agree(window, chat, other);
});

test("a further chat has a title of its own", async ({ window, work, host }) => {
  const [chat, other] = await shared(window, work);
  const uri = URI.parse(buildChatUri(chat.session, generateUuid()));
  await chat.window.client.createChat(chat.session, uri);
  await until("there are two", () => other.about.chats.length === 2);
  await until("the first is told from the other by the session's title", () => other.about.chats[0].title === other.about.title);
  assert.equal(other.about.chats[1].title, "", "VS Code has words of its own until there is a name");
  const second = new Chat(other.window, chat.session, uri);
  await until("it can be seen", () => second.shown);
  await second.ask("say something else");
  await until("its first words name it", () => chat.about.chats[1].title === "say something else");
  const title = chat.about.title;
  chat.window.client.dispatch(uri.toString(), { type: "session/titleChanged", title: "The second" });
  await until("it has its title", () => other.about.chats.find(({ resource }) => resource === uri.toString()).title === "The second");
  assert.equal(other.about.title, title, "the session keeps its own");
  await agree(window, chat, other);
  await host.kill();
  await host.restart();
  const later = (await window()).look(chat.session);
  await until("it is there again", () => later.about);
  assert.deepEqual(later.about.chats.map(({ title }) => title).slice(1), ["The second"]);
});

test("a fork goes its own way, and a chat is closed again", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  const second = await chat.ask("say the second");
  const uri = URI.parse(buildChatUri(chat.session, generateUuid()));
  await chat.window.client.createChat(chat.session, uri, { fork: { source: chat.uri, turnId: chat.shown.turns[0].id } });
  const fork = new Chat(other.window, chat.session, uri);
  await until("the fork is there", () => fork.shown);
  assert.deepEqual(fork.shown.turns.map(({ message }) => message.text), ["say hello"]);
  await fork.ask("say only here");
  assert.deepEqual(chat.shown.turns.map(({ message }) => message.text), ["say hello", "say the second"]);
  assert.equal(second.state, "complete");
  await chat.window.client.disposeChat(uri);
  await until("it is closed", () => chat.about.chats.length === 1 && other.about.chats.length === 1);
  await agree(window, chat);
});

test("messages wait in a queue, and a hint is taken into the running turn", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  const running = chat.begin('call bash {"command":"touch first"} then say first done');
  const { toolCallId } = await other.toolCall("pending-confirmation");
  const wait = (kind, text) =>
    chat.say({ type: "chat/pendingMessageSet", kind, id: generateUuid(), message: { text, origin: { kind: "user" } } });
  wait("queued", "say queued");
  wait("steering", "say steered");
  await until("the other sees them waiting", () => other.shown.queuedMessages?.length === 1 && other.shown.steeringMessage);
  other.say({ type: "chat/toolCallConfirmed", turnId: running, toolCallId, approved: true, confirmed: "user-action" });
  const said = (chat) => chat.shown.turns.map((turn) => texts(turn));
  for (const view of [other, chat]) {
    await until("all is answered", () => !view.shown.activeTurn && said(view).at(-1) === "queued");
    assert.deepEqual([view.shown.queuedMessages ?? [], view.shown.steeringMessage], [[], undefined]);
    assert.equal(said(view).filter((text) => text.includes("steered")).length, 1);
  }
  await agree(window, chat, other);
});

test("an app of the Copilot SDK and a window share their sessions", async ({ window, work, host, startApp }) => {
  const { url, connectionToken } = host.sdk;
  const connection = RuntimeConnection.forUri(url, { connectionToken });
  const app = startApp({ connection, workingDirectory: undefined, baseDirectory: undefined, env: undefined });
  const { session: made, events } = await session(app, { workingDirectory: work, onPermissionRequest: () => ({ kind: "no-result" }) });
  assert.equal(await ask(made, "say from the app"), "from the app");
  const mine = await window();
  const [listed] = await mine.client.listSessions();
  const chat = mine.look(listed.session);
  await until("the window shows it", () => chat.shown && chat.about);
  assert.equal(texts(chat.shown.turns[0]), "from the app");
  await made.send({ prompt: 'call bash {"command":"touch made"} then say done' });
  const { toolCallId } = await chat.toolCall("pending-confirmation");
  const turnId = chat.shown.activeTurn.id;
  chat.say({ type: "chat/toolCallConfirmed", turnId, toolCallId, approved: true, confirmed: "user-action" });
  const said = (content) => event(events, "assistant.message", ({ data }) => data.content === content);
  await said("done");
  await chat.ended(turnId);
  assert.equal(texts(await chat.ask("say from the window")), "from the window");
  await said("from the window");
  await agree(window, chat);
  // And the other way round.
  const own = mine.create(work);
  await own.ask("say made by the window");
  const { session: again } = await resume(app, own.session.path.slice(1));
  assert.equal(await ask(again, "say seen by the app"), "seen by the app");
  await until("the window sees it", () => own.shown.turns.length === 2);
  assert.equal(texts(own.shown.turns[1]), "seen by the app");
  await agree(window, own);
});

test("a window that drops a session with turns in it deletes nothing", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  await chat.window.client.disposeSession(chat.session);
  assert.equal(texts(await other.ask("say still here")), "still here");
  await until("who dropped it and still shows it sees that", () => chat.shown.turns.length === 2);
  chat.window.cut();
  await until("it is noticed", () => chat.window.client.connectionState === "reconnecting");
  await until("it is back", () => chat.window.client.connectionState === "connected");
  await chat.window.client.disposeSession(chat.session);
  assert.equal((await other.window.client.listSessions()).length, 1);
  assert.equal(texts(await chat.ask("say and here")), "and here");
  await other.ended(chat.shown.turns.at(-1).id);
  await agree(window, chat, other);
});

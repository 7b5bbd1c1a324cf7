// VS Code's own client: several windows on one session, tools that a window brings, connections and hosts that die.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { buildChatUri } from "@codingame/monaco-vscode-api/vscode/vs/platform/agentHost/common/state/sessionState";

import { until } from "./help.mjs";
import { Chat, URI, calls, generateUuid, plain, test, texts } from "./vscode.mjs";

/** A session with one turn behind it, seen by two windows. */
async function shared(window, work) {
  const chat = (await window()).create(work);
  await chat.ask("say hello");
  const other = (await window()).look(chat.session);
  await until("both see it", () => other.shown && other.about);
  return [chat, other];
}

/** Both windows, and one that comes now, have the same state, and nothing of their own is left over. */
async function agree(window, ...chats) {
  const fresh = (await window()).look(chats[0].session);
  await until("the new window has it", () => fresh.shown && fresh.about);
  for (const { shown, about, chatView, sessionView } of chats) {
    assert.deepEqual(plain(shown), plain(fresh.shown));
    assert.deepEqual(plain(about), plain(fresh.about));
    assert.deepEqual(shown, chatView.verifiedValue);
    assert.deepEqual(about, sessionView.verifiedValue);
  }
}

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
  assert.deepEqual(other.about.chats.map(({ title }) => title), ["", ""], "VS Code has words of its own until there is a name");
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
  const message = (text) => ({ text, origin: { kind: "user" } });
  const id = generateUuid();
  chat.say({ type: "chat/pendingMessageSet", kind: "queued", id, message: message("say queued") });
  await until("the other sees it waiting", () => other.shown.queuedMessages?.length === 1);
  other.say({ type: "chat/toolCallConfirmed", turnId: running, toolCallId, approved: true, confirmed: "user-action" });
  await until("the queue is empty and answered", () => other.shown.turns.length === 3);
  assert.deepEqual(other.shown.turns.map((turn) => texts(turn)), ["hello", "first done", "queued"]);
  await until("the first sees it too", () => chat.shown.turns.length === 3);
  await agree(window, chat, other);
});

test("a cut connection comes back with everything and nothing twice", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  const turnId = chat.begin("slowly 2 ms, stream 300 chunks");
  for (let cuts = 0; cuts < 3; cuts += 1) {
    const length = texts(other.shown.activeTurn ?? { responseParts: [] }).length;
    await until("more came", () => !other.shown.activeTurn || texts(other.shown.activeTurn).length > length + 20);
    chat.window.cut();
    await until("it is noticed", () => chat.window.client.connectionState === "reconnecting");
    await until("it is back", () => chat.window.client.connectionState === "connected");
  }
  const turn = await chat.ended(turnId);
  assert.equal(texts(turn), Array.from({ length: 300 }, (_, index) => `${index + 1} `).join(""));
  await other.ended(turnId);
  await agree(window, chat, other);
});

test("what is typed while the connection is away arrives once", async ({ window, work }) => {
  const [chat, other] = await shared(window, work);
  chat.window.cut();
  await until("it is noticed", () => chat.window.client.connectionState === "reconnecting");
  const turnId = chat.begin("say from the tunnel");
  assert.equal(chat.shown.activeTurn.id, turnId, "the window shows it at once");
  assert.equal(texts(await chat.ended(turnId)), "from the tunnel");
  await other.ended(turnId);
  // Sent and cut in the same moment: whether the host heard it or not, there is one turn.
  const second = chat.begin("say on the edge");
  chat.window.cut();
  assert.equal(texts(await chat.ended(second)), "on the edge");
  await other.ended(second);
  assert.equal(other.shown.turns.length, 3);
  await agree(window, chat, other);
});

test("a host that was killed is found again with all that was said", async ({ window, work, host }) => {
  const [chat, other] = await shared(window, work);
  chat.tell({ type: "session/titleChanged", title: "Kept" });
  await until("it is taken", () => other.about.title === "Kept");
  const turnId = chat.begin('call bash {"command":"echo kept"} then say so far then wait 60000 ms');
  await until("it is in the middle", () => other.shown.activeTurn && texts(other.shown.activeTurn) === "so far");
  const seen = chat.window.client._serverSeq;
  await host.kill();
  await until("both notice", () => [chat, other].every(({ window }) => window.client.connectionState === "reconnecting"));
  await host.restart();
  await until("both are back", () => [chat, other].every(({ window }) => window.client.connectionState === "connected"));
  assert.ok(chat.window.client._serverSeq >= seen, "the host's count goes on");
  const turn = await chat.ended(turnId);
  assert.notEqual(turn.state, "complete");
  assert.equal(calls(turn)[0].success, true);
  assert.equal(chat.about.title, "Kept");
  assert.equal(texts(await chat.ask("say and on it goes")), "and on it goes");
  await until("the other has it too", () => other.shown.turns.length === 3);
  await agree(window, chat, other);
});

test("a question that was open when the host died is not a trap", async ({ window, work, host }) => {
  const [chat] = await shared(window, work);
  const turnId = chat.begin('call bash {"command":"touch made"} then say done');
  await chat.toolCall("pending-confirmation");
  await host.kill();
  await host.restart();
  await until("it is back", () => chat.window.client.connectionState === "connected");
  const pending = chat.shown.activeTurn?.responseParts.find(({ toolCall }) => toolCall?.status === "pending-confirmation");
  if (pending) {
    chat.say({ type: "chat/toolCallConfirmed", turnId, toolCallId: pending.toolCall.toolCallId, approved: true, confirmed: "user-action" });
  }
  await chat.ended(turnId);
  assert.equal(texts(await chat.ask("say free")), "free");
  await until("nothing is waited for", () => !chat.about.inputNeeded?.length);
  await agree(window, chat);
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

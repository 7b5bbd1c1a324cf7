// VS Code's own client: handshake, drafts, turns, tools, questions, files, as a window does them.

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { turnsToHistory, toolCallStateToInvocation, createInputRequestCarousel } from "@codingame/monaco-vscode-api/vscode/vs/workbench/contrib/chat/browser/agentSessions/agentHost/stateToProgressAdapter";

import { until } from "./help.mjs";
import { URI, Window, calls, generateUuid, plain, test, texts } from "./vscode.mjs";

/** What the chat pane shows of finished turns: one line for each part of the answers. */
function pane(chat) {
  const history = turnsToHistory(chat.session, chat.shown.turns, "lodge", "remote");
  return history.flatMap((item) => (item.type === "request" ? [`> ${item.prompt}`] : [...item.parts.flatMap(line), ...failure(item)]));
}

const words = (message) => (typeof message === "string" ? message : message?.value);

function line(part) {
  switch (part.kind) {
    case "usage":
      return [];
    case "markdownContent":
      return [part.content.value];
    case "thinking":
      return [`(${part.value})`];
    case "toolInvocationSerialized": {
      const { commandLine, terminalCommandOutput } = part.toolSpecificData ?? {};
      return [commandLine ? `$ ${commandLine.original} → ${terminalCommandOutput.text.trim()}` : `[${words(part.pastTenseMessage)}]`];
    }
    default:
      return [part.kind];
  }
}

const failure = ({ errorDetails }) => (errorDetails ? [`! ${errorDetails.message}`] : []);

test("a window says hello, and what it tells about itself does no harm", async ({ window, work }) => {
  const first = await window();
  const hello = first.client.initializeResult.get();
  assert.equal(hello.protocolVersion, "0.9.0");
  assert.equal(first.client.defaultDirectory, work);
  assert.deepEqual(await first.client.getCompletionTriggerCharacters(), hello.completionTriggerCharacters);
  const [agent] = first.client.rootState.value.agents;
  assert.equal(agent.provider, "lodge");
  assert.equal(agent.models[0].id, "rehearsal");
  const told = first.said.filter(({ params }) => params?.action?.type === "root/configChanged");
  assert.ok(told.length >= 6, "VS Code mirrors its settings into the host's");
  await first.client.ping();
  assert.deepEqual(first.client.rootState.value, first.client.rootState.verifiedValue);
  assert.deepEqual(await first.client.listSessions(), []);
  await assert.rejects(first.client.getNetworkDiagnosticsInfo(), { code: -32601 });
  assert.equal(first.client.connectionState, "connected");
});

test("a window without the token stays outside", async ({ host }) => {
  for (const search of ["", "?tkn=wrong"]) {
    const address = new URL(search, host.address);
    address.search = search;
    const stranger = new Window(address, { reconnectPolicy: { autoRestore: false, initialDelayMs: 1, maxDelayMs: 1, maxAttempts: 0 } });
    await assert.rejects(stranger.client.connect(), /received 403/);
    stranger.client.dispose();
  }
});

test("what a session can be set to is asked for many times at once", async ({ window, work }) => {
  const { client } = await window();
  const ask = (config) => client.resolveSessionConfig({ provider: "lodge", workingDirectory: URI.file(work), config });
  const all = await Promise.all([ask(undefined), ask({ autoApprove: "default" }), ask({ mode: "plan" }), ask({ isolation: "folder", mode: "plan" })]);
  assert.deepEqual(all.map(({ values }) => values.mode), ["interactive", "interactive", "plan", "plan"]);
  for (const { schema, values } of all) {
    for (const key of Object.keys(values)) assert.ok(schema.properties[key], `${key} is described`);
  }
});

test("a draft is nobody's business, and is gone when it is dropped", async ({ window, work }) => {
  const [mine, other] = [await window(), await window()];
  const draft = mine.create(work);
  assert.equal((await draft.made).toString(), draft.session.toString());
  await until("the draft is ready", () => draft.about?.lifecycle === "ready" && draft.shown);
  assert.equal(draft.about.defaultChat, draft.uri.toString());
  assert.deepEqual(draft.about.chats.map(({ resource }) => resource), [draft.uri.toString()]);
  assert.deepEqual(draft.about.workingDirectories, [URI.file(work).toString()]);
  assert.deepEqual(await other.client.listSessions(), []);
  await mine.client.disposeSession(draft.session);
  await assert.rejects(other.client.subscribe(draft.session), { code: -32001 });
  assert.deepEqual(await other.client.listSessions(), []);
  assert.deepEqual(other.notified, []);
});

test("create, subscribe and the first turn go out in one breath", async ({ window, work }) => {
  const [mine, other] = [await window(), await window()];
  const chat = mine.create(work);
  const turn = await chat.ask("think about doors then say They open.", { model: { id: "rehearsal" } });
  assert.equal(turn.state, "complete");
  assert.equal(texts(turn, "reasoning"), "Let me think about doors. There is much to say about doors.");
  assert.equal(texts(turn), "They open.");
  assert.equal(turn.usage.model, "rehearsal");
  assert.equal(typeof turn.duration, "number");
  await chat.ask('call bash {"command":"echo from the shell"} then say done');
  assert.deepEqual(pane(chat), [
    "> think about doors then say They open.",
    "(Let me think about doors. There is much to say about doors.)",
    "They open.",
    '> call bash {"command":"echo from the shell"} then say done',
    "$ echo from the shell → from the shell",
    "done",
  ]);
  const added = await until("the other window hears of it", () => other.notified.find(({ type }) => type === "root/sessionAdded"));
  assert.equal(added.summary.resource, chat.session.toString());
  assert.equal(other.notified.filter(({ type }) => type === "root/sessionAdded").length, 1);
  const [listed] = await other.client.listSessions();
  assert.equal(listed.session.toString(), chat.session.toString());
  assert.equal(listed.workingDirectory.path, work);
  assert.equal(listed.summary, chat.about.title);
  assert.deepEqual(mine.warnings, []);
});

test("a late window sees what the first one sees", async ({ window, work }) => {
  const chat = (await window()).create(work);
  await chat.ask('think aloud then say "one" then call view {"path":"."} then say two');
  await chat.ask("fail with quota");
  const running = chat.begin("say before then wait 60000 ms");
  await until("it streams", () => texts(chat.shown.activeTurn) === "before");
  const late = (await window()).look(chat.session);
  await until("it is there", () => late.shown && late.about);
  assert.deepEqual(plain(late.shown), plain(chat.chatView.verifiedValue));
  assert.deepEqual(plain(late.about), plain(chat.sessionView.verifiedValue));
  late.say({ type: "chat/turnCancelled", turnId: running, duration: 1 });
  await chat.ended(running);
  await late.ended(running);
  assert.deepEqual(plain(late.shown), plain(chat.shown));
});

test("a tool waits for a person, who may sit at another window", async ({ window, work }) => {
  const chat = (await window()).create(work);
  await chat.made;
  const other = (await window()).look(chat.session);
  const turnId = chat.begin('call bash {"command":"touch made"} then say done');
  await until("the other window is there", () => other.shown);
  const call = await other.toolCall("pending-confirmation");
  const invocation = toolCallStateToInvocation(call, undefined, other.session, "remote");
  assert.equal(invocation.toolSpecificData.kind, "terminal");
  assert.equal(invocation.state.get().type, 1, "VS Code shows a question");
  await until("the session says that it waits", () => other.about.inputNeeded?.length === 1 && (other.about.status & 24) === 24);
  other.say({ type: "chat/toolCallConfirmed", turnId, toolCallId: call.toolCallId, approved: true, confirmed: "user-action" });
  const turn = await chat.ended(turnId);
  assert.equal(texts(turn), "done");
  assert.equal(calls(turn)[0].success, true);
  assert.equal(await readFile(join(work, "made"), "utf8"), "");
  await until("nothing is waited for", () => !chat.about.inputNeeded?.length && chat.about.status === other.about.status);
});

test("the first answer counts, and the second is taken back", async ({ window, work }) => {
  const chat = (await window()).create(work);
  await chat.made;
  const other = (await window()).look(chat.session);
  const turnId = chat.begin('call bash {"command":"touch made"} then say done');
  await until("the other window is there", () => other.shown);
  const { toolCallId } = await chat.toolCall("pending-confirmation");
  await other.toolCall("pending-confirmation");
  chat.say({ type: "chat/toolCallConfirmed", turnId, toolCallId, approved: false, reason: "denied" });
  other.say({ type: "chat/toolCallConfirmed", turnId, toolCallId, approved: true, confirmed: "user-action" });
  const [mine, theirs] = await Promise.all([chat.ended(turnId), other.ended(turnId)]);
  assert.deepEqual(plain(mine), plain(theirs));
  const heard = () => [chat, other].flatMap(({ window }) => window.heardOf("chat/toolCallConfirmed"));
  const refused = () => heard().filter(({ rejectionReason }) => rejectionReason);
  await until("one of the two hears that it came too late", () => refused().length > 0);
  assert.equal(refused().length, 1);
  assert.deepEqual(chat.shown, chat.chatView.verifiedValue, "nothing is left pending");
  assert.deepEqual(other.shown, other.chatView.verifiedValue);
});

test("an error ends its turn and not the chat", async ({ window, work }) => {
  const chat = (await window()).create(work);
  const turn = await chat.ask("fail with quota");
  assert.equal(turn.state, "error");
  assert.equal(turn.responseParts.at(-1).kind, "error");
  assert.match(pane(chat)[1], /^! /);
  assert.equal(texts(await chat.ask("say and on")), "and on");
});

test("a turn is cancelled in the window at once and in the host soon", async ({ window, work }) => {
  const chat = (await window()).create(work);
  const turnId = chat.begin("say a start then wait 60000 ms then say never");
  await until("it has begun", () => chat.shown?.activeTurn && texts(chat.shown.activeTurn));
  chat.say({ type: "chat/turnCancelled", turnId, duration: 12.5 });
  assert.equal(chat.shown.activeTurn, undefined);
  const turn = await chat.ended(turnId);
  assert.equal(turn.state, "cancelled");
  assert.equal(texts(turn), "a start");
  chat.say({ type: "chat/turnCancelled", turnId, duration: 12 });
  assert.equal(texts(await chat.ask("say awake")), "awake");
});

test("a question is put and answered", async ({ window, work }) => {
  const chat = (await window()).create(work);
  const turnId = chat.begin('ask "Which colour?" choices red, blue');
  const part = await until("it is asked", () => chat.shown?.activeTurn?.responseParts.find(({ kind }) => kind === "inputRequest"));
  const { questions } = createInputRequestCarousel(part.request, "remote");
  assert.equal(questions[0].type, "singleSelect");
  assert.deepEqual(questions[0].options.map(({ label }) => label), ["red", "blue"]);
  const value = { kind: "selected", value: questions[0].options[1].value };
  chat.say({ type: "chat/inputCompleted", requestId: part.request.id, response: "accept", answers: { [questions[0].id]: { state: "submitted", value } } });
  assert.match(texts(await chat.ended(turnId)), /blue/);
});

test("files of the workspace are read and written through the host", async ({ window, work }) => {
  const { client } = await window();
  await mkdir(join(work, "src"));
  await writeFile(join(work, "src", "a b.txt"), "hello");
  const root = "ahp-root://";
  const { entries } = await client.resourceList(URI.file(join(work, "src")));
  assert.deepEqual(entries, [{ name: "a b.txt", type: "file" }]);
  const file = URI.file(join(work, "src", "a b.txt"));
  assert.equal((await client.resourceRead(file, "utf-8")).data, "hello");
  await client.resourceWrite({ channel: root, uri: file.toString(), data: Buffer.from("bye").toString("base64"), encoding: "base64" });
  assert.equal(await readFile(file.fsPath, "utf8"), "bye");
  assert.equal((await client.resourceResolve({ channel: root, uri: file.toString() })).size, 3);
  await assert.rejects(client.resourceRead(URI.file(join(work, "none"))), { code: -32008 });
});

test("completions are asked of the session", async ({ window, work }) => {
  const chat = (await window()).create(work);
  await writeFile(join(work, "needle.txt"), "");
  await until("it is ready", () => chat.about?.lifecycle === "ready");
  const { items } = await chat.window.client.completions({ channel: chat.session.toString(), kind: "userMessage", text: "look at #need", offset: 13 });
  assert.ok(items.some(({ insertText }) => insertText.includes("needle.txt")), JSON.stringify(items));
});

test("an identifier used twice is refused and the first session stays", async ({ window, work }) => {
  const chat = (await window()).create(work);
  await chat.ask("say here");
  await assert.rejects((await window()).client.createSession({ provider: "lodge", session: chat.session }), { code: -32003 });
  await assert.rejects(chat.window.client.createSession({ provider: "no-such", session: URI.parse(`no-such:/${generateUuid()}`) }), { code: -32002 });
  assert.equal(texts(await chat.ask("say still here")), "still here");
});

// VS Code's own client: connections that are cut, and hosts that are killed.

import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";

import { until } from "./help.mjs";
import { agree, calls, plain, shared, test, texts } from "./vscode.mjs";

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

for (const [how, host] of Object.entries({
  "": async () => {},
  " nor when the host is killed": ({ restart }) => restart(),
  " nor when it forgets the window": ({ restart }, home) => restart(() => rm(join(home, "registers.jsonl"))),
})) {
  test(`a turn whose echo was lost is not begun again${how}`, async ({ window, work, home, host: running }) => {
    const [chat, other] = await shared(window, work);
    chat.window.deaf();
    const turnId = chat.begin("say once");
    await other.ended(turnId);
    const restart = async (between) => {
      await running.kill();
      await between?.();
      await running.restart();
    };
    await host({ restart }, home);
    chat.window.cut();
    await until("it is noticed", () => chat.window.client.connectionState === "reconnecting");
    assert.equal(texts(await chat.ended(turnId)), "once");
    assert.equal(texts(await chat.ask("say twice")), "twice");
    await until("the other has it too", () => other.shown.turns.length === 3);
    await agree(window, chat, other);
  });
}

test("a question that was open when the host died is not a trap", async ({ window, work, host }) => {
  const [chat] = await shared(window, work);
  const turnId = chat.begin('call bash {"command":"touch made"} then say done');
  await chat.toolCall("pending-confirmation");
  await host.kill();
  await host.restart();
  await until("it is back", () => chat.window.client.connectionState === "connected");
  // It is asked again, and the answer counts.
  const { toolCallId } = await chat.toolCall("pending-confirmation");
  chat.say({ type: "chat/toolCallConfirmed", turnId, toolCallId, approved: true, confirmed: "user-action" });
  assert.equal(texts(await chat.ended(turnId)), "done");
  assert.equal(texts(await chat.ask("say free")), "free");
  await until("nothing is waited for", () => !chat.about.inputNeeded?.length);
  await agree(window, chat);
});

test("a long chat is shown whole, also after a restart", async ({ window, work, host }) => {
  const [chat] = await shared(window, work);
  const long = Array.from({ length: 6 }, (_, index) => `stream ${index + 1000} chunks of 500 bytes`);
  for (const text of long) await chat.ask(text);
  await host.kill();
  await host.restart();
  const late = (await window()).look(chat.session);
  await until("it is there", () => late.shown && late.about);
  assert.deepEqual(late.shown.turns.map(({ message }) => message.text), ["say hello", ...long]);
  assert.deepEqual(late.shown.turns.map((turn) => texts(turn).length), [5, ...long.map((_, index) => (index + 1000) * 500)]);
  await until("the first is back", () => chat.window.client.connectionState === "connected");
  assert.deepEqual(plain(chat.shown), plain(late.shown));
});

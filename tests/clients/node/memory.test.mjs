// Facts that agents keep about a project, from one session to the next.

import assert from "node:assert/strict";

import { ask, ofType, session, test, types } from "./help.mjs";

const keep = 'call store_memory {"subject":"testing","fact":"Run make check","citations":"Makefile:1"} then say kept';

test("a fact is kept with permission, told to later sessions, and forgotten by the person", async ({ start }) => {
  const client = start();
  const asked = [];
  const memory = { enabled: true };
  const { session: chat, events } = await session(client, {
    memory,
    onPermissionRequest: (request) => {
      asked.push(request);
      return { kind: "approve-once" };
    },
  });
  assert.equal(await ask(chat, keep), "kept");
  const [{ kind, action, subject, fact, citations }] = asked;
  assert.deepEqual({ kind, action, subject, fact, citations }, {
    kind: "memory",
    action: "store",
    subject: "testing",
    fact: "Run make check",
    citations: "Makefile:1",
  });
  assert.ok(types(events).includes("session.memory_changed"));

  const told = async (config) => {
    const { session: later, events } = await session(client, config);
    await ask(later, "say hello");
    return { later, prompt: ofType(events, "system.message")[0].data.content };
  };
  const { later, prompt } = await told({ memory });
  assert.match(prompt, /- testing: Run make check \(from: Makefile:1\)/);
  const without = await told({});
  assert.doesNotMatch(without.prompt, /make check/);
  const { tools } = await without.later.rpc.tools.getCurrentMetadata();
  assert.ok(!tools.some(({ name }) => name === "store_memory"));

  const command = async (input) => (await later.rpc.commands.invoke({ name: "memory", input })).text;
  assert.match(await command(""), /^1\. testing: Run make check/);
  await assert.rejects(command("forget 2"), /no number 2/);
  assert.equal(await command("forget 1"), "Forgotten: Run make check");
  assert.match(await command(""), /Nothing is remembered/);
});

test("a fact that nobody allows is not kept", async ({ start }) => {
  const client = start();
  const memory = { enabled: true };
  const { session: chat, events } = await session(client, {
    memory,
    onPermissionRequest: () => ({ kind: "reject" }),
  });
  await ask(chat, keep);
  assert.ok(!types(events).includes("session.memory_changed"));
  assert.match((await chat.rpc.commands.invoke({ name: "memory", input: "" })).text, /Nothing is remembered/);
});

// Extensions: programs of a folder that join a session of an app which asks for them. Factories: what they offer, run by run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { ask, bare, environment, event, host, lodge, log, ofType, resume, session, test, to, types, until } from "./help.mjs";

/** The directory of the SDK, as an app names it for extensions. */
const sdk = () => {
  const root = dirname(createRequire(import.meta.url).resolve("@github/copilot-sdk"));
  return root.endsWith("cjs") ? dirname(root) : root;
};
const asked = () => ({ requestExtensions: true, extensionSdkPath: sdk() });

/** Writes an extension into a folder. */
async function extension(dir, name, text) {
  const place = join(dir, ".github/extensions", name);
  await mkdir(place, { recursive: true });
  await writeFile(join(place, "extension.mjs"), text);
  return place;
}

/** How extensions stand, by id. */
const standing = async (chat) =>
  Object.fromEntries((await chat.rpc.extensions.list()).extensions.map(({ id, status }) => [id, status]));

/** Waits until an extension stands so. */
const stands = (chat, id, status) => until(`${id} is ${status}`, async () => (await standing(chat))[id] === status);

/** One that has a tool, and factories that note how often each part of them ran. */
const WORKER = `
  import { appendFileSync, existsSync } from "node:fs";
  import { defineFactory, joinSession } from "@github/copilot-sdk/extension";

  // Not beside the extension: what lies there is part of it.
  const file = (name) => new URL("../../../" + name, import.meta.url);
  const note = (word) => appendFileSync(file("notes"), word + "\\n");
  const until = async (name, signal) => {
    while (!existsSync(file(name))) {
      signal?.throwIfAborted();
      await new Promise((go) => setTimeout(go, 10));
    }
  };
  const factory = (name, run, more = {}) =>
    defineFactory({ meta: { name, description: "It is " + name, phases: [], ...more }, run });

  await joinSession({
    tools: [{
      name: "greet",
      description: "Greets.",
      parameters: { type: "object", properties: {} },
      skipPermission: true,
      handler: async () => "Hello from " + process.env.SESSION_ID + ", " + (process.env.GITHUB_TOKEN ?? "no token"),
    }],
    factories: [
      factory("echo", async ({ args }) => args),
      factory("steps", async ({ step, phase, log }) => {
        phase("one");
        const first = await step("first", () => (note("first"), 1));
        log("half way");
        if (!existsSync(file("mended"))) throw new Error("it broke");
        phase("two");
        return [first, await step("second", () => (note("second"), 2))];
      }, { phases: [{ title: "one", detail: "The first." }, { title: "two" }, { title: "three" }] }),
      factory("waits", async ({ signal }) => (note("waits"), await until("go", signal), "gone")),
      factory("asks", async ({ agent, phase }) => {
        phase("asking");
        const first = await agent("say one", { label: "first" });
        return [first, await agent("say 42", { schema: { type: "number" }, label: "second" })];
      }),
      factory("asks slowly", async ({ agent }) =>
        agent('call bash {"command":"sleep 600","description":"Waiting"} then say never')),
      factory("leaves early", async ({ agent, signal }) => {
        agent('call bash {"command":"sleep 600","description":"Waiting"} then say never').catch(() => {});
        await until("go", signal);
        return "early";
      }),
      factory("asks in vain", async ({ agent }) => agent("say x", { agent: "nosuch" })),
      factory("hangs", async () => new Promise(() => {}), { limits: { timeoutSeconds: 0.2 } }),
    ],
  });
`;

test("an extension of the folder joins the session of an app that asks for it", async ({ start, work }) => {
  await extension(work, "worker", WORKER);
  const client = start({ env: environment({ GITHUB_TOKEN: "never-shown" }) });
  const other = await session(client);
  assert.deepEqual(await other.session.rpc.extensions.list(), { extensions: [] });
  await assert.rejects(other.session.rpc.extensions.reload(), /Extensions not available/);

  const { session: chat, events } = await session(client, asked());
  await stands(chat, "project:worker", "running");
  const loaded = await event(events, "session.extensions_loaded", ({ data }) => data.extensions[0]?.status === "running");
  const told = { id: "project:worker", name: "worker", source: "project", status: "running" };
  assert.deepEqual(loaded.data.extensions, [told]);
  const [{ pid, ...listed }] = (await chat.rpc.extensions.list()).extensions;
  assert.deepEqual(listed, told);
  assert.ok(existsSync(`/proc/${pid}`) || process.platform !== "linux");
  assert.equal(await ask(chat, "call greet {} then say greeted"), "greeted");
  const done = await event(events, "tool.execution_complete");
  assert.equal(done.data.result.content, `Hello from ${chat.sessionId}, no token`);
  assert.ok(!types(events).includes("session.resume"), "it joins silently");
  assert.deepEqual(await standing(other.session), {}, "the other session has none");

  await chat.disconnect();
  await until("its process is gone", () => !isAlive(pid));
});

/** Whether a process lives; one that nobody has waited for is as good as dead. */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

test("apps share extensions, which end with their session, whoever ends it, and with a host that is killed", async ({ t, start, home, work }) => {
  await extension(work, "stubborn", `process.stdin.on("end", () => {}); setInterval(() => {}, 1000);`);
  const { url } = await host(t, home);
  const app = () => start({ ...bare, ...to(url) });
  const pidOf = (chat) => until("it has a process", async () => (await chat.rpc.extensions.list()).extensions[0]?.pid);
  const { session: first } = await session(app(), asked());
  const pid = await pidOf(first);
  const other = app();
  const { session: second } = await resume(other, first.sessionId, asked());
  assert.equal(await pidOf(second), pid);
  await second.disconnect();
  assert.ok(isAlive(pid), "the first app has it open");
  await other.deleteSession(first.sessionId);
  await until("its process is gone", () => !isAlive(pid));

  const orphan = await pidOf((await session(app(), asked())).session);
  if (process.platform !== "linux") return;
  const served = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${orphan}/status`, "utf8"))[1]);
  process.kill(served, "SIGKILL");
  await until("its process is gone, too", () => !isAlive(orphan));
});

test("what changed since the app asked starts only when the folder is trusted or the app asks again", async ({ start, home, work }) => {
  await extension(work, "worker", WORKER);
  const client = start();
  const { session: chat, events } = await session(client, asked());
  await stands(chat, "project:worker", "running");
  const elsewhere = join(work, "..", "elsewhere");
  await extension(elsewhere, "other", WORKER);
  await chat.rpc.metadata.setWorkingDirectory({ workingDirectory: elsewhere });
  await chat.rpc.extensions.reload();
  await stands(chat, "project:worker", "running");
  assert.deepEqual(Object.keys(await standing(chat)), ["project:worker"], "it is the folder that the app chose");

  await extension(work, "planted", WORKER);
  await writeFile(join(work, ".github/extensions/worker/beside.mjs"), "");
  const refused = async (id) => {
    await stands(chat, id, "failed");
    const why = `The extension ${id} does not run: changed since the app asked for it; trust the folder or ask again`;
    await event(events, "session.warning", ({ data }) => data.message.startsWith(why));
  };
  await chat.rpc.extensions.reload();
  await refused("project:worker");
  await refused("project:planted");
  await chat.rpc.extensions.enable({ id: "project:planted" });
  await stands(chat, "project:planted", "failed");

  execFileSync(lodge, ["trust", work], { env: environment({ LODGE_HOME: home }) });
  await chat.rpc.extensions.reload();
  await stands(chat, "project:planted", "running");

  await writeFile(join(work, ".github/extensions/planted/beside.mjs"), "");
  await chat.rpc.extensions.reload();
  await stands(chat, "project:worker", "running");
  await stands(chat, "project:planted", "failed");
  const again = await resume(start(), chat.sessionId, { ...asked(), workingDirectory: work });
  await stands(again.session, "project:planted", "running");
});

test("an extension that does not run says why and the others run", async ({ start, work }) => {
  await extension(work, "broken", `throw new Error("no luck today");`);
  await extension(work, "babbles", `process.stdout.write("x".repeat(1000) + "\\n"); setInterval(() => {}, 1000);`);
  await extension(work, "worker", WORKER);
  const { session: chat, events } = await session(start(), asked());
  await stands(chat, "project:worker", "running");
  await stands(chat, "project:broken", "failed");
  const warning = await event(events, "session.warning");
  assert.match(warning.data.message, /project:broken does not run: exited with code 1.*no luck today/s);
  assert.equal((await standing(chat))["project:babbles"], "starting");
  assert.equal(await ask(chat, "call greet {} then say greeted"), "greeted");

  await chat.rpc.extensions.disable({ id: "project:worker" });
  assert.equal((await standing(chat))["project:worker"], "disabled");
  await until("its tool is gone", async () => !(await chat.rpc.factory.run({ name: "echo", args: 1 }).catch(() => null)));
  await chat.rpc.extensions.reload();
  assert.equal((await standing(chat))["project:worker"], "disabled", "that is in the log");
  await chat.rpc.extensions.enable({ id: "project:worker" });
  await stands(chat, "project:worker", "running");
  await assert.rejects(chat.rpc.extensions.enable({ id: "project:nosuch" }), /Extension not found: project:nosuch/);
});

test("without an SDK that it can import an extension fails with the reason", async ({ start, work }) => {
  await extension(work, "worker", WORKER);
  const { session: chat, events } = await session(start(), { requestExtensions: true, extensionSdkPath: "/no/such/place" });
  await stands(chat, "project:worker", "failed");
  assert.match((await event(events, "session.warning")).data.message, /Cannot find package '@github\/copilot-sdk'/);
});

test("a factory runs, and goes on where it broke off", async ({ start, work, home }) => {
  await extension(work, "worker", WORKER);
  const { session: chat, events } = await session(start(), asked());
  await stands(chat, "project:worker", "running");
  const { factory } = chat.rpc;
  const echoed = await factory.run({ name: "echo", args: [1, { a: null }] });
  assert.deepEqual({ ...echoed, runId: "" }, { runId: "", status: "completed", result: [1, { a: null }] });
  await assert.rejects(factory.run({ name: "nosuch", args: {} }), /No factory is registered with the name "nosuch"/);
  await assert.rejects(
    factory.run({ name: "echo", args: {}, options: { limits: { timeoutSeconds: -1 } } }),
    (error) => error.data.code === "factory_limits_invalid",
  );

  const failed = await factory.run({ name: "steps", args: {} });
  assert.deepEqual([failed.status, failed.error], ["error", "it broke"]);
  const { runId } = failed;
  const before = await factory.getRunDetail({ runId });
  assert.deepEqual(before.phases.map(({ id, status }) => [id, status]), [["one", "completed"], ["two", "skipped"], ["three", "skipped"]]);
  assert.deepEqual(before.progress.records.map(({ kind, text }) => [kind, text]), [["phase", "one"], ["log", "half way"]]);
  writeFileSync(join(work, "mended"), "");
  const { factoryName, run } = await factory.resume({ runId });
  assert.deepEqual([factoryName, run.status, run.result], ["steps", "completed", [1, 2]]);
  assert.equal(readFileSync(join(work, "notes"), "utf8"), "first\nsecond\n", "no step is done twice");
  const after = await factory.getRunDetail({ runId });
  assert.equal(after.phases[0].entryCount, 2);
  assert.deepEqual(after.progress.records.map(({ attempt, text }) => [attempt, text]), [[1, "one"], [1, "half way"], [2, "one"], [2, "half way"], [2, "two"]]);

  const hung = await factory.run({ name: "hangs", args: {} });
  assert.deepEqual([hung.status, hung.failure.kind, hung.failure.value], ["error", "timeoutSeconds", 0.2]);
  const { runs } = await factory.listRuns({});
  assert.deepEqual(runs.map((run) => [run.factoryName, run.status, run.terminal.resultPreview]), [
    ["echo", "completed", '[1,{"a":null}]'],
    ["steps", "completed", "[1,2]"],
    ["hangs", "error", undefined],
  ]);
  assert.equal((await chat.connection.sendRequest("session.workflow.getRun", { sessionId: chat.sessionId, runId })).status, "completed");
  for (const [runId, code] of [["nosuch", "not_found"], [echoed.runId, "non_resumable"]]) {
    await assert.rejects(factory.resume({ runId }), (error) => error.data.code === code, code);
  }
  const stale = { runId, executionToken: "guessed" };
  for (const report of [
    factory.log({ ...stale, lines: [] }),
    factory.journal.get({ ...stale, key: "first" }),
    factory.journal.put({ ...stale, key: "first", resultJson: 7 }),
  ]) {
    await assert.rejects(report, /is over/);
  }
  await assert.rejects(factory.agent({ factoryRunId: runId, executionToken: "", prompt: "", opts: {} }), /is over/);
  const told = (type) => ofType(events, type).map(({ data }) => data);
  assert.deepEqual(told("factory.run_started").map(({ factoryName, attempt }) => [factoryName, attempt]), [
    ["echo", 1], ["steps", 1], ["steps", 2], ["hangs", 1],
  ]);
  assert.deepEqual(told("factory.run_settled").map(({ status }) => status), ["completed", "error", "completed", "error"]);
  assert.ok(told("factory.run_updated").length >= 8);
  const written = new Set(types(await log(home, chat.sessionId)).filter((type) => /factory/.test(type)));
  assert.deepEqual([...written].sort(), ["logged", "settled", "started", "step"].map((name) => `lodge.factory_${name}`));
});

test("runs go on side by side, are cancelled, and outlive their extension and their host", async ({ start, work }) => {
  await extension(work, "worker", WORKER);
  const client = start();
  const { session: chat, events } = await session(client, asked());
  await stands(chat, "project:worker", "running");
  const begun = async () => {
    const known = ofType(events, "factory.run_started").length;
    const run = chat.rpc.factory.run({ name: "waits", args: {} });
    run.catch(() => {});
    const started = await until("it runs", () => ofType(events, "factory.run_started")[known]);
    await until("it is in its body", () => existsSync(join(work, "notes")));
    return { run, runId: started.data.runId };
  };
  const cancelled = await begun();
  assert.equal((await chat.rpc.factory.getRun({ runId: cancelled.runId })).status, "running");
  await assert.rejects(chat.rpc.factory.resume({ runId: cancelled.runId }), (error) => error.data.code === "already_active");
  assert.equal((await chat.rpc.factory.run({ name: "echo", args: 1 })).status, "completed", "beside it");
  assert.equal((await chat.rpc.factory.cancel({ runId: cancelled.runId })).status, "cancelled");
  assert.equal((await cancelled.run).status, "cancelled");

  const orphan = await begun();
  await chat.rpc.extensions.disable({ id: "project:worker" });
  const halted = await orphan.run;
  assert.deepEqual([halted.status, halted.reason], ["halted", "The client that ran it has disconnected"]);
  await assert.rejects(chat.rpc.factory.resume({ runId: orphan.runId }), /No factory is registered/);
  await chat.rpc.extensions.enable({ id: "project:worker" });
  await stands(chat, "project:worker", "running");

  const lost = await begun();
  await client.forceStop();
  const again = await resume(start(), chat.sessionId, asked());
  await stands(again.session, "project:worker", "running");
  assert.equal((await again.session.rpc.factory.getRun({ runId: lost.runId })).status, "halted");
  writeFileSync(join(work, "go"), "");
  const { run } = await again.session.rpc.factory.resume({ runId: lost.runId });
  assert.deepEqual([run.status, run.result], ["completed", "gone"]);
});

test("sub-agents work for a factory within its limits, and none is asked twice", async ({ start, home, work }) => {
  await extension(work, "worker", WORKER);
  const { session: chat, events } = await session(start(), asked());
  await stands(chat, "project:worker", "running");
  const { factory } = chat.rpc;
  const limited = await factory.run({ name: "asks", args: {}, options: { limits: { maxTotalSubagents: 1 } } });
  assert.deepEqual([limited.status, limited.failure.kind, limited.failure.value], ["error", "maxTotalSubagents", 1]);
  const { runId } = limited;
  const { run } = await factory.resume({ runId, limits: { maxTotalSubagents: 2 } });
  assert.deepEqual([run.status, run.result], ["completed", ["one", 42]]);
  const detail = await factory.getRunDetail({ runId });
  assert.deepEqual(detail.agents.map(({ label, agentType, status, phaseId }) => [label, agentType, status, phaseId]), [
    ["first", "general-purpose", "completed", "asking"],
    ["second", "general-purpose", "completed", "asking"],
  ]);
  assert.deepEqual([detail.consumed.subagents, detail.liveAgentCount, detail.phases[0].totalAgentCount], [2, 0, 2]);
  const started = ofType(events, "subagent.started");
  assert.deepEqual(started.map(({ data }) => data.factoryRunId), [runId, runId]);
  assert.equal(ofType(events, "factory.run_settled").at(-1).data.consumedSubagents, 2);
  assert.ok(!types(events).includes("system.notification"), "the conversation hears nothing of it");

  const failed = await factory.run({ name: "asks in vain", args: {} });
  assert.equal(failed.status, "error");
  assert.match(failed.error, /nosuch/);

  const slow = factory.run({ name: "asks slowly", args: {} });
  const agent = await event(events, "subagent.started", ({ id }) => !started.some((known) => known.id === id));
  await event(events, "tool.execution_start", ({ data }) => data.toolName === "bash");
  const stopped = await factory.cancel({ runId: agent.data.factoryRunId });
  assert.equal(stopped.status, "cancelled");
  assert.equal((await slow).status, "cancelled");
  await event(events, "subagent.completed", ({ data }) => data.cancelled === true);
  const after = await factory.getRunDetail({ runId: stopped.runId });
  assert.deepEqual(after.agents.map(({ status }) => status), ["cancelled"]);

  // However a run ends, its agents end with it, and the log has what they cost.
  for (const [name, limits, status] of [["leaves early", {}, "completed"], ["asks slowly", { timeoutSeconds: 4 }, "error"]]) {
    const known = new Set(ofType(events, "subagent.started").map(({ id }) => id));
    const running = factory.run({ name, args: {}, options: { limits } });
    const agent = await event(events, "subagent.started", ({ id }) => !known.has(id));
    writeFileSync(join(work, "go"), "");
    assert.equal((await running).status, status, name);
    const left = await factory.getRunDetail({ runId: agent.data.factoryRunId });
    assert.deepEqual([left.agents.map(({ status }) => status), left.liveAgentCount], [["cancelled"], 0], name);
    const ended = (await log(home, chat.sessionId)).filter(({ type, data }) =>
      type === "lodge.factory_agent" && data.runId === left.runId && data.status === "cancelled");
    assert.deepEqual(ended.map(({ data }) => typeof data.cost), ["number"], name);
  }
});

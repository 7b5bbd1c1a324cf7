// Capability 5: the state of a session: mode, plan, name, model, files, metadata, log, options, usage, context.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { ask, event, modelServer, ofType, persisted, resume, session, test } from "./help.mjs";

test("mode can be read and set, and the change is an event", async ({ start }) => {
  const { session: chat, events } = await session(start());
  assert.equal(await chat.rpc.mode.get(), "interactive");
  await chat.rpc.mode.set({ mode: "plan" });
  assert.equal(await chat.rpc.mode.get(), "plan");
  const change = await event(events, "session.mode_changed");
  assert.equal(change.data.newMode, "plan");
});

test("the plan is a file that can be read, written and deleted", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.equal((await chat.rpc.plan.read()).exists, false);
  await chat.rpc.plan.update({ content: "# First\nThen the rest." });
  const plan = await chat.rpc.plan.read();
  assert.equal(plan.exists, true);
  assert.equal(plan.content, "# First\nThen the rest.");
  await chat.rpc.plan.delete();
  assert.equal((await chat.rpc.plan.read()).exists, false);
});

test("a name given to a session stays over a restart", async ({ start }) => {
  const first = start();
  const { session: chat } = await session(first);
  await chat.rpc.name.set({ name: "My favourite" });
  assert.equal((await chat.rpc.name.get()).name, "My favourite");
  await ask(chat, "say hello");
  await first.stop();
  const { session: again } = await resume(start(), chat.sessionId);
  assert.equal((await again.rpc.name.get()).name, "My favourite");
});

test("the current model is told, and models can be listed for a session", async ({ start }) => {
  const { session: chat } = await session(start(), { model: "rehearsal", reasoningEffort: "low" });
  const current = await chat.rpc.model.getCurrent();
  assert.equal(current.modelId, "rehearsal");
  assert.equal(current.reasoningEffort, "low");
  const { list } = await chat.rpc.model.list();
  assert.ok(list.some(({ id }) => id === "rehearsal"));
});

test("workspace files are made, listed and read, and stay below the workspace", async ({ start }) => {
  const { session: chat } = await session(start());
  await chat.rpc.workspaces.createFile({ path: "notes/one.txt", content: "kept" });
  assert.deepEqual((await chat.rpc.workspaces.listFiles()).files, ["notes/one.txt"]);
  assert.equal((await chat.rpc.workspaces.readFile({ path: "notes/one.txt" })).content, "kept");
  await assert.rejects(chat.rpc.workspaces.createFile({ path: "../../escaped.txt", content: "x" }));
  await assert.rejects(chat.rpc.workspaces.readFile({ path: "../../../../etc/passwd" }));
});

test("a snapshot of metadata describes the session", async ({ start, work }) => {
  const { session: chat } = await session(start(), { clientName: "the tests" });
  const snapshot = await chat.rpc.metadata.snapshot();
  assert.equal(snapshot.sessionId, chat.sessionId);
  assert.equal(snapshot.workingDirectory, work);
  assert.equal(snapshot.currentMode, "interactive");
  assert.equal(snapshot.isRemote, false);
  assert.equal((await chat.rpc.metadata.isProcessing()).processing, false);
});

test("whether a session works can be asked", async ({ start }) => {
  const { session: chat, events } = await session(start(), { streaming: true });
  await chat.send({ prompt: "slowly 10 ms, stream 500 chunks" });
  await event(events, "assistant.message_delta");
  assert.equal((await chat.rpc.metadata.isProcessing()).processing, true);
  assert.equal((await chat.rpc.metadata.activity()).abortable, true);
  await chat.abort();
  await event(events, "session.idle");
  assert.equal((await chat.rpc.metadata.isProcessing()).processing, false);
});

test("a client can write into the log, for good or for the moment", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await chat.log("for the record");
  await chat.log("be careful", { level: "warning" });
  await chat.log("only now", { ephemeral: true });
  const info = await event(events, "session.info", ({ data }) => data.message === "for the record");
  assert.ok(!info.ephemeral);
  await event(events, "session.warning", ({ data }) => data.message === "be careful");
  const passing = await event(events, "session.info", ({ data }) => data.message === "only now");
  assert.equal(passing.ephemeral, true);
  const kept = (await chat.getEvents()).map(({ data }) => data.message);
  assert.ok(kept.includes("for the record") && !kept.includes("only now"));
});

test("options can be changed in a running session", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.match(await ask(chat, "describe the request"), /\bbash\b/);
  await chat.rpc.options.update({ excludedTools: ["bash"] });
  assert.doesNotMatch(await ask(chat, "describe the request"), /\bbash\b/);
});

test("usage adds up over turns", async ({ start }) => {
  const { session: chat } = await session(start());
  await ask(chat, "report usage 1000 in 50 out");
  await ask(chat, "report usage 500 in 25 out");
  const metrics = await chat.rpc.usage.getMetrics();
  assert.equal(metrics.totalUserRequests, 2);
  assert.equal(metrics.lastCallInputTokens, 500);
  const model = metrics.modelMetrics.rehearsal;
  assert.equal(model.usage.inputTokens, 1500);
  assert.equal(model.usage.outputTokens, 75);
});

test("how full the context is can be asked, and is told in each turn", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say hello");
  const told = ofType(events, "session.usage_info")[0];
  assert.ok(told.data.tokenLimit > 0 && told.data.currentTokens > 0);
  assert.equal(told.ephemeral, true);
  const { contextInfo } = await chat.rpc.metadata.contextInfo({ promptTokenLimit: 100_000, outputTokenLimit: 10_000 });
  assert.ok(contextInfo);
  assert.deepEqual([contextInfo.promptTokenLimit, contextInfo.limit], [100_000, 110_000]);
  const { contextInfo: usual } = await chat.rpc.metadata.contextInfo({ promptTokenLimit: 0, outputTokenLimit: 0 });
  const [{ capabilities }] = (await chat.rpc.model.list()).list;
  assert.equal(usual.promptTokenLimit, capabilities.limits.max_prompt_tokens, "0 is what the model takes");
});

test("the tools of a session can be listed", async ({ start }) => {
  const { session: chat, events } = await session(start());
  await ask(chat, "say hello");
  const { tools } = await chat.rpc.tools.getCurrentMetadata();
  assert.ok(tools.some(({ name }) => name === "bash"));
  assert.equal(persisted(events).some(({ type }) => type === "session.tools_updated"), false);
});

test("permission can be given for everything, and taken back", async ({ start }) => {
  let asked = 0;
  const { session: chat } = await session(start(), { onPermissionRequest: () => ((asked += 1), { kind: "approve-once" }) });
  await chat.rpc.permissions.setApproveAll({ enabled: true });
  await ask(chat, 'call bash {"command":"touch a"}');
  assert.equal(asked, 0);
  await chat.rpc.permissions.setApproveAll({ enabled: false });
  await ask(chat, 'call bash {"command":"touch b"}');
  assert.equal(asked, 1);
});

test("a session can go on with another login", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.equal((await chat.rpc.gitHubAuth.getStatus()).isAuthenticated, false);
  const credentials = { type: "user", host: "https://github.com", login: "somebody" };
  assert.equal((await chat.rpc.gitHubAuth.setCredentials({ credentials })).success, true);
  const { isAuthenticated, authType, login } = await chat.rpc.gitHubAuth.getStatus();
  assert.deepEqual([isAuthenticated, authType, login], [true, "user", "somebody"]);
  await chat.rpc.gitHubAuth.setCredentials({});
  assert.equal((await chat.rpc.gitHubAuth.getStatus()).isAuthenticated, false);
});

test("what differs from git is told file by file", async ({ start, work }) => {
  const { session: chat } = await session(start());
  assert.deepEqual(await chat.rpc.workspaces.diff({ mode: "unstaged" }), { requestedMode: "unstaged", mode: "unstaged", changes: [], isFallback: false });
  const git = (...args) => execFileSync("git", ["-c", "user.name=n", "-c", "user.email=e@example.com", ...args], { cwd: work });
  await writeFile(join(work, "kept.txt"), "one\ntwo\n");
  await writeFile(join(work, "gone.txt"), "bye\n");
  await writeFile(join(work, "spaces.txt"), "a b\n");
  git("init", "-q", "-b", "main");
  git("add", ".");
  git("commit", "-qm", "first");
  git("checkout", "-qb", "mine");
  await writeFile(join(work, "kept.txt"), "one\nTWO\n");
  await writeFile(join(work, "new.txt"), "hello\n");
  await writeFile(join(work, "spaces.txt"), "a  b\n");
  await rm(join(work, "gone.txt"));
  const { changes, isFallback } = await chat.rpc.workspaces.diff({ mode: "unstaged", ignoreWhitespace: true });
  assert.equal(isFallback, false);
  assert.deepEqual(changes.map(({ path, changeType }) => [path, changeType]), [["gone.txt", "deleted"], ["kept.txt", "modified"], ["new.txt", "added"]]);
  assert.match(changes[1].diff, /\n-two\n\+TWO\n/);
  assert.match(changes[2].diff, /\n@@ -0,0 \+1,1 @@\n\+hello\n/);
  git("add", ".");
  git("commit", "-qm", "second");
  assert.deepEqual((await chat.rpc.workspaces.diff({ mode: "unstaged" })).changes, []);
  const branch = await chat.rpc.workspaces.diff({ mode: "branch" });
  assert.deepEqual([branch.mode, branch.baseBranch, branch.changes.length], ["branch", "main", 4]);
});

test("an organisation's instructions are heeded, and git is not spoken of where that is not wanted", async ({ t, start, work }) => {
  execFileSync("git", ["init", "-q", "-b", "trunk", work]);
  const server = await modelServer(t, () => ({ content: "ok" }));
  const provider = { type: "openai", baseUrl: server.url, apiKey: "k" };
  const system = async (config) => {
    const { session: chat } = await session(client, { model: "m", provider, workingDirectory: work, ...config });
    await ask(chat, "hello");
    return server.requests.at(-1).body.messages[0].content;
  };
  const client = start();
  const usual = await system({});
  assert.match(usual, /Git branch: trunk/);
  assert.doesNotMatch(usual, /organization_instructions/);
  const other = await system({ organizationCustomInstructions: "Mind the gap.", enableHostGitOperations: false });
  assert.match(other, /<organization_instructions>\nMind the gap\.\n<\/organization_instructions>/);
  assert.doesNotMatch(other, /Git (branch|repository)/);
});

test("the form of reasoning's summary is the app's choice", async ({ t, start }) => {
  const server = await modelServer(t, (body, request, response) => {
    response.setHeader("content-type", "application/json");
    const output = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "ok" }] }];
    response.end(JSON.stringify({ id: "r", object: "response", status: "completed", output, usage: { input_tokens: 1, output_tokens: 1 } }));
  });
  const provider = { type: "openai", wireApi: "responses", baseUrl: server.url, apiKey: "k" };
  for (const [reasoningSummary, expected] of [[undefined, "auto"], ["detailed", "detailed"], ["none", undefined]]) {
    const { session: chat } = await session(start(), { model: "gpt-5", provider, reasoningEffort: "low", reasoningSummary });
    assert.equal(await ask(chat, "hello"), "ok");
    assert.deepEqual(server.requests.at(-1).body.reasoning, { effort: "low", ...(expected && { summary: expected }) });
  }
});

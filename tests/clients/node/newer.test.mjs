// Methods, options and events of SDKs that are newer than the installed one (the crate `github-copilot-sdk` 1.0.28), on the wire.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { event, modelServer, ofType, session, test } from "./help.mjs";

const everything = () => {
  const found = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json");
  return { type: "local", command: process.execPath, args: [join(dirname(found), "dist/index.js"), "stdio"], tools: ["*"] };
};

/** Calls a method that the installed SDK has no name for. */
const caller = (client, sessionId) => (method, params = {}) => client.connection.sendRequest(method, { sessionId, ...params });

test("prompts of a server are listed and read, and servers are listed without starting any", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client, { mcpServers: { every: everything() } });
  const call = caller(client, chat.sessionId);
  const configured = async () => (await call("session.mcp.listConfigured")).servers;
  assert.deepEqual(await configured(), [{ name: "every", enabled: true, live: { status: "pending" } }]);
  await chat.rpc.mcp.list();
  assert.equal((await configured())[0].live.status, "connected");
  const loaded = await event(events, "session.mcp_server_tools_loaded");
  const { tools } = await chat.rpc.mcp.listTools({ serverName: "every" });
  assert.deepEqual(loaded.data, { serverName: "every", toolCount: tools.length });
  const { prompts } = await call("session.mcp.prompts.list", { serverName: "every" });
  const named = prompts.find(({ name }) => name === "args-prompt");
  assert.deepEqual(named.arguments.filter(({ required }) => required).map(({ name }) => name), ["city"]);
  const asked = { serverName: "every", promptName: "args-prompt", arguments: { city: "Oslo" } };
  const { messages } = await call("session.mcp.prompts.get", asked);
  assert.equal(messages[0].role, "user");
  assert.match(messages[0].content.text, /Oslo/);
  await assert.rejects(call("session.mcp.prompts.get", { ...asked, promptName: "nosuch" }), /nosuch/);
  await assert.rejects(call("session.mcp.prompts.list", { serverName: "nobody" }), /MCP server/);
});

test("workspace files can be looked at, renamed and removed, and none outside", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client);
  const call = (name, params) => caller(client, chat.sessionId)(`session.workspaces.${name}`, params);
  await assert.rejects(call("createDirectory", { path: "a/b" }), /No such file/);
  await call("createDirectory", { path: "a/b", recursive: true });
  await chat.rpc.workspaces.createFile({ path: "a/b/note.txt", content: "hello" });
  const { size, isFile, isDirectory, mtimeMs, birthtimeMs } = await call("statFile", { path: "a/b/note.txt" });
  assert.deepEqual({ size, isFile, isDirectory }, { size: 5, isFile: true, isDirectory: false });
  assert.ok(Math.abs(Date.now() - mtimeMs) < 600_000 && birthtimeMs <= mtimeMs + 1);
  assert.equal((await call("statFile", { path: "a" })).isDirectory, true);
  await call("renamePath", { source: "a/b/note.txt", destination: "a/note.txt" });
  assert.deepEqual((await chat.rpc.workspaces.listFiles()).files, ["a/note.txt"]);
  await assert.rejects(call("removePath", { path: "a" }), /not empty/);
  await call("removePath", { path: "a", recursive: true });
  await assert.rejects(call("removePath", { path: "a" }), /No such file/);
  await call("removePath", { path: "a", force: true });
  for (const path of ["../events.jsonl", "/etc/passwd", "."]) {
    await assert.rejects(call("removePath", { path, recursive: true }), /workspace files/, path);
    await assert.rejects(call("statFile", { path }), /workspace files/, path);
    await assert.rejects(call("renamePath", { source: "x", destination: path }), /workspace files/, path);
  }
  const changes = ofType(events, "session.workspace_file_changed").map(({ data }) => `${data.operation} ${data.path}`);
  assert.deepEqual(changes, ["create a/b/note.txt", "delete a/b/note.txt", "create a/note.txt", "delete a"]);
  assert.equal((await call("ensure", {})).path, (await chat.rpc.workspaces.getWorkspace()).path);
});

test("calls that wait for the app, settings of sub-agents and commands can be asked for", async ({ start }) => {
  const client = start();
  let called;
  const begun = new Promise((go) => (called = go));
  let finish;
  const slow = {
    name: "slow",
    description: "Takes its time",
    parameters: { type: "object", properties: {} },
    handler: () => new Promise((go) => ((finish = go), called())),
  };
  const { session: chat, events } = await session(client, { tools: [slow] });
  const call = caller(client, chat.sessionId);
  assert.deepEqual(await call("session.tools.listPendingRequests"), { items: [] });
  await chat.send({ prompt: 'call slow {"x":1} then say done' });
  await begun;
  const asked = (await event(events, "external_tool.requested")).data;
  assert.deepEqual(await call("session.tools.listPendingRequests"), {
    items: [{ requestId: asked.requestId, toolCallId: asked.toolCallId, toolName: "slow", arguments: { x: 1 } }],
  });
  finish("at last");
  await event(events, "session.idle");
  assert.deepEqual(await call("session.tools.listPendingRequests"), { items: [] });

  assert.deepEqual(await call("session.tools.getSubagentSettings"), { subagents: null });
  await chat.rpc.tools.updateSubagentSettings({ subagents: { maxDepth: 2, agents: { task: { effortLevel: "low" } } } });
  assert.deepEqual(await call("session.tools.getSubagentSettings"), {
    subagents: { agents: { task: { effortLevel: "low" } }, disabledSubagents: [], maxDepth: 2 },
  });

  const { commands } = await client.connection.sendRequest("commands.list", {});
  const inSession = (await chat.rpc.commands.list({ includeSkills: false, includeClientCommands: false })).commands;
  assert.deepEqual(commands.map(({ name }) => name).sort(), inSession.map(({ name }) => name).sort());
  assert.ok(commands.every(({ kind, description }) => kind === "builtin" && description));
});

test("an app keeps strings with a session, within bounds, until the session is deleted", async ({ start }) => {
  const client = start();
  const { session: chat } = await session(client);
  const call = (name, params) => caller(client, chat.sessionId)(`session.metadata.${name}ClientMetadata`, params);
  await chat.sendAndWait({ prompt: "say hello" });
  assert.deepEqual(await call("get"), {});
  assert.deepEqual(await call("update", { set: { "app/colour": "red", "app/size": "1" } }), { "app/colour": "red", "app/size": "1" });
  assert.deepEqual(await call("update", { remove: ["app/size", "app/colour"], set: { "app/colour": "blue" } }), { "app/colour": "blue" });
  for (const set of [{ "": "x" }, { "github/x": "x" }, { ["k".repeat(257)]: "x" }, { "app/long": "x".repeat((16 << 10) + 1) }]) {
    await assert.rejects(call("update", { clear: true, set }));
  }
  const many = Object.fromEntries(Array.from({ length: 128 }, (_, at) => [`app/${at}`, "x"]));
  await assert.rejects(call("update", { set: many }), /128 entries/);
  assert.deepEqual(await call("get"), { "app/colour": "blue" }, "what is refused changes nothing");
  await client.forceStop();
  const again = start();
  await again.start();
  const several = (params) => again.connection.sendRequest("sessions.getClientMetadata", params);
  const kept = { status: "ok", sessionId: chat.sessionId, metadata: { "app/colour": "blue" } };
  const missing = { status: "notFound", sessionId: "nosuch" };
  assert.deepEqual(await several({ sessionIds: ["nosuch", chat.sessionId] }), [missing, kept]);
  assert.deepEqual((await several({ sessionIds: [chat.sessionId], keys: ["app/size"] }))[0].metadata, {});
  await again.deleteSession(chat.sessionId);
  assert.equal((await several({ sessionIds: [chat.sessionId] }))[0].status, "notFound");
});

/** Opens a session with options that the installed SDK does not send. */
async function create(client, options) {
  await client.start();
  return client.connection.sendRequest("session.create", { requestPermission: false, ...options });
}

test("a session uses only the models that it may, from its first call on", async ({ t, start }) => {
  const server = await modelServer(t, (body) => ({ content: `I am ${body.model}` }));
  const provider = { name: "p", type: "openai", baseUrl: server.url };
  const models = ["small", "large", "huge"].map((id) => ({ provider: "p", id }));
  const client = start();
  const options = { providers: [provider], models };
  const opened = (more) => create(client, { ...options, ...more });
  await assert.rejects(opened({ allowedModels: [] }), /allowedModels/);
  await assert.rejects(opened({ model: "p/huge", allowedModels: ["p/small"] }), /p\/huge is not among allowedModels/);
  const { sessionId } = await opened({ allowedModels: ["p/large", "p/small"] });
  const call = caller(client, sessionId);
  assert.equal((await call("session.model.getCurrent")).modelId, "p/large");
  const { list } = await call("session.model.list");
  assert.deepEqual(list.map(({ id }) => id).sort(), ["p/large", "p/small"]);
  await assert.rejects(call("session.model.switchTo", { modelId: "p/huge" }), /not allowed/);
  await call("session.model.switchTo", { modelId: "p/small" });
  await client.connection.sendRequest("session.resume", { sessionId, ...options, allowedModels: ["p/huge"] });
  assert.equal((await call("session.model.getCurrent")).modelId, "p/huge");
});

test("hooks run from the directories that the app names", async ({ start, work }) => {
  await mkdir(join(work, "gates"));
  const deny = "cat > /dev/null; echo '{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"closed\"}'";
  await writeFile(join(work, "gates", "shut.json"), JSON.stringify({ version: 1, hooks: { preToolUse: [{ type: "command", bash: deny }] } }));
  const client = start();
  const { sessionId } = await create(client, { hookDirectories: ["gates"], workingDirectory: work });
  const call = caller(client, sessionId);
  await call("session.sendAndWait", { prompt: 'call bash {"command":"touch made"} then say done' });
  const { events } = await call("session.getMessages");
  assert.match(ofType(events, "tool.execution_complete")[0].data.error.message, /closed/);
  assert.ok(!existsSync(join(work, "made")));
});

test("nobody adds a hook to a directory that the app names without approval", async ({ start, work, home }) => {
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "permissions.toml"), '[[allow]]\ntool = "write"\n');
  await mkdir(join(work, "gates"));
  const client = start();
  const { sessionId } = await create(client, { hookDirectories: ["gates"], workingDirectory: work });
  const call = caller(client, sessionId);
  const add = (path) => `call create {"path":"${path}","file_text":"{}"}`;
  await call("session.sendAndWait", { prompt: `${add("free.json")} then ${add("gates/new.json")} then say done` });
  assert.ok(existsSync(join(work, "free.json")));
  assert.ok(!existsSync(join(work, "gates", "new.json")));
});

test("agents are found in the directories that the app names", async ({ start, work }) => {
  await mkdir(join(work, "crew"));
  await writeFile(join(work, "crew", "cook.agent.md"), "---\nname: cook\ndescription: Cooks\n---\n\nYou cook.\n");
  const client = start();
  const { sessionId } = await create(client, { agentDirectories: ["crew"], workingDirectory: work });
  const { agents } = await caller(client, sessionId)("session.agent.list");
  assert.deepEqual(agents.map(({ name }) => name), ["cook"]);
  const without = await create(client, { workingDirectory: work });
  assert.deepEqual((await caller(client, without.sessionId)("session.agent.list")).agents, []);
});

test("an app is told which files the rules hide from every tool", async ({ start, work, home }) => {
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "permissions.toml"), 'exclude = [".env", "*.pem"]\n');
  await writeFile(join(work, ".env"), "KEY=1\n");
  const client = start();
  const { session: chat } = await session(client, { workingDirectory: work });
  const paths = [join(work, ".env"), join(work, "a.txt"), join(work, "sub", "new.pem"), join(work, ".env")];
  const { available, checks } = await caller(client, chat.sessionId)("session.contentExclusion.checkPaths", { paths });
  assert.equal(available, true);
  assert.deepEqual(checks, paths.map((path, at) => ({ path, excluded: at !== 1 })));
});

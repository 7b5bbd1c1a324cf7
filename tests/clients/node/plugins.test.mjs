// Plugins: directories with skills, agents, hooks and MCP servers that sessions are opened with.

import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { RuntimeConnection, ask, lodge, ofType, resume, session, test } from "./help.mjs";

const everything = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")),
  "dist/index.js",
);

async function plugin(root, name) {
  const write = async (file, text) => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), typeof text === "string" ? text : JSON.stringify(text));
  };
  await write("plugin.json", { name, version: "1.0.0" });
  await write(`skills/${name}-skill/SKILL.md`, `---\nname: ${name}-skill\ndescription: Greets\n---\nSay hello.\n`);
  await write(`agents/${name}-agent.md`, `---\nname: ${name}-agent\ndescription: Helps\nskills: [${name}-skill]\n---\nYou help.\n`);
  await write("hooks.json", {
    version: 1,
    hooks: { userPromptSubmitted: [{ type: "command", bash: 'cat > /dev/null; echo "$CLAUDE_PLUGIN_ROOT" > hooked' }] },
  });
  await write(".mcp.json", {
    mcpServers: {
      [`${name}-server`]: { command: process.execPath, args: [everything, "stdio"], env: { ROOT: "${CLAUDE_PLUGIN_ROOT}" } },
    },
  });
  return root;
}

const names = async (list) => (await list).map(({ name }) => name);

test("a session has all that its plugins bring, and others have nothing of it", async ({ start, work }) => {
  const root = await plugin(join(work, "pack"), "pack");
  const client = start();
  const { session: chat, events } = await session(client, {
    // Counted from the working directory; what is no plugin is left out.
    pluginDirectories: ["pack", "nowhere"],
    workingDirectory: work,
  });
  assert.deepEqual(await chat.rpc.plugins.list(), {
    plugins: [{ name: "pack", marketplace: "", version: "1.0.0", enabled: true }],
  });
  const { skills } = await chat.rpc.skills.list();
  assert.deepEqual(skills.map(({ name, source }) => `${name} ${source}`), ["pack-skill plugin"]);
  assert.deepEqual(await names(chat.rpc.agent.list().then(({ agents }) => agents)), ["pack-agent"]);
  await ask(chat, "call pack-server-get-env {} then say done");
  const variables = JSON.parse(ofType(events, "tool.execution_complete").at(-1).data.result.content);
  assert.equal(variables.ROOT, root);
  assert.equal(ofType(events, "tool.execution_start")[0].data.mcpConfigSource, "plugin");
  assert.equal((await readFile(join(work, "hooked"), "utf8")).trim(), root);

  await ask(chat, 'call skill {"skill":"pack-skill"} then say loaded');
  await chat.rpc.agent.select({ name: "pack-agent" });
  await ask(chat, "say helped");
  const invoked = ofType(events, "skill.invoked").map(({ data }) => [data.trigger, data.pluginName, data.pluginVersion]);
  assert.deepEqual(invoked, [["agent-invoked", "pack", "1.0.0"], ["context-load", "pack", "1.0.0"]]);

  const { session: plain } = await session(client);
  assert.deepEqual((await plain.rpc.plugins.list()).plugins, []);
  assert.deepEqual((await plain.rpc.skills.list()).skills, []);
  assert.deepEqual((await plain.rpc.mcp.list()).servers, []);
});

test("a plugin's server can be off, also when the session comes back", async ({ start, work }) => {
  const root = await plugin(join(work, "pack"), "pack");
  const wanted = { pluginDirectories: [root], disabledMcpServers: ["pack-server"] };
  const first = start();
  const { session: chat } = await session(first, wanted);
  await ask(chat, "say hello");
  const status = async (chat) => (await chat.rpc.mcp.list()).servers.map(({ name, status, source }) => `${name} ${status} ${source}`);
  assert.deepEqual(await status(chat), ["pack-server disabled plugin"]);
  await first.stop();
  const { session: again } = await resume(start(), chat.sessionId, wanted);
  assert.deepEqual(await status(again), ["pack-server disabled plugin"]);
  assert.equal((await again.rpc.plugins.list()).plugins.length, 1);
});

test("plugins of the program's arguments and of the client are in every session, and are read again", async ({ start, work }) => {
  const [launched, builtin] = [await plugin(join(work, "one"), "one"), await plugin(join(work, "two"), "two")];
  const client = start({
    connection: RuntimeConnection.forStdio({ path: lodge, args: ["--plugin-dir", launched] }),
    builtinPluginDirectories: [builtin],
  });
  const { session: chat } = await session(client, { pluginDirectories: [launched] });
  assert.deepEqual(await names(chat.rpc.plugins.list().then(({ plugins }) => plugins)), ["two", "one"]);
  await assert.rejects(client.rpc.plugins.builtin.set({ paths: [] }), /while sessions are active/);
  await writeFile(join(launched, "plugin.json"), JSON.stringify({ name: "renamed" }));
  await mkdir(join(launched, "skills/new"), { recursive: true });
  await writeFile(join(launched, "skills/new/SKILL.md"), "---\nname: new-skill\ndescription: New\n---\nNew.\n");
  await chat.rpc.plugins.reload();
  assert.deepEqual(await names(chat.rpc.plugins.list().then(({ plugins }) => plugins)), ["two", "renamed"]);
  assert.ok((await names(chat.rpc.skills.list().then(({ skills }) => skills))).includes("new-skill"));
  await client.stop();
  const other = start();
  await other.start();
  const { sessions } = other.rpc;
  const { session: plain } = await session(other);
  assert.deepEqual(await sessions.loadDeferredRepoHooks({ sessionId: plain.sessionId }), { startupPrompts: [], hookCount: 0 });
  const installed = { name: "two", marketplace: "", installed_at: "", enabled: true, cache_path: builtin };
  await sessions.setAdditionalPlugins({ plugins: [installed, { ...installed, enabled: false, cache_path: launched }] });
  await sessions.reloadPluginHooks({ sessionId: plain.sessionId });
  assert.deepEqual(await names(plain.rpc.plugins.list().then(({ plugins }) => plugins)), ["two"]);
  assert.equal((await sessions.loadDeferredRepoHooks({ sessionId: plain.sessionId })).hookCount, 1);
  await assert.rejects(sessions.connect({ sessionId: "elsewhere" }), /Session not found: elsewhere/);
  await assert.rejects(other.rpc.agentRegistry.spawn({ cwd: work }), /agentRegistry\.spawn is not enabled/);
  await assert.rejects(other.rpc.plugins.builtin.set({ paths: ["relative"] }), /not an absolute path/);
});

test("plugins are installed from a marketplace for all new sessions", async ({ start, work }) => {
  const market = join(work, "market");
  await plugin(join(market, "pack"), "pack");
  const entry = { name: "pack", source: "./pack", description: "Packs", version: "1.0.0" };
  await writeFile(join(market, "marketplace.json"), JSON.stringify({ name: "market", plugins: [entry] }));
  const client = start();
  await client.start();
  const { plugins } = client.rpc;
  assert.deepEqual(await plugins.marketplaces.add({ source: "market", workingDirectory: work }), { name: "market" });
  assert.deepEqual(await plugins.marketplaces.browse({ name: "market" }), { plugins: [{ name: "pack", description: "Packs" }] });
  const installed = await plugins.install({ source: "pack@market" });
  assert.deepEqual(installed, {
    plugin: { name: "pack", marketplace: "market", version: "1.0.0", enabled: true },
    skillsInstalled: 1,
  });
  const { session: chat, events } = await session(client, { workingDirectory: work });
  assert.deepEqual((await chat.rpc.plugins.list()).plugins, [
    { name: "pack", marketplace: "market", version: "1.0.0", enabled: true },
  ]);
  assert.deepEqual((await chat.rpc.skills.list()).skills.map(({ name }) => name), ["pack-skill"]);
  await ask(chat, "call pack-server-get-env {} then say done");
  assert.equal(ofType(events, "tool.execution_complete").at(-1).data.success, true);
  // Its servers end at once, the rest when the session reads its plugins again.
  await plugins.disable({ names: ["pack@market"] });
  assert.deepEqual((await chat.rpc.mcp.list()).servers, []);
  await chat.rpc.plugins.reload();
  assert.deepEqual((await chat.rpc.skills.list()).skills, []);
  assert.deepEqual((await plugins.list()).plugins.map(({ enabled }) => enabled), [false]);
  assert.deepEqual(await plugins.marketplaces.remove({ name: "market" }), { removed: false, dependentPlugins: ["pack"] });
  assert.deepEqual(await plugins.marketplaces.remove({ name: "market", force: true }), { removed: true });
  assert.deepEqual(await plugins.list(), { plugins: [] });
  await assert.rejects(plugins.install({ source: "nothing" }), /give name@marketplace/);
});

test("a plugin that was written for other agents works, and what is left out is said", async ({ start, work }) => {
  const root = join(work, "pack");
  const write = async (file, text) => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), typeof text === "string" ? text : JSON.stringify(text));
  };
  await write(".claude-plugin/plugin.json", { name: "pack", version: "1.0.0", lspServers: { rust: { command: "rust-analyzer" } } });
  await write(".claude/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets\n---\nSay hello.\n");
  await write(".claude/agents/cook.md", "---\nname: cook\ndescription: Cooks\n---\nYou cook.\n");
  await write(".claude/commands/hem.md", "say hemmed $ARGUMENTS");
  await write(".lsp.json", { go: { command: "gopls", extensionToLanguage: { ".go": "go" } } });
  const decision = { hookSpecificOutput: { hookEventName: "PermissionRequest", decision: { behavior: "deny", message: "not in this house" } } };
  const command = `cat > /dev/null; echo '${JSON.stringify(decision)}'`;
  await write("hooks/hooks.json", { hooks: { PermissionRequest: [{ matcher: "*", hooks: [{ type: "command", command }] }] } });
  let asked = 0;
  const client = start();
  const { session: chat, events } = await session(client, {
    pluginDirectories: [root],
    workingDirectory: work,
    onPermissionRequest: () => ((asked += 1), { kind: "approve-once" }),
  });
  assert.deepEqual((await chat.rpc.skills.list()).skills.map(({ name }) => name), ["greet"]);
  assert.deepEqual(await names(chat.rpc.agent.list().then(({ agents }) => agents)), ["cook"]);
  const { prompt } = await chat.rpc.commands.invoke({ name: "hem", input: "twice" });
  assert.equal(prompt, "say hemmed twice");
  await ask(chat, `call create ${JSON.stringify({ path: join(work, "a"), file_text: "x" })} then say done`);
  const [denied] = ofType(events, "tool.execution_complete");
  assert.match(denied.data.error.message, /not in this house/);
  assert.equal(asked, 0);
  const leftOut = "Lodge starts no language servers, so these of the plugin pack are not used: rust, go.";
  const warnings = ofType(events, "session.warning").map(({ data }) => [data.warningType, data.message]);
  assert.deepEqual(warnings, [["plugins", leftOut]]);
  const installed = await client.rpc.plugins.install({ source: root });
  assert.equal(installed.postInstallMessage, leftOut);
});

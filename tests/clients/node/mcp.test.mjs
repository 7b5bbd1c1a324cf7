// MCP servers that an app brings: the official reference servers, over the SDK.

import assert from "node:assert/strict";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { approveAll, ask, checkChain, environment, event, ofType, resume, session, test, types, until } from "./help.mjs";

const program = (name) => {
  const found = createRequire(import.meta.url).resolve(`@modelcontextprotocol/${name}/package.json`);
  return join(dirname(found), "dist/index.js");
};
const everything = (more = {}) => ({
  type: "local",
  command: process.execPath,
  args: [program("server-everything"), "stdio"],
  tools: ["*"],
  ...more,
});
const files = (dir, more = {}) => ({
  command: process.execPath,
  args: [program("server-filesystem"), dir],
  ...more,
});
/** Calls a tool and returns what it gave back. */
const call = async (chat, events, what) => {
  await ask(chat, `call ${what} then say done`);
  return ofType(events, "tool.execution_complete").at(-1).data.result.content;
};
const status = async (chat, name) => (await chat.rpc.mcp.list()).servers.find((server) => server.name === name)?.status;

test("a tool of an MCP server asks with the seeds' fields, runs, and its result reaches the model", async ({ start }) => {
  const asked = [];
  const { session: chat, events } = await session(start(), {
    mcpServers: { "every-thing": everything() },
    onPermissionRequest: (request) => {
      asked.push(request);
      return { kind: "approve-once" };
    },
  });
  assert.match(await ask(chat, 'call every-thing-echo {"message":"hi there"}'), /Echo: hi there/);
  assert.equal(asked.length, 1);
  const { toolCallId, ...request } = asked[0];
  assert.equal(typeof toolCallId, "string");
  assert.deepEqual(request, {
    kind: "mcp",
    serverName: "every-thing",
    toolName: "echo",
    toolTitle: "Echo Tool",
    args: { message: "hi there" },
    readOnly: request.readOnly,
  });
  assert.equal(typeof request.readOnly, "boolean");
  const started = await event(events, "tool.execution_start");
  assert.equal(started.data.toolName, "every-thing-echo");
  assert.equal(started.data.mcpServerName, "every-thing");
  assert.equal(started.data.mcpToolName, "echo");
  assert.equal(started.data.mcpTransport, "stdio");
  const wish = ofType(events, "assistant.message").find((message) => message.data.toolRequests?.length);
  assert.equal(wish.data.toolRequests[0].mcpServerName, "every-thing");
  assert.equal(wish.data.toolRequests[0].mcpToolName, "echo");
  const done = await event(events, "tool.execution_complete");
  assert.equal(done.data.success, true);
  assert.equal(done.data.result.content, "Echo: hi there");
  const changed = ofType(events, "session.mcp_server_status_changed").map((event) => event.data.status);
  assert.deepEqual(changed, ["pending", "connected"]);
  const loaded = await event(events, "session.mcp_servers_loaded");
  assert.equal(loaded.data.servers[0].name, "every-thing");
  assert.equal(loaded.data.servers[0].status, "connected");
  assert.equal(loaded.data.servers[0].transport, "stdio");
  assert.ok(types(events).indexOf("session.mcp_server_status_changed") < types(events).indexOf("user.message"));
  checkChain(events);
});

test("servers are listed, stopped, started, disabled, enabled and reloaded", async ({ start, work }) => {
  await writeFile(join(work, "x.txt"), "from a file");
  const { session: chat, events } = await session(start(), {
    mcpServers: { every: everything(), files: files(work), broken: { command: "echo", args: ["hello"] } },
    disabledMcpServers: ["files"],
  });
  assert.deepEqual(ofType(events, "session.mcp_server_status_changed"), [], "nothing starts before it is needed");
  const { servers, host } = await chat.rpc.mcp.list();
  assert.deepEqual(
    servers.map(({ name, status }) => `${name} ${status}`),
    ["every connected", "files disabled", "broken failed"],
  );
  assert.match(servers[2].error, /exited with code 0/);
  assert.deepEqual(host.clients, ["every"]);
  assert.deepEqual(host.disabledServers, ["files"]);
  assert.deepEqual(Object.keys(host.failedServers), ["broken"]);
  const { tools } = await chat.rpc.mcp.listTools({ serverName: "every" });
  assert.ok(tools.some((tool) => tool.name === "echo" && tool.description));
  await assert.rejects(chat.rpc.mcp.listTools({ serverName: "nobody" }), /not connected/);
  const running = async (serverName) => (await chat.rpc.mcp.isServerRunning({ serverName })).running;
  assert.equal(await running("every"), true);
  assert.equal(await running("nobody"), false);

  await chat.rpc.mcp.stopServer({ serverName: "every" });
  assert.equal(await running("every"), false);
  assert.equal(await status(chat, "every"), "stopped", "a list does not start what somebody stopped");
  await chat.rpc.mcp.startServer({ serverName: "every" });
  assert.equal(await running("every"), true);
  await chat.rpc.mcp.enable({ serverName: "files" });
  assert.match(await ask(chat, `call files-read_text_file ${JSON.stringify({ path: join(work, "x.txt") })}`), /from a file/);
  await chat.rpc.mcp.disable({ serverName: "files" });
  await ask(chat, 'call files-list_allowed_directories {} then say done');
  assert.match(ofType(events, "tool.execution_complete").at(-1).data.error.message, /does not exist/);
  const told = ofType(events, "user.message").at(-1).data.transformedContent;
  assert.match(told, /Tools no longer available: .*files-read_text_file/);
  await chat.rpc.mcp.reload();
  assert.equal(await running("every"), true);
  assert.equal(await running("files"), false);
  await chat.rpc.mcp.startServer({ serverName: "late", config: everything() });
  assert.equal(await running("late"), true);
  await chat.rpc.mcp.restartServer({ serverName: "late" });
  assert.equal(await running("late"), true);
});

test("a session without servers says so in the words that clients know", async ({ start }) => {
  const { session: chat } = await session(start());
  const { mcp } = chat.rpc;
  assert.deepEqual((await mcp.list()).servers, []);
  await assert.rejects(mcp.enable({ serverName: "x" }), /No MCP host initialized/);
  await assert.rejects(mcp.disable({ serverName: "x" }), /No MCP host initialized/);
  await assert.rejects(mcp.reload(), /MCP config reload not available/);
  await assert.rejects(mcp.oauth.login({ serverName: "x" }), /MCP host is not available/);
  assert.deepEqual(await mcp.removeGitHub(), { removed: false });
});

test("only the tools that the app wants are offered", async ({ start }) => {
  const { session: chat } = await session(start(), {
    mcpServers: { one: everything({ tools: ["echo"] }), none: everything({ tools: [] }) },
    availableTools: ["mcp:*"],
  });
  await chat.rpc.mcp.list();
  const { tools } = await chat.rpc.tools.getCurrentMetadata();
  assert.deepEqual(tools.map((tool) => tool.name), ["one-echo"]);
  const { contextInfo } = await chat.rpc.metadata.contextInfo({ promptTokenLimit: 0, outputTokenLimit: 0 });
  assert.ok(contextInfo.mcpToolsTokens > 0);
  assert.equal(contextInfo.mcpToolsTokens, contextInfo.toolDefinitionsTokens, "it is the only tool");
});

test("variables and the working directory are the app's to choose", async ({ start, work }) => {
  await mkdir(join(work, "sub"));
  const { session: chat, events } = await session(start({ env: environment({ OPENAI_API_KEY: "sk-host" }) }), {
    mcpServers: {
      every: everything({ env: { TEST_SECRET: "hunter2" } }),
      here: { command: "sh", args: ["-c", `pwd > "$0"; exit 1`, "where.txt"], workingDirectory: join(work, "sub") },
    },
  });
  const variables = JSON.parse(await call(chat, events, "every-get-env {}"));
  assert.equal(variables.TEST_SECRET, "hunter2");
  assert.equal(variables.PATH, process.env.PATH);
  assert.equal(variables.OPENAI_API_KEY, undefined, "keys of the host stay with the host");
  assert.equal((await readFile(join(work, "sub/where.txt"), "utf8")).trim(), join(work, "sub"));
});

test("variables may be named by those of the host", async ({ start }) => {
  const { session: chat, events } = await session(start({ env: environment({ FOR_TESTS: "hunter2", OPENAI_API_KEY: "sk-host" }) }), {
    mcpServers: { every: everything({ env: { ONE: "FOR_TESTS", TWO: "${FOR_TESTS}", THREE: "OPENAI_API_KEY", FOUR: "literal" } }) },
  });
  assert.equal(JSON.parse(await call(chat, events, "every-get-env {}")).ONE, "FOR_TESTS");
  assert.deepEqual(await chat.rpc.mcp.setEnvValueMode({ mode: "indirect" }), { mode: "indirect" });
  await chat.rpc.mcp.restartServer({ serverName: "every" });
  const variables = JSON.parse(await call(chat, events, "every-get-env {}"));
  const { ONE, TWO, THREE, FOUR } = variables;
  assert.deepEqual([ONE, TWO, THREE, FOUR], ["hunter2", "hunter2", undefined, undefined], "keys of the host stay with the host");
  assert.deepEqual(await chat.rpc.mcp.setEnvValueMode({ mode: "direct" }), { mode: "direct" });
  await assert.rejects(chat.rpc.mcp.setEnvValueMode({ mode: "sideways" }), /sideways/);
});

test("an app keeps what views are told, and asks whether a server has any", async ({ start }) => {
  const { session: chat } = await session(start(), { mcpServers: { every: everything() } });
  const { apps } = chat.rpc.mcp;
  assert.deepEqual(await apps.getHostContext(), { context: {} });
  await apps.setHostContext({ context: { theme: "dark", locale: "en-GB" } });
  assert.deepEqual(await apps.getHostContext(), { context: { theme: "dark", locale: "en-GB" } });
  await chat.rpc.mcp.list();
  const { server } = await apps.diagnose({ serverName: "every" });
  assert.ok(server.connected && server.toolCount > 0, JSON.stringify(server));
  assert.equal((await apps.diagnose({ serverName: "nobody" })).server.connected, false);
  await assert.rejects(apps.listTools({ serverName: "every", originServerName: "every" }), /mcp-apps/, "it shows none");
});

test("images, links and structured answers come through", async ({ start }) => {
  const { session: chat, events } = await session(start(), { mcpServers: { every: everything() } });
  await ask(chat, "call every-get-tiny-image {} then say seen");
  const image = ofType(events, "tool.execution_complete").at(-1).data.result;
  const shown = image.contents.find((block) => block.type === "image");
  assert.equal(shown.mimeType, "image/png");
  assert.ok(shown.data.length > 100);
  await ask(chat, 'call every-get-resource-links {"count":2} then say seen');
  const links = ofType(events, "tool.execution_complete").at(-1).data.result;
  assert.equal(links.contents.filter((block) => block.type === "resource_link").length, 2);
  await ask(chat, 'call every-get-structured-content {"location":"Chicago"} then say seen');
  const structured = ofType(events, "tool.execution_complete").at(-1).data.result;
  assert.ok(structured.structuredContent.temperature);
  await ask(chat, 'call every-echo {} then say seen');
  assert.equal(ofType(events, "tool.execution_complete").at(-1).data.success, false, "the server refuses wrong arguments");
});

test("progress is told while a tool runs", async ({ start }) => {
  const { session: chat, events } = await session(start(), { mcpServers: { every: everything() } });
  await ask(chat, 'call every-trigger-long-running-operation {"duration":1,"steps":4} then say done');
  const told = ofType(events, "tool.execution_progress");
  assert.ok(told.length >= 2, `${told.length}`);
  const started = ofType(events, "tool.execution_start")[0];
  assert.ok(told.every((event) => event.data.toolCallId === started.data.toolCallId && event.data.progressMessage));
});

test("a form of a server is answered by the app", async ({ start }) => {
  const forms = [];
  const { session: chat, events } = await session(start(), {
    mcpServers: { every: everything() },
    onElicitationRequest: (form) => {
      forms.push(form);
      return { action: "accept", content: { name: "Ada", check: true } };
    },
  });
  assert.match(await call(chat, events, "every-trigger-elicitation-request {}"), /Ada/);
  assert.equal(forms.length, 1);
  assert.equal(forms[0].elicitationSource, "every");
  assert.ok(forms[0].requestedSchema.properties.name);
  const asked = await event(events, "elicitation.requested");
  assert.equal(asked.data.toolCallId, ofType(events, "tool.execution_start")[0].data.toolCallId);
  const completed = await event(events, "elicitation.completed");
  assert.equal(completed.data.requestId, asked.data.requestId);
  assert.equal(completed.data.action, "accept");
});

test("a hook before an MCP call sees it and chooses its labels", async ({ start }) => {
  const seen = [];
  let meta;
  const { session: chat } = await session(start(), {
    mcpServers: { every: everything() },
    hooks: {
      onPreMcpToolCall: (input) => {
        seen.push(input);
        return meta === undefined ? undefined : { metaToUse: meta };
      },
    },
  });
  for (meta of [undefined, { mine: "yes" }, null]) {
    assert.match(await ask(chat, 'call every-echo {"message":"x"}'), /Echo: x/);
  }
  assert.equal(seen.length, 3);
  assert.equal(seen[0].serverName, "every");
  assert.equal(seen[0].toolName, "echo");
  assert.deepEqual(seen[0].arguments, { message: "x" });
});

test("servers can be added when a session is resumed, and a second client sees their work", async ({ start }) => {
  const client = start();
  const { session: chat } = await session(client);
  await ask(chat, "say hello");
  await chat.disconnect();
  const { session: again, events } = await resume(client, chat.sessionId, { mcpServers: { every: everything() } });
  assert.match(await ask(again, 'call every-echo {"message":"again"}'), /Echo: again/);
  assert.equal((await event(events, "tool.execution_start")).data.mcpServerName, "every");
});

test("resources of a server can be read", async ({ start }) => {
  const { session: chat } = await session(start(), { mcpServers: { every: everything() }, onPermissionRequest: approveAll });
  await chat.rpc.mcp.list();
  const { resources } = await chat.rpc.mcp.resources.list({ serverName: "every" });
  assert.ok(resources.length > 0 && resources[0].uri);
  const { contents } = await chat.rpc.mcp.resources.read({ serverName: "every", uri: resources[0].uri });
  assert.equal(contents[0].uri, resources[0].uri);
  const { resourceTemplates } = await chat.rpc.mcp.resources.listTemplates({ serverName: "every" });
  assert.ok(resourceTemplates.length > 0);
  await assert.rejects(chat.rpc.mcp.resources.read({ serverName: "nobody", uri: "x://y" }), /MCP server/);
});

test("the server's processes end with the session", async ({ start }) => {
  const client = start();
  const { session: chat, events } = await session(client, { mcpServers: { every: everything() } });
  const mark = JSON.parse(await call(chat, events, "every-get-env {}")).LODGE_SHELL;
  assert.ok(mark);
  await client.stop();
  const living = async () => {
    const all = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
    const marked = await Promise.all(all.map((pid) => readFile(`/proc/${pid}/environ`, "utf8").catch(() => "")));
    return marked.filter((text) => text.includes(mark)).length;
  };
  await until("no process is left", async () => (await living()) === 0);
});

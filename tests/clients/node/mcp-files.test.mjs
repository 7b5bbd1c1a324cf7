// MCP servers that files describe: the person's own, and those of a folder.

import assert from "node:assert/strict";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

import { ask, ofType, session, test } from "./help.mjs";

const everything = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")),
  "dist/index.js",
);
const server = (more = {}) => ({ command: process.execPath, args: [everything, "stdio"], ...more });

test("the person's servers are listed, added, changed, switched and removed", async ({ start, home }) => {
  const client = start();
  await client.start();
  const { config } = client.rpc.mcp;
  assert.deepEqual((await config.list()).servers, {});
  await config.add({ name: "mine", config: { type: "local", command: "node", args: [] } });
  await assert.rejects(config.add({ name: "mine", config: { command: "node" } }), /already exists/);
  await assert.rejects(config.add({ name: "odd", config: { type: "telepathy" } }), /Unknown server type/);
  await config.update({ name: "mine", config: { command: "node", args: ["--version"] } });
  assert.deepEqual((await config.list()).servers.mine.args, ["--version"]);
  await config.disable({ names: ["mine"] });
  assert.equal((await client.rpc.mcp.discover({})).servers[0].enabled, false);
  await config.enable({ names: ["mine"] });
  assert.deepEqual((await client.rpc.mcp.discover({})).servers, [{ name: "mine", type: "stdio", source: "user", enabled: true }]);
  await config.reload();
  assert.equal((await stat(join(home, "mcp-config.json"))).mode & 0o777, 0o600);
  await config.remove({ name: "mine" });
  assert.deepEqual((await config.list()).servers, {});
});

test("an app that asks for it has the servers of files, with variables put in", async ({ start, home, work }) => {
  await mkdir(home, { recursive: true });
  await mkdir(join(work, ".vscode"));
  const write = (file, value) => writeFile(file, JSON.stringify(value));
  await write(join(home, "mcp-config.json"), { mcpServers: { mine: server({ env: { WHERE: "${HOME}/x" } }) } });
  await write(join(work, ".vscode/mcp.json"), { servers: { ours: server({ disabled: true }), theirs: server() } });
  const client = start();
  const { session: without } = await session(client);
  assert.deepEqual((await without.rpc.mcp.list()).servers, []);
  const { session: chat, events } = await session(client, {
    enableConfigDiscovery: true,
    disabledMcpServers: ["theirs"],
  });
  const { servers } = await chat.rpc.mcp.list();
  assert.deepEqual(
    servers.map(({ name, status, source }) => `${name} ${status} ${source}`),
    ["mine connected user", "ours disabled workspace", "theirs disabled workspace"],
  );
  await ask(chat, "call mine-get-env {} then say done");
  const variables = JSON.parse(ofType(events, "tool.execution_complete").at(-1).data.result.content);
  assert.equal(variables.WHERE, `${variables.HOME}/x`);
  assert.equal(ofType(events, "tool.execution_start")[0].data.mcpConfigSource, "user");
});

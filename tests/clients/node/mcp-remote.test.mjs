// MCP servers that are elsewhere: streamable HTTP, the form before it, and tokens that the app gets.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createServer as listen } from "node:net";
import { dirname, join } from "node:path";

import { ask, event, log, ofType, session, test, until } from "./help.mjs";

const everything = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/package.json")),
  "dist/index.js",
);

const freePort = () =>
  new Promise((done) => {
    const server = listen().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Starts the reference server on a port; it ends with the test. */
async function remote(t, kind) {
  const port = await freePort();
  const child = spawn(process.execPath, [everything, kind], { env: { ...process.env, PORT: `${port}` }, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  await until("the server listens", () => fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false));
  return { port, child };
}

for (const [kind, type, path] of [["streamableHttp", "http", "/mcp"], ["sse", "sse", "/sse"]]) {
  test(`a server is reached by ${type}`, async ({ t, start }) => {
    const { port, child } = await remote(t, kind);
    const url = `http://127.0.0.1:${port}${path}`;
    const { session: chat, events } = await session(start(), { mcpServers: { far: { type, url, headers: { "x-mine": "1" } } } });
    assert.match(await ask(chat, 'call far-echo {"message":"from afar"}'), /Echo: from afar/);
    const started = await event(events, "tool.execution_start");
    assert.equal(started.data.mcpTransport, type);
    await ask(chat, 'call far-trigger-long-running-operation {"duration":1,"steps":4} then say done');
    assert.ok(ofType(events, "tool.execution_progress").length >= 1);
    child.kill("SIGKILL");
    await ask(chat, 'call far-echo {"message":"gone"} then say done');
    assert.notEqual(ofType(events, "tool.execution_complete").at(-1).data.success, true);
  });
}

test("a server that is not there fails, with a reason and without an end to the turn", async ({ start }) => {
  const port = await freePort();
  const { session: chat } = await session(start(), {
    mcpServers: {
      gone: { type: "http", url: `http://127.0.0.1:${port}/mcp` },
      goneToo: { type: "sse", url: `http://127.0.0.1:${port}/sse` },
    },
  });
  assert.match(await ask(chat, "say still here"), /still here/);
  for (const server of (await chat.rpc.mcp.list()).servers) {
    assert.equal(server.status, "failed");
    assert.match(server.error, /refused/i);
  }
});

/** A server that wants a token, and for some calls another one. */
async function guarded(t) {
  const seen = [];
  const server = createServer(async (request, response) => {
    const origin = `http://127.0.0.1:${server.address().port}`;
    let body = "";
    for await (const chunk of request) body += chunk;
    const reply = (status, value, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(value === undefined ? undefined : JSON.stringify(value));
    };
    if (request.url === "/meta") return reply(200, { resource: `${origin}/mcp` });
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    seen.push(token);
    const challenge = (status, text) => reply(status, { error: "no" }, { "www-authenticate": text });
    if (!token) return challenge(401, `Bearer resource_metadata="${origin}/meta", scope="read", error="invalid_token"`);
    if (request.method !== "POST") return reply(405, {});
    const message = JSON.parse(body);
    const wants = message.params?.arguments?.wants;
    if (wants === "more" && token !== "upscope") return challenge(403, 'Bearer scope="write", error="insufficient_scope"');
    if (wants === "fresh" && token !== "reauth") return challenge(401, 'Bearer error="invalid_token"');
    const answer = {
      initialize: { protocolVersion: "2025-03-26", capabilities: { tools: {} }, serverInfo: { name: "guarded", version: "1" } },
      "tools/list": { tools: [{ name: "whoami", inputSchema: { type: "object" } }] },
      "tools/call": { content: [{ type: "text", text: `you hold ${token}` }] },
    }[message.method];
    if (message.id === undefined) return reply(202);
    reply(200, { jsonrpc: "2.0", id: message.id, result: answer });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, seen };
}

test("an app gets the tokens that a server wants, and no log holds them", async ({ t, start, home }) => {
  const { url, seen } = await guarded(t);
  const asked = [];
  const { session: chat, events } = await session(start(), {
    enableMcpApps: true,
    mcpServers: { guarded: { type: "http", url, oauthClientId: "me", oauthPublicClient: true } },
    onMcpAuthRequest: (request) => {
      asked.push(request);
      if (request.reason === "refresh") return { kind: "cancelled" };
      return { kind: "token", accessToken: request.reason };
    },
  });
  await chat.rpc.mcp.reload();
  assert.equal((await chat.rpc.mcp.list()).servers[0].status, "connected");
  const { requestId, ...first } = asked[0];
  assert.equal(typeof requestId, "string");
  assert.equal(first.serverName, "guarded");
  assert.equal(first.serverUrl, url);
  assert.equal(first.reason, "initial");
  assert.deepEqual(first.wwwAuthenticateParams, {
    resourceMetadataUrl: url.replace("/mcp", "/meta"),
    scope: "read",
    error: "invalid_token",
  });
  assert.deepEqual(JSON.parse(first.resourceMetadata), { resource: url });
  assert.deepEqual(first.staticClientConfig, { clientId: "me", publicClient: true });
  const call = (wants) =>
    chat.rpc.mcp.apps.callTool({ serverName: "guarded", originServerName: "guarded", toolName: "whoami", arguments: { wants } });
  assert.deepEqual((await call()).content, [{ type: "text", text: "you hold initial" }]);
  assert.deepEqual((await call("more")).content, [{ type: "text", text: "you hold upscope" }]);
  assert.deepEqual((await call("fresh")).content, [{ type: "text", text: "you hold reauth" }]);
  assert.deepEqual(asked.map((request) => request.reason), ["initial", "upscope", "refresh", "reauth"]);
  // The app gets the challenge as the server sent it.
  assert.equal(asked[1].wwwAuthenticateParams.scope, "write");
  assert.deepEqual(
    ofType(events, "mcp.oauth_completed").map((event) => event.data.outcome),
    ["token", "token", "cancelled", "token"],
  );
  assert.ok(seen.includes("initial") && seen.includes("upscope") && seen.includes("reauth"));
  await ask(chat, "call guarded-whoami {} then say done");
  assert.ok(!JSON.stringify(events).includes('"accessToken"'));
  assert.ok(!(await readFile(join(home, "session-state", chat.sessionId, "events.jsonl"), "utf8")).includes("accessToken"));
  assert.ok((await log(home, chat.sessionId)).length > 0);
});

test("without anybody who signs in, a server waits for it and the rest goes on", async ({ t, start }) => {
  const { url } = await guarded(t);
  const { session: chat } = await session(start(), { mcpServers: { guarded: { type: "http", url } } });
  assert.match(await ask(chat, "say fine"), /fine/);
  const { servers, host } = await chat.rpc.mcp.list();
  assert.equal(servers[0].status, "needs-auth");
  assert.deepEqual(Object.keys(host.needsAuthServers), ["guarded"]);
});

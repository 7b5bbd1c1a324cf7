// Signing in to a remote MCP server: by the host itself, against an authorisation server of our own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { ask, environment, event, lodge, ofType, session, test, until } from "./help.mjs";

/** An MCP server with one tool, and the authorisation server that guards it. */
async function guarded(t, more = {}) {
  const state = { registered: [], codes: new Map(), access: new Set(), refresh: new Set(), grants: [], secrets: [], deny: false };
  const token = () => {
    const [access, refresh] = [`access-${randomUUID()}`, `refresh-${randomUUID()}`];
    state.access.add(access);
    state.refresh.add(refresh);
    state.secrets.push(access, refresh);
    return { access_token: access, refresh_token: refresh, token_type: "Bearer", expires_in: 3600, scope: "read" };
  };
  const answers = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "guarded", version: "1" } }),
    "tools/list": () => ({ tools: [{ name: "whoami", description: "Says who you are", inputSchema: { type: "object" } }] }),
    "tools/call": () => ({ content: [{ type: "text", text: "You are Ada" }] }),
  };
  const server = createServer(async (request, response) => {
    const base = `http://${request.headers.host}`;
    const url = new URL(request.url, base);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const json = (value, status = 200) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const fail = (error) => json({ error }, 400);
    switch (url.pathname) {
      case "/mcp": {
        if (!state.access.has(request.headers.authorization?.slice("Bearer ".length))) {
          const challenge = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp", scope="read"`;
          return response.writeHead(401, { "www-authenticate": challenge }).end();
        }
        if (request.method !== "POST") return response.writeHead(405).end();
        const { id, method, params } = JSON.parse(body);
        return id === undefined ? response.writeHead(202).end() : json({ jsonrpc: "2.0", id, result: answers[method]?.(params) ?? {} });
      }
      case "/.well-known/oauth-protected-resource/mcp":
        return json({ resource: `${base}/mcp`, authorization_servers: [base], scopes_supported: ["read"] });
      case "/.well-known/oauth-authorization-server":
        return json({
          issuer: base,
          authorization_endpoint: `${base}/authorize`,
          token_endpoint: `${base}/token`,
          registration_endpoint: `${base}/register`,
          response_types_supported: ["code"],
          grant_types_supported: ["authorization_code", "refresh_token"],
          code_challenge_methods_supported: ["S256"],
          token_endpoint_auth_methods_supported: ["none"],
          ...more,
        });
      case "/register": {
        const asked = JSON.parse(body);
        state.registered.push(asked);
        return json({ ...asked, client_id: `client-${state.registered.length}` }, 201);
      }
      case "/authorize": {
        const asked = Object.fromEntries(url.searchParams);
        assert.equal(asked.response_type, "code");
        assert.equal(asked.code_challenge_method, "S256");
        assert.equal(asked.resource, `${base}/mcp`);
        const back = new URL(asked.redirect_uri);
        back.searchParams.set("state", asked.state);
        if (state.deny) {
          back.searchParams.set("error", "access_denied");
        } else {
          const code = randomUUID();
          state.codes.set(code, asked);
          back.searchParams.set("code", code);
        }
        return response.writeHead(302, { location: back.href }).end();
      }
      case "/token": {
        const form = Object.fromEntries(new URLSearchParams(body));
        state.grants.push(form.grant_type);
        if (form.grant_type === "refresh_token") {
          return state.refresh.delete(form.refresh_token) ? json(token()) : fail("invalid_grant");
        }
        const asked = state.codes.get(form.code);
        state.codes.delete(form.code);
        const proof = createHash("sha256").update(form.code_verifier ?? "").digest("base64url");
        const fits = asked && asked.code_challenge === proof && asked.redirect_uri === form.redirect_uri && asked.client_id === form.client_id;
        return fits ? json(token()) : fail("invalid_grant");
      }
      default:
        return response.writeHead(404).end();
    }
  });
  await new Promise((go) => server.listen(0, "127.0.0.1", go));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { ...state, state, url: `http://127.0.0.1:${server.address().port}/mcp`, config: { type: "http", url: `http://127.0.0.1:${server.address().port}/mcp`, tools: ["*"] } };
}

const status = async (chat) => (await chat.rpc.mcp.list()).servers.find(({ name }) => name === "docs")?.status;

/** What a browser does: goes there, and where that leads to. Answers with the page that it ends at. */
const browse = async (url) => (await fetch(url)).text();

/** All that lies in a directory. What is put in another file's place while it is looked at is looked at there. */
async function contents(dir) {
  const all = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const gone = (error) => (error.code === "ENOENT" ? "" : Promise.reject(error));
  return Promise.all(files.map(async (file) => [file, await readFile(file, "utf8").catch(gone)]));
}

test("an app has the host sign in, and the login is renewed, kept to its owner, and good for other sessions", async ({ t, start, home }) => {
  const server = await guarded(t);
  const { session: chat, events } = await session(start(), { mcpServers: { docs: server.config } });
  assert.equal(await status(chat), "needs-auth");
  const { authorizationUrl } = await chat.rpc.mcp.oauth.login({ serverName: "docs", clientName: "My App", callbackSuccessMessage: "Back to <My App>" });
  assert.equal(server.registered[0].client_name, "My App");
  const redirect = new URL(authorizationUrl).searchParams.get("redirect_uri");
  assert.match(redirect, /^http:\/\/127\.0\.0\.1:\d+\//);
  const stranger = await fetch(`${redirect}?code=stolen&state=guessed`);
  assert.equal(stranger.status, 404, "who does not know the secret is sent away, and the login goes on");
  assert.match(await browse(authorizationUrl), /Back to &lt;My App&gt;/);
  await event(events, "session.mcp_server_status_changed", ({ data }) => data.status === "connected");
  assert.match(await ask(chat, "call docs-whoami {}"), /You are Ada/);

  server.access.clear();
  assert.match(await ask(chat, "call docs-whoami {}"), /You are Ada/, "a token that is no longer good is renewed");
  assert.deepEqual(server.grants, ["authorization_code", "refresh_token"]);
  assert.equal(ofType(events, "mcp.oauth_required").length, 0);

  const other = await session(start(), { mcpServers: { docs: server.config } });
  assert.match(await ask(other.session, "call docs-whoami {}"), /You are Ada/);
  assert.deepEqual(await chat.rpc.mcp.oauth.login({ serverName: "docs" }), {}, "there is nothing to do");

  const [name] = await readdir(join(home, "mcp-oauth"));
  assert.equal((await stat(join(home, "mcp-oauth", name))).mode & 0o777, 0o600);
  const told = JSON.stringify([events, other.events]);
  assert.ok(!server.secrets.some((secret) => told.includes(secret)), "no event tells a token");
  for (const [file, text] of await contents(home)) {
    if (file.includes("mcp-oauth")) continue;
    assert.ok(!server.secrets.some((secret) => text.includes(secret)), `${file} holds a token`);
  }
});

test("an app that describes itself somewhere is known by that address", async ({ t, start }) => {
  const known = "https://app.example/client.json";
  for (const supported of [true, false]) {
    const server = await guarded(t, { client_id_metadata_document_supported: supported });
    const { session: chat, events } = await session(start(), { authClientIdMetadataUrl: known, mcpServers: { docs: server.config } });
    assert.equal(await status(chat), "needs-auth");
    const { authorizationUrl } = await chat.rpc.mcp.oauth.login({ serverName: "docs" });
    const id = new URL(authorizationUrl).searchParams.get("client_id");
    assert.equal(id, supported ? known : "client-1");
    assert.equal(server.registered.length, supported ? 0 : 1);
    await browse(authorizationUrl);
    await event(events, "session.mcp_server_status_changed", ({ data }) => data.status === "connected");
  }
});

test("a login that is refused, or no longer good, is told", async ({ t, start }) => {
  const server = await guarded(t);
  const { session: chat, events } = await session(start(), { mcpServers: { docs: server.config, local: { command: "true", args: [] } } });
  assert.equal(await status(chat), "needs-auth");
  server.state.deny = true;
  const first = await chat.rpc.mcp.oauth.login({ serverName: "docs" });
  assert.match(await browse(first.authorizationUrl), /access_denied/);
  const warning = await event(events, "session.warning");
  assert.match(warning.data.message, /docs.*access_denied/);
  assert.equal(await status(chat), "needs-auth");

  server.state.deny = false;
  const second = await chat.rpc.mcp.oauth.login({ serverName: "docs" });
  await browse(second.authorizationUrl);
  await until("it is connected", async () => (await status(chat)) === "connected");
  const again = await chat.rpc.mcp.oauth.login({ serverName: "docs", forceReauth: true });
  assert.ok(again.authorizationUrl);
  await browse(again.authorizationUrl);
  await until("it has signed in anew", () => server.grants.filter((grant) => grant === "authorization_code").length === 2);
  await until("it is connected", async () => (await status(chat)) === "connected");

  server.access.clear();
  server.refresh.clear();
  await ask(chat, "call docs-whoami {} then say done");
  await chat.rpc.mcp.reload();
  await until("somebody has to sign in again", async () => (await status(chat)) === "needs-auth");

  await assert.rejects(chat.rpc.mcp.oauth.login({ serverName: "nobody" }), /not configured/);
  await assert.rejects(chat.rpc.mcp.oauth.login({ serverName: "local" }), /not a remote server/);
});

test("a person signs in at the terminal, to a server that lodge.toml describes", async ({ t, home, work }) => {
  const server = await guarded(t);
  await mkdir(home, { recursive: true });
  await writeFile(join(home, "lodge.toml"), `[mcp.servers.docs]\nurl = "${server.url}"\n`);
  const run = (args) => {
    const child = spawn(lodge, ["--home", home, ...args], { cwd: work, env: environment(), stdio: ["ignore", "pipe", "pipe"] });
    const lines = [];
    const heard = [];
    createInterface({ input: child.stdout }).on("line", (line) => (lines.push(line), heard.splice(0).forEach((go) => go())));
    child.stderr.on("data", (text) => lines.push(String(text)));
    const done = once(child, "close").then(([code]) => ({ code, text: lines.join("\n") }));
    return { lines, done };
  };
  assert.match((await run(["mcp", "check"]).done).text, /docs needs you to sign in: `lodge mcp login docs`/);
  const login = run(["mcp", "login", "docs"]);
  const address = await until("it says where to go", () => login.lines.find((line) => line.trim().startsWith("http")));
  assert.match(await browse(address.trim()), /Signed in/);
  const signedIn = await login.done;
  assert.deepEqual([signedIn.code, /Signed in to docs/.test(signedIn.text)], [0, true]);
  assert.match((await run(["mcp"]).done).text, /docs {2}\(yours\)\n.*; signed in/);
  const checked = await run(["mcp", "check"]).done;
  assert.deepEqual([checked.code, checked.text], [0, "✓ docs answers and has 1 tool"]);
  assert.match((await run(["run", "--yolo", "call docs-whoami {}"]).done).text, /You are Ada/);
  assert.match((await run(["mcp", "logout", "docs"]).done).text, /Forgotten/);
  const doctor = await run(["doctor"]).done;
  assert.match(doctor.text, /docs needs you to sign in/);
  assert.equal(doctor.code, 0);
  assert.match((await run(["mcp", "login", "nobody"]).done).text, /no MCP server named nobody/);
});

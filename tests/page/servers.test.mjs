// MCP servers, skills and agents as the page shows them.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, until } from "./lib.mjs";

/** An MCP server that wants somebody to sign in, with the authorisation server that it names. */
async function vault() {
  const codes = new Map();
  const good = new Set(["handed-over"]);
  const server = http.createServer(async (request, response) => {
    const url = new URL(request.url, `http://${request.headers.host}`);
    const at = url.origin;
    let body = "";
    for await (const chunk of request) body += chunk;
    const json = (value, status = 200, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
    if (url.pathname.startsWith("/.well-known/oauth-protected-resource")) return json({ resource: `${at}/mcp`, authorization_servers: [at] });
    if (url.pathname.startsWith("/.well-known/"))
      return json({
        issuer: at,
        authorization_endpoint: `${at}/authorize`,
        token_endpoint: `${at}/token`,
        registration_endpoint: `${at}/register`,
        response_types_supported: ["code"],
        code_challenge_methods_supported: ["S256"],
        token_endpoint_auth_methods_supported: ["none"],
      });
    if (url.pathname === "/register") return json({ client_id: "lodge", token_endpoint_auth_method: "none", ...JSON.parse(body) }, 201);
    if (url.pathname === "/authorize") {
      const code = `code-${codes.size}`;
      codes.set(code, url.searchParams.get("code_challenge"));
      const back = new URL(url.searchParams.get("redirect_uri"));
      back.searchParams.set("code", code);
      back.searchParams.set("state", url.searchParams.get("state"));
      return response.writeHead(302, { location: back.href }).end();
    }
    if (url.pathname === "/token") {
      const given = new URLSearchParams(body);
      const proof = createHash("sha256").update(given.get("code_verifier") ?? "").digest("base64url");
      if (codes.get(given.get("code")) !== proof) return json({ error: "invalid_grant" }, 400);
      good.add("signed-in");
      return json({ access_token: "signed-in", token_type: "Bearer", expires_in: 3600 });
    }
    if (url.pathname !== "/mcp") return json({}, 404);
    if (!good.has(request.headers.authorization?.replace("Bearer ", "")))
      return json({}, 401, { "www-authenticate": `Bearer resource_metadata="${at}/.well-known/oauth-protected-resource/mcp"` });
    if (request.method !== "POST") return response.writeHead(405).end();
    const asked = JSON.parse(body);
    if (asked.id === undefined) return response.writeHead(202).end();
    const results = {
      initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "vault", version: "1" } },
      "tools/list": { tools: [{ name: "open", description: "Opens it", inputSchema: { type: "object" } }] },
    };
    json({ jsonrpc: "2.0", id: asked.id, result: results[asked.method] ?? {} });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, close: () => server.closeAllConnections() ?? server.close() };
}

let host;
let vaults;
before(async () => {
  vaults = [await vault(), await vault()];
  host = await Host.start({
    prepare: (host) => {
      const [one, two] = vaults;
      writeFileSync(join(host.home, "lodge.toml"), `[mcp.servers.vault]\ntype = "http"\nurl = "${one.url}"\n[mcp.servers.safe]\ntype = "http"\nurl = "${two.url}"\n`);
      mkdirSync(join(host.work, ".github/skills/knots"), { recursive: true });
      writeFileSync(join(host.work, ".github/skills/knots/SKILL.md"), "---\nname: knots\ndescription: Ties knots\n---\nTie them well.\n");
    },
  });
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
  vaults.forEach((vault) => vault.close());
});

const entry = (page, name) => page.locator(".toggles li", { has: page.getByText(name, { exact: true }) });

async function details() {
  const page = await open(host, { viewport: { width: 1440, height: 900 } });
  await begin(page, "say hello");
  await idle(page);
  await page.getByRole("button", { name: "Details" }).click();
  return page;
}

test("one signs in to a server in a browser, and it starts", async () => {
  const page = await details();
  const server = entry(page, "vault");
  await server.getByText("needs a sign-in").waitFor();
  await server.getByRole("button", { name: "Sign in…" }).click();
  await page.getByRole("button", { name: "Sign in with a browser" }).click();
  const [other] = await Promise.all([page.waitForEvent("popup"), page.getByRole("link", { name: "Open the sign-in page" }).click()]);
  await other.getByText("Signed in").first().waitFor();
  await server.getByText("ready").waitFor();
  await until("the dialog is gone", async () => (await page.locator("dialog").count()) === 0);
});

test("a wrong token is refused and a right one is taken", async () => {
  const page = await details();
  const server = entry(page, "safe");
  await server.getByRole("button", { name: "Sign in…" }).click();
  const field = page.getByLabel(/enter a token/);
  await field.fill("wrong");
  await page.getByRole("button", { name: "Use the token" }).click();
  await page.locator(".toast", { hasText: "The token was not accepted" }).waitFor();
  await field.fill("handed-over");
  await page.getByRole("button", { name: "Use the token" }).click();
  await server.getByText("ready").waitFor();
});

test("a skill is turned off for the session, or everywhere", async () => {
  const page = await details();
  const use = (page) => entry(page, "knots").getByRole("switch");
  await use(page).uncheck();
  const other = await details();
  assert.equal(await use(other).isChecked(), true, "another session still has it");
  await other.getByLabel("A switch counts").selectOption("everywhere");
  await use(other).uncheck();
  await until("the host knows", () => other.evaluate(() => sessionStorage.getItem("lodge.outbox") === "[]"));
  const third = await details();
  assert.equal(await use(third).isChecked(), false, "a new session is without it");
});

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, say, until } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

test("a host that is killed in a stream and comes back is shown as it is", async () => {
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  await say(page, "slowly 20 ms, stream 5000 chunks");
  await page.locator(".answer", { hasText: "20 21" }).waitFor();
  await host.kill();
  await page.getByText("Cannot reach the host.").waitFor();
  // What is written meanwhile is kept.
  const field = page.getByLabel("Message", { exact: true });
  await field.fill("say typed while it was away");
  await host.restart();
  await until("it is back", async () => (await page.locator(".offline").count()) === 0);
  await page.locator(".error-part").waitFor();
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await field.inputValue(), "say typed while it was away");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".answer", { hasText: "typed while it was away" }).waitFor();
});

test("a page that the browser keeps opens while the host is away, with every part of it", async () => {
  const page = await open(host);
  const at = await begin(page, "say hello");
  await idle(page);
  await page.evaluate(() => navigator.serviceWorker.ready.then((found) => found.active.state));
  await host.kill();
  await page.getByText("Cannot reach the host.").waitFor();
  // No page asked for these yet.
  await page.evaluate(() => (location.hash = "#/usage"));
  await page.getByRole("heading", { name: "Usage", exact: true }).waitFor();
  await page.reload();
  await page.getByText("Cannot reach the host.").waitFor();
  await host.restart();
  await page.evaluate((at) => (location.hash = at), at);
  await page.locator(".answer", { hasText: "hello" }).waitFor();
});

test("a page that lacks a file while the host is away stays, and begins anew when the host is back", async () => {
  const page = await open(host, { serviceWorkers: "block", expect: /dynamically imported module|Service Worker registration blocked/ });
  const at = await begin(page, "say hello");
  await idle(page);
  await host.kill();
  await page.getByText("Cannot reach the host.").waitFor();
  await page.evaluate(() => (window.untouched = true));
  await page.evaluate(() => (location.hash = "#/usage"));
  await until("the page tried", () => page.evaluate(() => sessionStorage.getItem("lodge.reloaded") !== null));
  assert.equal(await page.evaluate(() => window.untouched), true);
  await page.getByText("Cannot reach the host.").waitFor();
  await host.restart();
  await page.getByRole("heading", { name: "Usage", exact: true }).waitFor();
  await page.evaluate((at) => (location.hash = at), at);
  await page.locator(".answer", { hasText: "hello" }).waitFor();
});

test("a message that is sent while the host is away is said once when it is back", async () => {
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  await host.kill();
  await page.getByText("Cannot reach the host.").waitFor();
  await say(page, "say it once");
  await page.getByText("It will be sent when the host is back.").waitFor();
  await host.restart();
  await page.locator(".answer", { hasText: "it once" }).waitFor();
  await idle(page);
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await page.locator(".unsent").count(), 0);
});

test("a browser without a network says so, and is right again when it has one", async () => {
  const [page, other] = [await open(host), await open(host)];
  const at = await begin(page, "say hello");
  await idle(page);
  await page.context().setOffline(true);
  await page.getByText("You are offline.").waitFor();
  await other.evaluate((at) => (location.hash = at), at);
  await other.locator(".answer").waitFor();
  await say(other, "say meanwhile");
  await other.locator(".answer", { hasText: "meanwhile" }).waitFor();
  await page.context().setOffline(false);
  await page.locator(".answer", { hasText: "meanwhile" }).waitFor();
  await until("it is online", async () => (await page.locator(".offline").count()) === 0);
});

test("a message whose acknowledgement was lost is said once", async () => {
  const page = await open(host, { path: "" });
  let cut = false;
  await page.routeWebSocket(/.*/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      server.send(message);
      if (!cut && String(message).includes("say unheard")) {
        cut = true;
        client.close();
      }
    });
    server.onMessage((message) => client.send(message));
  });
  await page.goto(await host.link());
  await page.waitForSelector(".shell");
  await begin(page, "say hello");
  await idle(page);
  await say(page, "say unheard");
  await page.locator(".answer", { hasText: "unheard" }).waitFor();
  await idle(page);
  assert.ok(cut);
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await page.locator(".toast.error").count(), 0);
});

test("a message that was on its way when the page was reloaded is said once", async () => {
  const page = await open(host, { path: "" });
  let cut = false;
  await page.routeWebSocket(/.*/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      server.send(message);
      if (String(message).includes("turnStarted") && String(message).includes("say once only")) cut = true;
    });
    // From then on the page hears nothing.
    server.onMessage((message) => {
      if (!cut) client.send(message);
    });
  });
  await page.goto(await host.link());
  await page.waitForSelector(".shell");
  await begin(page, "say hello");
  await idle(page);
  await say(page, "say once only");
  await page.locator(".unsent").waitFor();
  cut = false;
  await page.reload();
  await page.locator(".answer", { hasText: "once only" }).waitFor();
  await idle(page);
  assert.equal(await page.locator(".turn").count(), 2);
  // That the session was read may still be on its way.
  await page.waitForFunction(() => JSON.parse(sessionStorage.getItem("lodge.outbox") ?? "[]").length === 0);
});

test("a page whose host was updated meanwhile begins anew, and keeps what was typed", async () => {
  // A service worker has requests of its own, which a test cannot answer.
  const page = await open(host, { serviceWorkers: "block", expect: /status of 404|dynamically imported module|Service Worker registration blocked/ });
  const at = await begin(page, "say hello");
  await idle(page);
  await page.getByLabel("Message", { exact: true }).fill("not sent yet");
  let missing = true;
  await page.route(/UsageView/, (route) => {
    if (!missing) return route.fallback();
    missing = false;
    return route.fulfill({ status: 404 });
  });
  await page.evaluate(() => (location.hash = "#/usage"));
  await page.getByRole("heading", { name: "Usage", exact: true }).waitFor();
  assert.equal(missing, false);
  await page.evaluate((at) => (location.hash = at), at);
  await until("the draft", async () => (await page.getByLabel("Message", { exact: true }).inputValue()) === "not sent yet");
});

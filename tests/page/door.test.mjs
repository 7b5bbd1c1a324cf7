import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, picture, until, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

/** What a browser says on its console when the host refuses it. */
const REFUSED = /status of (?:401|403)/;

test("a link pairs one browser, once", async () => {
  const link = await host.link();
  const page = await open(host, { path: "", expect: REFUSED });
  await page.getByRole("heading", { name: "Pair this browser" }).waitFor();
  await picture(page, "pairing-desktop-light");
  await page.goto(link);
  await page.waitForSelector(".shell");
  assert.equal(await page.evaluate(() => location.href), `${host.url}#/`.replace("#/", ""), "the ticket is not left in the address");
  const second = await open(host, { path: "", expect: REFUSED });
  await second.goto(link);
  await second.getByRole("alert").filter({ hasText: /lodge pair/ }).waitFor();
  await page.reload();
  await page.waitForSelector(".shell");
});

test("a link can be pasted", async () => {
  const page = await open(host, { path: "", expect: REFUSED });
  await page.getByLabel("Link or code").fill(await host.link());
  await page.getByRole("button", { name: "Pair" }).click();
  await page.waitForSelector(".shell");
});

test("a browser that unpairs is out", async () => {
  const page = await open(host, { expect: REFUSED });
  await visit(page, "#/settings");
  await page.getByRole("button", { name: "Unpair this browser" }).click();
  await page.getByRole("heading", { name: "Pair this browser" }).waitFor();
});

test("a guest who may watch sees everything and is offered nothing", async () => {
  const owner = await open(host);
  const guest = await open(host, { role: "view-only" });
  const at = await begin(owner, 'ask "Which?" choices a, b');
  await owner.locator(".question").waitFor();
  await visit(guest, at);
  await guest.getByText("This browser may watch but not answer.").waitFor();
  assert.equal(await guest.locator(".composer").count(), 0);
  assert.equal(await guest.getByRole("link", { name: "New" }).count(), 0);
  assert.equal(await guest.locator(".row-menu").count(), 0);
});

test("a guest who may approve answers and does nothing else", async () => {
  const owner = await open(host);
  const guest = await open(host, { role: "approve-only" });
  const at = await begin(owner, `call create {"path":"${host.work}/x","file_text":"x"} then say done`);
  await visit(guest, at);
  const question = guest.locator(".question");
  await question.waitFor();
  assert.equal(await question.getByRole("button", { name: "Edit first" }).count(), 0, "what runs is not theirs to write");
  assert.equal(await guest.locator(".composer").count(), 0);
  await question.getByRole("button", { name: "Allow once" }).click();
  await guest.locator(".answer", { hasText: "done" }).waitFor();
  await idle(owner);
});

test("a device that is revoked is out at once", async () => {
  const page = await open(host, { expect: REFUSED });
  const listed = await host.lodge("devices");
  const ids = [...listed.matchAll(/^\s*([\w-]+)\s+(?:full|approve-only|view-only)\b/gm)].map((found) => found[1]);
  assert.ok(ids.length > 0, listed);
  for (const id of ids) await host.lodge("devices", "revoke", id);
  await page.getByRole("heading", { name: "Pair this browser" }).waitFor();
});

test("every answer has the policy, and nothing of the page is inline", async () => {
  const page = await open(host, { path: "", expect: REFUSED });
  const response = await page.goto(host.url);
  const policy = response.headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(response.headers()["x-content-type-options"], "nosniff");
  assert.equal(response.headers()["referrer-policy"], "no-referrer");
  const html = await response.text();
  assert.doesNotMatch(html, /<script(?![^>]*src)|<style|style=|\son\w+=/);
  await until("it is there", () => page.locator("main").count());
});

test("the settings link to the pages of other hosts", async () => {
  const known = {
    work: { url: "wss://work.example:8764/?tkn=secret" },
    far: { url: "ssh://me@far.example" },
  };
  const neighbour = await Host.start({ prepare: (host) => writeFileSync(join(host.home, "hosts.json"), JSON.stringify(known)) });
  try {
    const page = await open(neighbour);
    await visit(page, "#/settings");
    const link = page.getByRole("link", { name: "work" });
    await link.waitFor();
    assert.equal(await link.getAttribute("href"), "https://work.example:8764/");
    assert.equal(await page.getByText("far.example").count(), 0);
  } finally {
    await neighbour.stop();
  }
});

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, say, until, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

test("a session of 10,000 events opens at its end", async (t) => {
  const page = await open(host);
  const at = await begin(page, "stream 10000 chunks");
  await page.locator(".answer", { hasText: "9999 10000" }).waitFor({ timeout: 60_000 });
  await idle(page);
  const fresh = await open(host);
  const took = await fresh.evaluate(async (at) => {
    const begin = performance.now();
    location.hash = at;
    while (!document.querySelector(".answer")?.textContent?.includes("9999 10000")) await new Promise(requestAnimationFrame);
    return performance.now() - begin;
  }, at);
  t.diagnostic(`opened in ${Math.round(took)} ms`);
  await until("the end", () => fresh.locator(".transcript").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 5));
});

/** Enough that laying them all out would take seconds. */
const LINES = 100_000;

test("100,000 lines are scrolled through without laying them all out", async (t) => {
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  const lines = Array.from({ length: LINES }, (_, i) => `code ${i}`).join("\n");
  // Typing so much takes a browser minutes; a paste does not.
  await page.getByLabel("Message", { exact: true }).evaluate((field, text) => {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, `say "\`\`\`\n${lines}\n\`\`\`"`);
  await page.getByRole("button", { name: "Send" }).click();
  await until("all of it", () => page.evaluate((last) => document.querySelector(".turn:last-of-type .code")?.textContent?.includes(last), `code ${LINES - 1}`), 60_000);
  await idle(page);
  await page.locator(".code .piece").last().waitFor({ state: "attached" });
  const took = await page.locator(".transcript").evaluate(async (box) => {
    let worst = 0;
    for (let i = 0; i <= 40; i++) {
      const begin = performance.now();
      box.scrollTop = (box.scrollHeight * (40 - i)) / 40;
      await new Promise(requestAnimationFrame);
      worst = Math.max(worst, performance.now() - begin);
    }
    return worst;
  });
  t.diagnostic(`the slowest frame took ${Math.round(took)} ms`);
  assert.ok((await page.locator(".code .piece").count()) > 100, "the text is in pieces");
});

test("what a page costs while an answer streams is printed", async (t) => {
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const cpu = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const before = await cpu();
  await say(page, "slowly 10 ms, stream 500 chunks");
  await page.locator(".answer", { hasText: "499 500" }).waitFor({ timeout: 60_000 });
  await idle(page);
  const spent = (await cpu()) - before;
  t.diagnostic(`${((spent / 500) * 1000).toFixed(2)} ms of CPU for each delta`);
  await visit(page, "#/");
});

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, picture, say, until, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

const row = (page, title) => page.locator(".session-row", { hasText: title });

async function choose(page, title, item) {
  await row(page, title).getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
}

async function make(page, title) {
  const at = await begin(page, `say about ${title}`);
  await idle(page);
  await page.locator(".chat-head").getByRole("button", { name: "Session actions" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByLabel("Title").fill(title);
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await row(page, title).waitFor({ state: "attached" });
  return at;
}

test("a session is renamed everywhere at once", async () => {
  const [one, two] = [await open(host), await open(host)];
  await make(one, "Old name");
  await row(two, "Old name").waitFor();
  await choose(two, "Old name", "Rename");
  await two.getByLabel("Title").fill("New name");
  await two.keyboard.press("Enter");
  await row(one, "New name").waitFor();
  await one.locator(".chat-head h1", { hasText: "New name" }).waitFor();
});

test("the list shows what works, waits, failed and is idle", async () => {
  const page = await open(host);
  const states = [
    ['call bash {"command":"sleep 600"}', "Working", { Approvals: "Approve everything" }],
    ['ask "Well?"', "Waiting for you", {}],
    ["fail with authentication", "Failed", {}],
    ["say quiet", "Idle", {}],
  ];
  for (const [text, state, settings] of states) {
    await begin(page, text, settings);
    await page.locator(".session-row.current").getByRole("img", { name: state }).waitFor();
  }
});

test("a session that is deleted can be taken back, and is gone otherwise", async () => {
  const page = await open(host);
  await make(page, "Stays");
  await make(page, "Goes");
  await choose(page, "Stays", "Delete");
  await until("it is hidden", async () => (await row(page, "Stays").count()) === 0);
  await page.getByRole("button", { name: "Undo" }).click();
  await row(page, "Stays").waitFor();
  await choose(page, "Goes", "Delete");
  await page.getByText("Deleted “Goes”").waitFor();
  await page.reload();
  await row(page, "Stays").waitFor();
  await until("it is gone", async () => (await row(page, "Goes").count()) === 0);
});

test("sessions are pinned for all pages, archived and found again", async () => {
  const [one, two] = [await open(host), await open(host, PHONE)];
  await make(one, "Beloved");
  await make(one, "Finished");
  await choose(one, "Beloved", "Pin");
  await two.locator("section[aria-label='Pinned sessions']", { hasText: "Beloved" }).waitFor();
  await choose(one, "Finished", "Archive");
  await until("it is put away", async () => (await row(one, "Finished").count()) === 0);
  await one.getByRole("button", { name: /^Archived/ }).click();
  await row(one, "Finished").waitFor();
  await one.getByRole("button", { name: "Back to open sessions" }).click();
  await one.getByLabel("Search sessions").fill("finis");
  await row(one, "Finished").waitFor();
  assert.equal(await one.locator(".session-row").count(), 1);
});

test("a session is forked at a turn, and both go their own ways", async () => {
  const page = await open(host);
  const at = await make(page, "Trunk");
  await say(page, "say second");
  await page.locator(".answer", { hasText: "second" }).waitFor();
  await idle(page);
  await page.locator(".turn").first().getByRole("button", { name: "Turn actions" }).click();
  await page.getByRole("menuitem", { name: "Fork from here" }).click();
  await until("the fork", async () => (await page.evaluate(() => location.hash)) !== at);
  await until("its one turn", async () => (await page.locator(".turn").count()) === 1);
  await say(page, "say branch");
  await page.locator(".answer", { hasText: "branch" }).waitFor();
  await visit(page, at);
  await page.locator(".answer", { hasText: "second" }).waitFor();
  assert.equal(await page.locator(".answer", { hasText: "branch" }).count(), 0);
});

test("everything can be reached by the keyboard", async () => {
  const page = await open(host);
  await make(page, "By keys");
  await visit(page, "#/");
  const find = page.getByRole("combobox", { name: "Find sessions and commands" });
  await page.keyboard.press("Control+k");
  await find.waitFor();
  await page.keyboard.type("by keys");
  await page.keyboard.press("Enter");
  await page.locator(".chat-head h1", { hasText: "By keys" }).waitFor();
  await page.keyboard.press("Control+k");
  await find.waitFor();
  await page.keyboard.type("changes");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Changes", exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await find.waitFor();
  await page.keyboard.press("Escape");
  await until("it is closed", async () => (await page.locator("dialog").count()) === 0);
});

test("the phone shows the list, then the session, and goes back", async () => {
  const page = await open(host, PHONE);
  await make(page, "On the go");
  await visit(page, "#/");
  await row(page, "On the go").locator("a").tap();
  await page.locator(".answer").waitFor();
  assert.equal(await page.locator(".side-list").isVisible(), false);
  await page.getByRole("link", { name: "All sessions", exact: true }).tap();
  await page.locator(".side-list").waitFor();
  for (const width of [390, 360]) {
    await page.setViewportSize({ width, height: 740 });
    for (const [hash, ready] of [["#/", ".side-list"], ["#/inbox", "h1"], ["#/usage", ".usage-table"], ["#/automations", "h1"], ["#/settings", ".card"], ["#/new", ".grid select"]]) {
      await visit(page, hash);
      await page.locator(ready).first().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, `${hash} scrolls sideways at ${width}`);
    }
  }
});

test("an automation is made, run and removed", async () => {
  const page = await open(host);
  await visit(page, "#/automations");
  await page.getByRole("button", { name: "New", exact: true }).click();
  await page.getByLabel("Title").fill("Tidy up");
  await page.getByLabel("Message", { exact: true }).fill("say tidy");
  await page.getByRole("button", { name: "Create" }).click();
  const card = page.locator(".card", { hasText: "Tidy up" });
  await card.getByRole("button", { name: "Run now" }).click();
  await card.getByRole("link", { name: "Open its session" }).click();
  await page.locator(".answer", { hasText: "tidy" }).waitFor();
  await idle(page);
  await visit(page, "#/automations");
  await card.getByText("completed").waitFor();
  await card.getByRole("button", { name: "Edit Tidy up" }).click();
  await card.getByLabel("Title").fill("Tidy up again");
  await card.getByLabel(/^Times/).fill("30 7 * * 6");
  await card.getByRole("button", { name: "Save" }).click();
  await until("it is another", async () => /Tidy up again[^]*30 7 \* \* 6[^]*say tidy/.test(await card.innerText()));
  await until("the form is gone", async () => (await card.getByRole("textbox").count()) === 0);
  await card.getByRole("button", { name: /^Delete/ }).click();
  await page.getByText("No automations").waitFor();
});

test("a message is found in whichever session it is, and shown where it stands", async () => {
  const page = await open(host);
  const at = await begin(page, "say the walrus and the carpenter");
  await idle(page);
  for (let i = 0; i < 22; i++) {
    await say(page, `say filler ${i}`);
    await page.locator(".answer", { hasText: new RegExp(`^filler ${i}$`) }).waitFor();
    await idle(page);
  }
  await begin(page, "say something else");
  await idle(page);
  await page.getByLabel("Search sessions").fill("carpenter walr");
  const hit = page.locator(".hit", { hasText: "the walrus and the carpenter" }).first();
  await hit.waitFor();
  assert.deepEqual((await hit.locator("mark").allInnerTexts()).sort(), ["carpenter", "walrus"]);
  await picture(page, "search-desktop-light");
  await hit.getByRole("link").click();
  await until("its session", async () => (await page.evaluate(() => location.hash)).startsWith(at));
  await until("the turn is in sight", () =>
    page.evaluate(() => {
      const turn = [...document.querySelectorAll(".turn")].find((turn) => turn.textContent.includes("walrus"));
      const box = document.querySelector(".transcript").getBoundingClientRect();
      const place = turn?.getBoundingClientRect();
      return place && place.top >= box.top - 1 && place.top < box.bottom;
    }),
  );
  await page.getByLabel("Search sessions").fill("no-such-word-anywhere");
  await page.getByText("No message contains these words.").waitFor();
});

test("a notification says that a session waits, and not what for", async () => {
  // This browser has no push service, and says so; the page tells by itself then.
  const page = await open(host, { expect: /Push API/ });
  // A browser without a screen shows none, so this is its part: it allows them and remembers what it was to show.
  await page.evaluate(() => {
    window.told = [];
    const show = (title, options) => window.told.push([title, options.body ?? ""]);
    window.Notification = class {
      static permission = "granted";
      static requestPermission = async () => "granted";
      constructor(title, options) {
        show(title, options);
      }
    };
    ServiceWorkerRegistration.prototype.showNotification = async (title, options) => void show(title, options);
  });
  const told = () => page.evaluate(() => window.told);
  await visit(page, "#/settings");
  await page.getByLabel("Notify me when a session needs me").check();
  const busy = await begin(page, 'call bash {"command":"rm -f nothing; until [ -e go-on ]; do sleep 0.1; done"} then ask "A secret?"');
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".tool-running").waitFor();
  await page.evaluate(() => Object.defineProperty(document, "visibilityState", { get: () => "hidden" }));
  assert.deepEqual(await told(), []);
  writeFileSync(join(host.work, "go-on"), "");
  await until("a notification", async () => (await told()).length > 0);
  assert.deepEqual(await told(), [["A session needs you", ""]]);
  assert.equal(await page.evaluate(() => location.hash), busy);
});

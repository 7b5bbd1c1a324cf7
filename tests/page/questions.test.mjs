import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, picture, until, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

const file = (name) => join(host.work, name);
const lines = (name) => (existsSync(file(name)) ? readFileSync(file(name), "utf8").trim().split("\n") : []);
/** A command that is asked about, and leaves a line each time it runs. */
const append = (name) => `call bash {"command":"rm -f none-such; echo ran >> ${file(name)}"}`;

test("a command is approved from the phone, and runs once", async () => {
  const page = await open(host, { ...PHONE, colorScheme: "dark" });
  await begin(page, `${append("phone")} then say done`);
  const question = page.locator(".question");
  await question.getByText("Run this command?").waitFor();
  await picture(page, "approval-phone-dark");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, "nothing is wider than the phone");
  await question.getByRole("button", { name: "Allow once" }).tap();
  await page.locator(".answer", { hasText: "done" }).waitFor();
  await idle(page);
  assert.equal(await page.locator(".question").count(), 0);
  assert.deepEqual(lines("phone"), ["ran"]);
});

test("what is allowed for the session is not asked about again", async () => {
  const page = await open(host);
  await begin(page, `${append("session")} repeat 3 times then say done`);
  await page.getByRole("button", { name: /^Allow .* for this session$/ }).click();
  await page.locator(".answer", { hasText: "done" }).waitFor();
  assert.equal(lines("session").length, 3);
});

test("a question hides no character of what would run", async () => {
  const page = await open(host);
  await begin(page, 'call bash {"command":"rm -f none-such; echo a\\u001b[8mb\\u001b[0m c\\u3164d"}');
  const input = page.locator(".question").getByRole("group", { name: "Input" });
  await input.getByText("a⟨U+001B⟩[8mb⟨U+001B⟩[0m c⟨U+3164⟩d").waitFor();
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await idle(page);
});

test("a command is denied with a reason, which the agent reads", async () => {
  const page = await open(host);
  await begin(page, append("denied"));
  await page.getByRole("button", { name: "Deny with a reason" }).click();
  await page.getByLabel("Why not? The agent will see this.").fill("use the other file");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.locator(".answer", { hasText: "use the other file" }).waitFor();
  assert.deepEqual(lines("denied"), []);
});

test("what a person writes instead is what runs", async () => {
  const page = await open(host);
  await begin(page, `call create {"path":"${file("edited")}","file_text":"before"} then say done`);
  const question = page.locator(".question");
  await question.locator(".row.add").waitFor();
  assert.deepEqual(await question.locator(".row.add .text").allInnerTexts(), ["before"]);
  await question.getByRole("button", { name: "Edit first" }).click();
  const field = question.getByLabel("Run this instead");
  await field.fill((await field.inputValue()).replace("before", "after"));
  await question.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".answer", { hasText: "done" }).waitFor();
  assert.equal(readFileSync(file("edited"), "utf8"), "after");
});

test("questions of all sessions are in one inbox and are answered there", async () => {
  const page = await open(host);
  await begin(page, 'ask "Which colour?" choices red, blue then say thanks');
  await page.locator(".question").waitFor();
  await begin(page, append("inbox"));
  await page.locator(".question").waitFor();
  await begin(page, 'ask "What is your name?" then say thanks');
  await page.locator(".question").waitFor();
  await begin(page, "write the plan 1. Look. 2. Leap. then present the plan Look, then leap.", { Mode: "Plan" });
  await page.locator(".question").waitFor();
  await visit(page, "#/inbox");
  const cards = page.locator(".page .question");
  await until("all questions", async () => (await cards.count()) === 4);
  // The plan itself is there to be read, as the list that it is.
  await cards.filter({ hasText: "leap" }).locator(".field-text li", { hasText: "Look. 2. Leap." }).waitFor();
  await picture(page, "inbox-desktop");
  assert.match(await page.title(), /^\(4\)/);
  const colour = cards.filter({ hasText: "Which colour?" });
  await colour.getByLabel("blue").check();
  await colour.getByRole("button", { name: "Answer" }).click();
  await until("one less", async () => (await cards.count()) === 3);
  const name = cards.filter({ hasText: "What is your name?" });
  await name.getByRole("textbox").fill("Ada");
  await name.getByRole("button", { name: "Answer" }).click();
  await until("one less", async () => (await cards.count()) === 2);
  await cards.filter({ hasText: "leap" }).getByRole("button", { name: "Answer" }).click();
  await cards.filter({ hasText: "Run this command?" }).getByRole("button", { name: "Allow once" }).click();
  await page.getByText("Nothing needs your attention").waitFor();
  assert.deepEqual(lines("inbox"), ["ran"]);
});

test("a question that somebody else answered says so and goes away", async () => {
  const [fast, slow] = [await open(host), await open(host, PHONE)];
  const at = await begin(fast, append("race"));
  await visit(slow, at);
  await slow.locator(".question").waitFor();
  await fast.getByRole("button", { name: "Allow once" }).click();
  await slow.locator(".question").waitFor({ state: "detached" });
  await slow.getByText("Someone else answered “Run this command?”: “Allow once”.").waitFor();
  assert.equal(await fast.getByText("Someone else").count(), 0);
  await idle(slow);
  assert.deepEqual(lines("race"), ["ran"]);
});

test("a late answer is told that somebody else was faster", async () => {
  const slow = await open(host, { path: "" });
  let held;
  await slow.routeWebSocket(/.*/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => server.send(message));
    // What the page hears comes late, once it is told to.
    server.onMessage((message) => (held && !String(message).includes("rejectionReason") ? held.push(message) : client.send(message)));
  });
  await slow.goto(await host.link());
  await slow.waitForSelector(".shell");
  const at = await begin(slow, append("late"));
  const fast = await open(host, { at });
  await slow.locator(".question").waitFor();
  held = [];
  await fast.getByRole("button", { name: "Allow once" }).click();
  await idle(fast);
  await slow.getByRole("button", { name: "Deny", exact: true }).click();
  await slow.locator(".toast", { hasText: "Someone else answered this first." }).waitFor();
  assert.deepEqual(lines("late"), ["ran"]);
});

test("an answer whose acknowledgement was lost arrives, and arrives once", async () => {
  const page = await open(host, { path: "" });
  let cut = false;
  await page.routeWebSocket(/.*/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      server.send(message);
      // The host has the answer; the page never hears of it.
      if (!cut && String(message).includes("toolCallConfirmed")) {
        cut = true;
        client.close();
      }
    });
    server.onMessage((message) => client.send(message));
  });
  await page.goto(await host.link());
  await page.waitForSelector(".shell");
  await begin(page, `${append("lost-ack")} then say done`);
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".answer", { hasText: "done" }).waitFor();
  await idle(page);
  assert.ok(cut);
  assert.deepEqual(lines("lost-ack"), ["ran"]);
  assert.equal(await page.locator(".question").count(), 0);
});

test("an answer that was lost on its way is sent again, and counts once", async () => {
  const page = await open(host, { path: "" });
  let cut = false;
  await page.routeWebSocket(/.*/, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      if (!cut && String(message).includes("toolCallConfirmed")) {
        cut = true;
        client.close();
        server.close();
      } else server.send(message);
    });
    server.onMessage((message) => client.send(message));
  });
  await page.goto(await host.link());
  await page.waitForSelector(".shell");
  await begin(page, `${append("lost")} then say done`);
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".answer", { hasText: "done" }).waitFor();
  assert.ok(cut);
  assert.deepEqual(lines("lost"), ["ran"]);
});

test("what is always allowed in a project is not asked about in its next session", async () => {
  const page = await open(host);
  const make = (name, said) => `call bash {"command":"mkdir -p ${file(name)}"} then say ${said}`;
  await begin(page, make("always", "made it"));
  const question = page.locator(".question");
  // What is edited is another command, and a rule is not for that.
  await question.getByRole("button", { name: "Edit first" }).click();
  assert.equal(await question.getByRole("button", { name: /^Always allow .* in this project$/ }).count(), 0);
  await question.getByRole("button", { name: "Back" }).click();
  const guest = await open(host, { role: "approve-only", at: await page.evaluate(() => location.hash) });
  await guest.getByRole("button", { name: /^Allow .* for this session$/ }).waitFor();
  assert.equal(await guest.getByRole("button", { name: /^Always allow .* in this project$/ }).count(), 0, "a rule takes a device that may do everything");
  await question.getByRole("button", { name: /^Always allow .* in this project$/ }).click();
  await page.locator(".answer", { hasText: "made it" }).waitFor();
  assert.ok(existsSync(file("always")));
  await begin(page, make("always", "made it again"));
  await page.locator(".answer", { hasText: "made it again" }).waitFor();
  await begin(page, make("other", "made another"));
  await question.getByRole("button", { name: "Deny", exact: true }).waitFor();
});

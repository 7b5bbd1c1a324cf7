import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
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

test("an answer streams in as Markdown, with code that can be copied", async () => {
  const page = await open(host);
  await begin(page, "say \"# Plan\n\n1. **Look**\n2. _Leap_\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\"");
  await idle(page);
  const answer = page.locator(".answer").last();
  assert.equal(await answer.locator("h2").innerText(), "Plan");
  assert.deepEqual(await answer.locator("ol li").allInnerTexts(), ["Look", "Leap"]);
  assert.equal(await answer.locator("td.right").innerText(), "2");
  assert.equal(await answer.locator("pre").innerText(), "fn main() {}");
  await answer.locator(".hl-keyword").first().waitFor();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await answer.getByRole("button", { name: "Copy code" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "fn main() {}");
});

test("two pages see one session, and each sees what the other says", async () => {
  const [one, two] = [await open(host), await open(host, PHONE)];
  const at = await begin(one, "say first");
  await visit(two, at);
  await two.getByText("first", { exact: true }).waitFor();
  await say(two, "say from the phone");
  await one.locator(".answer", { hasText: "from the phone" }).waitFor();
  await two.locator(".answer", { hasText: "from the phone" }).waitFor();
  const texts = (page) => page.locator(".turn").allInnerTexts();
  await idle(one);
  await idle(two);
  assert.equal((await texts(one)).length, 2);
  assert.equal((await texts(two)).length, 2);
});

test("two pages and a terminal are at one session", async () => {
  const [one, two] = [await open(host), await open(host, PHONE)];
  const at = await begin(one, "say first");
  await visit(two, at);
  await two.getByText("first", { exact: true }).waitFor();
  const terminal = host.attach("last");
  await terminal.see("first");
  terminal.type("say from the terminal\n");
  for (const page of [one, two]) await page.locator(".answer", { hasText: "from the terminal" }).waitFor();
  await idle(two);
  await say(two, "say from the phone again");
  await terminal.see("from the phone again");
  await terminal.end();
});

test("a tool's output is live, its diff is shown inline and side by side", async () => {
  writeFileSync(join(host.work, "a.txt"), "one\ntwo\nthree\n");
  const page = await open(host);
  await begin(
    page,
    `call bash {"command":"echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over"} then call edit {"path":"${join(host.work, "a.txt")}","old_str":"two","new_str":"2"} then say done`,
    { Approvals: "Approve everything" },
  );
  const running = page.locator(".tool-running");
  await running.locator(".output", { hasText: "begun" }).waitFor();
  writeFileSync(join(host.work, "go"), "");
  await idle(page);
  const diff = page.locator(".diff");
  assert.deepEqual(await diff.locator(".row.del .text").allInnerTexts(), ["two"]);
  assert.deepEqual(await diff.locator(".row.add .text").allInnerTexts(), ["2"]);
  await picture(page, "diff-desktop-light");
  await diff.getByRole("button", { name: "Side by side" }).click();
  const pair = diff.locator(".pair", { has: page.locator(".row.del") });
  assert.equal(await pair.locator(".row.del .text").innerText(), "two");
  assert.equal(await pair.locator(".row.add .text").innerText(), "2");
  assert.equal(readFileSync(join(host.work, "a.txt"), "utf8"), "one\n2\nthree\n");
});

test("what a page pieced together is what a fresh page is told", async () => {
  const page = await open(host);
  const file = join(host.work, "mirror.txt");
  const at = await begin(
    page,
    `think aloud then say "**one**" then call create {"path":"${file}","file_text":"x\\n"} and bash {"command":"echo hi; ls nowhere"} then ask "Which?" choices a, b then start an agent "say below" then call an unknown tool then report usage 10 in 5 out`,
  );
  await page.getByRole("button", { name: "Allow once" }).first().click();
  await page.getByLabel("b", { exact: true }).check();
  await page.getByRole("button", { name: "Answer" }).click();
  await idle(page);
  await say(page, "fail with authentication");
  await page.locator(".error-part").waitFor();
  const fresh = await open(host, { at });
  await fresh.locator(".error-part").waitFor();
  const text = (page) => page.locator(".transcript-inner").evaluate((box) => box.textContent);
  await until("they agree", async () => (await text(page)) === (await text(fresh)));
});

test("a sub-agent's work is shown inside its call", async () => {
  const page = await open(host);
  await begin(page, 'start an agent "say hello from below" then say I heard it');
  await idle(page);
  await page.locator(".tool-line", { hasText: "Delegated" }).click();
  await page.locator(".subagent .answer", { hasText: "hello from below" }).waitFor();
});

test("reasoning is folded and can be read", async () => {
  const page = await open(host);
  await begin(page, "think aloud then say done");
  await idle(page);
  const reasoning = page.locator(".reasoning");
  assert.equal(await reasoning.getAttribute("open"), null);
  await reasoning.locator("summary").click();
  await reasoning.locator(".md", { hasText: "First I look at what was asked" }).waitFor();
});

test("a turn that failed can be tried again", async () => {
  const page = await open(host);
  await begin(page, "fail with authentication");
  await page.getByRole("button", { name: "Try again" }).click();
  await until("the second failure", async () => (await page.locator(".error-part").innerText()).includes("attempt"));
  await idle(page);
});

test("a turn can be stopped; messages queue up and can be taken back", async () => {
  const page = await open(host);
  await begin(page, 'call bash {"command":"sleep 600"}', { Approvals: "Approve everything" });
  await page.locator(".tool-running").waitFor();
  const field = page.getByLabel("Message", { exact: true });
  for (const text of ["say one", "say two"]) {
    await field.fill(text);
    await field.press("Enter");
    await page.locator(".queue li", { hasText: text }).waitFor();
  }
  await page.locator(".queue li", { hasText: "say one" }).getByRole("button").click();
  await until("one message left", async () => (await page.locator(".queue li").count()) === 1);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".turn .chip", { hasText: "Stopped" }).first().waitFor();
});

test("a message can be edited and said again, and a turn rewound", async () => {
  const page = await open(host);
  await begin(page, "say one");
  await idle(page);
  await say(page, "say two");
  await page.locator(".answer", { hasText: "two" }).waitFor();
  await idle(page);
  await page.locator(".turn").nth(1).getByRole("button", { name: "Turn actions" }).click();
  await page.getByRole("menuitem", { name: "Edit and resend" }).click();
  await page.getByLabel("Message", { exact: true }).fill("say three");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".answer", { hasText: "three" }).waitFor();
  await idle(page);
  assert.deepEqual(await page.locator(".answer").allInnerTexts(), ["one", "three"]);
  await page.locator(".turn").first().getByRole("button", { name: "Turn actions" }).click();
  await page.getByRole("menuitem", { name: "Rewind to here" }).click();
  await until("one turn left", async () => (await page.locator(".turn").count()) === 1);
});

test("what is typed is kept over a reload, and Enter makes a line on a touch keyboard", async () => {
  const page = await open(host, PHONE);
  await begin(page, "say hello");
  await idle(page);
  const field = page.getByLabel("Message", { exact: true });
  await field.click();
  await page.keyboard.type("first");
  await page.keyboard.press("Enter");
  await page.keyboard.type("second");
  assert.equal(await field.inputValue(), "first\nsecond");
  assert.equal(await page.locator(".turn").count(), 1);
  await page.reload();
  await until("the draft", async () => (await page.getByLabel("Message", { exact: true }).inputValue()) === "first\nsecond");
});

/** From here on the host hears of no question for completions. */
const withoutCompletions = () => {
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    if (!String(data).includes('"completions"')) send.call(this, data);
  };
};

test("a long output that is being loaded takes nothing else off the page", async () => {
  const page = await open(host);
  const file = join(host.work, "long.txt");
  writeFileSync(file, "a line that makes it long\n".repeat(20_000));
  await begin(page, `call bash {"command":"cat ${file}"} then say done`, { Approvals: "Approve everything" });
  await idle(page);
  // The output is asked for, and its answer held back.
  await page.evaluate(() => {
    window.held = [];
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (data) {
      if (String(data).includes('"resourceRead"')) window.held.push(() => send.call(this, data));
      else send.call(this, data);
    };
  });
  await page.locator(".tool-line").first().click();
  await until("the output is asked for", () => page.evaluate(() => window.held.length > 0));
  assert.equal(await page.locator(".composer").isVisible(), true);
  assert.equal(await page.locator(".tool-line").first().isVisible(), true);
  await page.evaluate(() => window.held.forEach((go) => go()));
  await page.locator(".tool-body", { hasText: "a line that makes it long" }).waitFor();
});

test("files and commands are completed", async () => {
  writeFileSync(join(host.work, "wonderful.txt"), "x");
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  const field = page.getByLabel("Message", { exact: true });
  await field.click();
  await page.keyboard.type("look at @wonder");
  await page.getByRole("option", { name: /wonderful\.txt/ }).waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await field.inputValue(), "look at @wonderful.txt ");
  await page.getByRole("list", { name: "Attachments" }).getByText("wonderful.txt").waitFor();
  // Typed on while the host's next answer is on its way: what is offered still replaces the whole word.
  await field.fill("");
  await page.keyboard.type("@wond");
  await page.getByRole("option", { name: /wonderful\.txt/ }).waitFor();
  await page.evaluate(withoutCompletions);
  await page.keyboard.type("erf");
  await page.keyboard.press("Enter");
  assert.equal(await field.inputValue(), "@wonderful.txt ");
  // And what does not fit the word any more is not offered: Enter begins a turn with what was typed.
  await page.reload();
  await idle(page);
  await field.fill("");
  await field.click();
  await page.keyboard.type("@wond");
  await page.getByRole("option", { name: /wonderful\.txt/ }).waitFor();
  await page.evaluate(withoutCompletions);
  await page.keyboard.type("rous");
  await page.getByRole("listbox", { name: "Suggestions" }).waitFor({ state: "detached" });
  assert.equal(await field.inputValue(), "@wondrous");
  await page.reload();
  await idle(page);
  await field.fill("");
  await field.click();
  await page.keyboard.type("/mod");
  await page.getByRole("option", { name: /\/model/ }).first().waitFor();
});

test("a picture goes along with a message", async () => {
  const page = await open(host);
  await begin(page, "say hello");
  await idle(page);
  const bytes = Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  );
  await page.locator("input[type=file]").setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: bytes });
  await page.getByRole("list", { name: "Attachments" }).getByText("dot.png").waitFor();
  await say(page, "what is this?");
  await idle(page);
  // Another browser has it from the host alone.
  const other = await open(host, { at: await page.evaluate(() => location.hash) });
  const source = await other.locator(".message img").getAttribute("src");
  assert.equal(source, `data:image/png;base64,${bytes.toString("base64")}`);
});

test("older turns load when they are scrolled to, and the session opens at its end", async () => {
  const page = await open(host);
  const at = await begin(page, "say turn 0");
  await idle(page);
  for (let i = 1; i < 45; i++) {
    await say(page, `say turn ${i}`);
    await page.locator(".answer", { hasText: new RegExp(`^turn ${i}$`) }).waitFor();
    await idle(page);
  }
  await visit(page, "#/inbox");
  await visit(page, at);
  await page.locator(".answer", { hasText: /^turn 44$/ }).waitFor();
  await until("the end", () => page.locator(".transcript").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 5));
  assert.ok((await page.locator(".turn").count()) < 30, "not everything is on the page at once");
  await until("the first turn", async () => {
    await page.locator(".transcript").evaluate((box) => (box.scrollTop = 0));
    return (await page.locator(".answer", { hasText: /^turn 0$/ }).count()) > 0;
  });
});

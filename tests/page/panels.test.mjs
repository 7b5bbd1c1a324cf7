import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, picture, until } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start({
    prepare: (host) => {
      const git = (...args) => execFileSync("git", ["-c", "user.name=T", "-c", "user.email=t@example.com", ...args], { cwd: host.work });
      git("init", "-q", "-b", "main");
      writeFileSync(join(host.work, "a.txt"), Array.from({ length: 60 }, (_, i) => `line ${i + 1}`).join("\n") + "\n");
      git("add", ".");
      git("commit", "-qm", "begin");
    },
  });
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

const read = (name) => readFileSync(join(host.work, name), "utf8");
const change = () => `call edit {"path":"${join(host.work, "a.txt")}","old_str":"line 30\\n","new_str":"changed\\n"} then call create {"path":"${join(host.work, "b.txt")}","file_text":"new\\n"} then say done`;

test("changes are reviewed, commented on and undone, file by file", async () => {
  const page = await open(host, { viewport: { width: 1440, height: 900 } });
  await begin(page, change(), { Approvals: "Approve everything" });
  await idle(page);
  await page.getByRole("button", { name: "Changes" }).click();
  const file = page.locator(".file", { hasText: "a.txt" });
  await file.locator(".row.add .text", { hasText: "changed" }).waitFor();
  assert.deepEqual(await file.locator(".row.del .text").allInnerTexts(), ["line 30"]);
  await picture(page, "changes-desktop-light");
  // A comment goes to the agent.
  await file.getByRole("button", { name: "Comment on line 30" }).click();
  await file.getByLabel("Comment on line 30").last().fill("why?");
  await file.getByRole("button", { name: "Comment", exact: true }).click();
  await file.locator(".comment", { hasText: "why?" }).waitFor();
  await page.getByRole("button", { name: "Send 1 comment" }).click();
  await page.locator(".message", { hasText: "my 1 comment" }).waitFor();
  await idle(page);
  // Review.
  await file.getByLabel("Reviewed").check();
  await page.getByText("2 files, 1 reviewed").waitFor();
  // Undo one file and leave the other.
  await file.getByRole("button", { name: /^More about/ }).click();
  await page.getByRole("menuitem", { name: "Undo Changes", exact: true }).click();
  await until("it is undone", () => read("a.txt").includes("line 30\n"));
  assert.equal(read("b.txt"), "new\n");
});

test("a terminal is opened, typed into, searched and closed", async () => {
  const page = await open(host, { viewport: { width: 1440, height: 900 } });
  await begin(page, "say hello");
  await idle(page);
  await page.getByRole("button", { name: "Terminals" }).click();
  await page.getByRole("button", { name: "New", exact: true }).click();
  const screen = page.locator(".xterm-screen");
  await screen.waitFor();
  await until("a prompt", async () => (await page.locator(".xterm-rows").innerText()).match(/[$#]/));
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo $((6 * 7)) is the answer\n");
  await until("the answer", async () => (await page.locator(".xterm-rows").innerText()).includes("42 is the answer"));
  // Styles of the terminal are in force although the policy forbids inline ones.
  assert.notEqual(await page.locator(".xterm-rows > div").first().evaluate((row) => getComputedStyle(row).height), "auto");
  await picture(page, "terminal-desktop-light");
  await page.getByRole("button", { name: "Close this terminal" }).click();
  await page.getByText("No terminal is open").waitFor();
});

test("two pages share a terminal", async () => {
  const options = { viewport: { width: 1440, height: 900 } };
  const [one, two] = [await open(host, options), await open(host, { ...PHONE })];
  const at = await begin(one, "say hello");
  await idle(one);
  await one.getByRole("button", { name: "Terminals" }).click();
  await one.getByRole("button", { name: "New", exact: true }).click();
  await until("a prompt", async () => (await one.locator(".xterm-rows").innerText()).match(/[$#]/));
  await two.evaluate((at) => (location.hash = `${at}/panel=terminal`), at);
  await until("the same prompt", async () => (await two.locator(".xterm-rows").innerText()).match(/[$#]/));
  await one.locator(".xterm-helper-textarea").focus();
  await one.keyboard.type("echo shared-$((1 + 1))\n");
  await until("it is on the phone", async () => (await two.locator(".xterm-rows").innerText()).includes("shared-2"));
  await two.getByRole("button", { name: "Ctrl+C" }).tap();
  await until("a new line", async () => (await one.locator(".xterm-rows").innerText()).includes("^C"));
});

test("usage is counted by model and by session", async () => {
  const page = await open(host);
  await begin(page, "report usage 1000 in 50 out 900 cached");
  await idle(page);
  await page.getByRole("button", { name: "Details" }).click();
  await page.locator(".numbers", { hasText: "1.0k" }).waitFor();
  await page.evaluate(() => (location.hash = "#/usage"));
  await page.locator(".usage-table td.name", { hasText: "rehearsal" }).first().waitFor();
  assert.ok((await page.locator(".usage-table").first().locator("tbody tr").count()) >= 1);
  await picture(page, "usage-desktop-light");
});

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, picture, say, until } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start({
    prepare: (host) => {
      const git = (...args) => execFileSync("git", ["-c", "user.name=T", "-c", "user.email=t@example.com", ...args], { cwd: host.work });
      git("init", "-q", "-b", "main");
      writeFileSync(join(host.work, "a.txt"), Array.from({ length: 60 }, (_, i) => `line ${i + 1}`).join("\n") + "\n");
      git("add", ".");
      git("commit", "-qm", "begin");
      writeFileSync(join(host.home, "lodge.toml"), '[prices]\ndate = "2026-11-01"\n[prices.models.rehearsal]\ninput = 2.0\noutput = 10.0\ncached = 0.5\n');
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
  await file.getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: "Undo Changes", exact: true }).click();
  await until("it is undone", () => read("a.txt").includes("line 30\n"));
  assert.equal(read("b.txt"), "new\n");
});

test("what one turn changed is shown beside what the session did", async () => {
  const page = await open(host, { viewport: { width: 1440, height: 900 } });
  const make = (name) => `call create {"path":"${join(host.work, name)}","file_text":"x\\n"} then say made ${name}`;
  await begin(page, make("first.txt"), { Approvals: "Approve everything" });
  await idle(page);
  await say(page, make("second.txt"));
  await page.locator(".answer", { hasText: "made second.txt" }).waitFor();
  await idle(page);
  const files = () => page.locator(".panel .file-name code").allInnerTexts();
  const look = async (turn) => {
    await page.locator(".turn").nth(turn).getByRole("button", { name: "Turn actions" }).click();
    await page.getByRole("menuitem", { name: "Changes in this turn" }).click();
  };
  await look(0);
  await until("the first turn's", async () => String(await files()) === "first.txt");
  await look(1);
  await until("the second turn's", async () => String(await files()) === "second.txt");
  await page.getByRole("navigation", { name: "Which changes" }).getByRole("button", { name: "All", exact: true }).click();
  await until("the session's", async () => (await files()).length === 2);
});

test("a branch is made, everything committed and pushed, by commands that the conversation shows", async () => {
  const remote = join(host.root, "remote.git");
  const git = (...args) => execFileSync("git", args, { cwd: host.work, encoding: "utf8" }).trim();
  execFileSync("git", ["init", "-q", "--bare", remote]);
  git("remote", "add", "origin", remote);
  git("config", "user.name", "T");
  git("config", "user.email", "t@example.com");
  const page = await open(host, { viewport: { width: 1440, height: 900 } });
  await begin(page, `call create {"path":"${join(host.work, "c.txt")}","file_text":"c\\n"} then say done`, { Approvals: "Approve everything" });
  await idle(page);
  await page.getByRole("button", { name: "Changes" }).click();
  const choose = async (item) => {
    await page.getByRole("button", { name: "Git", exact: true }).click();
    await page.getByRole("menuitem", { name: item }).click();
  };
  await choose("New branch…");
  await page.getByLabel("Name").fill("feature/one");
  await page.getByRole("button", { name: "Create branch" }).click();
  await until("the branch", () => git("branch", "--show-current") === "feature/one");
  await choose("Commit…");
  // What is written is a message and nothing else to the shell.
  const message = "It's $(touch hacked) `touch hacked`\n\n\"Body\" & more; touch hacked";
  await page.getByLabel("Message", { exact: true }).last().fill(message);
  await picture(page, "commit-desktop-light");
  await page.getByRole("button", { name: "Commit all changes" }).click();
  await until("the commit", () => git("log", "-1", "--format=%B") === message);
  assert.equal(git("status", "--porcelain"), "");
  assert.ok(!git("ls-files").includes("hacked"));
  await choose("Push…");
  await page.getByRole("button", { name: "Push", exact: true }).click();
  await until("it is there", () => execFileSync("git", ["-C", remote, "branch", "--list"], { encoding: "utf8" }).includes("feature/one"));
  await page.locator(".tool", { hasText: "git push" }).first().waitFor();
  await idle(page);
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
  await page.getByText("No open terminals").waitFor();
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
  await begin(page, "report usage 200000 in 5000 out 100000 cached");
  await idle(page);
  // 100,000 fresh tokens for 2 a million, as many cached ones for 0.5, and 5,000 written ones for 10.
  const cost = "$0.30";
  await page.locator(".turn-foot", { hasText: cost }).waitFor();
  await page.locator(".context-used").waitFor();
  await page.getByRole("button", { name: "Details" }).click();
  await page.locator(".numbers", { hasText: "200k" }).waitFor();
  assert.equal(await page.locator(".numbers div", { hasText: "Cost" }).locator("dd").innerText(), cost);
  await page.getByText(/^Context: 205k of/).waitFor();
  await page.evaluate(() => (location.hash = "#/usage"));
  await page.locator(".usage-table td.name", { hasText: "rehearsal" }).first().waitFor();
  assert.ok((await page.locator(".usage-table").first().locator("tbody tr").count()) >= 1);
  await page.getByRole("img", { name: /^Cost, at most \$/ }).waitFor();
  await page.locator(".usage-table").last().getByRole("row", { name: /report usage/ }).filter({ hasText: cost }).waitFor();
  await picture(page, "usage-desktop-light");
});

test("what the agent has noted to do is shown while it works, and changes with it", async () => {
  const page = await open(host);
  const sql = (query) => `call sql ${JSON.stringify({ query, description: "plan" })}`;
  const at = await begin(page, `${sql("INSERT INTO todos (id, title, status) VALUES ('a', 'Look around', 'in_progress'), ('b', 'Leap', 'pending')")} then ask "Go on?" then ${sql("UPDATE todos SET status = 'done' WHERE id = 'a'")} then say noted`);
  await page.locator(".question").waitFor();
  const list = page.locator(".todos");
  await list.getByText("0 of 2 done").waitFor();
  await list.getByText("Look around").first().waitFor();
  await page.locator(".question").getByRole("textbox").fill("yes");
  await page.getByRole("button", { name: "Answer" }).click();
  await page.locator(".answer", { hasText: "noted" }).waitFor();
  await list.getByText("1 of 2 done").waitFor();
  await list.locator("summary").click();
  assert.deepEqual(await list.locator("li").evaluateAll((items) => items.map((item) => [item.innerText.trim(), item.querySelector("[role=img]").ariaLabel])), [
    ["Look around", "Done"],
    ["Leap", "To do"],
  ]);
  await picture(page, "todos-desktop-light");
  // Whoever comes later sees it, too.
  const other = await open(host, { role: "view-only", at });
  await other.locator(".todos").getByText("1 of 2 done").waitFor();
});

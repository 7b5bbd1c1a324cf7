// VS Code's own page against the built program, as a person uses both: `cargo xtask soak vscode` runs this.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { closeBrowser, Host } from "../page/lib.mjs";
import { Editor } from "./editor.mjs";

if (process.env.LODGE_SHOTS) mkdirSync(process.env.LODGE_SHOTS, { recursive: true });

function prepare({ work }) {
  writeFileSync(join(work, "note.txt"), "one\ntwo\nthree\n");
  const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@example.com", ...args], { cwd: work });
  git("init", "-q");
  git("add", "-A");
  git("commit", "-qm", "start");
}

const host = await Host.start({ prepare });
const editor = await Editor.start(host);
const { page } = editor;
const note = () => readFileSync(join(host.work, "note.txt"), "utf8");

/** The lines of the log of the only session. */
function events() {
  const [session] = readdirSync(join(host.home, "session-state"));
  return readFileSync(join(host.home, "session-state", session, "events.jsonl"), "utf8").split("\n");
}

/** The first event of a type. */
function told(type) {
  return events().find((line) => line.includes(`"type":"${type}"`));
}

/** The last one. */
function toldLast(type) {
  return events().findLast((line) => line.includes(`"type":"${type}"`));
}

/** A file whose two sides have different paths would be shown as renamed. */
async function nothingIsRenamed() {
  assert.equal(await page.locator(".monaco-diff-editor:visible").count() > 0, true);
  assert.deepEqual(await page.locator(".status.renamed:visible").allInnerTexts(), []);
}

const steps = {
  async "a file that is open goes with the message"() {
    await editor.choose();
    await page.getByText("note.txt", { exact: true }).first().dblclick();
    await page.getByLabel("Add file:note.txt to context").click();
    await editor.say("say I see it.");
    await editor.answers("I see it.");
    await page.locator(".interactive-request", { hasText: "note.txt" }).waitFor();
    assert.match(told("user.message"), /"attachments":\[\{[^\]]*note\.txt/);
    // Where there is little room its name is only read aloud.
    const pickers = page.locator(".interactive-input-part:visible [role=button][aria-label*='Rehearsal (offline)']");
    assert.equal(await pickers.count(), 1, "the model is offered once");
  },
  async "a question is asked once and answered"() {
    await editor.say('ask "Which colour?" choices red, blue');
    const asked = page.getByText(/^Which colour\?/).and(page.locator(":visible"));
    await asked.first().waitFor();
    await editor.shot("question");
    assert.equal(await asked.count(), 1, "the question is in view once");
    await page.locator("[role=option]:visible", { hasText: "blue" }).first().click();
    await editor.answers("User selected: blue");
  },
  async "a new file is approved with its text in view"() {
    await editor.say('call create {"path":"new.txt","file_text":"fresh"} then say The file is made.');
    await page.getByLabel("1 file created, 1 lines added, 0 lines removed").and(page.locator(":visible")).first().waitFor();
    await page.locator("[aria-label='View All Changes']:visible").first().click();
    await page.locator(".monaco-editor:visible", { hasText: "fresh" }).first().waitFor();
    await editor.shot("new");
    await editor.allow();
    await editor.answers("The file is made.");
    assert.equal(readFileSync(join(host.work, "new.txt"), "utf8"), "fresh");
    execFileSync("rm", [join(host.work, "new.txt")]);
  },
  async "a text in no file goes with the message"() {
    await editor.command("File: New Untitled Text File");
    await page.locator(".editor-instance .monaco-editor:visible").first().click();
    // The first line is its name.
    await page.keyboard.insertText("fruit\nthe medlar");
    await page.getByLabel(/^Add file:.*Untitled-1 to context/).click();
    await editor.say("say I read it.");
    await editor.answers("I read it.");
    await editor.shot("untitled");
    assert.match(toldLast("user.message"), /the medlar/);
    await editor.command("View: Revert and Close Editor");
  },
  async "an edit is approved with its difference in view"() {
    await editor.say('call edit {"path":"note.txt","old_str":"two","new_str":"zwei"} then say The edit is made.');
    await page.getByLabel("1 file changed, 1 lines added, 1 lines removed").and(page.locator(":visible")).first().waitFor();
    await editor.shot("approval");
    await page.locator("[aria-label='View All Changes']:visible").first().click();
    await page.locator(".monaco-diff-editor:visible", { hasText: "zwei" }).first().waitFor();
    await editor.shot("difference");
    await nothingIsRenamed();
    assert.equal(note(), "one\ntwo\nthree\n");
    await editor.allow();
    await editor.answers("The edit is made.");
    assert.equal(note(), "one\nzwei\nthree\n");
  },
  async "a command shows its terminal"() {
    await editor.say('call bash {"command":"touch made; seq 1 20000"} then say It counted.');
    await page.getByRole("button", { name: /^Allow/ }).and(page.locator(":visible")).first().waitFor();
    await editor.shot("command");
    await editor.allow();
    await editor.answers("It counted.");
    await page.locator(".interactive-response", { hasText: "It counted." }).getByText("touch made").first().click();
    // Near the end of the output, and not in the command.
    await page.locator(".xterm-rows:visible, .chat-terminal-output:visible", { hasText: "19999" }).first().waitFor();
  },
  async "a dangerous command says what is dangerous, and is not run"() {
    await editor.say('call bash {"command":"git push --force origin main"} then say It was not pushed.');
    await page.getByText("Overwrites history on the remote.").and(page.locator(":visible")).first().waitFor();
    await editor.shot("warning");
    await page.getByRole("button", { name: "Skip" }).and(page.locator(":visible")).first().click();
    await editor.answers("It was not pushed.");
  },
  async "changes of the branch are shown with both sides"() {
    await page.locator(".interactive-input-part", { hasText: "2 Files" }).getByText("2 Files").first().click();
    await page.locator(".monaco-diff-editor:visible", { hasText: "zwei" }).last().waitFor();
    await editor.shot("changes");
    await nothingIsRenamed();
    const tab = page.locator(".tab.active:visible");
    assert.match(await tab.first().innerText(), /Changes/);
  },
  async "an answer that is stopped stays as far as it came"() {
    await editor.say("slowly 50 ms, stream 3000 chunks");
    await editor.answers(" 12 ");
    await editor.shot("streaming");
    await editor.cancel();
    assert.ok(told("abort"), "the log tells of no stop");
    await editor.say("say I am here.");
    await editor.answers("I am here.");
    assert.match((await editor.conversation()).join("\n"), / 11 12 /);
  },
  async "the page shows the same after it is loaded again"() {
    await editor.load();
    await editor.reopen("say I see it.");
    await editor.answers("I am here.");
    await editor.shot("reloaded");
    // VS Code draws an answer more slowly than it comes, and no further when it is stopped: all of it is there now.
    const shown = (await editor.conversation()).join("\n");
    for (const text of ["It was not pushed.", " 11 12 ", "I am here."]) assert.ok(shown.includes(text), `${text} is missing: ${shown}`);
  },
  async "a host that was killed comes back and goes on"() {
    await editor.say("slowly 50 ms, stream 3000 chunks of 6 bytes");
    await editor.answers("12... ");
    await host.kill();
    await editor.shot("killed");
    await host.restart();
    await editor.answers("it counts as interrupted");
    assert.match((await editor.conversation()).join("\n"), /11\.\.\. 12\.\.\. .*Try Again/s);
    await page.locator(".agent-session-item:visible", { hasText: "Working" }).waitFor({ state: "hidden" });
    await editor.shot("back");
    await editor.say("say Back again.");
    await editor.answers("Back again.");
    await editor.rests();
    await page.locator(".agent-session-item:visible", { hasText: "Failed" }).waitFor({ state: "hidden" });
  },
};

let failed = false;
for (const [number, [name, step]] of Object.entries(steps).entries()) {
  try {
    await step();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ${name}\n${String(error.stack).slice(0, 2000)}`);
  }
  if (!failed) await editor.rests();
  await editor.shot(`${number + 1}`);
  // Each step goes on where the one before it ended.
  if (failed) break;
}
await editor.stop();
await closeBrowser();
await host.stop();
process.exit(failed ? 1 : 0);

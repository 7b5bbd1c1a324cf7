// Text from models, tools, files and people that tries to be more than text.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, until, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

const RUN = "window.pwned=1";
const TABLE = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<svg onload="${RUN}"><script>${RUN}</script></svg>`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<a href="javascript:${RUN}">click</a>`,
  `[click](javascript:${RUN})`,
  `[click](JaVaScRiPt:${RUN})`,
  `[click](java\tscript:${RUN})`,
  `[click](data:text/html,<script>${RUN}</script>)`,
  `[click](vbscript:${RUN})`,
  `![x](https://tracker.example/pixel.png)`,
  `![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+)`,
  `<https://example.com/"onmouseover="${RUN}">`,
  "```html\n<script>" + RUN + "</script>\n```",
  "| <script>" + RUN + "</script> | b |\n|---|---|\n| <img src=x onerror=" + RUN + "> | d |",
  "`<img src=x onerror=" + RUN + ">`",
  `<style>*{display:none}</style>`,
  `<form action="https://evil.example"><button>go</button></form>`,
  `<base href="https://evil.example/">`,
  `<meta http-equiv="refresh" content="0;url=https://evil.example">`,
  "file \u202egnp.exe\u202c and \u2066isolated\u2069",
  "\u001b]8;;javascript:" + RUN + "\u0007link\u001b]8;;\u0007 \u001b[31mred\u001b[0m \u001b[2J\u001b[H",
  "x".repeat(60_000),
  "[".repeat(5000),
  "*".repeat(5000) + "a",
  "> ".repeat(3000) + "deep",
  "- ".repeat(3000) + "deep",
  "`".repeat(5001),
  // Each of these took the square of its length, or worse.
  "[a](".repeat(20_000),
  "`" + " *a".repeat(20_000),
  "`" + "*a ".repeat(20_000),
  "*a ".repeat(20_000),
  "# a" + " ".repeat(20_000) + "#x",
  "```" + " ".repeat(20_000) + "`",
  "a" + " ".repeat(20_000) + "b\n".repeat(200),
  "- a" + "\n".repeat(500) + "b",
  "https://a/" + ")".repeat(20_000),
  "1https://a ".repeat(500),
  "&lt;script&gt;" + RUN + "&lt;/script&gt;",
];

/** Nothing ran, nothing hides, nothing is wider than the window. */
async function unharmed(page, what, width) {
  assert.equal(await page.evaluate(() => window.pwned), undefined, what);
  assert.equal(await page.locator(".shell script, .shell iframe, .shell style, .shell base, .shell form[action], .shell [onerror], .shell [onload]").count(), 0, what);
  const links = await page.locator(".shell a").evaluateAll((all) => all.map((link) => link.protocol));
  assert.deepEqual(links.filter((protocol) => !["http:", "https:", "mailto:"].includes(protocol)), [], what);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, `${what}: the layout is broken`);
  assert.equal(await page.locator(".composer").isVisible(), true, what);
}

/** Says things in the name of every part: the person, the model, a tool's output, a title. */
for (const [name, options, width] of [["desktop", {}, 1280], ["phone", PHONE, 390]]) {
  test(`nothing that is written runs or breaks the layout, on the ${name}`, async () => {
    const page = await open(host, options);
    const file = join(host.work, `${name}.txt`);
    writeFileSync(file, TABLE.join("\n\n"));
    const at = await begin(page, `call bash {"command":"cat ${file}"} then say done`, { Approvals: "Approve everything" });
    await idle(page);
    await page.locator(".tool-line").first().click();
    const more = page.getByRole("button", { name: /more lines/ });
    if (await more.count()) await more.first().click();
    await unharmed(page, "output of a tool", width);
    for (const text of TABLE) {
      // The rehearsal model repeats what it is told, and the message is shown as well.
      const field = page.getByLabel("Message", { exact: true });
      await field.fill(`say "${text.replaceAll('"', "'")}"`);
      await page.keyboard.press("Control+Enter");
      await until("the turn", async () => (await page.locator(".unsent").count()) === 0);
      await idle(page);
      const said = page.locator(".turn").last().locator(".answer");
      assert.doesNotMatch(await said.innerText(), /rehearsal model/, `the model did not repeat: ${text.slice(0, 80)}`);
      await unharmed(page, text.slice(0, 80), width);
    }
    await visit(page, "#/inbox");
    await visit(page, at);
    await page.locator(".turn").first().waitFor();
    await unharmed(page, "all of it again", width);
  });
}

test("titles, names of files and changes are text too", async () => {
  const page = await open(host);
  const evil = '<img src=x onerror="window.pwned=1">\u202egnp';
  const dir = join(host.work, "<b>dir");
  mkdirSync(dir, { recursive: true });
  await begin(
    page,
    `call create {"path":"${join(dir, "<img src=x onerror=alert(1)>\u202e.txt")}","file_text":${JSON.stringify(`<script>window.pwned=1</script>\n${evil}\n${"y".repeat(9000)}`)}} then say done`,
    { Approvals: "Approve everything" },
  );
  await idle(page);
  await page.locator(".chat-head").getByRole("button", { name: "Session actions" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByLabel("Title").fill(evil);
  await page.keyboard.press("Enter");
  await page.locator(".session-row", { hasText: "⟨U+202E⟩" }).waitFor();
  await page.getByRole("button", { name: "Changes" }).click();
  await page.locator(".file .diff").first().waitFor();
  await unharmed(page, "titles and changes", 1280);
});

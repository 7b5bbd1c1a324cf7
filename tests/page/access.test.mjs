import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { begin, closeBrowser, closePages, Host, idle, open, PHONE, picture, visit } from "./lib.mjs";

let host;
before(async () => {
  host = await Host.start();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
});

const RICH = [
  'think aloud then say "# Title\n\nSome **text** with `code` and https://example.com\n\n- [x] done\n- [ ] open\n\n```rust\nfn main() { let x = 1; } // comment\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |"',
  'then call bash {"command":"printf \'\\\\033[31mred\\\\033[0m ok\'; exit 3"}',
  'then call create {"path":"x.txt","file_text":"one\\ntwo\\n"} then say done',
].join(" ");

for (const [name, options] of [
  ["desktop, light", { colorScheme: "light" }],
  ["desktop, dark", { colorScheme: "dark" }],
  ["phone, light", { ...PHONE, colorScheme: "light" }],
  ["phone, dark", { ...PHONE, colorScheme: "dark" }],
]) {
  test(`axe finds nothing to complain about: ${name}`, async () => {
    const page = await open(host, options);
    const slug = name.replace(", ", "-");
    await begin(page, "say hello");
    await idle(page);
    const rich = await begin(page, RICH);
    await page.locator(".question").waitFor();
    const asked = await begin(page, 'ask "Which colour?" choices red, blue');
    await page.locator(".question").waitFor();
    const plan = await begin(page, "write the plan 1. Look. 2. Leap. then present the plan Look, then leap.", { Mode: "Plan" });
    await page.locator(".question").waitFor();
    const failed = await begin(page, "fail with authentication");
    await idle(page);
    const complaints = [];
    const look = async (view) => {
      await picture(page, `${view}-${slug}`);
      const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
      for (const { id, nodes } of violations) for (const node of nodes) complaints.push(`${view}: ${id}: ${node.target} ${node.failureSummary}`);
    };
    for (const [view, hash, ready] of [
      ["approval", rich, ".question"],
      ["question", asked, ".question"],
      ["plan", plan, ".field-text"],
      ["failed", failed, ".error-part"],
      ["list", "#/", ".side-list"],
      ["inbox", "#/inbox", ".question"],
      ["new", "#/new", ".grid select"],
      ["usage", "#/usage", ".usage-table"],
      ["automations", "#/automations", ".page"],
      ["settings", "#/settings", ".card"],
      ["details", `${rich}/panel=details`, ".numbers"],
      ["changes", `${rich}/panel=changes`, ".panel-body, .panel .empty"],
    ]) {
      await visit(page, hash);
      await page.locator(ready).first().waitFor();
      await look(view);
    }
    await visit(page, "#/");
    await page.getByLabel("Search sessions").fill("hello");
    await page.locator(".hit").first().waitFor();
    await look("search");
    assert.deepEqual(complaints, []);
  });
}

// The page's picture in the README shows what the page shows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { closeBrowser, closePages } from "./lib.mjs";
import { question, words } from "./scene.mjs";

after(async () => {
  await closePages();
  await closeBrowser();
});

test("the stored picture has the words of the page", async () => {
  const scene = await question();
  const stored = readFileSync(new URL("../../docs/pictures/page.txt", import.meta.url), "utf8");
  assert.equal(await words(scene), stored, "the page shows other words than its picture: run `cargo xtask pictures`");
  await scene.end();
});

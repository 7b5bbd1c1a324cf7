// Draws the page's picture for the README, from the real program: `cargo xtask pictures` runs this. The words in the picture are kept
// beside it, so that a test notices when the page shows others.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";
import { closeBrowser, closePages } from "./lib.mjs";
import { question, words } from "./scene.mjs";

const scene = await question();
const to = argv[2];
mkdirSync(to, { recursive: true });
await scene.page.screenshot({ path: join(to, "page.png") });
writeFileSync(join(to, "page.txt"), await words(scene));
await scene.end();
await closePages();
await closeBrowser();

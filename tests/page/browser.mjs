// The browser of the tests: the system's, or else one that comes with npm.
// `node browser.mjs` makes sure that it is there, so that tests that run side by side find it whole.
import { existsSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

export async function executable() {
  for (const path of ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]) {
    if (existsSync(path)) return path;
  }
  const { default: packed } = await import("@sparticuz/chromium");
  // It unpacks itself into the directory for temporary files, which is the wrong place for 190 MB that stay.
  const { TMPDIR } = process.env;
  const here = process.env.LODGE_CHROMIUM_DIR;
  if (here) process.env.TMPDIR = here;
  const path = await packed.executablePath();
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
  return path;
}

if (argv[1] === fileURLToPath(import.meta.url)) console.log(`the page is tested in ${await executable()}`);

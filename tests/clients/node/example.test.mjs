// The example app runs and prints what all examples print.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

import { environment, lodge, test } from "./help.mjs";

const examples = new URL("../../../examples/", import.meta.url);

test("the example app does its five things", async ({ work }) => {
  const app = new URL("node/app.mjs", examples).pathname;
  const env = environment({ LODGE_BIN: lodge });
  const { stdout } = await promisify(execFile)(process.execPath, [app], { cwd: work, env, timeout: 50_000 });
  assert.equal(stdout, await readFile(new URL("expected.txt", examples), "utf8"));
});

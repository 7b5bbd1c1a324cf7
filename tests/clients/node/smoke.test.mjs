import assert from "node:assert/strict";
import { test } from "node:test";

test("the SDK loads", async () => {
  const { CopilotClient } = await import("@github/copilot-sdk");
  assert.equal(typeof CopilotClient, "function");
});

// GitHub accounts, and extensions, which are not there.

import assert from "node:assert/strict";

import { ask, environment, modelServer, ofType, session, test } from "./help.mjs";

test("accounts are signed in and out, and their quotas are what GitHub says", async ({ t, start }) => {
  const quota = { entitlement: 100, overage_count: 2, overage_permitted: true, percent_remaining: 75, timestamp_utc: "2026-04-30T00:00:00Z" };
  const github = await modelServer(t, (_, request, response) => {
    const known = request.headers.authorization === "Bearer mine";
    response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
    response.end(JSON.stringify(known ? { login: "me", quota_snapshots: { chat: quota } } : {}));
  });
  const api = github.url.replace("/v1", "");
  const client = start({ env: environment({ COPILOT_DEBUG_GITHUB_API_URL: api }), useLoggedInUser: false });
  await client.start();
  const { account } = client.rpc;
  assert.deepEqual(await account.getCurrentAuth(), {});
  await assert.rejects(account.getQuota(), /no GitHub token/);
  await assert.rejects(account.login({ host: "https://github.com", token: "other" }), /401/);
  await assert.rejects(account.login({ host: "https://github.com", login: "you", token: "mine" }), /belongs to me/);
  assert.deepEqual(await account.login({ host: "https://github.com", token: "mine" }), { storedInVault: false });
  const { authInfo } = await account.getCurrentAuth();
  assert.equal(`${authInfo.type} ${authInfo.login} ${authInfo.host}`, "user me https://github.com");
  const [user] = await account.getAllUsers();
  const { quotaSnapshots } = await account.getQuota({ selectionId: user.selectionId });
  assert.deepEqual(quotaSnapshots.chat, {
    isUnlimitedEntitlement: false,
    entitlementRequests: 100,
    usedRequests: 25,
    usageAllowedWithExhaustedQuota: true,
    remainingPercentage: 75,
    overage: 2,
    overageAllowedWithExhaustedQuota: true,
    resetDate: "2026-04-30T00:00:00Z",
  });
  assert.equal((await client.getAuthStatus()).login, "me");
  assert.deepEqual(await account.logout({ authInfo }), { hasMoreUsers: false });
  assert.deepEqual(await account.getCurrentAuth(), {});
  assert.equal((await client.getAuthStatus()).isAuthenticated, false);
});

test("what is left of quotas comes with the usage of a call", async ({ t, start }) => {
  const model = await modelServer(t, (_, __, response) => {
    response.setHeader("x-quota-snapshot-premium_interactions", "ent=300&ov=0.0&ovPerm=false&rem=90.0&rst=2026-12-01T00%3A00%3A00Z");
    return { content: "hello" };
  });
  const provider = { type: "openai", wireApi: "completions", baseUrl: model.url, apiKey: "k" };
  const { session: chat, events } = await session(start(), { provider, model: "any" });
  await ask(chat, "hello");
  assert.deepEqual(ofType(events, "assistant.usage")[0].data.quotaSnapshots, {
    premium_interactions: {
      isUnlimitedEntitlement: false,
      entitlementRequests: 300,
      usedRequests: 30,
      usageAllowedWithExhaustedQuota: false,
      overage: 0,
      overageAllowedWithExhaustedQuota: false,
      remainingPercentage: 90,
      resetDate: "2026-12-01T00:00:00Z",
    },
  });
});

test("extensions are said not to be there", async ({ start }) => {
  const { session: chat } = await session(start());
  assert.deepEqual(await chat.rpc.extensions.list(), { extensions: [] });
  await assert.rejects(chat.rpc.extensions.enable({ id: "any" }), /Extensions not available/);
  await assert.rejects(chat.rpc.extensions.sendAttachmentsToMessage({ attachments: [] }), /for extensions/);
});

// Web push, against a push service of our own.
import assert from "node:assert/strict";
import { createDecipheriv, createECDH, createHmac, createPublicKey, randomBytes, verify } from "node:crypto";
import http from "node:http";
import { after, afterEach, before, test } from "node:test";
import { begin, closeBrowser, closePages, Host, idle, open, until, visit } from "./lib.mjs";

/** A push service, and the browser that it serves: it reads what only that browser can (RFC 8291, RFC 8188). */
async function service() {
  const browser = createECDH("prime256v1");
  browser.generateKeys();
  const secret = randomBytes(16);
  const mac = (key, ...parts) => createHmac("sha256", key).update(Buffer.concat(parts.map((part) => Buffer.from(part)))).digest();
  const read = (body) => {
    const salt = body.subarray(0, 16);
    const length = body[20];
    const theirs = body.subarray(21, 21 + length);
    const sealed = body.subarray(21 + length);
    const keying = mac(mac(secret, browser.computeSecret(theirs)), "WebPush: info\0", browser.getPublicKey(), theirs, [1]);
    const pseudorandom = mac(salt, keying);
    const key = mac(pseudorandom, "Content-Encoding: aes128gcm\0", [1]).subarray(0, 16);
    const nonce = mac(pseudorandom, "Content-Encoding: nonce\0", [1]).subarray(0, 12);
    const decipher = createDecipheriv("aes-128-gcm", key, nonce);
    decipher.setAuthTag(sealed.subarray(-16));
    const text = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
    assert.equal(text.at(-1), 2);
    return JSON.parse(text.subarray(0, -1));
  };
  const made = { got: [], status: 201, secret: secret.toString("base64url"), key: browser.getPublicKey().toString("base64url") };
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    made.got.push({ headers: request.headers, body, message: read(body) });
    response.writeHead(made.status).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  made.origin = `http://127.0.0.1:${server.address().port}`;
  made.close = () => server.closeAllConnections() ?? server.close();
  return made;
}

let host;
let push;
before(async () => {
  host = await Host.start();
  push = await service();
});
afterEach(closePages);
after(async () => {
  await closeBrowser();
  await host.stop();
  push.close();
});

test("a browser is told what became of a session, in words that only it reads and that say nothing else", async () => {
  const page = await open(host);
  // A browser without a screen has no push service, so this is its part.
  await page.evaluate(({ origin, key, secret }) => {
    window.Notification = class {
      static permission = "granted";
      static requestPermission = async () => "granted";
    };
    const subscription = { toJSON: () => ({ endpoint: `${origin}/push`, keys: { p256dh: key, auth: secret } }), unsubscribe: async () => true };
    const subscribe = async ({ applicationServerKey }) => {
      window.hostKey = [...applicationServerKey];
      return subscription;
    };
    navigator.serviceWorker.getRegistration = async () => ({ pushManager: { subscribe, getSubscription: async () => subscription }, showNotification: async () => {} });
  }, { origin: push.origin, key: push.key, secret: push.secret });
  await visit(page, "#/settings");
  await page.getByLabel("Notify me when a session needs me").check();
  await page.getByText("Also while this page is closed.").waitFor();
  const at = await begin(page, 'ask "The secret question?"');
  await until("it waits", () => push.got.length === 1);
  const session = decodeURIComponent(at.split("/")[2]);
  const [{ headers, body, message }] = push.got;
  assert.deepEqual(message, { kind: "waiting", session });
  assert.ok(!body.includes("secret"));
  assert.deepEqual([headers["content-encoding"], headers.urgency], ["aes128gcm", "high"]);
  assert.match(headers.topic, /^[\w-]{1,32}$/);
  // Who sends it proves that by the key that the browser was given.
  const [, token, key] = /^vapid t=(\S+), k=(\S+)$/.exec(headers.authorization);
  const point = Buffer.from(key, "base64url");
  assert.deepEqual([...point], await page.evaluate(() => window.hostKey));
  const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url") };
  const [head, claims, signature] = token.split(".");
  const signed = { key: createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" };
  assert.ok(verify("sha256", Buffer.from(`${head}.${claims}`), signed, Buffer.from(signature, "base64url")));
  const said = JSON.parse(Buffer.from(claims, "base64url"));
  assert.equal(said.aud, push.origin);
  assert.ok(said.exp > Date.now() / 1000 && said.exp < Date.now() / 1000 + 86_400);
  // The others.
  await begin(page, "fail with authentication");
  await idle(page);
  await until("it failed", () => push.got.some(({ message }) => message.kind === "failed"));
  await begin(page, "say hello");
  await idle(page);
  await until("it is done", () => push.got.some(({ message }) => message.kind === "done"));
  // A push service that does not know the browser any more is not asked again.
  const before = push.got.length;
  push.status = 410;
  await begin(page, "say once more");
  await idle(page);
  await until("the last message", () => push.got.length === before + 1);
  push.status = 201;
  await visit(page, "#/settings");
  await page.getByLabel("Notify me when a session needs me").uncheck();
  await page.getByLabel("Notify me when a session needs me").check();
  await page.getByText("Also while this page is closed.").waitFor();
  await begin(page, "say again");
  await idle(page);
  await until("it is told again", () => push.got.length === before + 2);
});

/* Keeps the files of the page, and nothing else: what sessions say never leaves the memory of the page. */
const CACHE = "lodge-shell-1";
/** All files of this version, written here when the page is packed. */
const FILES = [];

// All are fetched at once: the page can then be opened, and every part of it, while the host is away.
self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
});
self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name))))
      .then(forgetOldFiles)
      .then(() => self.clients.claim()),
  );
});

/** Removes the files of earlier versions, which would otherwise add up. */
async function forgetOldFiles() {
  const cache = await caches.open(CACHE);
  const current = new Set(FILES.map((file) => new URL(file, location).href));
  const old = (await cache.keys()).filter((request) => !current.has(request.url));
  await Promise.all(old.map((request) => cache.delete(request)));
}

/** The page itself comes from the host where that answers, so that an update is seen at once. */
async function page(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put("./", response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match("./");
    if (kept) return kept;
    throw error;
  }
}

/** Files with a hash in their name never change. */
async function asset(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (request.mode === "navigate") event.respondWith(page(request));
  else if (url.pathname.includes("/assets/")) event.respondWith(asset(request));
});

const TEXTS = { waiting: "A session needs you", failed: "A session failed", done: "A session is done" };

/** What the host says while the page may be closed. Whoever looks at the page sees it there. */
self.addEventListener("push", (event) => {
  const { kind, session } = event.data.json();
  event.waitUntil(
    self.clients.matchAll({ type: "window" }).then((pages) => {
      if (pages.some((page) => page.visibilityState === "visible" && page.focused)) return;
      return self.registration.showNotification(TEXTS[kind] ?? TEXTS.done, { tag: session, icon: "./icon-192.png", data: session });
    }),
  );
});

/** A notification leads to the page, to the session that it is of. */
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const place = `./#/s/${encodeURIComponent(event.notification.data)}`;
  event.waitUntil(
    self.clients.matchAll({ type: "window" }).then(async ([page]) => {
      if (!page) return self.clients.openWindow(place);
      await page.focus();
      return page.navigate(place);
    }),
  );
});

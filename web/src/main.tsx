import { render } from "solid-js/web";
import { App } from "./ui/App";

render(() => <App />, document.getElementById("app")!);

// A host that was updated has other files than those this page names. What was typed is kept, so the page may begin anew; once, because
// a file may also be missing for another reason.
addEventListener("vite:preloadError", () => {
  const last = Number(sessionStorage.getItem("lodge.reloaded") ?? 0);
  if (Date.now() - last < 60_000 || !navigator.onLine) return;
  sessionStorage.setItem("lodge.reloaded", String(Date.now()));
  location.reload();
});

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  // A page that cannot have one works all the same.
  navigator.serviceWorker.register("./sw.js").catch(() => {});
}

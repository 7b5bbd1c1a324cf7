import { render } from "solid-js/web";
import { App } from "./ui/App";

render(() => <App />, document.getElementById("app")!);

// A host that was updated has other files than those this page names. What was typed is kept, so the page may begin anew: once,
// because a file may also be missing for another reason, and only from a host that answers, or nothing would be left to see.
addEventListener("vite:preloadError", async () => {
  const last = Number(sessionStorage.getItem("lodge.reloaded") ?? 0);
  if (Date.now() - last < 60_000) return;
  sessionStorage.setItem("lodge.reloaded", String(Date.now()));
  // "HEAD" is never answered from the files that the service worker keeps.
  const answers = () => fetch("./", { method: "HEAD", cache: "no-store" }).then((response) => response.ok, () => false);
  while (!(await answers())) await new Promise((resolve) => setTimeout(resolve, 1000));
  location.reload();
});

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  // A page that cannot have one works all the same.
  navigator.serviceWorker.register("./sw.js").catch(() => {});
}

import { render } from "solid-js/web";
import { App } from "./ui/App";

render(() => <App />, document.getElementById("app")!);

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  // A page that cannot have one works all the same.
  navigator.serviceWorker.register("./sw.js").catch(() => {});
}

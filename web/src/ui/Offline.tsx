/** What the page shows while it has no connection to the host. */
import { Show, createSignal, onCleanup } from "solid-js";
import { client, now } from "../app";
import * as icons from "./icons";

export function Offline() {
  // The clock of the page is too slow to count seconds.
  const [tick, setTick] = createSignal(Date.now());
  const timer = setInterval(() => client.phase() === "offline" && setTick(Date.now()), 500);
  onCleanup(() => clearInterval(timer));
  const seconds = () => Math.max(0, Math.ceil(((client.retryAt() ?? 0) - Math.max(tick(), now())) / 1000));
  return (
    <Show when={client.phase() === "offline"}>
      <div class="offline" role="status">
        <icons.Warn />
        <span>
          {navigator.onLine ? "Cannot reach the host." : "You are offline."} What you write is kept.
          <Show when={seconds() > 0}> Trying again in {seconds()} s.</Show>
        </span>
        <button type="button" class="link" onClick={() => client.wake()}>
          Try now
        </button>
      </div>
    </Show>
  );
}

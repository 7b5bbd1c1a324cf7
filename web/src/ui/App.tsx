/** The page: the list of sessions beside whatever is being looked at. */
import { For, Match, Show, Suspense, Switch, createSignal, lazy, onCleanup, onMount } from "solid-js";
import { client, inbox, place, setToasts, toasts, waitingText } from "../app";
import { takeTicket } from "../ahp/door";
import { Conversation } from "./Conversation";
import { Offline } from "./Offline";
import { Sidebar } from "./Sidebar";
import { Empty, Spinner } from "./parts";
import * as icons from "./icons";
import "./theme";

const Pairing = lazy(() => import("./Pairing"));
const InboxView = lazy(() => import("./InboxView"));
const NewSession = lazy(() => import("./NewSession"));
const UsageView = lazy(() => import("./UsageView"));
const AutomationsView = lazy(() => import("./AutomationsView"));
const SettingsView = lazy(() => import("./SettingsView"));
const Palette = lazy(() => import("./Palette"));

const ticket = takeTicket();

export function App() {
  const [pairing, setPairing] = createSignal(ticket !== undefined);
  if (ticket === undefined) void client.connect();
  return (
    <>
      <Show when={!pairing() && client.phase() !== "unpaired"} fallback={<Suspense fallback={<div class="main-fallback"><Spinner label="Loading" /></div>}>
        <Pairing ticket={pairing() ? ticket : undefined} onPaired={() => {
          setPairing(false);
          void client.connect();
        }} />
      </Suspense>}>
        <Shell />
      </Show>
      <Toasts />
    </>
  );
}

function Shell() {
  const [palette, setPalette] = createSignal(false);
  // What answers questions is there before the network may be gone.
  onMount(() => setTimeout(() => void import("./InboxView"), 300));
  if (localStorage.getItem("lodge.notify")) void import("../notify");
  onMount(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPalette(!palette());
      }
    };
    addEventListener("keydown", onKey);
    onCleanup(() => removeEventListener("keydown", onKey));
  });
  const session = () => {
    const at = place();
    return at.view === "session" ? at.session : undefined;
  };
  return (
    <div class={`shell at-${place().view}`}>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        Skip to the content
      </a>
      <Offline />
      <Sidebar onPalette={() => setPalette(true)} />
      <main id="main" tabindex="-1">
        <Suspense fallback={<div class="main-fallback"><Spinner label="Loading" /></div>}>
          <Switch>
            <Match when={session()} keyed>
              {(uri) => <Conversation session={uri} />}
            </Match>
            <Match when={place().view === "inbox"}>
              <InboxView />
            </Match>
            <Match when={place().view === "new"}>
              <NewSession />
            </Match>
            <Match when={place().view === "usage"}>
              <UsageView />
            </Match>
            <Match when={place().view === "automations"}>
              <AutomationsView />
            </Match>
            <Match when={place().view === "settings"}>
              <SettingsView />
            </Match>
            <Match when={true}>
              <Welcome />
            </Match>
          </Switch>
        </Suspense>
      </main>
      <Show when={palette()}>
        <Suspense>
          <Palette onClose={() => setPalette(false)} />
        </Suspense>
      </Show>
    </div>
  );
}

function Welcome() {
  return (
    <div class="main-fallback">
      <Empty icon={<icons.Lodge class="big" />} title="Choose a session">
        <Show when={inbox().length > 0} fallback={<p>Nothing needs your attention.</p>}>
          <p>
            <a href="#/inbox">{waitingText()}</a>
          </p>
        </Show>
        <p class="note">
          <kbd>Ctrl</kbd> <kbd>K</kbd> finds everything
        </p>
      </Empty>
    </div>
  );
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      <For each={toasts()}>
        {(toast) => (
          <div class={`toast ${toast.kind}`}>
            <span>{toast.text}</span>
            <Show when={toast.action}>
              {(action) => (
                <button
                  type="button"
                  class="link"
                  onClick={() => {
                    action().run();
                    setToasts((all) => all.filter((other) => other.id !== toast.id));
                  }}
                >
                  {action().label}
                </button>
              )}
            </Show>
            <button type="button" class="icon tiny" aria-label="Dismiss" onClick={() => setToasts((all) => all.filter((other) => other.id !== toast.id))}>
              <icons.Cross />
            </button>
          </div>
        )}
      </For>
    </div>
  );
}

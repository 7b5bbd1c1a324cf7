/** What a browser sees that the host does not know yet. */
import { Match, Switch, createSignal, onMount } from "solid-js";
import { PairingError, pair } from "../ahp/door";
import { Spinner } from "./parts";
import * as icons from "./icons";

export default function Pairing(props: { ticket?: string; onPaired: () => void }) {
  const [problem, setProblem] = createSignal<string>();
  const [busy, setBusy] = createSignal(Boolean(props.ticket));
  const attempt = async (ticket: string) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await pair(ticket);
      props.onPaired();
    } catch (error) {
      setProblem(error instanceof PairingError ? error.message : "Cannot reach the host.");
    }
    setBusy(false);
  };
  onMount(() => props.ticket && void attempt(props.ticket));
  return (
    <main class="pairing">
      <icons.Lodge class="big" />
      <h1>Pair this browser</h1>
      <Switch>
        <Match when={busy()}>
          <p>
            <Spinner label="Pairing" /> Pairing…
          </p>
        </Match>
        <Match when={true}>
          <p>
            Run <code>lodge pair</code> where the host runs. It prints a link and a QR code that work once. Open the link here, or paste it:
          </p>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              const said = String(new FormData(event.currentTarget).get("link") ?? "").trim();
              const ticket = said.split("#").pop() ?? "";
              if (/^[A-Za-z0-9_-]+$/.test(ticket)) void attempt(ticket);
              else setProblem("This is not a link from “lodge pair”.");
            }}
          >
            <label class="field">
              <span>Link or code</span>
              <input class="input" name="link" autocomplete="off" autocapitalize="off" spellcheck={false} required />
            </label>
            <button type="submit" class="button primary">
              Pair
            </button>
          </form>
        </Match>
      </Switch>
      <p class="error-text" role="alert">
        {problem()}
      </p>
    </main>
  );
}

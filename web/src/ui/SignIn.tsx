/** Signing in to an MCP server: in a browser, or with a token. */
import { Show, createEffect, createSignal, onCleanup } from "solid-js";
import { ROOT } from "../ahp/client";
import type { Customization, SessionState, Uri } from "../ahp/types";
import { client, complain, toast } from "../app";
import { safeHref } from "../text/markdown";
import { visible } from "../text/plain";
import { Dialog } from "./parts";

/** The sign-in ends at a port of the host's machine; only a browser there finds it. */
const here = /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);

export function servers(state: SessionState | undefined): Customization[] {
  const all = (items: Customization[] | undefined): Customization[] => (items ?? []).flatMap((item) => [item, ...all(item.children)]);
  return all(state?.customizations).filter((item) => item.type === "mcpServer");
}

export default function SignIn(props: { session: Uri; resource: { resource: string; resource_name?: string }; onClose: () => void }) {
  const view = client.view<SessionState>(props.session);
  onCleanup(view.release);
  // A server that was given a token says for a moment that it starts, and not what it wants.
  const [known, setKnown] = createSignal<string>();
  const server = () => servers(view.state()).find((item) => item.name === known() || item.state?.resource?.resource === props.resource.resource);
  const [url, setUrl] = createSignal<string>();
  const [token, setToken] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  const name = () => visible(server()?.name ?? props.resource.resource_name ?? props.resource.resource);
  createEffect(() => setKnown(server()?.name));
  // Whichever way somebody signed in.
  createEffect(() => {
    if (server()?.state?.kind !== "ready") return;
    toast(`Signed in to ${name()}`);
    props.onClose();
  });
  const begin = async (server: string) => {
    setBusy(true);
    try {
      const begun = await client.request<{ url: string | null }>("lodge/signIn", { channel: props.session, server });
      if (begun.url && safeHref(begun.url)) setUrl(begun.url);
    } catch (error) {
      complain("Could not start the sign-in", error);
    }
    setBusy(false);
  };
  const give = async () => {
    setBusy(true);
    try {
      await client.request("authenticate", { channel: ROOT, resource: props.resource.resource, token: token().trim() });
      setToken("");
    } catch (error) {
      complain("The token was not accepted", error);
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Sign in to ${name()}`} onClose={props.onClose}>
      <div class="stack">
        <h2>Sign in to {name()}</h2>
        <Show when={server()}>
          {(server) => (
            <Show
              when={url()}
              fallback={
                <div class="actions">
                  <button type="button" class="button primary" disabled={busy()} onClick={() => void begin(server().name)}>
                    Sign in with a browser
                  </button>
                </div>
              }
            >
              {(url) => (
                <p>
                  <a class="button primary" href={url()} target="_blank" rel="noopener noreferrer">
                    Open the sign-in page
                  </a>
                </p>
              )}
            </Show>
          )}
        </Show>
        <Show when={!here && server()}>
          <p class="note">The sign-in finishes on the host's machine, so open its page in a browser there.</p>
        </Show>
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (token().trim()) void give();
          }}
        >
          <label class="field">
            <span>Or enter a token. The host keeps it until it stops.</span>
            <input class="input" type="password" autocomplete="off" value={token()} onInput={(event) => setToken(event.currentTarget.value)} />
          </label>
          <div class="actions">
            <button type="submit" class="button" disabled={busy() || !token().trim()}>
              Use the token
            </button>
            <button type="button" class="button" onClick={props.onClose}>
              Cancel
            </button>
          </div>
        </form>
      </div>
    </Dialog>
  );
}

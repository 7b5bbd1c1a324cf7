/** This browser, and the host it is paired with. */
import { For, Show } from "solid-js";
import { client, root } from "../app";
import { impossible, notify, notifying, pushed } from "../notify";
import { unpair } from "../ahp/door";
import type { Customization } from "../ahp/types";
import { count, plural, visible } from "../text/plain";
import { KINDS } from "./kinds";
import { setTheme, theme, type Theme } from "./theme";
import { setSplit, split } from "./DiffView";
import * as icons from "./icons";

const ROLES = {
  full: "can do everything",
  "approve-only": "can watch and answer questions",
  "view-only": "can watch",
} as const;

/** What the person has for all sessions, directories opened up. */
const own = (agents: { customizations?: Customization[] }[]) =>
  agents.flatMap((agent) => agent.customizations ?? []).flatMap((item) => (item.type === "mcpServer" ? [item] : (item.children ?? [])));

/** The address, if it leads to a page. */
const web = (url: string) => (/^https?:\/\//.test(url) ? url : undefined);

export default function SettingsView() {
  const device = () => client.device();
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon back" href="#/" aria-label="All sessions">
          <icons.Back />
        </a>
        <h1>Settings</h1>
      </header>
      <div class="page-body narrow">
        <section class="card">
          <h2>Look</h2>
          <fieldset class="choices row-choices">
            <legend>Colours</legend>
            <For each={[["system", "System"], ["light", "Light"], ["dark", "Dark"]] as [Theme, string][]}>
              {([value, label]) => (
                <label class="choice" classList={{ chosen: theme() === value }}>
                  <input type="radio" name="theme" checked={theme() === value} onChange={() => setTheme(value)} />
                  <span>{label}</span>
                </label>
              )}
            </For>
          </fieldset>
          <label class="choice">
            <input
              type="checkbox"
              checked={split()}
              onChange={(event) => {
                setSplit(event.currentTarget.checked);
                localStorage.setItem("lodge.diff", split() ? "split" : "inline");
              }}
            />
            <span>Show changes side by side</span>
          </label>
        </section>
        <section class="card">
          <h2>Notifications</h2>
          <Show when={!impossible()} fallback={<p class="note">{impossible()}</p>}>
            <label class="choice">
              <input type="checkbox" checked={notifying()} onChange={(event) => void notify(event.currentTarget.checked)} />
              <span>
                Notify me when a session needs me, fails or is done
                <small>
                  {pushed() ? "Also while this page is closed." : "While this page is open in the background."} A notification does not say what the session is about.
                </small>
              </span>
            </label>
          </Show>
        </section>
        <section class="card">
          <h2>This browser</h2>
          <p>
            Paired as “{visible(device()?.name ?? "")}”. It {ROLES[device()?.role ?? "view-only"]}.
          </p>
          <p class="note">
            <code>lodge devices</code> lists all paired devices and revokes them.
          </p>
          <div class="actions">
            <button
              type="button"
              class="button danger"
              onClick={async () => {
                await unpair().catch(() => {});
                location.reload();
              }}
            >
              Unpair this browser
            </button>
          </div>
        </section>
        <section class="card">
          <h2>The host</h2>
          <p>
            {visible(client.host()?.serverInfo?.title ?? "Lodge")} {visible(client.host()?.serverInfo?.version ?? "")}, protocol {client.host()?.protocolVersion}
          </p>
          <Show when={root.state()}>
            {(state) => (
              <>
                <p class="note">{plural(state().activeSessions ?? 0, "session")} at work</p>
                <Show when={own(state().agents).length > 0}>
                  <h3>Your skills, agents and servers</h3>
                  <ul class="plain">
                    <For each={own(state().agents)}>
                      {(item) => (
                        <li>
                          {visible(item.name)} <span class="chip">{KINDS[item.type] ?? item.type}</span>
                          <Show when={item.enabled === false || item.enablement?.[0]?.enabled === false}>
                            <span class="note"> · off</span>
                          </Show>
                        </li>
                      )}
                    </For>
                  </ul>
                  <p class="note">A session's details turn them on and off, for that session or everywhere.</p>
                </Show>
                <h3>Models</h3>
                <ul class="plain">
                  <For each={state().agents.flatMap((agent) => agent.models)}>
                    {(model) => (
                      <li>
                        {visible(model.name)}
                        <Show when={model.maxContextWindow}>
                          <span class="note"> · {count(model.maxContextWindow!)} tokens of context</span>
                        </Show>
                        <Show when={model._meta?.pricing}>
                          {(price) => (
                            <span class="note">
                              {" "}
                              · {price().currency}
                              {price().input} in, {price().currency}
                              {price().output} out for a million tokens ({visible(price().date)})
                            </span>
                          )}
                        </Show>
                        <Show when={model.supportsVision}>
                          <span class="note"> · sees pictures</span>
                        </Show>
                      </li>
                    )}
                  </For>
                </ul>
                <Show when={(state()._meta?.otherHosts?.length ?? 0) > 0}>
                  <h3>Other hosts</h3>
                  <ul class="plain">
                    <For each={state()._meta!.otherHosts}>
                      {(host) => (
                        <li>
                          <a href={web(host.url)} rel="noopener">
                            {visible(host.name)}
                          </a>
                          <span class="note"> · {visible(host.url)}</span>
                        </li>
                      )}
                    </For>
                  </ul>
                </Show>
              </>
            )}
          </Show>
        </section>
      </div>
    </div>
  );
}

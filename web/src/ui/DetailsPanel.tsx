/** A session's numbers and what it works with. */
import { For, Show, Suspense, createMemo, createSignal, lazy } from "solid-js";
import type { ChatState, Customization, SessionState, Uri } from "../ahp/types";
import { act, client, mayWrite } from "../app";
import { contextOf, costOfAll, money } from "../cost";
import { count, line, pathOf, visible } from "../text/plain";
import { BarChart } from "./BarChart";
import { KINDS } from "./kinds";
import { PanelHead } from "./PanelHead";
import { createTodos, TodoItems } from "./Todos";

const SignIn = lazy(() => import("./SignIn"));

/** How far a decision reaches. */
type Scope = "session" | "workspace" | "global";

/** What people cannot turn off. */
const FIXED = new Set(["prompt", "hook"]);

function enabled(item: Customization): boolean {
  return item.enablement?.[0]?.enabled ?? item.enabled ?? true;
}

export default function DetailsPanel(props: { session: Uri; state: SessionState; chat?: ChatState; onClose: () => void }) {
  const turns = createMemo(() => [...(props.chat?.turns ?? []), ...(props.chat?.activeTurn ? [props.chat.activeTurn] : [])].filter((turn) => turn.usage));
  const sum = (key: "inputTokens" | "outputTokens" | "cacheReadTokens") => turns().reduce((total, turn) => total + (turn.usage?.[key] ?? 0), 0);
  const cost = () => costOfAll(turns().map((turn) => turn.usage));
  const context = () => contextOf(turns().at(-1)?.usage);
  const share = () => Math.min(1, (context()?.used ?? 0) / (context()?.size ?? 1));
  const todos = createTodos(
    () => props.chat?.resource ?? props.session,
    () => props.chat,
  );
  const items = createMemo(() => (props.state.customizations ?? []).flatMap((item) => (item.type === "mcpServer" ? [item] : (item.children ?? []))));
  const [scope, setScope] = createSignal<Scope>("session");
  const [signing, setSigning] = createSignal<{ resource: string; resource_name?: string }>();
  const toggle = (item: Customization) => {
    const uri = props.state.workingDirectories?.[0];
    const decision = { kind: scope(), enabled: !enabled(item), ...(scope() === "workspace" ? { uri } : {}) };
    void act(props.session, { type: "session/customizationToggled", id: item.id, enablement: [decision] }, `${item.name} was not changed`);
  };
  const server = (item: Customization, start: boolean) =>
    void act(props.session, { type: start ? "session/mcpServerStartRequested" : "session/mcpServerStopRequested", id: item.id }, `${item.name} was not changed`);
  return (
    <>
      <PanelHead title="Details" onClose={props.onClose} />
      <div class="panel-body details">
        <section>
          <h2>Usage</h2>
          <dl class="numbers">
            <div>
              <dt>Tokens in</dt>
              <dd>{count(sum("inputTokens"))}</dd>
            </div>
            <div>
              <dt>Tokens out</dt>
              <dd>{count(sum("outputTokens"))}</dd>
            </div>
            <div>
              <dt>Cached</dt>
              <dd>{count(sum("cacheReadTokens"))}</dd>
            </div>
            <div>
              <dt>Turns</dt>
              <dd>{turns().length}</dd>
            </div>
            <Show when={cost()}>
              {(cost) => (
                <div>
                  <dt>Cost</dt>
                  <dd>{money(cost())}</dd>
                </div>
              )}
            </Show>
          </dl>
          <Show when={props.chat?.turnsNextCursor !== undefined}>
            <p class="note">Counts only loaded turns; scroll up to load older ones.</p>
          </Show>
          <Show when={context()}>
            {(context) => (
              <>
                <p class="note">
                  Context: {count(context().used)} of {count(context().size)} tokens ({Math.round(share() * 100)} %)
                </p>
                <progress class="context" max="1" value={share()} aria-label="Context in use" />
              </>
            )}
          </Show>
          <Show when={turns().length > 1}>
            <BarChart
              label="Tokens per turn"
              bars={turns()
                .slice(-40)
                .map((turn) => ({
                  label: line(turn.message.text).slice(0, 60),
                  parts: [turn.usage?.inputTokens ?? 0, turn.usage?.outputTokens ?? 0],
                }))}
              series={["In", "Out"]}
            />
          </Show>
        </section>
        <Show when={todos().length > 0}>
          <section>
            <h2>To do</h2>
            <TodoItems todos={todos()} />
          </section>
        </Show>
        <section>
          <h2>Directories</h2>
          <ul class="plain">
            <For each={props.state.workingDirectories}>
              {(directory) => (
                <li>
                  <code>{visible(pathOf(directory))}</code>
                </li>
              )}
            </For>
          </ul>
        </section>
        <Show when={items().length > 0}>
          <section>
            <h2>Skills, agents and servers</h2>
            <Show when={mayWrite()}>
              <label class="scope note">
                A switch counts
                <select class="quiet-select" value={scope()} onChange={(event) => setScope(event.currentTarget.value as Scope)}>
                  <option value="session">in this session</option>
                  <option value="workspace">in this directory</option>
                  <option value="global">everywhere</option>
                </select>
              </label>
            </Show>
            <ul class="toggles">
              <For each={items()}>
                {(item) => (
                  <li>
                    <div class="grow">
                      <strong>{visible(item.name)}</strong> <span class="chip">{KINDS[item.type] ?? item.type}</span>
                      <Show when={item.state}>
                        <span class="chip" classList={{ failed: item.state!.kind === "error", waiting: item.state!.kind === "authRequired" }}>
                          {item.state!.kind === "authRequired" ? "needs a sign-in" : item.state!.kind}
                        </span>
                      </Show>
                      <Show when={item.state?.error?.message ?? item.description}>{(text) => <p class="note">{visible(text())}</p>}</Show>
                    </div>
                    <Show when={mayWrite()}>
                      <Show when={item.state?.kind === "authRequired" && item.state.resource}>
                        {(resource) => (
                          <button type="button" class="button compact" onClick={() => setSigning(resource())}>
                            Sign in…
                          </button>
                        )}
                      </Show>
                      <Show when={item.type === "mcpServer" && enabled(item) && item.state?.kind !== "authRequired"}>
                        <button type="button" class="link" onClick={() => server(item, item.state?.kind === "stopped" || item.state?.kind === "error")}>
                          {item.state?.kind === "stopped" || item.state?.kind === "error" ? "Start" : "Stop"}
                        </button>
                      </Show>
                      <Show when={!FIXED.has(item.type)}>
                        <input type="checkbox" class="switch" role="switch" checked={enabled(item)} aria-label={`Use ${visible(item.name)}`} onChange={() => toggle(item)} />
                      </Show>
                    </Show>
                  </li>
                )}
              </For>
            </ul>
          </section>
        </Show>
        <Show when={signing()}>
          {(resource) => (
            <Suspense>
              <SignIn session={props.session} resource={resource()} onClose={() => setSigning(undefined)} />
            </Suspense>
          )}
        </Show>
        <section>
          <h2>Connected</h2>
          <p class="note">
            {props.state.activeClients.length === 0 ? "No app offers tools here." : `Apps that offer tools here: ${props.state.activeClients.map((app) => visible(app.displayName ?? app.clientId)).join(", ")}.`} This browser is “{visible(client.device()?.name ?? "unknown")}”.
          </p>
        </section>
      </div>
    </>
  );
}

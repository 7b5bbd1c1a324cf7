/** A new session: its directory, model, settings and first message. */
import { For, Show, createEffect, createMemo, createResource, createSignal } from "solid-js";
import { RequestError, ROOT, uuid } from "../ahp/client";
import type { ConfigState, SessionState } from "../ahp/types";
import { client, complain, directoryOf, go, sessions } from "../app";
import { baseName, fileUri, pathOf, visible } from "../text/plain";
import * as icons from "./icons";

const LAST = "lodge.new";

export default function NewSession() {
  const remembered = JSON.parse(localStorage.getItem(LAST) ?? "{}") as { directory?: string; config?: Record<string, string> };
  const [directory, setDirectory] = createSignal(remembered.directory ?? "");
  const [config, setConfig] = createSignal<Record<string, string>>(remembered.config ?? {});
  const [text, setText] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  createEffect(() => {
    const known = client.host()?.defaultDirectory;
    if (!directory() && known) setDirectory(pathOf(known));
  });
  const recent = createMemo(() => {
    const seen = new Map<string, string>();
    for (const session of Object.values(sessions)) {
      const path = directoryOf(session);
      if (path && (seen.get(path) ?? "") < session.modifiedAt) seen.set(path, session.modifiedAt);
    }
    return [...seen]
      .sort((a, b) => b[1].localeCompare(a[1]))
      .map(([path]) => path)
      .slice(0, 8);
  });
  const [schema] = createResource(
    () => (client.phase() === "online" && directory().startsWith("/") ? { directory: directory(), config: config() } : undefined),
    async ({ directory, config }) => {
      try {
        return await client.request<ConfigState>("resolveSessionConfig", { channel: ROOT, workingDirectory: fileUri(directory), config });
      } catch {
        return undefined;
      }
    },
  );
  // Directories beside what is typed so far, as far as the host lets clients see them.
  const parent = () => directory().slice(0, directory().lastIndexOf("/")) || "/";
  const [beside] = createResource(
    () => (client.phase() === "online" && directory().startsWith("/") ? parent() : undefined),
    async (path) => {
      try {
        const { entries } = await client.request<{ entries: { name: string; type: string }[] }>("resourceList", { channel: ROOT, uri: fileUri(path) });
        const found = entries.filter((entry) => entry.type === "directory" && !entry.name.startsWith("."));
        return found.map((entry) => `${path === "/" ? "" : path}/${entry.name}`).slice(0, 200);
      } catch {
        return [];
      }
    },
  );
  const choices = createMemo(() => Object.entries(schema.latest?.schema.properties ?? {}).filter(([, property]) => !property.readOnly && (property.enum?.length ?? 0) > 1));
  const start = async () => {
    setBusy(true);
    const session = `lodge:/${uuid()}`;
    const known = new Set(choices().map(([name]) => name));
    const wanted = Object.fromEntries(Object.entries(config()).filter(([name]) => known.has(name)));
    try {
      try {
        await client.request("createSession", { channel: session, workingDirectories: [fileUri(directory())], config: wanted });
      } catch (error) {
        // The request may have been repeated after a lost answer.
        if (!(error instanceof RequestError && error.code === -32003)) throw error;
      }
      localStorage.setItem(LAST, JSON.stringify({ directory: directory(), config: wanted }));
      if (text().trim()) await say(session, text().trim());
      go({ view: "session", session }, true);
    } catch (error) {
      complain("Could not start the session", error);
      setBusy(false);
    }
  };
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon back" href="#/" aria-label="All sessions">
          <icons.Back />
        </a>
        <h1>New session</h1>
      </header>
      <div class="page-body narrow">
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void start();
          }}
        >
          <label class="field">
            <span>What should the agent do?</span>
            <textarea
              class="input tall"
              rows="4"
              value={text()}
              placeholder="Optional: the first message"
              onInput={(event) => setText(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void start();
              }}
              ref={(element) => setTimeout(() => element.focus())}
            />
          </label>
          <label class="field">
            <span>Directory</span>
            <input class="input mono" list="directories" value={directory()} onInput={(event) => setDirectory(event.currentTarget.value)} autocapitalize="off" autocomplete="off" spellcheck={false} required pattern="/.*" title="An absolute path on the host" />
          </label>
          <datalist id="directories">
            <For each={[...new Set([...recent(), ...(beside.latest ?? [])])]}>{(path) => <option value={path} />}</For>
          </datalist>
          <Show when={recent().length > 1}>
            <div class="chips" role="group" aria-label="Recent directories">
              <For each={recent()}>
                {(path) => (
                  <button type="button" class="chip-button" aria-pressed={path === directory()} title={path} onClick={() => setDirectory(path)}>
                    <icons.Folder /> {visible(baseName(path))}
                  </button>
                )}
              </For>
            </div>
          </Show>
          <div class="grid">
            <For each={choices()}>
              {([name, property]) => (
                <label class="field">
                  <span>{visible(property.title)}</span>
                  <select class="input" aria-label={property.title} onChange={(event) => setConfig({ ...config(), [name]: event.currentTarget.value })}>
                    <For each={property.enum}>
                      {(value, at) => (
                        <option value={value} selected={(config()[name] ?? schema.latest?.values[name] ?? property.default) === value}>
                          {visible(property.enumLabels?.[at()] ?? value)}
                        </option>
                      )}
                    </For>
                  </select>
                  <small class="note">
                    {visible(property.enumDescriptions?.[property.enum!.indexOf(String(config()[name] ?? schema.latest?.values[name] ?? property.default))] ?? property.description ?? "")}
                  </small>
                </label>
              )}
            </For>
          </div>
          <div class="actions">
            <button type="submit" class="button primary" disabled={busy() || client.phase() !== "online"}>
              {busy() ? "Starting…" : text().trim() ? "Start" : "Open an empty session"}
            </button>
          </div>
        </form>
      </div>
    </div>
  );
}

/** Says the first thing in a session that was just made. */
async function say(session: string, text: string): Promise<void> {
  const view = client.view<SessionState>(session);
  const chat = await new Promise<string>((resolve, reject) => {
    const begin = Date.now();
    const look = () => {
      const found = view.state()?.defaultChat;
      if (found) resolve(found);
      else if (view.error() || Date.now() - begin > 10_000) reject(new Error(view.error() ?? "The session did not open."));
      else setTimeout(look, 30);
    };
    look();
  });
  const message = { text, origin: { kind: "user" } };
  const outcome = await client.dispatch(chat, { type: "chat/turnStarted", turnId: uuid(), startedAt: new Date().toISOString(), message });
  view.release();
  if (!outcome.accepted) throw new Error(outcome.reason);
}

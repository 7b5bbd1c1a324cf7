/** A tool call: one line that says what happens, and beneath it what came of it. */
import { For, Match, Show, Suspense, Switch, createMemo, createResource, createSignal, lazy, onCleanup, type JSX } from "solid-js";
import { client } from "../app";
import { ROOT } from "../ahp/client";
import type { ChatState, ToolCall, ToolContent, Uri } from "../ahp/types";
import { isUnified, parseUnified } from "../text/diff";
import { line, plain, visible } from "../text/plain";
import { DiffView, Stat } from "./DiffView";
import { Output } from "./Output";
import { Inlines, Spinner } from "./parts";
import { Parts } from "./TurnView";
import * as icons from "./icons";

const FileEditView = lazy(() => import("./FileEditView"));

const ICONS: Record<string, (props: object) => JSX.Element> = {
  bash: icons.Terminal,
  view: icons.File,
  create: icons.Edit,
  edit: icons.Edit,
  str_replace: icons.Edit,
  apply_patch: icons.Edit,
  grep: icons.Search,
  glob: icons.Search,
  web_fetch: icons.Globe,
  web_search: icons.Globe,
  task: icons.Bot,
  ask_user: icons.Question,
  skill: icons.Spark,
};

export function toolIcon(call: ToolCall): JSX.Element {
  const kind = call._meta?.toolKind;
  if (kind === "terminal") return icons.Terminal({});
  if (kind === "subagent") return icons.Bot({});
  return (ICONS[call.toolName] ?? icons.Tool)({});
}

/** The input as people read it: a command as itself, other arguments as they were given. */
export function inputText(call: ToolCall): string {
  if (typeof call.toolInput === "string") return call.toolInput;
  return call.partialInput ?? "";
}

const IMAGE = /^image\/(?:png|jpeg|gif|webp|avif)$/;

function Resource(props: { uri: Uri; contentType?: string }) {
  const [data] = createResource(
    () => props.uri,
    (uri) => client.request<{ data: string; encoding: string; contentType?: string }>("resourceRead", { channel: ROOT, uri }),
  );
  return (
    <Show when={data()} fallback={data.error ? <p class="note">{String(data.error.message)}</p> : <Spinner label="Loading" />}>
      {(found) => {
        const type = found().contentType ?? props.contentType ?? "";
        return IMAGE.test(type) && found().encoding === "base64" ? (
          <img class="picture" src={`data:${type};base64,${found().data}`} alt="Result of the tool" />
        ) : found().encoding === "utf-8" ? (
          <Output text={found().data} />
        ) : (
          <p class="note">Binary data, {type || "of an unknown type"}</p>
        );
      }}
    </Show>
  );
}

function SubAgent(props: { uri: Uri; title: string }) {
  const view = client.view<ChatState>(props.uri);
  onCleanup(view.release);
  return (
    <div class="subagent">
      <Show when={view.state()} fallback={<p class="note">{view.error() ?? "Loading…"}</p>}>
        {(chat) => (
          <For each={[...chat().turns, ...(chat().activeTurn ? [chat().activeTurn!] : [])]}>
            {(turn) => <Parts turn={turn} running={turn === chat().activeTurn} />}
          </For>
        )}
      </Show>
    </div>
  );
}

function Content(props: { content: ToolContent; call: ToolCall; directory?: string }) {
  return (
    <Switch>
      <Match when={props.content.type === "text" && props.content}>
        {(content) => (
          <Show
            when={isUnified(content().text)}
            fallback={
              <Show when={content().text.trim()}>
                <Output text={content().text} live={props.call.status === "running"} />
              </Show>
            }
          >
            <For each={parseUnified(content().text)}>{(diff) => <DiffView diff={diff} directory={props.directory} />}</For>
          </Show>
        )}
      </Match>
      <Match when={props.content.type === "embeddedResource" && props.content}>
        {(content) => (
          <Show when={IMAGE.test(content().contentType)} fallback={<p class="note">Data of the type {line(content().contentType)}</p>}>
            <img class="picture" src={`data:${content().contentType};base64,${content().data}`} alt="Result of the tool" />
          </Show>
        )}
      </Match>
      <Match when={props.content.type === "resource" && props.content}>
        {(content) => <Resource uri={content().uri} contentType={content().contentType} />}
      </Match>
      <Match when={props.content.type === "fileEdit" && props.content}>
        {(content) => <FileEditView edit={content()} directory={props.directory} />}
      </Match>
      <Match when={props.content.type === "subagent" && props.content}>
        {(content) => <SubAgent uri={content().resource} title={content().title} />}
      </Match>
    </Switch>
  );
}

export function ToolCallView(props: { call: ToolCall; directory?: string }) {
  const call = () => props.call;
  const failed = () => call().status === "completed" && call().success === false;
  const diffs = createMemo(() =>
    (call().content ?? []).flatMap((content) => (content.type === "text" && isUnified(content.text) ? parseUnified(content.text) : [])),
  );
  const subagent = () => call().content?.some((content) => content.type === "subagent");
  const exitCode = () => {
    for (const content of call().content ?? []) if (content.type === "terminal") return content.result?.exitCode;
    return undefined;
  };
  // Changes and what is going on are worth seeing at once; the rest is a tap away.
  const [chosen, setChosen] = createSignal<boolean>();
  const open = () => chosen() ?? ((call().status === "running" && Boolean(call().content?.length)) || failed() || diffs().length > 0);
  const busy = () => call().status === "streaming" || call().status === "running";
  const message = () => {
    const { status, pastTenseMessage, invocationMessage, displayName } = call();
    if (status === "completed" && pastTenseMessage) return pastTenseMessage;
    return invocationMessage ?? displayName;
  };
  const showInput = () => {
    const input = inputText(call());
    // A command stands in the line already; what was edited stands in the changes.
    return open() && diffs().length === 0 && input && !(call()._meta?.toolKind === "terminal" && plain(message()).includes(input));
  };
  return (
    <div class={`tool tool-${call().status}`} classList={{ failed: failed(), open: open() }}>
      <button type="button" class="tool-line" aria-expanded={open()} onClick={() => setChosen(!open())}>
        <span class="tool-icon">{toolIcon(call())}</span>
        <span class="tool-text">
          <Inlines text={message()} />
        </span>
        <Show when={diffs().length > 0}>
          <Stat added={diffs().reduce((n, diff) => n + diff.added, 0)} removed={diffs().reduce((n, diff) => n + diff.removed, 0)} />
        </Show>
        <span class="tool-state">
          <Switch>
            <Match when={busy()}>
              <Spinner label="Running" />
            </Match>
            <Match when={call().status === "pending-confirmation" || call().status === "pending-result-confirmation"}>
              <span class="chip waiting">Waiting for you</span>
            </Match>
            <Match when={call().status === "auth-required"}>
              <span class="chip waiting">Needs a sign-in</span>
            </Match>
            <Match when={call().status === "cancelled"}>
              <span class="chip">{call().reason === "denied" ? "Denied" : call().reason === "result-denied" ? "Result denied" : "Stopped"}</span>
            </Match>
            <Match when={failed()}>
              <span class="chip failed">{exitCode() ? `Exit ${exitCode()}` : "Failed"}</span>
            </Match>
            <Match when={exitCode()}>
              <span class="chip failed">Exit {exitCode()}</span>
            </Match>
          </Switch>
          <icons.Down class="fold" />
        </span>
      </button>
      <Show when={open()}>
        <div class="tool-body">
          <Show when={call().intention && plain(message()) !== call().intention}>
            <p class="note">{visible(call().intention!)}</p>
          </Show>
          <Show when={showInput()}>
            <Output text={inputText(call())} label="Input" />
          </Show>
          <For
            each={(call().content ?? []).filter(
              // A difference that the text tells already is not fetched again.
              (content) => !(subagent() && content.type === "text") && !(diffs().length > 0 && content.type === "fileEdit"),
            )}
          >
            {(content) => (
              // What is still being loaded is missing here only: without a boundary the whole conversation would be gone until it is there.
              <Suspense fallback={<Spinner label="Loading" />}>
                <Content content={content} call={call()} directory={props.directory} />
              </Suspense>
            )}
          </For>
          <Show when={call().error?.message}>
            {(text) => (
              <p class="error-text" dir="auto">
                {visible(text())}
              </p>
            )}
          </Show>
          <Show when={call().status === "cancelled" && call().reasonMessage}>
            <p class="note">
              <Inlines text={call().reasonMessage} />
            </p>
          </Show>
        </div>
      </Show>
    </div>
  );
}

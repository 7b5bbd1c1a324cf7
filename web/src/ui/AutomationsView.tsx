/** What the host does by itself. */
import { For, Show, createSignal, onCleanup } from "solid-js";
import { uuid } from "../ahp/client";
import type { Automation, AutomationState } from "../ahp/types";
import { act, client, complain, href, mayWrite, now, toast } from "../app";
import { ago, fileUri, line, pathOf, until, visible } from "../text/plain";
import { Empty } from "./parts";
import * as icons from "./icons";

const CHANNEL = "ahp-automations://";

export default function AutomationsView() {
  const view = client.view<AutomationState>(CHANNEL);
  onCleanup(view.release);
  const [making, setMaking] = createSignal(false);
  return (
    <div class="page">
      <header class="page-head">
        <a class="icon back" href="#/" aria-label="All sessions">
          <icons.Back />
        </a>
        <h1>Automations</h1>
        <span class="grow" />
        <Show when={mayWrite()}>
          <button type="button" class="button compact" onClick={() => setMaking(!making())}>
            <icons.Plus /> New
          </button>
        </Show>
      </header>
      <div class="page-body">
        <Show when={making()}>
          <Form onDone={() => setMaking(false)} />
        </Show>
        <Show when={view.state()?.entries.length} fallback={<Show when={!making()}><Empty icon={<icons.Clock class="big" />} title="No automations"><p class="note">An automation starts a session by itself, at the times you choose.</p></Empty></Show>}>
          <ul class="cards">
            <For each={view.state()!.entries}>{(entry) => <Card entry={entry} />}</For>
          </ul>
        </Show>
      </div>
    </div>
  );
}

function Card(props: { entry: Automation }) {
  const definition = () => props.entry.definition;
  const [editing, setEditing] = createSignal(false);
  const run = async () => {
    try {
      await client.request("runAutomation", { channel: CHANNEL, automation: props.entry.resource, requestId: uuid() });
      toast("Started");
    } catch (error) {
      complain("Could not start the run", error);
    }
  };
  return (
    <li class="card">
      <div class="card-head">
        <strong class="grow">{line(definition().title)}</strong>
        <Show when={mayWrite()}>
          <button type="button" class="link" onClick={() => void run()}>
            Run now
          </button>
          <button type="button" class="icon small" aria-label={`Edit ${line(definition().title)}`} aria-expanded={editing()} onClick={() => setEditing(!editing())}>
            <icons.Edit />
          </button>
          <input
            type="checkbox"
            class="switch"
            role="switch"
            aria-label={`Run ${line(definition().title)} by itself`}
            checked={definition().enabled}
            onChange={() => void act(CHANNEL, { type: "automation/updateRequested", resource: props.entry.resource, changes: { enabled: !definition().enabled } }, "Not changed")}
          />
          <button type="button" class="icon small" aria-label={`Delete ${line(definition().title)}`} onClick={() => void act(CHANNEL, { type: "automation/removed", resource: props.entry.resource }, "Not deleted")}>
            <icons.Trash />
          </button>
        </Show>
      </div>
      <Show when={editing()}>
        <Form entry={props.entry} onDone={() => setEditing(false)} />
      </Show>
      <p class="note">
        <For each={definition().triggers}>
          {(trigger) => (
            <span>
              <code>{visible(trigger.schedule?.expression ?? trigger.kind)}</code> {visible(trigger.schedule?.timeZone ?? "")}{" "}
            </span>
          )}
        </For>
        <Show when={props.entry.nextRunAt && definition().enabled}>· next {until(props.entry.nextRunAt!, now())}</Show>
        <Show when={definition().session.workingDirectories?.[0]}>{(directory) => <> · {visible(pathOf(directory()))}</>}</Show>
      </p>
      <p class="card-text">{visible(definition().message.text)}</p>
      <Show when={props.entry.runs.length > 0}>
        <ul class="runs">
          <For each={props.entry.runs.slice(0, 5)}>
            {(run) => (
              <li>
                <span class="chip" classList={{ failed: run.lifecycle.status === "failed" }}>
                  {run.lifecycle.status}
                </span>
                <span class="note">{ago(run.lifecycle.createdAt, now())}</span>
                <Show when={run.primarySession}>{(session) => <a href={href({ view: "session", session: session() })}>Open its session</a>}</Show>
                <Show when={run.lifecycle.error}>{(error) => <span class="note">{visible(error().message)}</span>}</Show>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </li>
  );
}

/** A new automation, or one that there is. */
function Form(props: { entry?: Automation; onDone: () => void }) {
  const old = props.entry?.definition;
  const timed = old?.triggers.find((trigger) => trigger.schedule);
  const [title, setTitle] = createSignal(old?.title ?? "");
  const [text, setText] = createSignal(old?.message.text ?? "");
  const [schedule, setSchedule] = createSignal(timed?.schedule?.expression ?? (old ? "" : "0 9 * * 1-5"));
  const [directory, setDirectory] = createSignal(pathOf(old?.session.workingDirectories?.[0] ?? client.host()?.defaultDirectory ?? ""));
  const keep = async () => {
    const timeZone = timed?.schedule?.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
    const trigger = { kind: "schedule", id: timed?.id ?? uuid(), schedule: { expression: schedule().trim(), timeZone } };
    // What this form does not show stays as it is.
    const definition = {
      title: title().trim(),
      message: { origin: { kind: "automation" }, ...old?.message, text: text().trim() },
      session: { ...old?.session, workingDirectories: [fileUri(directory()), ...(old?.session.workingDirectories ?? []).slice(1)] },
      triggers: [...(old?.triggers ?? []).filter((other) => other !== timed), ...(schedule().trim() ? [trigger] : [])],
    };
    const outcome = await (props.entry
      ? act(CHANNEL, { type: "automation/updateRequested", resource: props.entry.resource, changes: definition }, "The automation was not changed")
      : act(CHANNEL, { type: "automation/createRequested", resource: `ahp-automation:/${uuid()}`, definition: { ...definition, enabled: true } }, "The automation was not created"));
    if (outcome.accepted) props.onDone();
  };
  return (
    <form
      class="stack"
      classList={{ card: !props.entry }}
      onSubmit={(event) => {
        event.preventDefault();
        void keep();
      }}
    >
      <label class="field">
        <span>Title</span>
        <input class="input" required value={title()} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      <label class="field">
        <span>Message</span>
        <textarea class="input" rows="3" required value={text()} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="grid">
        <label class="field">
          <span>Times: minute, hour, day, month, weekday</span>
          <input class="input mono" required={!old || Boolean(timed)} value={schedule()} onInput={(event) => setSchedule(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Directory</span>
          <input class="input mono" required pattern="/.*" value={directory()} onInput={(event) => setDirectory(event.currentTarget.value)} />
        </label>
      </div>
      <div class="actions">
        <button type="submit" class="button primary">
          {props.entry ? "Save" : "Create"}
        </button>
        <button type="button" class="button" onClick={props.onDone}>
          Cancel
        </button>
      </div>
    </form>
  );
}


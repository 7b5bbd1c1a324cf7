/** What a session changed: file by file, with marks of review, undo, and comments that go to the agent. */
import { For, Match, Show, Switch, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { uuid } from "../ahp/client";
import type { Annotation, AnnotationsState, Changeset, ChangesetFile, ChangesetState, Operation, SessionState, Uri } from "../ahp/types";
import { act, client, complain, directoryOf, mayWrite, sessionPlace, snug, toast } from "../app";
import { pathOf, plain, plural, relativePath, visible } from "../text/plain";
import { Stat, split, toggleSplit } from "./DiffView";
import FileEditView from "./FileEditView";
import { Git } from "./Git";
import { Empty, Menu, Spinner } from "./parts";
import { PanelHead } from "./PanelHead";
import * as icons from "./icons";

interface Props {
  session: Uri;
  state: SessionState;
  chat: Uri;
  onClose: () => void;
}

export default function ChangesPanel(props: Props) {
  /** All that can be looked at, and what one turn did where somebody chose one. */
  const sets = createMemo(() => {
    const turn = sessionPlace()?.turn;
    const ofTurn = (set: Changeset) => ({ ...set, uriTemplate: set.uriTemplate.replace("{turnId}", encodeURIComponent(turn!)) });
    return (props.state.changesets ?? []).flatMap((set) => (!set.uriTemplate.includes("{") ? [set] : set.changeKind === "turn" && turn ? [ofTurn(set)] : []));
  });
  /** Whether the session works in a git repository: only there can uncommitted changes be shown. */
  const git = () => sets().some((set) => set.changeKind === "uncommitted");
  const [kind, setKind] = createSignal<string>();
  createEffect(
    on(
      () => sessionPlace()?.turn,
      () => setKind(undefined),
    ),
  );
  const chosen = createMemo(() => sets().find((set) => set.changeKind === kind()) ?? sets().find((set) => set.changeKind === "turn") ?? sets().find((set) => set.changeKind === "session") ?? sets()[0]);
  return (
    <>
      <PanelHead title="Changes" onClose={props.onClose}>
        <Show when={git() && mayWrite()}>
          <Git chat={props.chat} onShow={snug() ? props.onClose : undefined} />
        </Show>
        <button type="button" class="link wide-only" onClick={toggleSplit}>
          {split() ? "Inline" : "Side by side"}
        </button>
      </PanelHead>
      <Show when={sets().length > 1}>
        <nav class="tabs" aria-label="Which changes">
          <For each={sets()}>
            {(set) => (
              <button type="button" title={set.description} aria-current={set === chosen() ? "page" : undefined} onClick={() => setKind(set.changeKind)}>
                {visible(set.label.replace(/ Changes$/, ""))}
              </button>
            )}
          </For>
        </nav>
      </Show>
      <Show when={chosen()} keyed fallback={<Empty icon={<icons.Diff class="big" />} title="No changes yet" />}>
        {(set) => <Files {...props} set={set} />}
      </Show>
    </>
  );
}

function Files(props: Props & { set: Changeset }) {
  const view = client.view<ChangesetState>(props.set.uriTemplate);
  const notes = client.view<AnnotationsState>(`${props.session}/annotations`);
  onCleanup(() => {
    view.release();
    notes.release();
  });
  const directory = () => directoryOf(props.state);
  const [asking, setAsking] = createSignal<{ operation: Operation; file?: ChangesetFile }>();
  const run = async (operation: Operation, file?: ChangesetFile) => {
    setAsking(undefined);
    try {
      const target = file ? { target: { kind: "resource", resource: file.id } } : {};
      const result = await client.request<{ message?: string } | null>("invokeChangesetOperation", {
        channel: props.set.uriTemplate,
        operationId: operation.id,
        ...target,
      });
      toast(plain(result?.message) || `${operation.label}: done`);
    } catch (error) {
      complain(operation.label, error);
    }
  };
  const begin = (operation: Operation, file?: ChangesetFile) => (operation.confirmation ? setAsking({ operation, file }) : void run(operation, file));
  // Commits are made where one also says what they are.
  const operations = (scope: string) => (view.state()?.operations ?? []).filter((operation) => operation.scopes.includes(scope) && operation.status !== "disabled" && operation.id !== "commit");
  const open = () => (notes.state()?.annotations ?? []).filter((note) => !note.resolved);
  const sendNotes = async () => {
    const ids = open().map((note) => note.id);
    const message = {
      text: `Please look at my ${plural(ids.length, "comment")} on the changes.`,
      origin: { kind: "user" },
      attachments: [{ type: "annotations", label: plural(ids.length, "comment"), resource: `${props.session}/annotations`, annotationIds: ids }],
    };
    const outcome = await act(props.chat, { type: "chat/pendingMessageSet", kind: "queued", id: uuid(), message }, "The comments were not sent");
    if (outcome.accepted) toast("The comments were sent to the agent");
  };
  const reviewed = () => view.state()?.files.filter((file) => file.reviewed).length ?? 0;
  return (
    <div class="panel-body">
      <Show when={view.state()} fallback={<div class="main-fallback">{view.error() ?? <Spinner label="Loading the changes" />}</div>}>
        {(state) => (
          <>
            <Show when={state().error}>{(error) => <p class="error-text">{visible(error().message)}</p>}</Show>
            <Switch>
              <Match when={state().files.length === 0 && /computing/.test(state().status)}>
                <p class="note panel-note">
                  <Spinner label="Looking for changes" /> Looking for changes…
                </p>
              </Match>
              <Match when={state().files.length === 0}>
                <Empty icon={<icons.Diff class="big" />} title="No changes" />
              </Match>
              <Match when={true}>
                <div class="changes-bar">
                  <span class="note">
                    {plural(state().files.length, "file")}
                    <Show when={props.set.capabilities?.review}>, {reviewed()} reviewed</Show>
                  </span>
                  <span class="grow" />
                  <Show when={mayWrite()}>
                    <Show when={open().length > 0}>
                      <button type="button" class="button compact" onClick={() => void sendNotes()}>
                        Send {plural(open().length, "comment")}
                      </button>
                    </Show>
                    <For each={operations("changeset")}>
                      {(operation) => (
                        <Show when={!/-all$/.test(operation.id)}>
                          <button type="button" class="button compact" title={operation.description} disabled={operation.status === "running"} onClick={() => begin(operation)}>
                            {visible(operation.label.replace(/ Changes$/, " all"))}
                          </button>
                        </Show>
                      )}
                    </For>
                  </Show>
                </div>
              </Match>
            </Switch>
            <For each={state().files}>
              {(file, at) => (
                <FileRow
                  file={file}
                  set={props.set}
                  session={props.session}
                  chat={props.chat}
                  directory={directory()}
                  first={at() < 3}
                  notes={(notes.state()?.annotations ?? []).filter((note) => note.resource === file.id)}
                  operations={operations("resource")}
                  onOperation={(operation) => begin(operation, file)}
                />
              )}
            </For>
            <Show when={asking()}>
              {(asked) => (
                <div class="confirm" role="alertdialog" aria-label={asked().operation.label}>
                  <p>
                    <strong>{visible(asked().operation.label)}</strong>
                    <br />
                    {plain(asked().operation.confirmation)}
                  </p>
                  <div class="actions">
                    <button type="button" class="button danger" onClick={() => void run(asked().operation, asked().file)}>
                      {visible(asked().operation.label)}
                    </button>
                    <button type="button" class="button" onClick={() => setAsking(undefined)}>
                      Cancel
                    </button>
                  </div>
                </div>
              )}
            </Show>
          </>
        )}
      </Show>
    </div>
  );
}

function FileRow(props: {
  file: ChangesetFile;
  set: Changeset;
  session: Uri;
  chat: Uri;
  directory: string;
  first: boolean;
  notes: Annotation[];
  operations: Operation[];
  onOperation: (operation: Operation) => void;
}) {
  const [open, setOpen] = createSignal(props.first && !props.file.reviewed);
  const [line, setLine] = createSignal<number>();
  const [text, setText] = createSignal("");
  const path = () => relativePath(pathOf(props.file.id), props.directory);
  const kind = () => (!props.file.edit.before ? "Added" : !props.file.edit.after ? "Deleted" : props.file.edit.before.uri !== props.file.edit.after.uri ? "Renamed" : "");
  const review = (reviewed: boolean) => {
    void act(props.set.uriTemplate, { type: "changeset/filesReviewChanged", files: [props.file.id], reviewed }, "Not marked");
    if (reviewed) setOpen(false);
  };
  const comment = async () => {
    const at = { line: line()! - 1, character: 0 };
    const annotation: Annotation = {
      id: uuid(),
      origin: { session: props.session, chat: props.chat },
      resource: props.file.id,
      range: { start: at, end: at },
      resolved: false,
      entries: [{ id: uuid(), text: text().trim() }],
    };
    const outcome = await act(`${props.session}/annotations`, { type: "annotations/set", annotation }, "The comment was not saved");
    if (!outcome.accepted) return;
    setLine(undefined);
    setText("");
  };
  return (
    <section class="file" classList={{ reviewed: props.file.reviewed }}>
      <div class="file-head">
        <button type="button" class="file-name" aria-expanded={open()} onClick={() => setOpen(!open())}>
          <icons.Down class="fold" />
          <code title={visible(path())}>{visible(path())}</code>
          <Show when={kind()}>
            <span class="chip">{kind()}</span>
          </Show>
        </button>
        <Stat added={props.file.edit.diff?.added ?? 0} removed={props.file.edit.diff?.removed ?? 0} />
        <Show when={mayWrite()}>
          <Show when={props.set.capabilities?.review}>
            <label class="review">
              <input type="checkbox" checked={props.file.reviewed} onChange={(event) => review(event.currentTarget.checked)} /> Reviewed
            </label>
          </Show>
          <Show when={props.operations.length > 0}>
            <Menu
              class="small"
              label={`Actions for ${visible(path())}`}
              items={props.operations.map((operation) => ({ label: operation.label, danger: Boolean(operation.confirmation), run: () => props.onOperation(operation) }))}
            />
          </Show>
        </Show>
      </div>
      <Show when={open()}>
        <FileEditView edit={props.file.edit} directory={props.directory} bare onLine={mayWrite() ? (at, side) => side === "after" && setLine(at) : undefined} />
        <For each={props.notes}>
          {(note) => (
            <div class="comment" classList={{ resolved: note.resolved }}>
              <p class="note">
                Line {(note.range?.start.line ?? 0) + 1}
                {note.resolved ? ", resolved" : ""}
              </p>
              <For each={note.entries}>{(entry) => <p>{visible(plain(entry.text))}</p>}</For>
              <Show when={mayWrite()}>
                <div class="actions">
                  <button type="button" class="link" onClick={() => void act(`${props.session}/annotations`, { type: "annotations/updated", annotationId: note.id, resolved: !note.resolved }, "Not changed")}>
                    {note.resolved ? "Reopen" : "Resolve"}
                  </button>
                  <button type="button" class="link" onClick={() => void act(`${props.session}/annotations`, { type: "annotations/removed", annotationId: note.id }, "Not deleted")}>
                    Delete
                  </button>
                </div>
              </Show>
            </div>
          )}
        </For>
        <Show when={line() !== undefined}>
          <form
            class="comment"
            onSubmit={(event) => {
              event.preventDefault();
              if (text().trim()) void comment();
            }}
          >
            <label class="field">
              <span>Comment on line {line()}</span>
              <textarea rows="2" value={text()} onInput={(event) => setText(event.currentTarget.value)} ref={(element) => queueMicrotask(() => element.focus())} />
            </label>
            <div class="actions">
              <button type="submit" class="button primary compact" disabled={!text().trim()}>
                Comment
              </button>
              <button type="button" class="button compact" onClick={() => setLine(undefined)}>
                Cancel
              </button>
            </div>
          </form>
        </Show>
      </Show>
    </section>
  );
}

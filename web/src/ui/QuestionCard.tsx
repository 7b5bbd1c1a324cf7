/** An open question: may this tool run, what shall be done, how shall the plan go on. */
import { For, Match, Show, Suspense, Switch, createMemo, createSignal, lazy } from "solid-js";
import { createMutable } from "solid-js/store";
import { answer, answered, answering, client, mayAnswer, mayWrite, type Open } from "../app";
import type { Answer, Option, Question, ToolCall } from "../ahp/types";
import { diffTexts, parseUnified, type FileDiff } from "../text/diff";
import { visible } from "../text/plain";
import { safeHref } from "../text/markdown";
import { DiffView } from "./DiffView";
import { Markdown } from "./Markdown";
import { Output } from "./Output";
import { Inlines, Spinner } from "./parts";
import { inputText, toolIcon } from "./ToolCallView";
import * as icons from "./icons";

const SignIn = lazy(() => import("./SignIn"));

/** A rule that outlives the session takes somebody who may do everything, and is for what was asked, not for what was made of it. */
const ALWAYS = "allow-always";

/** What a call would change, where its arguments say so. */
function proposed(call: ToolCall): FileDiff | undefined {
  try {
    const input = JSON.parse(inputText(call)) as Record<string, unknown>;
    const path = typeof input.path === "string" ? input.path : undefined;
    if (!path) return undefined;
    if (typeof input.old_str === "string") {
      return { before: path, after: path, ...diffTexts(input.old_str, String(input.new_str ?? "")) };
    }
    // Nothing else may be hidden behind it.
    if (typeof input.diff === "string" && Object.keys(input).length === 2) return parseUnified(input.diff)[0];
    if (typeof input.file_text === "string") return { after: path, ...diffTexts("", input.file_text) };
  } catch {
    // Not every input is JSON.
  }
  return undefined;
}

function Confirmation(props: { open: Open; call: ToolCall; turnId: string; directory?: string }) {
  const id = () => props.open.request.id;
  const [mode, setMode] = createSignal<"ask" | "deny" | "edit">("ask");
  const [reason, setReason] = createSignal("");
  const [edited, setEdited] = createSignal(inputText(props.call));
  const diff = createMemo(() => proposed(props.call));
  const options = (): Option[] =>
    props.call.options?.length
      ? props.call.options
      : [
          { id: "", label: "Allow", kind: "approve" },
          { id: "", label: "Deny", kind: "deny" },
        ];
  const send = (option: Option | undefined, extra: object) => {
    const approved = option?.kind === "approve";
    const action =
      props.call.status === "pending-result-confirmation"
        ? { type: "chat/toolCallResultConfirmed", approved }
        : {
            type: "chat/toolCallConfirmed",
            approved,
            ...(approved ? { confirmed: "user-action" } : { reason: "denied" }),
            ...(option?.id ? { selectedOptionId: option.id } : {}),
            ...extra,
          };
    void answer(props.open.session, props.open.request, { ...action, turnId: props.turnId, toolCallId: props.call.toolCallId });
  };
  const deny = () => options().find((option) => option.kind === "deny");
  const approves = () => options().filter((option) => option.kind === "approve" && (option.id !== ALWAYS || (mayWrite() && mode() !== "edit")));
  const editable = () => props.call.editable && mayWrite() && typeof props.call.toolInput === "string";
  return (
    <>
      <h3 class="question-title">
        <span class="tool-icon">{toolIcon(props.call)}</span>
        <span>
          <Inlines text={props.call.confirmationTitle ?? props.call.invocationMessage ?? props.call.displayName} />
        </span>
      </h3>
      <Show when={props.call.riskAssessment?.reason}>
        <p class="note">
          <Inlines text={props.call.riskAssessment!.reason} />
        </p>
      </Show>
      <Switch>
        <Match when={mode() === "edit"}>
          <label class="field">
            <span>Run this instead</span>
            <textarea class="mono" rows="5" value={edited()} onInput={(event) => setEdited(event.currentTarget.value)} spellcheck={false} />
          </label>
        </Match>
        <Match when={diff()}>{(found) => <DiffView diff={found()} directory={props.directory} />}</Match>
        <Match when={inputText(props.call)}>
          <Output text={visible(inputText(props.call))} label="Input" />
        </Match>
      </Switch>
      <Show when={mode() === "deny"}>
        <label class="field">
          <span>Why not? The agent will see this.</span>
          <textarea rows="2" value={reason()} onInput={(event) => setReason(event.currentTarget.value)} ref={(element) => queueMicrotask(() => element.focus())} />
        </label>
      </Show>
      <div class="actions">
        <Switch>
          <Match when={mode() === "deny"}>
            <button type="button" class="button danger" disabled={answering[id()]} onClick={() => send(deny(), reason().trim() ? { reasonMessage: reason().trim() } : {})}>
              Deny
            </button>
            <button type="button" class="button" onClick={() => setMode("ask")}>
              Back
            </button>
          </Match>
          <Match when={mode() === "edit"}>
            <For each={approves()}>
              {(option, at) => (
                <button type="button" class="button" classList={{ primary: at() === 0 }} disabled={answering[id()]} onClick={() => send(option, { editedToolInput: edited() })}>
                  {visible(option.label)}
                </button>
              )}
            </For>
            <button type="button" class="button" onClick={() => setMode("ask")}>
              Back
            </button>
          </Match>
          <Match when={true}>
            <For each={approves()}>
              {(option, at) => (
                <button type="button" class="button" classList={{ primary: at() === 0 }} disabled={answering[id()]} onClick={() => send(option, {})}>
                  {visible(option.label)}
                </button>
              )}
            </For>
            <button type="button" class="button danger" disabled={answering[id()]} onClick={() => send(deny(), {})}>
              {deny()?.label ?? "Deny"}
            </button>
            <span class="grow" />
            <Show when={props.call.status === "pending-confirmation"}>
              <button type="button" class="link" onClick={() => setMode("deny")}>
                Deny with a reason
              </button>
            </Show>
            <Show when={editable()}>
              <button type="button" class="link" onClick={() => setMode("edit")}>
                Edit first
              </button>
            </Show>
          </Match>
        </Switch>
      </div>
    </>
  );
}

type Values = Record<string, string | number | boolean | string[] | undefined>;

function Field(props: { question: Question; values: Values; other: Record<string, string>; only: boolean }) {
  const q = () => props.question;
  const set = (value: Values[string]) => (props.values[q().id] = value);
  const label = () => (
    <Show when={!props.only}>
      <span class="field-label">
        {visible(q().title ?? q().message)}
        <Show when={q().required}>
          <span class="required"> (required)</span>
        </Show>
      </span>
    </Show>
  );
  const name = () => visible(q().title ?? q().message);
  /** What is asked, where the label does not say it: the text of a plan, the description of a field. */
  const body = () => (
    <Show when={!props.only && q().title && q().message !== q().title}>
      <div class="field-text" tabindex="0" role="group" aria-label={name()}>
        <Markdown text={q().message} />
      </div>
    </Show>
  );
  return (
    <Switch>
      <Match when={q().kind === "boolean"}>
        <label class="choice">
          <input type="checkbox" checked={Boolean(props.values[q().id])} onChange={(event) => set(event.currentTarget.checked)} />
          <span>{visible(q().message)}</span>
        </label>
      </Match>
      <Match when={q().kind === "single-select" || q().kind === "multi-select"}>
        <fieldset class="choices">
          <legend classList={{ offscreen: props.only }}>{label() || name()}</legend>
          {body()}
          <For each={q().options}>
            {(option) => {
              const many = q().kind === "multi-select";
              const chosen = () => {
                const value = props.values[q().id];
                return Array.isArray(value) ? value.includes(option.id) : value === option.id;
              };
              return (
                <label class="choice" classList={{ chosen: chosen() }}>
                  <input
                    type={many ? "checkbox" : "radio"}
                    name={q().id}
                    checked={chosen()}
                    onChange={(event) => {
                      if (!many) return set(option.id);
                      const before = (props.values[q().id] as string[] | undefined) ?? [];
                      set(event.currentTarget.checked ? [...before, option.id] : before.filter((id) => id !== option.id));
                    }}
                  />
                  <span>
                    {visible(option.label)}
                    <Show when={option.recommended}>
                      <span class="chip">Recommended</span>
                    </Show>
                    <Show when={option.description}>
                      <small>{visible(option.description!)}</small>
                    </Show>
                  </span>
                </label>
              );
            }}
          </For>
          <Show when={q().allowFreeformInput}>
            <input
              class="input"
              type="text"
              placeholder="Something else…"
              aria-label="Something else"
              value={props.other[q().id] ?? ""}
              onInput={(event) => (props.other[q().id] = event.currentTarget.value)}
            />
          </Show>
        </fieldset>
      </Match>
      <Match when={q().kind === "number" || q().kind === "integer"}>
        <label class="field">
          {label()}
          {body()}
          <input
            class="input"
            type="number"
            aria-label={name()}
            min={q().min}
            max={q().max}
            step={q().kind === "integer" ? 1 : "any"}
            value={(props.values[q().id] as number | undefined) ?? ""}
            onInput={(event) => set(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)}
          />
        </label>
      </Match>
      <Match when={true}>
        <label class="field">
          {label()}
          {body()}
          <textarea class="input" rows="2" aria-label={name()} value={(props.values[q().id] as string | undefined) ?? ""} onInput={(event) => set(event.currentTarget.value)} />
        </label>
      </Match>
    </Switch>
  );
}

function Form(props: { open: Open & { request: { kind: "chatInput" } } }) {
  const request = () => props.open.request.request;
  const questions = () => request().questions ?? [];
  const values = createMutable<Values>({});
  const other = createMutable<Record<string, string>>({});
  for (const question of questions()) {
    const said = request().answers?.[question.id]?.value?.value;
    const advised = question.kind === "single-select" ? question.options?.find((option) => option.recommended)?.id : undefined;
    values[question.id] = (said ?? question.defaultValue ?? advised) as Values[string];
  }
  const given = (question: Question): Answer | undefined => {
    const submitted = (kind: string, value: unknown, freeformValues?: string[]): Answer => ({
      state: "submitted",
      value: { kind, value, ...(freeformValues ? { freeformValues } : {}) },
    });
    const value = values[question.id];
    const extra = other[question.id]?.trim();
    switch (question.kind) {
      case "boolean":
        return submitted("boolean", Boolean(value));
      case "number":
      case "integer":
        return value === undefined ? undefined : submitted("number", value);
      case "single-select":
        if (extra) return submitted("selected", "", [extra]);
        return value ? submitted("selected", value) : undefined;
      case "multi-select": {
        const chosen = (value as string[] | undefined) ?? [];
        return chosen.length || extra ? submitted("selected-many", chosen, extra ? [extra] : undefined) : undefined;
      }
      default:
        return value ? submitted("text", value) : undefined;
    }
  };
  const complete = () => questions().every((question) => !question.required || given(question));
  const send = (response: "accept" | "decline" | "cancel") => {
    const answers: Record<string, Answer> = {};
    if (response === "accept") {
      for (const question of questions()) {
        const said = given(question);
        if (said) answers[question.id] = said;
      }
    }
    void answer(props.open.session, props.open.request, { type: "chat/inputCompleted", requestId: request().id, response, answers });
  };
  const one = () => questions().length === 1;
  const text = () => request().message ?? (one() ? questions()[0]!.message : "");
  const busy = () => answering[props.open.request.id];
  const link = () => request().url && safeHref(request().url!);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (complete()) send("accept");
      }}
    >
      <div class="question-title">
        <span class="tool-icon">
          <icons.Question />
        </span>
        <Markdown text={text() || "The agent asks"} />
      </div>
      <Show when={link()}>
        {(url) => (
          <p>
            <a href={url()} target="_blank" rel="noopener noreferrer">
              {url()}
            </a>
          </p>
        )}
      </Show>
      <For each={questions()}>
        {(question) => <Field question={question} values={values} other={other} only={one() && question.message === text()} />}
      </For>
      <div class="actions">
        <button type="submit" class="button primary" disabled={busy() || !complete()}>
          Answer
        </button>
        <button type="button" class="button" disabled={busy()} onClick={() => send("decline")}>
          Decline
        </button>
      </div>
    </form>
  );
}

export default function QuestionCard(props: { open: Open; directory?: string }) {
  const request = () => props.open.request;
  const [signing, setSigning] = createSignal(false);
  return (
    <div class="question" role="group" aria-label="A question for you" data-question={request().id}>
      <Show when={mayAnswer()} fallback={<p class="note">This browser may watch but not answer.</p>}>
        <Switch>
          <Match when={request().kind === "toolConfirmation" && (request() as Extract<Open["request"], { kind: "toolConfirmation" }>)}>
            {(asked) => <Confirmation open={props.open} call={asked().toolCall} turnId={asked().turnId} directory={props.directory} />}
          </Match>
          <Match when={request().kind === "chatInput"}>
            <Form open={props.open as never} />
          </Match>
          <Match when={request().kind === "toolAuthentication" && (request() as Extract<Open["request"], { kind: "toolAuthentication" }>)}>
            {(asked) => (
              <>
                <h3 class="question-title">
                  <span class="tool-icon">
                    <icons.Warn />
                  </span>
                  <span>
                    {visible(asked().toolCall.displayName)} needs a sign-in to {visible(asked().toolCall.auth?.resource.resource_name ?? asked().toolCall.auth?.resource.resource ?? "its server")}
                  </span>
                </h3>
                <div class="actions">
                  <Show when={mayWrite() && asked().toolCall.auth}>
                    <button type="button" class="button primary" onClick={() => setSigning(true)}>
                      Sign in…
                    </button>
                  </Show>
                  <button
                    type="button"
                    class="button danger"
                    onClick={() =>
                      void answer(props.open.session, request(), {
                        type: "chat/toolCallComplete",
                        turnId: asked().turnId,
                        toolCallId: asked().toolCall.toolCallId,
                        result: { success: false, pastTenseMessage: "Cancelled", error: { message: "Nobody signed in." } },
                      })
                    }
                  >
                    Give up
                  </button>
                </div>
                <Show when={signing() && asked().toolCall.auth}>
                  {(auth) => (
                    <Suspense>
                      <SignIn session={props.open.session} resource={auth().resource} onClose={() => setSigning(false)} />
                    </Suspense>
                  )}
                </Show>
              </>
            )}
          </Match>
        </Switch>
      </Show>
      <Show when={answering[request().id]}>
        <p class="note sending" role="status">
          <Spinner label="Sending" />
          {client.phase() === "online" ? "Sending your answer…" : "Offline. Your answer will be sent when the host is back."}
        </p>
      </Show>
      <Show when={answered[request().id]}>
        {(text) => (
          <p class="note" role="status">
            {visible(text())}
          </p>
        )}
      </Show>
    </div>
  );
}

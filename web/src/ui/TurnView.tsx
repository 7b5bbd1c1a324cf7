/** A turn: what was said, and everything that came of it. */
import { For, Match, Show, Switch, createContext, createMemo, createSignal, useContext } from "solid-js";
import { Status, type Attachment, type ChatState, type Part, type Turn, type Uri } from "../ahp/types";
import { act, fork, mayWrite } from "../app";
import { costOf, money } from "../cost";
import { count, duration, line, plain, visible } from "../text/plain";
import { Markdown } from "./Markdown";
import { CopyButton, Inlines, Menu, Spinner, type MenuItem } from "./parts";
import { ToolCallView } from "./ToolCallView";
import * as icons from "./icons";

export interface ChatContext {
  session: Uri;
  chat: Uri;
  directory?: string;
  state: () => ChatState | undefined;
  /** Puts a message back into the field, to be changed and said again. */
  editTurn: (turn: Turn) => void;
  /** Shows what a turn changed, where the host can tell. */
  showChanges?: (turn: Turn) => void;
}

export const ChatContext = createContext<ChatContext>();

function Reasoning(props: { text: string; live: boolean }) {
  const last = () => line(props.text.trimEnd().split("\n").at(-1) ?? "");
  return (
    <details class="reasoning">
      <summary>
        <icons.Thought />
        <span class="reasoning-title">{props.live ? "Thinking" : "Thought"}</span>
        <span class="reasoning-last">{last()}</span>
      </summary>
      <Markdown text={props.text} />
    </details>
  );
}

const ANSWERS = { accept: "Answered", decline: "Declined", cancel: "Cancelled" } as const;

function InputPart(props: { part: Extract<Part, { kind: "inputRequest" }> }) {
  /** The one question, where it says more than what is asked in short: a plan. */
  const long = () => {
    const { message, questions } = props.part.request;
    const question = questions?.length === 1 ? questions[0] : undefined;
    return question?.title && message && question.message !== message ? question : undefined;
  };
  const answers = () =>
    Object.values(props.part.request.answers ?? {})
      .map((answer) => answer.value?.value)
      .filter((value) => value !== undefined && value !== "")
      .map((value) => (Array.isArray(value) ? value.join(", ") : String(value)));
  return (
    <div class="asked">
      <icons.Question />
      <div class="asked-text">
        <Markdown text={props.part.request.message ?? props.part.request.questions?.[0]?.message ?? "A question"} />
        <Show when={long()}>
          {(question) => (
            <details class="field-fold">
              <summary>{visible(question().title!)}</summary>
              <Markdown text={question().message} />
            </details>
          )}
        </Show>
        <Show when={props.part.response} fallback={<span class="chip waiting">Waiting for you</span>}>
          {(response) => (
            <p class="note">
              {ANSWERS[response()]}
              <Show when={answers().length > 0}>
                {": "}
                <strong>{visible(answers().join(" · "))}</strong>
              </Show>
            </p>
          )}
        </Show>
      </div>
    </div>
  );
}

function ErrorPart(props: { part: Extract<Part, { kind: "error" }>; turn: Turn }) {
  const chat = useContext(ChatContext);
  const [asked, setAsked] = createSignal(false);
  const last = () => chat?.state()?.turns.at(-1)?.id === props.turn.id && !chat?.state()?.activeTurn;
  return (
    <div class="error-part" role="alert">
      <icons.Warn />
      <div>
        <p dir="auto">{visible(props.part.error.message)}</p>
        <Show when={chat && props.part.resumable && last() && mayWrite()}>
          <button
            type="button"
            class="button"
            disabled={asked()}
            onClick={async () => {
              setAsked(true);
              await act(chat!.chat, { type: "chat/turnResume", turnId: props.turn.id }, "Not tried again");
              setAsked(false);
            }}
          >
            Try again
          </button>
        </Show>
      </div>
    </div>
  );
}

/** Tools that only ask a question: the turn shows the question instead of the call. */
const ASKING = new Set(["ask_user", "exit_plan_mode"]);

export function Parts(props: { turn: Turn; running: boolean }) {
  const chat = useContext(ChatContext);
  const asks = createMemo(() => props.turn.responseParts.some((part) => part.kind === "inputRequest"));
  const last = (part: Part) => props.running && props.turn.responseParts.at(-1) === part;
  return (
    <For each={props.turn.responseParts}>
      {(part) => (
        <Switch>
          <Match when={part.kind === "markdown" && part}>
            {(part) => (
              <div class="answer" classList={{ live: last(part()) }}>
                <Markdown text={part().content} />
              </div>
            )}
          </Match>
          <Match when={part.kind === "reasoning" && part}>{(part) => <Reasoning text={part().content} live={last(part())} />}</Match>
          <Match when={part.kind === "toolCall" && part}>
            {(part) => (
              <Show when={!(asks() && ASKING.has(part().toolCall.toolName) && part().toolCall.success !== false)}>
                <ToolCallView call={part().toolCall} directory={chat?.directory} />
              </Show>
            )}
          </Match>
          <Match when={part.kind === "inputRequest" && part}>{(part) => <InputPart part={part()} />}</Match>
          <Match when={part.kind === "error" && part}>{(part) => <ErrorPart part={part()} turn={props.turn} />}</Match>
          <Match when={part.kind === "systemNotification" && part}>
            {(part) => (
              <p class="system">
                <Inlines text={part().content} />
              </p>
            )}
          </Match>
        </Switch>
      )}
    </For>
  );
}

export function Attachments(props: { list: Attachment[] | undefined; onRemove?: (at: number) => void }) {
  const image = (item: Attachment) => item.type === "embeddedResource" && /^image\/(?:png|jpeg|gif|webp|avif)$/.test(item.contentType ?? "");
  return (
    <Show when={props.list?.length}>
      <ul class="attachments" aria-label="Attachments">
        <For each={props.list}>
          {(item, at) => (
            <li>
              <Show when={image(item)} fallback={<icons.File />}>
                <img src={`data:${item.contentType};base64,${item.data}`} alt="" />
              </Show>
              <span>{line(item.label)}</span>
              <Show when={props.onRemove}>
                <button type="button" class="icon tiny" aria-label={`Remove ${line(item.label)}`} onClick={() => props.onRemove!(at())}>
                  <icons.Cross />
                </button>
              </Show>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}

const ORIGINS: Record<string, string> = { automation: "Automation", systemNotification: "Host", agent: "Agent", tool: "Tool" };

/** Long messages, such as pasted logs, are folded. */
const FOLDED = 1200;

export function MessageView(props: { turn: Turn }) {
  const [all, setAll] = createSignal(false);
  const text = () => props.turn.message.text;
  const long = () => text().length > FOLDED || text().split("\n").length > 20;
  const shown = () => (long() && !all() ? `${text().split("\n").slice(0, 20).join("\n").slice(0, FOLDED)}…` : text());
  const origin = () => props.turn.message.origin.kind;
  return (
    <div class="message" classList={{ other: origin() !== "user" }}>
      <Show when={origin() !== "user"}>
        <span class="note">{ORIGINS[origin()] ?? origin()}</span>
      </Show>
      <p dir="auto">{visible(shown())}</p>
      <Show when={long()}>
        <button type="button" class="link" onClick={() => setAll(!all())}>
          {all() ? "Show less" : "Show all"}
        </button>
      </Show>
      <Attachments list={props.turn.message.attachments} />
    </div>
  );
}

function answerText(turn: Turn): string {
  return turn.responseParts
    .flatMap((part) => (part.kind === "markdown" ? [part.content] : []))
    .join("\n\n");
}

function Footer(props: { turn: Turn }) {
  const chat = useContext(ChatContext)!;
  const tokens = () => (props.turn.usage?.inputTokens ?? 0) + (props.turn.usage?.outputTokens ?? 0);
  const busy = () => Boolean((chat.state()?.status ?? 0) & Status.InProgress);
  const rewind = async () => {
    await act(chat.chat, { type: "chat/truncated", turnId: props.turn.id }, "Not rewound");
  };
  const items = (): MenuItem[] => [
    ...(chat.showChanges ? [{ label: "Changes in this turn", icon: icons.Diff, run: () => chat.showChanges!(props.turn) }] : []),
    ...(mayWrite() ? [{ label: "Fork from here", icon: icons.Fork, run: () => void fork(chat.session, chat.chat, props.turn.id) }] : []),
    ...(mayWrite() && !busy()
      ? [
          { label: "Edit and resend", icon: icons.Edit, run: () => chat.editTurn(props.turn) },
          { label: "Rewind to here", icon: icons.Rewind, danger: true, run: () => void rewind() },
        ]
      : []),
  ];
  return (
    <div class="turn-foot">
      <Show when={props.turn.state === "cancelled"}>
        <span class="chip">Stopped</span>
      </Show>
      <Show when={props.turn.duration !== undefined}>
        <span>{duration(props.turn.duration!)}</span>
      </Show>
      <Show when={tokens() > 0}>
        <span title={`${props.turn.usage?.inputTokens ?? 0} tokens in, ${props.turn.usage?.outputTokens ?? 0} out`}>{count(tokens())} tokens</span>
      </Show>
      <Show when={costOf(props.turn.usage)}>{(cost) => <span>{money(cost())}</span>}</Show>
      <Show when={props.turn.usage?.model}>
        <span class="turn-model">{line(props.turn.usage!.model!)}</span>
      </Show>
      <span class="grow" />
      <CopyButton text={() => answerText(props.turn)} label="Copy answer" />
      <Show when={items().length > 0}>
        <Menu class="small" label="Turn actions" items={items()} />
      </Show>
    </div>
  );
}

export function TurnView(props: { turn: Turn; running: boolean }) {
  const quiet = () => {
    const part = props.turn.responseParts.at(-1);
    // What comes next is not known yet: after a message, and after a tool call that is over.
    return props.running && (!part || (part.kind === "toolCall" && (part.toolCall.status === "completed" || part.toolCall.status === "cancelled")));
  };
  return (
    <article class="turn" data-turn={props.turn.id} aria-label={line(plain(props.turn.message.text)).slice(0, 80) || "Turn"}>
      <MessageView turn={props.turn} />
      <Parts turn={props.turn} running={props.running} />
      <Show when={quiet()}>
        <p class="quiet">
          <Spinner label="The agent is working" />
        </p>
      </Show>
      <Show when={!props.running}>
        <Footer turn={props.turn} />
      </Show>
    </article>
  );
}

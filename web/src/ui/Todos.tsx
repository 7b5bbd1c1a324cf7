/** What the agent has noted to do. */
import { For, Show, createEffect, createMemo, createSignal, on } from "solid-js";
import type { ChatState, Todo, Uri } from "../ahp/types";
import { client } from "../app";
import { line, visible } from "../text/plain";
import * as icons from "./icons";

const STATES: Record<string, string> = { done: "Done", in_progress: "In progress", blocked: "Blocked", pending: "To do" };

/** The to-do list, reread whenever the agent may have changed it: after a call of its tool, and after a turn. */
export function createTodos(chat: () => Uri, state: () => ChatState | undefined) {
  const [todos, setTodos] = createSignal<Todo[]>([]);
  const calls = createMemo(
    () => state()?.activeTurn?.responseParts.filter((part) => part.kind === "toolCall" && part.toolCall.toolName === "sql" && part.toolCall.status === "completed").length ?? 0,
  );
  createEffect(
    on([chat, () => state()?.turns.at(-1)?.id, calls, () => client.phase() === "online"], ([channel, , , online]) => {
      if (!online || !state()) return;
      client.request<{ todos: Todo[] }>("lodge/todos", { channel }).then(
        (told) => channel === chat() && setTodos(told.todos),
        // A host that does not know of it has none to tell.
        () => setTodos([]),
      );
    }),
  );
  return todos;
}

export function TodoItems(props: { todos: Todo[] }) {
  return (
    <ul class="todo-items">
      <For each={props.todos}>
        {(todo) => {
          const state = () => todo.status ?? "pending";
          return (
            <li class={`todo-${state()}`}>
              <span class="todo-mark" role="img" aria-label={STATES[state()] ?? state()} title={STATES[state()] ?? state()} />
              <span>
                {visible(todo.title || todo.id)}
                <Show when={todo.description}>
                  <small>{visible(todo.description!)}</small>
                </Show>
              </span>
            </li>
          );
        }}
      </For>
    </ul>
  );
}

/** The list above the field: one line, which opens. */
export default function Todos(props: { chat: Uri; state: ChatState }) {
  const todos = createTodos(
    () => props.chat,
    () => props.state,
  );
  const done = () => todos().filter((todo) => todo.status === "done").length;
  const next = () => todos().find((todo) => todo.status === "in_progress") ?? todos().find((todo) => todo.status !== "done");
  return (
    <Show when={done() < todos().length}>
      <details class="todos">
        <summary>
          <icons.Down class="fold" />
          <span class="todos-count">
            {done()} of {todos().length} done
          </span>
          <span class="todos-next">{line(next()?.title || next()?.id || "")}</span>
        </summary>
        <TodoItems todos={todos()} />
      </details>
    </Show>
  );
}

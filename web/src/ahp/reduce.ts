/**
 * What actions do to states. States are changed in place, so that the page redraws only what an action touched.
 * Rules are those of the protocol; an action that fits nothing is ignored.
 */
import { Status } from "./types";
import type {
  Action,
  AnnotationsState,
  AutomationState,
  ChangesetState,
  ChatState,
  Customization,
  Part,
  RootState,
  SessionState,
  TerminalState,
  ToolCall,
  Turn,
} from "./types";

/** Copies one object into another. It stays the same object, so that components which show it are not rebuilt. */
function become<T extends object>(old: T, next: T): T {
  for (const key of Object.keys(old)) if (!(key in next)) delete old[key as keyof T];
  return Object.assign(old, next);
}

/** Sets or adds an element of a list, by a key. */
function upsert<T extends object>(list: T[], item: T, same: (other: T) => boolean): void {
  const old = list.find(same);
  if (old) become(old, item);
  else list.push(item);
}

/** A list in place of another, with the objects of the old one where they are meant again. */
function renewed<T extends { id: string }>(old: T[] | undefined, next: T[]): T[] {
  return next.map((item) => {
    const known = old?.find((other) => other.id === item.id);
    return known ? become(known, item) : item;
  });
}

function remove<T>(list: T[] | undefined, which: (item: T) => boolean): void {
  const at = list?.findIndex(which) ?? -1;
  if (at >= 0) list!.splice(at, 1);
}

function flag(status: number, bit: number, on: boolean): number {
  return on ? status | bit : status & ~bit;
}

function activity(status: number, bits: number): number {
  return (status & ~0x1f) | bits;
}

export function reduceRoot(root: RootState, action: Action): void {
  switch (action.type) {
    case "root/agentsChanged":
      root.agents = action.agents;
      break;
    case "root/activeSessionsChanged":
      root.activeSessions = action.activeSessions;
      break;
    case "root/terminalsChanged":
      root.terminals = action.terminals;
      break;
    case "root/configChanged":
      if (root.config) root.config.values = action.replace ? action.config : { ...root.config.values, ...action.config };
      break;
  }
}

function findCustomization(list: Customization[] | undefined, id: string): Customization | undefined {
  for (const item of list ?? []) {
    if (item.id === id) return item;
    const child = findCustomization(item.children, id);
    if (child) return child;
  }
  return undefined;
}

export function reduceSession(session: SessionState, action: Action): void {
  switch (action.type) {
    case "session/ready":
      session.lifecycle = "ready";
      break;
    case "session/creationFailed":
      session.lifecycle = "failed";
      session.creationError = action.error;
      break;
    case "session/chatAdded":
      upsert(session.chats, action.summary, (chat) => chat.resource === action.summary.resource);
      break;
    case "session/chatRemoved":
      remove(session.chats, (chat) => chat.resource === action.chat);
      if (session.defaultChat === action.chat) session.defaultChat = undefined;
      break;
    case "session/chatUpdated": {
      const chat = session.chats.find((chat) => chat.resource === action.chat);
      if (chat) Object.assign(chat, action.changes);
      break;
    }
    case "session/chatsReordered": {
      const order: string[] = action.chats;
      const sorted = order.map((uri) => session.chats.find((chat) => chat.resource === uri));
      if (sorted.length === session.chats.length && sorted.every((chat) => chat)) session.chats = sorted as never;
      break;
    }
    case "session/defaultChatChanged":
      session.defaultChat = action.defaultChat;
      break;
    case "session/titleChanged":
      session.title = action.title;
      break;
    case "session/activeClientSet":
      upsert(session.activeClients, action.activeClient, (client) => client.clientId === action.activeClient.clientId);
      break;
    case "session/activeClientRemoved":
      remove(session.activeClients, (client) => client.clientId === action.clientId);
      break;
    case "session/workingDirectorySet":
      session.workingDirectories ??= [];
      if (!session.workingDirectories.includes(action.directory)) session.workingDirectories.push(action.directory);
      break;
    case "session/workingDirectoryRemoved":
      remove(session.workingDirectories, (directory) => directory === action.directory);
      break;
    case "session/inputNeededSet":
      session.inputNeeded ??= [];
      upsert(session.inputNeeded, action.request, (request) => request.id === action.request.id);
      break;
    case "session/inputNeededRemoved":
      remove(session.inputNeeded, (request) => request.id === action.id);
      break;
    case "session/customizationsChanged":
      session.customizations = renewed(session.customizations, action.customizations);
      break;
    case "session/customizationUpdated":
      session.customizations ??= [];
      upsert(session.customizations, action.customization, (item) => item.id === action.customization.id);
      break;
    case "session/customizationRemoved":
      remove(session.customizations, (item) => item.id === action.id);
      for (const item of session.customizations ?? []) remove(item.children, (child) => child.id === action.id);
      break;
    case "session/customizationToggled": {
      const item = findCustomization(session.customizations, action.id);
      if (!item) break;
      if (item.type === "plugin" || item.type === "mcpServer") item.enablement = action.enablement;
      else item.enabled = action.enablement[0]?.enabled ?? item.enabled;
      break;
    }
    case "session/mcpServerStateChanged": {
      const item = findCustomization(session.customizations, action.id);
      if (item) item.state = action.state;
      break;
    }
    case "session/mcpServerStartRequested":
    case "session/mcpServerStopRequested": {
      const item = findCustomization(session.customizations, action.id);
      if (item) item.state = { kind: action.type.includes("Start") ? "starting" : "stopped" };
      break;
    }
    case "session/isReadChanged":
      session.status = flag(session.status, Status.IsRead, action.isRead);
      break;
    case "session/isArchivedChanged":
      session.status = flag(session.status, Status.IsArchived, action.isArchived);
      break;
    case "session/activityChanged":
      session.activity = action.activity;
      break;
    case "session/changesetsChanged":
      session.changesets = action.changesets;
      break;
    case "session/configChanged":
      if (session.config)
        session.config.values = action.replace ? action.config : { ...session.config.values, ...action.config };
      break;
  }
}

/** The part with this id. Deltas are nearly always for the last one, so the search begins at the end. */
function partOf(turn: Turn, kind: "markdown" | "reasoning", id: string) {
  for (let i = turn.responseParts.length - 1; i >= 0; i--) {
    const part = turn.responseParts[i]!;
    if (part.kind === kind && part.id === id) return part;
  }
  return undefined;
}

function callOf(turn: Turn, id: string): Extract<Part, { kind: "toolCall" }> | undefined {
  for (let i = turn.responseParts.length - 1; i >= 0; i--) {
    const part = turn.responseParts[i]!;
    if (part.kind === "toolCall" && part.toolCall.toolCallId === id) return part;
  }
  return undefined;
}

const WAITING = new Set(["pending-confirmation", "pending-result-confirmation", "auth-required"]);

function restatus(chat: ChatState, failed = false): void {
  const turn = chat.activeTurn;
  const waits = turn?.responseParts.some(
    (part) =>
      (part.kind === "inputRequest" && !part.response) || (part.kind === "toolCall" && WAITING.has(part.toolCall.status)),
  );
  const bits = failed ? Status.Error : waits ? Status.InputNeeded : turn ? Status.InProgress : Status.Idle;
  chat.status = activity(chat.status, bits);
}

function endTurn(chat: ChatState, action: Action, state: Turn["state"]): void {
  const turn = chat.activeTurn;
  if (!turn || turn.id !== action.turnId) return;
  for (const part of turn.responseParts) {
    if (part.kind === "toolCall" && part.toolCall.status !== "completed" && part.toolCall.status !== "cancelled") {
      part.toolCall.status = "cancelled";
      part.toolCall.reason = "skipped";
    }
  }
  if (action.part) turn.responseParts.push({ kind: "error", ...action.part });
  turn.duration = action.duration;
  turn.state = state;
  chat.turns.push(turn);
  chat.activeTurn = undefined;
  restatus(chat, state === "error");
}

function tool(turn: Turn | undefined, action: Action): void {
  if (!turn || turn.id !== action.turnId) return;
  if (action.type === "chat/toolCallStart") {
    const { toolCallId, toolName, displayName, intention, _meta } = action;
    const call: ToolCall = { status: "streaming", toolCallId, toolName, displayName, intention, _meta };
    turn.responseParts.push({ kind: "toolCall", toolCall: call });
    return;
  }
  const call = callOf(turn, action.toolCallId)?.toolCall;
  if (!call) return;
  if (action._meta) call._meta = action._meta;
  switch (action.type) {
    case "chat/toolCallDelta":
      if (call.status !== "streaming") break;
      if (action.content) call.partialInput = (call.partialInput ?? "") + action.content;
      if (action.invocationMessage) call.invocationMessage = action.invocationMessage;
      break;
    case "chat/toolCallReady":
      call.invocationMessage = action.invocationMessage;
      call.toolInput = action.toolInput ?? call.toolInput;
      call.intention = action.intention ?? call.intention;
      call.confirmationTitle = action.confirmationTitle;
      call.riskAssessment = action.riskAssessment;
      call.edits = action.edits;
      call.editable = action.editable;
      call.options = action.options;
      call.confirmed = action.confirmed;
      call.partialInput = undefined;
      call.status = action.confirmed ? "running" : "pending-confirmation";
      break;
    case "chat/toolCallConfirmed":
      if (call.status !== "pending-confirmation") break;
      call.selectedOption = call.options?.find((option) => option.id === action.selectedOptionId);
      if (action.approved) {
        call.status = "running";
        call.confirmed = action.confirmed ?? "not-needed";
        if (action.editedToolInput !== undefined) call.toolInput = action.editedToolInput;
      } else {
        call.status = "cancelled";
        call.reason = action.reason ?? "denied";
        call.reasonMessage = action.reasonMessage;
      }
      break;
    case "chat/toolCallContentChanged":
      if (call.status === "running") call.content = action.content;
      break;
    case "chat/toolCallComplete":
      if (call.status === "auth-required" && action.result.success) break;
      Object.assign(call, action.result);
      call.content = action.result.content;
      call.status = action.requiresResultConfirmation ? "pending-result-confirmation" : "completed";
      break;
    case "chat/toolCallResultConfirmed":
      call.status = action.approved ? "completed" : "cancelled";
      if (!action.approved) call.reason = "result-denied";
      break;
    case "chat/toolCallAuthRequired":
      call.status = "auth-required";
      call.auth = action.auth;
      break;
    case "chat/toolCallAuthResolved":
      if (call.status === "auth-required") call.status = "running";
      break;
  }
}

export function reduceChat(chat: ChatState, action: Action): void {
  const turn = chat.activeTurn;
  switch (action.type) {
    case "chat/turnStarted":
      chat.activeTurn = { id: action.turnId, startedAt: action.startedAt, message: action.message, responseParts: [] };
      chat.modifiedAt = action.startedAt;
      if (action.queuedMessageId) {
        remove(chat.queuedMessages, (message) => message.id === action.queuedMessageId);
        if (chat.steeringMessage?.id === action.queuedMessageId) chat.steeringMessage = undefined;
      }
      restatus(chat);
      chat.status = flag(chat.status, Status.IsRead, false);
      break;
    case "chat/delta":
    case "chat/reasoning": {
      if (!turn || turn.id !== action.turnId) break;
      const part = partOf(turn, action.type === "chat/delta" ? "markdown" : "reasoning", action.partId);
      if (part) part.content += action.content;
      break;
    }
    case "chat/responsePart":
      if (turn && turn.id === action.turnId && action.part.kind !== "error") turn.responseParts.push(action.part);
      break;
    case "chat/usage":
      if (turn && turn.id === action.turnId) turn.usage = action.usage;
      break;
    case "chat/turnComplete":
      endTurn(chat, action, "complete");
      break;
    case "chat/turnCancelled":
      endTurn(chat, action, "cancelled");
      break;
    case "chat/error":
      endTurn(chat, action, "error");
      break;
    case "chat/turnResume": {
      const last = chat.turns.at(-1);
      const part = last?.responseParts.at(-1);
      if (!last || last.id !== action.turnId || last.state !== "error" || part?.kind !== "error" || !part.resumable) break;
      chat.turns.pop();
      last.responseParts.pop();
      last.state = undefined;
      chat.activeTurn = last;
      restatus(chat);
      break;
    }
    case "chat/truncated": {
      if (action.turnId === undefined) {
        chat.turns = [];
        chat.turnsNextCursor = undefined;
      } else {
        const at = chat.turns.findIndex((turn) => turn.id === action.turnId);
        if (at < 0) break;
        chat.turns.splice(at + 1);
      }
      chat.activeTurn = undefined;
      restatus(chat);
      break;
    }
    case "chat/turnsLoaded": {
      const known = new Set(chat.turns.map((turn) => turn.id));
      chat.turns.unshift(...(action.turns as Turn[]).filter((turn) => !known.has(turn.id)));
      chat.turnsNextCursor = action.turnsNextCursor;
      break;
    }
    case "chat/pendingMessageSet": {
      const pending = { id: action.id, message: action.message };
      if (action.kind === "steering") chat.steeringMessage = pending;
      else {
        chat.queuedMessages ??= [];
        upsert(chat.queuedMessages, pending, (other) => other.id === action.id);
      }
      break;
    }
    case "chat/pendingMessageRemoved":
      if (action.kind === "steering") {
        if (chat.steeringMessage?.id === action.id) chat.steeringMessage = undefined;
      } else remove(chat.queuedMessages, (message) => message.id === action.id);
      break;
    case "chat/queuedMessagesReordered": {
      const order: string[] = action.order;
      const rank = (id: string) => (order.includes(id) ? order.indexOf(id) : order.length);
      if (chat.queuedMessages) chat.queuedMessages = chat.queuedMessages.toSorted((a, b) => rank(a.id) - rank(b.id));
      break;
    }
    case "chat/draftChanged":
      chat.draft = action.draft;
      break;
    case "chat/inputRequested": {
      if (!turn) break;
      const open = turn.responseParts.find(
        (part) => part.kind === "inputRequest" && !part.response && part.request.id === action.request.id,
      );
      if (open?.kind === "inputRequest") {
        const answers = open.request.answers;
        open.request = { answers, ...action.request };
      } else turn.responseParts.push({ kind: "inputRequest", request: action.request });
      chat.status = flag(chat.status, Status.IsRead, false);
      restatus(chat);
      break;
    }
    case "chat/inputAnswerChanged":
    case "chat/inputCompleted": {
      for (const part of turn?.responseParts ?? []) {
        if (part.kind !== "inputRequest" || part.response || part.request.id !== action.requestId) continue;
        const answers = (part.request.answers ??= {});
        if (action.type === "chat/inputCompleted") {
          Object.assign(answers, action.answers);
          part.response = action.response;
        } else if (action.answer) answers[action.questionId] = action.answer;
        else delete answers[action.questionId];
      }
      restatus(chat);
      break;
    }
    case "chat/activityChanged":
      chat.activity = action.activity;
      break;
    case "chat/backgroundWorkSet":
      chat.backgroundWork ??= [];
      upsert(chat.backgroundWork, action.work, (work) => work.id === action.work.id);
      break;
    case "chat/backgroundWorkRemoved":
      remove(chat.backgroundWork, (work) => work.id === action.id);
      break;
    case "chat/isReadChanged":
      chat.status = flag(chat.status, Status.IsRead, action.isRead);
      break;
    case "chat/isArchivedChanged":
      chat.status = flag(chat.status, Status.IsArchived, action.isArchived);
      break;
    default:
      if (action.type.startsWith("chat/toolCall")) {
        tool(turn, action);
        restatus(chat);
      }
  }
}

export function reduceTerminal(terminal: TerminalState, action: Action): void {
  switch (action.type) {
    case "terminal/data": {
      const last = terminal.content.at(-1);
      if (last?.type === "command" && !last.isComplete) last.output += action.data;
      else if (last?.type === "unclassified") last.value += action.data;
      else terminal.content.push({ type: "unclassified", value: action.data });
      break;
    }
    case "terminal/resized":
      terminal.cols = action.cols;
      terminal.rows = action.rows;
      break;
    case "terminal/titleChanged":
      terminal.title = action.title;
      break;
    case "terminal/cwdChanged":
      terminal.cwd = action.cwd;
      break;
    case "terminal/exited":
      terminal.lifecycle = { status: "exited", exitCode: action.exitCode };
      break;
    case "terminal/cleared":
      terminal.content = [];
      break;
    case "terminal/commandExecuted": {
      const { commandId, commandLine } = action;
      terminal.content.push({ type: "command", commandId, commandLine, output: "", isComplete: false });
      break;
    }
    case "terminal/commandFinished":
      for (const part of terminal.content) {
        if (part.type === "command" && part.commandId === action.commandId) {
          part.isComplete = true;
          part.exitCode = action.exitCode;
        }
      }
      break;
  }
}

export function reduceChangeset(changeset: ChangesetState, action: Action): void {
  switch (action.type) {
    case "changeset/statusChanged":
      changeset.status = action.status;
      changeset.error = action.error;
      break;
    case "changeset/fileSet":
      upsert(changeset.files, action.file, (file) => file.id === action.file.id);
      break;
    case "changeset/fileRemoved":
      remove(changeset.files, (file) => file.id === action.fileId);
      break;
    case "changeset/filesReviewChanged":
      for (const file of changeset.files) if (action.files.includes(file.id)) file.reviewed = action.reviewed;
      break;
    case "changeset/contentChanged":
      changeset.files = renewed(changeset.files, action.files);
      if (action.operations) changeset.operations = renewed(changeset.operations, action.operations);
      break;
    case "changeset/operationsChanged":
      changeset.operations = renewed(changeset.operations, action.operations ?? []);
      break;
    case "changeset/operationStatusChanged": {
      const operation = changeset.operations?.find((operation) => operation.id === action.operationId);
      if (operation) {
        operation.status = action.status;
        operation.error = action.error;
      }
      break;
    }
    case "changeset/cleared":
      changeset.files = [];
      break;
  }
}

export function reduceAnnotations(state: AnnotationsState, action: Action): void {
  const found = state.annotations.find((annotation) => annotation.id === action.annotationId);
  switch (action.type) {
    case "annotations/set":
      upsert(state.annotations, action.annotation, (other) => other.id === action.annotation.id);
      break;
    case "annotations/updated": {
      const { type: _, annotationId: __, ...changes } = action;
      if (found) Object.assign(found, changes);
      break;
    }
    case "annotations/removed":
      remove(state.annotations, (annotation) => annotation.id === action.annotationId);
      break;
    case "annotations/entrySet":
      if (found) upsert(found.entries, action.entry, (entry) => entry.id === action.entry.id);
      break;
    case "annotations/entryRemoved":
      remove(found?.entries, (entry) => entry.id === action.entryId);
      break;
  }
}

export function reduceAutomations(state: AutomationState, action: Action): void {
  switch (action.type) {
    case "automation/set":
      upsert(state.entries, action.automation, (entry) => entry.resource === action.automation.resource);
      break;
    case "automation/removed":
      remove(state.entries, (entry) => entry.resource === action.resource);
      break;
  }
}

/** Applies an action to whatever state its channel has. */
export function reduce(state: object, action: Action): void {
  const kind = action.type.slice(0, action.type.indexOf("/"));
  switch (kind) {
    case "root":
      return reduceRoot(state as RootState, action);
    case "session":
      return reduceSession(state as SessionState, action);
    case "chat":
      return reduceChat(state as ChatState, action);
    case "terminal":
      return reduceTerminal(state as TerminalState, action);
    case "changeset":
      return reduceChangeset(state as ChangesetState, action);
    case "annotations":
      return reduceAnnotations(state as AnnotationsState, action);
    case "automation":
      return reduceAutomations(state as AutomationState, action);
  }
}

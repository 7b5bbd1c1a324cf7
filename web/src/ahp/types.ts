/** The parts of the Agent Host Protocol 1.0 that this page reads. Fields it does not use are left out. */

export type Uri = string;
export type Text = string | { markdown: string };

export const Status = { Idle: 1, Error: 2, InProgress: 8, InputNeeded: 24, IsRead: 32, IsArchived: 64 } as const;

export interface ErrorInfo {
  errorType: string;
  message: string;
}

export interface ModelInfo {
  id: string;
  name: string;
  maxContextWindow?: number;
  supportsVision?: boolean;
  _meta?: { pricing?: { currency: string; date: string; input: number; output: number; cached: number } };
}

export interface ConfigProperty {
  type: string;
  title: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  enumLabels?: string[];
  enumDescriptions?: string[];
  readOnly?: boolean;
  sessionMutable?: boolean;
}

export interface ConfigState {
  schema: { properties: Record<string, ConfigProperty> };
  values: Record<string, unknown>;
}

export interface RootState {
  agents: { provider: string; displayName: string; models: ModelInfo[]; customizations?: Customization[] }[];
  activeSessions?: number;
  terminals?: TerminalInfo[];
  config?: ConfigState;
  _meta?: { otherHosts?: { name: string; url: string }[] };
}

export interface ChangesSummary {
  additions?: number;
  deletions?: number;
  files?: number;
}

export interface ChatSummary {
  resource: Uri;
  title: string;
  status?: number;
  activity?: string;
  modifiedAt?: string;
  origin?: { kind: string; chat?: Uri; toolCallId?: string; turnId?: string };
  interactivity?: string;
  changes?: ChangesSummary;
}

export interface SessionSummary {
  resource: Uri;
  provider: string;
  title: string;
  status: number;
  activity?: string | null;
  createdAt: string;
  modifiedAt: string;
  project?: { uri: Uri; displayName: string };
  workingDirectories?: Uri[];
  changes?: ChangesSummary;
  chats?: ChatSummary[];
  defaultChat?: Uri;
  origin?: { kind: string };
}

export interface SessionState {
  provider: string;
  title: string;
  status: number;
  activity?: string;
  lifecycle: string;
  creationError?: ErrorInfo;
  project?: { uri: Uri; displayName: string };
  workingDirectories?: Uri[];
  activeClients: { clientId: string; displayName?: string }[];
  chats: ChatSummary[];
  defaultChat?: Uri;
  config?: ConfigState;
  customizations?: Customization[];
  changesets?: Changeset[];
  inputNeeded?: InputNeeded[];
}

export interface Customization {
  type: string;
  id: string;
  uri: Uri;
  name: string;
  description?: string;
  enabled?: boolean;
  enablement?: { kind: string; enabled: boolean; uri?: Uri }[];
  children?: Customization[];
  load?: { kind: string; message?: string };
  state?: { kind: string; error?: ErrorInfo; description?: string; resource?: { resource: string; resource_name?: string } };
}

export type InputNeeded =
  | { kind: "chatInput"; id: string; chat: Uri; request: InputRequest }
  | { kind: "toolConfirmation"; id: string; chat: Uri; turnId: string; toolCall: ToolCall }
  | { kind: "toolClientExecution"; id: string; chat: Uri; turnId: string; clientId: string; toolCall: ToolCall }
  | { kind: "toolAuthentication"; id: string; chat: Uri; turnId: string; toolCall: ToolCall };

export interface Usage {
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  model?: string;
  _meta?: Record<string, unknown>;
}

export interface Attachment {
  type: string;
  label: string;
  displayKind?: string;
  uri?: Uri;
  data?: string;
  contentType?: string;
  resource?: Uri;
  annotationIds?: string[];
  _meta?: Record<string, unknown>;
}

export interface Message {
  text: string;
  origin: { kind: string };
  attachments?: Attachment[];
  model?: { id: string };
}

export interface Turn {
  id: string;
  startedAt?: string;
  duration?: number;
  message: Message;
  responseParts: Part[];
  usage?: Usage;
  /** Missing while the turn runs. */
  state?: "complete" | "cancelled" | "error";
}

export type Part =
  | { kind: "markdown" | "reasoning"; id: string; content: string }
  | { kind: "toolCall"; toolCall: ToolCall }
  | { kind: "contentRef"; uri: Uri; contentType?: string }
  | { kind: "systemNotification"; content: Text }
  | { kind: "inputRequest"; request: InputRequest; response?: "accept" | "decline" | "cancel" }
  | { kind: "error"; error: ErrorInfo; resumable?: boolean };

export interface Option {
  id: string;
  label: string;
  kind: "approve" | "deny";
  group?: number;
}

export interface ContentRef {
  uri: Uri;
  nonce?: string;
  contentType?: string;
}

export interface FileEdit {
  before?: { uri: Uri; content: ContentRef };
  after?: { uri: Uri; content: ContentRef };
  diff?: { added?: number; removed?: number };
}

export interface ToolCall {
  status:
    | "streaming"
    | "pending-confirmation"
    | "running"
    | "auth-required"
    | "pending-result-confirmation"
    | "completed"
    | "cancelled";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  _meta?: Record<string, unknown>;
  partialInput?: string;
  invocationMessage?: Text;
  toolInput?: string | ContentRef;
  confirmationTitle?: Text;
  riskAssessment?: { status: string; reason?: Text; safety?: number };
  edits?: { items: FileEdit[] };
  editable?: boolean;
  options?: Option[];
  confirmed?: string;
  selectedOption?: Option;
  content?: ToolContent[];
  success?: boolean;
  pastTenseMessage?: Text;
  error?: { message?: string };
  reason?: string;
  reasonMessage?: Text;
  auth?: { resource: { resource: string; resource_name?: string }; description?: string };
}

export type ToolContent =
  | { type: "text"; text: string }
  | { type: "embeddedResource"; data: string; contentType: string }
  | { type: "resource"; uri: Uri; contentType?: string }
  | ({ type: "fileEdit" } & FileEdit)
  | { type: "terminal"; resource: Uri; title: string; isPty?: boolean; result?: { exitCode?: number; preview?: string } }
  | { type: "subagent"; resource: Uri; title: string; agentName?: string; description?: string };

export interface Question {
  kind: string;
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  format?: string;
  min?: number;
  max?: number;
  defaultValue?: unknown;
  options?: { id: string; label: string; description?: string; recommended?: boolean }[];
  allowFreeformInput?: boolean;
}

export interface Answer {
  state: "draft" | "submitted" | "skipped";
  value?: { kind: string; value: unknown; freeformValues?: string[] };
}

export interface InputRequest {
  id: string;
  message?: string;
  url?: Uri;
  questions?: Question[];
  answers?: Record<string, Answer>;
}

export interface PendingMessage {
  id: string;
  message: Message;
}

export interface ChatState {
  resource: Uri;
  title: string;
  status: number;
  activity?: string;
  modifiedAt: string;
  origin?: ChatSummary["origin"];
  interactivity?: string;
  turns: Turn[];
  turnsNextCursor?: string;
  activeTurn?: Turn;
  steeringMessage?: PendingMessage;
  queuedMessages?: PendingMessage[];
  draft?: Message;
  backgroundWork?: { kind: string; id: string; label: string; startedAt: string; chat?: Uri; terminal?: Uri }[];
}

export interface TerminalInfo {
  resource: Uri;
  title: string;
  claim: { kind: string; session?: Uri; chat?: Uri; toolCallId?: string; clientId?: string };
  lifecycle: { status: string; exitCode?: number };
}

export interface TerminalState {
  title: string;
  cwd?: Uri;
  cols?: number;
  rows?: number;
  content: TerminalPart[];
  lifecycle: { status: string; exitCode?: number };
}

export type TerminalPart =
  | { type: "unclassified"; value: string }
  | { type: "command"; commandId: string; commandLine: string; output: string; isComplete: boolean; exitCode?: number };

export interface Changeset {
  label: string;
  uriTemplate: string;
  description?: string;
  changeKind: string;
  capabilities?: { review?: object };
}

export interface ChangesetFile {
  id: string;
  edit: FileEdit;
  reviewed?: boolean;
}

export interface Operation {
  id: string;
  label: string;
  description?: string;
  scopes: string[];
  confirmation?: Text;
  status: string;
  error?: ErrorInfo;
}

export interface ChangesetState {
  status: string;
  error?: ErrorInfo;
  files: ChangesetFile[];
  operations?: Operation[];
}

export interface Position {
  line: number;
  character: number;
}

export interface Annotation {
  id: string;
  origin: { session: Uri; chat?: Uri; turnId?: string };
  resource: Uri;
  range?: { start: Position; end: Position };
  resolved: boolean;
  entries: { id: string; text: Text }[];
}

export interface AnnotationsState {
  annotations: Annotation[];
}

export interface AutomationRun {
  resource: Uri;
  lifecycle: { status: string; createdAt: string; startedAt?: string; completedAt?: string; error?: ErrorInfo };
  origin: { kind: string };
  primarySession?: Uri;
}

export interface Automation {
  resource: Uri;
  definition: {
    title: string;
    message: Message;
    enabled: boolean;
    session: { workingDirectories?: Uri[]; config?: Record<string, unknown> };
    triggers: { kind: string; id: string; schedule?: { expression: string; timeZone: string } }[];
  };
  nextRunAt?: string;
  runCount?: number;
  runs: AutomationRun[];
}

export interface AutomationState {
  entries: Automation[];
}

/** Actions are distinguished by `type`; the reducers read the other fields. */
export type Action = { type: string } & Record<string, any>;

export interface Envelope {
  channel: Uri;
  action: Action;
  serverSeq: number;
  origin?: { clientId: string; clientSeq: number };
  rejectionReason?: string;
}

export interface Snapshot {
  resource: Uri;
  state: object;
  fromSeq: number;
}

export interface InitializeResult {
  protocolVersion: string;
  serverSeq: number;
  snapshots: Snapshot[];
  serverInfo?: { name: string; version?: string; title?: string };
  defaultDirectory?: Uri;
  completionTriggerCharacters?: string[];
  terminalCommandPrefix?: string;
  automations?: object;
}

/** A message that was searched for. */
export interface Hit {
  session: Uri;
  chat?: Uri;
  role: string;
  snippet: string;
  matches: [number, number][];
}

/** Something that the agent has noted to do. */
export interface Todo {
  id: string;
  title?: string;
  description?: string;
  status?: string;
}

export interface CompletionItem {
  insertText: string;
  rangeStart?: number;
  rangeEnd?: number;
  attachment: Attachment;
}

//! Fixed vocabularies (string enums) of event fields.

use crate::macros::words;

words! {
    "Why a turn was aborted." AbortReason {
        UserInitiated = "user_initiated", RemoteCommand = "remote_command", UserAbort = "user_abort",
        AutopilotCreditLimit = "autopilot_credit_limit",
    }
    "The mode a session works in." SessionMode { Interactive = "interactive", Plan = "plan", Autopilot = "autopilot" }
    "The mode that was active when a message was sent." AgentMode {
        Interactive = "interactive", Plan = "plan", Autopilot = "autopilot", Shell = "shell",
    }
    "How a user message reached the loop: it started it, steered it, or waited in the queue." Delivery {
        Idle = "idle", Steering = "steering", Queued = "queued",
    }
    "Who a prompt speaks as." SystemRole { System = "system", Developer = "developer" }
    "How a session ended." ShutdownType { Routine = "routine", Error = "error" }
    "How a tool is called: with JSON arguments, or with a text of its own grammar." ToolRequestType {
        Function = "function", Custom = "custom",
    }
    "How much of its reasoning a model is asked to summarise." ReasoningSummary {
        None = "none", Concise = "concise", Detailed = "detailed",
    }
    "How wordy a model is asked to be." Verbosity { Low = "low", Medium = "medium", High = "high" }
    "Size of the context window that was chosen." ContextTier { Default = "default", LongContext = "long_context" }
    "What automatic model choice prefers." AutoTier {
        Efficiency = "efficiency", Balance = "balance", Intelligence = "intelligence", Fast = "fast",
    }
    "Why automatic model choice keeps its preference." AutoTierFailure {
        PolicyRejected = "policy_rejected", RequestFailed = "request_failed", SetupFailed = "setup_failed",
        Unsupported = "unsupported",
    }
    "Where a model change came from." ModelChangeSource {
        ModelCommand = "model_command", SettingsCommand = "settings_command", ConfigCommand = "config_command",
        ModelPicker = "model_picker", ManagedSettings = "managed_settings", RepoSettings = "repo_settings",
        Startup = "startup", Agent = "agent", PlanMode = "plan_mode", Automatic = "automatic", Sdk = "sdk",
    }
    "What a person must do to recover from an error." Remediation {
        SignIn = "sign_in", SwitchAccount = "switch_account", ShowAccount = "show_account",
        ReviewSandboxPolicy = "review_sandbox_policy", AllowSandboxOutbound = "allow_sandbox_outbound",
    }
    "What made compaction start." CompactionTrigger {
        Threshold = "threshold", ContextLimitRetry = "context_limit_retry", Manual = "manual",
        MemoryPressure = "memory_pressure", ModelSwitch = "model_switch",
    }
    "What was decided about a task that claims to be complete." TaskOutcome {
        Completed = "completed", Continue = "continue", Blocked = "blocked",
    }
    "Where a repository is hosted." RepositoryHostType { Github = "github", Ado = "ado" }
    "How a permission request ended." PermissionResultKind {
        Approved = "approved", ApprovedForSession = "approved-for-session",
        ApprovedForLocation = "approved-for-location", Cancelled = "cancelled", DeniedByRules = "denied-by-rules",
        DeniedNoApprovalRule = "denied-no-approval-rule-and-could-not-request-from-user",
        DeniedByUser = "denied-interactively-by-user", DeniedByContentExclusion = "denied-by-content-exclusion-policy",
        DeniedByHook = "denied-by-permission-request-hook",
    }
    "Who decided about a permission." PermissionDecisionSource {
        AssistedApproval = "assisted_approval", HumanResponse = "human_response", HostPolicy = "host_policy",
        UnattendedFallback = "unattended_fallback", AuthorizationCarryForward = "authorization_carry_forward",
    }
    "How permissions are asked for." PermissionMode { Manual = "manual", Assisted = "assisted", AllowAll = "allow-all" }
    "What is asked before tools run." ApprovalMode {
        Ask = "ask", AutoSafe = "auto-safe", AutoEdit = "auto-edit", ApproveAll = "approve-all", DenyAll = "deny-all",
    }
    "What a message waits for: the end of the running turn, or the turn's next model call." MessageLane {
        Next = "next", Steer = "steer",
    }
    "What people are asked for." AskedKind {
        Permission = "permission", UserInput = "user_input", Elicitation = "elicitation",
        ExitPlanMode = "exit_plan_mode",
    }
    "Why a message that waited is not said." RemovalReason {
        Removed = "removed", Aborted = "aborted", Failed = "failed",
    }
    "What a chat began as." ChatBeginning { User = "user", Fork = "fork", SideChat = "side_chat" }
    "What a permission rule does." RuleEffect { Deny = "deny", Ask = "ask", Allow = "allow" }
    "What is done with a memory." MemoryAction { Store = "store", Vote = "vote" }
    "A vote on a memory." MemoryDirection { Upvote = "upvote", Downvote = "downvote" }
    "Who a memory is for." MemoryScope { Repository = "repository", User = "user" }
    "How structured input is asked for." ElicitationMode { Form = "form", Url = "url" }
    "The type of a form's schema." SchemaType { Object = "object" }
    "What the user did with a form." ElicitationAction { Accept = "accept", Decline = "decline", Cancel = "cancel" }
    "What the user can do with a plan." ExitPlanModeAction {
        ExitOnly = "exit_only", Interactive = "interactive", Autopilot = "autopilot",
        AutopilotFleet = "autopilot_fleet",
    }
    "The answer to the offer to switch models automatically." AutoModeSwitchResponse {
        Yes = "yes", YesAlways = "yes_always", No = "no",
    }
    "What the user chose when the session limit was used up." LimitsAction {
        Add = "add", Set = "set", Unset = "unset", Cancel = "cancel",
    }
    "Where a shell command printed something." ShellStream { Stdout = "stdout", Stderr = "stderr", Terminal = "terminal" }
    "What was done to a file." FileOperation { Create = "create", Update = "update", Delete = "delete" }
    "Who made a schedule." ScheduleOrigin { User = "user", Model = "model" }
    "What a binary asset is." BinaryType { Image = "image", Resource = "resource" }
    "Why binary data is not in the log." OmittedReason { TooLarge = "too_large", AssetUnavailable = "asset_unavailable" }
    "What a GitHub reference points at." GithubReferenceType { Issue = "issue", Pr = "pr", Discussion = "discussion" }
    "How a model was called." Transport { Http = "http", Websocket = "websocket" }
    "The wire a model was called by." ApiEndpoint {
        ChatCompletions = "/chat/completions", Messages = "/v1/messages", Responses = "/responses",
        ResponsesSocket = "ws:/responses",
    }
    "Whether a model call failed by its answer or on the way." FailureKind { Api = "api", Transport = "transport" }
    "What a failed model call was for." FailureSource {
        TopLevel = "top_level", Subagent = "subagent", McpSampling = "mcp_sampling",
    }
    "What was in the answer to a bad request." BadRequestKind {
        Bodyless = "bodyless", StructuredError = "structured_error",
    }
    "How a model call ended." CallOutcome {
        Success = "success", Error = "error", Cancelled = "cancelled", Rejected = "rejected",
    }
    "What the agent was doing when it was interrupted." InterruptedActivity {
        ModelCall = "model_call", RetryBackoff = "retry_backoff", ToolCall = "tool_call",
        BackgroundAgent = "background_agent",
    }
    "Where in a model call an interruption fell." CancelPhase {
        PreFirstToken = "pre_first_token", MidStream = "mid_stream",
    }
    "What made a skill load." SkillTrigger {
        UserInvoked = "user-invoked", AgentInvoked = "agent-invoked", ContextLoad = "context-load",
    }
    "Where a skill was found." SkillSource {
        Project = "project", Inherited = "inherited", PersonalCopilot = "personal-copilot",
        PersonalAgents = "personal-agents", Plugin = "plugin", Custom = "custom", Builtin = "builtin", Sdk = "sdk",
    }
    "Whether the models of an agent are a wish or a must." ModelPolicy { Preferred = "preferred", Required = "required" }
    "Where the model of a sub-agent was given." TaskModelSource {
        TaskArgument = "task_argument", SubagentConfiguration = "subagent_configuration",
        CustomAgentDefinition = "custom_agent_definition", Unset = "unset",
    }
    "Who chose the model of a sub-agent." ModelSelectionSource {
        ExplicitOverride = "explicit_override", ConfiguredRequired = "configured_required",
        ConfiguredPreference = "configured_preference", ComplementaryDefault = "complementary_default",
        SessionInheritance = "session_inheritance", AgentDefinitionDefault = "agent_definition_default",
        RuntimePolicy = "runtime_policy",
    }
    "State of the connection to an MCP server." McpStatus {
        Connected = "connected", Failed = "failed", NeedsAuth = "needs-auth", Pending = "pending",
        Disabled = "disabled", Stopped = "stopped", NotConfigured = "not_configured",
    }
    "Where an MCP server was configured." McpSource {
        User = "user", Workspace = "workspace", Plugin = "plugin", Builtin = "builtin", Managed = "managed",
    }
    "How an MCP server is spoken to." McpTransport { Stdio = "stdio", Http = "http", Sse = "sse", Memory = "memory" }
    "Why OAuth credentials are asked for." OauthReason {
        Initial = "initial", Refresh = "refresh", Reauth = "reauth", Upscope = "upscope",
    }
    "How an OAuth request ended." OauthOutcome { Token = "token", Cancelled = "cancelled" }
    "How a background agent ended." AgentStatus { Completed = "completed", Failed = "failed" }
    "Where managed settings came from." ManagedSource {
        None = "none", Server = "server", Device = "device", Client = "client", PolicyHelper = "policyHelper",
        Mixed = "mixed",
    }
}

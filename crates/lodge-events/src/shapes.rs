//! Shapes that event fields are made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::macros::{shapes, union};
use crate::{
    AgentStatus, LimitsAction, McpSource, McpStatus, McpTransport, ModelPolicy, Remediation, RepositoryHostType,
    SchemaType, SkillSource, ToolRequestType,
};

shapes! {
    ToolRequest "A tool call the assistant asks for." {
        tool_call_id: String = "Identifier of the call.",
        name: String = "Name of the tool, such as `bash`.",
        arguments? Value = "Arguments of the call.",
        type_? ToolRequestType = "How it is called; `function` when absent.",
        tool_title? String = "Name of the tool for people.",
        mcp_server_name? String = "MCP server that has the tool.",
        mcp_tool_name? String = "Name of the tool on that server.",
        intention_summary? String = "What this call is for.",
        caller? Value = "Hosted program that asked for the call.",
    }
    ToolResult "What a tool gave back." {
        content: String = "Result for the model, possibly shortened.",
        detailed_content? String = "Full result for people, such as a diff.",
        contents? Vec<ContentBlock> = "Structured blocks.",
        binary_results_for_llm? Vec<Value> = "Images and other bytes for the model.",
        ui_resource? Value = "Interface an MCP tool brings along.",
        structured_content? Value = "Structured answer of an MCP tool.",
        citable_sources? Vec<Value> = "Sources the model may cite.",
        mcp_meta? Value = "Labels an MCP server put on its answer.",
    }
    ToolError "Why a tool failed." {
        message: String = "The error, for people.",
        code? String = "`failure`, `denied`, `rejected` or a code of the tool.",
        remediation? Remediation = "What the user must do to recover.",
    }
    ShellToolInfo "What a shell command may touch." {
        possible_paths: Vec<String> = "Paths it may read or write.",
        has_write_file_redirection: bool = "Whether it redirects output to a file.",
        display_command? String = "The command without a needless leading `cd`.",
    }
    ShellExecution "How a shell command ended." {
        exit_code: i64 = "Its exit code.",
    }
    TextBlock "Text." {
        text: String = "The text.",
    }
    TerminalBlock "Output of a terminal." {
        text: String = "The output.",
        exit_code? i64 = "Exit code, when the command has ended.",
        cwd? String = "Directory it ran in.",
    }
    ShellExitBlock "End of a command in a shell session." {
        shell_id: String = "The shell.",
        exit_code: i64 = "Exit code.",
        cwd? String = "Directory it ran in.",
        output_preview? String = "Its output, or the beginning of it.",
        output_truncated? bool = "Whether that is not all.",
        output_file_path? String = "File with all of it.",
    }
    ImageBlock "An image." {
        data: String = "The bytes in base64.",
        mime_type: String = "MIME type.",
    }
    AudioBlock "A sound." {
        data: String = "The bytes in base64.",
        mime_type: String = "MIME type.",
    }
    ResourceLinkBlock "A link to a resource of an MCP server." {
        name: String = "Its name.",
        uri: String = "Its address.",
        title? String = "Its name for people.",
        description? String = "What it is.",
        mime_type? String = "MIME type.",
        size? u64 = "Size in bytes.",
        icons? Vec<Value> = "Its icons.",
    }
    ResourceBlock "An embedded resource." {
        resource: ResourceContents = "The resource.",
    }
    ResourceContents "Content of a resource: text or bytes." {
        uri: String = "Its address.",
        mime_type? String = "MIME type.",
        text? String = "The text.",
        blob? String = "The bytes in base64.",
    }
    QuotaSnapshot "State of a quota." {
        is_unlimited_entitlement: bool = "Whether there is no limit.",
        entitlement_requests: i64 = "Requests allowed; -1 for no limit.",
        used_requests: u64 = "Requests used.",
        usage_allowed_with_exhausted_quota: bool = "Whether use may continue when it is used up.",
        overage: f64 = "Requests beyond the limit.",
        overage_allowed_with_exhausted_quota: bool = "Whether overage is allowed.",
        remaining_percentage: f64 = "What is left, 0 to 100.",
        reset_date? String = "When it resets.",
        has_quota? bool = "Whether there is anything left to use.",
        token_based_billing? bool = "Whether tokens are billed and not requests.",
        overage_entitlement? f64 = "The overage limit, in credits.",
    }
    CopilotUsage "Itemised cost of a model call." {
        model? String = "Model billed unless an item names another.",
        token_details? Vec<UsageTokenDetail> = "The items.",
        total_nano_aiu: f64 = "Cost in billionths of an AI unit.",
    }
    UsageTokenDetail "One item of a model call's cost." {
        batch_size: u64 = "Tokens in a batch.",
        cost_per_batch: u64 = "Cost of a batch.",
        model? String = "Model billed.",
        token_count: u64 = "Tokens.",
        token_type: String = "Kind of tokens, such as `input`.",
    }
    RequestFingerprint "Counts that describe a request without its content." {
        message_count: u64 = "Messages.",
        tool_result_message_count: u64 = "Tool results among them.",
        tool_call_count: u64 = "Tool calls.",
        nameless_tool_call_count: u64 = "Tool calls without a name.",
        image_part_count: u64 = "Images.",
        image_parts_missing_media_type: u64 = "Images without a media type.",
        last_message_role? String = "Role of the last message.",
    }
    BackgroundTasks "Work that goes on in the background." {
        agents: Vec<BackgroundAgent> = "Agents at work.",
        shells: Vec<BackgroundShell> = "Shells at work.",
    }
    BackgroundAgent "An agent at work in the background." {
        agent_id: String = "Identifier of the agent.",
        agent_type: String = "Kind of agent.",
        description? String = "What it does.",
    }
    BackgroundShell "A shell at work in the background." {
        shell_id: String = "Identifier of the shell.",
        description? String = "What it runs.",
    }
    CompactionTokensUsed "Tokens a summary cost, by the event guide's names and by today's." {
        input? u64 = "Input tokens, by the event guide's name.",
        output? u64 = "Output tokens, by the event guide's name.",
        cached_input? u64 = "Cached input tokens, by the event guide's name.",
        input_tokens? u64 = "Input tokens.",
        output_tokens? u64 = "Output tokens.",
        cache_read_tokens? u64 = "Tokens read from the prompt cache.",
        cache_write_tokens? u64 = "Tokens written to the prompt cache.",
        copilot_usage? CopilotUsage = "Itemised cost.",
        duration? u64 = "Milliseconds the call took.",
        model? String = "Model that summarised.",
    }
    CodeChanges "What a session changed in files." {
        lines_added: u64 = "Lines added.",
        lines_removed: u64 = "Lines removed.",
        files_modified: Vec<String> = "Files changed.",
    }
    ModelMetric "Usage of one model." {
        requests: ModelRequests = "Calls.",
        usage: ModelUsage = "Tokens.",
        total_nano_aiu? f64 = "Cost in billionths of an AI unit.",
        token_details? BTreeMap<String, TokenDetail> = "Tokens by kind.",
    }
    ModelRequests "Calls of a model." {
        count? u64 = "How many.",
        cost? f64 = "What they cost in the provider's unit.",
    }
    ModelUsage "Tokens of a model." {
        input_tokens: u64 = "Input tokens.",
        output_tokens: u64 = "Output tokens.",
        cache_read_tokens: u64 = "Tokens read from the prompt cache.",
        cache_write_tokens: u64 = "Tokens written to the prompt cache.",
        reasoning_tokens? u64 = "Output tokens spent on reasoning.",
    }
    TokenDetail "Tokens of one kind." {
        token_count: u64 = "How many.",
    }
    AgentMetric "Usage of one agent." {
        agent_name? String = "Its internal name.",
        agent_display_name? String = "Its name for people.",
        total_api_duration_ms: u64 = "Milliseconds spent in model calls.",
        total_nano_aiu: f64 = "Cost in billionths of an AI unit.",
        model_metrics: BTreeMap<String, ModelMetric> = "Usage by model.",
    }
    WorkingDirectoryContext "Directory and repository a session works in." {
        cwd: String = "Working directory.",
        git_root? String = "Root of the git repository.",
        repository? String = "Repository as `owner/name`.",
        host_type? RepositoryHostType = "Where the repository is hosted.",
        repository_host? String = "Host in the remote's address.",
        branch? String = "Current branch.",
        head_commit? String = "Current commit.",
        base_commit? String = "Commit the branch started from.",
        pending_git_context? bool = "True when the repository is still being looked at.",
    }
    SessionLimits "Limits of a session." {
        max_ai_credits? f64 = "Credits it may use.",
    }
    LimitsAnswer "What the user decided about the session limit." {
        action: LimitsAction = "The decision.",
        additional_ai_credits? f64 = "Credits to add.",
        max_ai_credits? f64 = "New limit.",
    }
    GithubMcpToolConfig "GitHub tools of a session." {
        enable_all_tools? bool = "All of them, writing ones included.",
        additional_toolsets? Vec<String> = "Sets of tools to add.",
        additional_tools? Vec<String> = "Tools to add.",
        enable_insiders_mode? bool = "Whether to use the preview.",
    }
    ElicitationSchema "The fields of a form, as a JSON Schema of type `object`." {
        type_: SchemaType = "Always `object`.",
        properties: Map<String, Value> = "The fields.",
        required? Vec<String> = "Fields that must be filled.",
    }
    PromptMetadata "The template a prompt was made from." {
        prompt_version? String = "Its version.",
        variables? Map<String, Value> = "What was filled in.",
    }
    HookError "Why a hook failed." {
        message: String = "The error.",
        stack? String = "Where it happened.",
        source? String = "Which hook it was.",
    }
    UiCapabilities "Abilities of the user interface." {
        elicitation? bool = "Can show forms.",
        mcp_apps? bool = "Can show interfaces of MCP tools.",
        canvases? bool = "Can show canvases.",
    }
    CommandInfo "A slash command of a client." {
        name: String = "Name without the slash.",
        description? String = "What it does.",
    }
    CanvasInfo "A canvas that a client provides." {
        canvas_id: String = "Its name, unique to the provider.",
        extension_id: String = "Who provides it.",
        extension_name? String = "Name of the provider for people.",
        display_name: String = "Name for people.",
        description: String = "What it shows.",
        icon? String = "Path of a PNG on the host.",
        input_schema? Value = "JSON schema of what it is opened with.",
        actions? Vec<CanvasActionInfo> = "What can be done in it.",
    }
    CanvasActionInfo "Something that can be done in an open canvas." {
        name: String = "Its name.",
        description? String = "What it does.",
        input_schema? Value = "JSON schema of its input.",
    }
    CustomAgent "A custom agent." {
        id: String = "Identifier.",
        name: String = "Internal name.",
        display_name: String = "Name for people.",
        description: String = "What it does.",
        source: String = "Where it was found: `user`, `project`, `inherited`, `remote` or `plugin`.",
        tools~ Vec<String> = "Tools it may use; null for all.",
        user_invocable: bool = "Whether the user can choose it.",
        disable_model_invocation? bool = "Whether the model may not choose it.",
        model? String = "Model it runs with.",
        models? Vec<String> = "Models it wants, best first.",
        model_policy? ModelPolicy = "Whether those are a preference or a requirement.",
    }
    SkillInfo "A skill." {
        name: String = "Name.",
        command_name? String = "Slash command that loads it, without the slash.",
        description: String = "What it is for.",
        source: SkillSource = "Where it was found.",
        user_invocable: bool = "Whether the user can load it.",
        enabled: bool = "Whether it is on.",
        path? String = "Its file.",
        argument_hint? String = "Arguments it expects.",
    }
    McpServer "An MCP server and its state." {
        name: String = "Name in the configuration.",
        status: McpStatus = "Its state.",
        source? McpSource = "Where it was configured.",
        display_name? String = "Name for people.",
        error? String = "The error, when it failed.",
        server_metadata? McpServerMetadata = "What the server says about itself.",
        transport? McpTransport = "How it is reached.",
        plugin_name? String = "Plugin it comes from.",
        plugin_version? String = "Version of the plugin.",
    }
    McpServerMetadata "What an MCP server says about itself." {
        instructions~ String = "How to use it.",
    }
    OauthClientConfig "An OAuth client." {
        client_id: String = "Its id.",
        client_secret? String = "Its secret.",
        public_client? bool = "Whether it has none.",
        grant_type? String = "`client_credentials`, when not the default.",
    }
    OauthChallenge "What a `WWW-Authenticate` header said." {
        resource_metadata_url? String = "Where the metadata is.",
        scope? String = "Scopes wanted.",
        error? String = "The error.",
    }
    OauthHttpResponse "A challenge as it came." {
        status_code: u64 = "HTTP status.",
        headers: Vec<HeaderEntry> = "Headers.",
        body? String = "Body.",
    }
    HeaderEntry "One HTTP header." {
        name: String = "Name.",
        value: String = "Value.",
    }
    AgentCompleted "A background agent ended." {
        agent_id: String = "The agent.",
        display_name? String = "Its name for people.",
        agent_type: String = "Kind of agent.",
        status: AgentStatus = "How it ended.",
        description? String = "What it did.",
        prompt? String = "What it was asked.",
    }
    AgentIdle "A background agent waits for a message." {
        agent_id: String = "The agent.",
        display_name? String = "Its name for people.",
        agent_type: String = "Kind of agent.",
        description? String = "What it does.",
    }
    NewInboxMessage "A message is in the agent's inbox." {
        entry_id: String = "The entry.",
        sender_name: String = "Who sent it.",
        sender_type: String = "Kind of sender.",
        summary: String = "What it is about.",
    }
    ShellCompleted "A background command ended." {
        shell_id: String = "The shell.",
        exit_code? i64 = "Exit code.",
        description? String = "What it ran.",
    }
    ShellDetachedCompleted "A detached command ended." {
        shell_id: String = "The shell.",
        description? String = "What it ran.",
    }
    InstructionDiscovered "A file with instructions was found." {
        source_path: String = "The file.",
        trigger_file: String = "File whose reading led to it.",
        trigger_tool: String = "Tool that read it.",
        description? String = "Label for people.",
    }
    Unclassified "Something else." {
        metadata? Value = "What its source says about it.",
    }
}

union! {
    ContentBlock by "type" "A block of a tool's result." {
        "text" Text(TextBlock),
        "terminal" Terminal(TerminalBlock),
        "shell_exit" ShellExit(ShellExitBlock),
        "image" Image(ImageBlock),
        "audio" Audio(AudioBlock),
        "resource_link" ResourceLink(ResourceLinkBlock),
        "resource" Resource(ResourceBlock),
    }
}

union! {
    Notification by "type" "What a system notification is about." {
        "agent_completed" AgentCompleted(AgentCompleted),
        "agent_idle" AgentIdle(AgentIdle),
        "new_inbox_message" NewInboxMessage(NewInboxMessage),
        "shell_completed" ShellCompleted(ShellCompleted),
        "shell_detached_completed" ShellDetachedCompleted(ShellDetachedCompleted),
        "instruction_discovered" InstructionDiscovered(InstructionDiscovered),
        "unclassified" Unclassified(Unclassified),
    }
}

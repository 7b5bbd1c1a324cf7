//! Permission requests and their results.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::macros::{shapes, union};
use crate::{MemoryAction, MemoryDirection, MemoryScope, PermissionResultKind};

shapes! {
    ShellPermission "Run a shell command." {
        tool_call_id? String = "Tool call that needs the permission.",
        full_command_text: String = "The whole command.",
        intention: String = "What it is for.",
        commands: Vec<ShellCommand> = "Programs it calls.",
        possible_paths: Vec<String> = "Paths it may read or write.",
        possible_urls! Vec<PossibleUrl> = "Addresses it may reach.",
        has_write_file_redirection! bool = "Whether it redirects output to a file.",
        can_offer_session_approval! bool = "Whether the user may approve it for the whole session.",
        warning? String = "What is risky about it.",
        command_segments? Vec<CommandSegment> = "Its parts, with arguments.",
        resolved_working_directory? String = "Directory it runs in.",
        resolved_paths? BTreeMap<String, String> = "What the paths really point at.",
        managed_approval_required? bool = "Whether policy wants a person to answer.",
        request_sandbox_bypass? bool = "Whether it wants to run outside the sandbox.",
        request_sandbox_permissive? bool = "Whether a permissive sandbox would do.",
        request_sandbox_bypass_reason? String = "Why.",
    }
    ShellCommand "A program a command calls." {
        identifier: String = "Its name.",
        read_only: bool = "Whether it changes nothing.",
    }
    CommandSegment "A part of a command." {
        identifier: String = "Name of the program.",
        full_command_text: String = "The part, with arguments.",
    }
    PossibleUrl "An address a command may reach." {
        url: String = "The address.",
    }
    WritePermission "Write a file." {
        tool_call_id? String = "Tool call that needs the permission.",
        intention: String = "What it is for.",
        file_name: String = "The file.",
        diff: String = "The change as a unified diff.",
        new_file_contents? String = "Content of a new file.",
        can_offer_session_approval! bool = "Whether the user may approve it for the whole session.",
        resolved_path? String = "What the path really points at.",
        managed_approval_required? bool = "Whether policy wants a person to answer.",
        request_sandbox_bypass? bool = "Whether it wants to write outside the sandbox.",
        request_sandbox_bypass_reason? String = "Why.",
    }
    ReadPermission "Read a file or directory." {
        tool_call_id? String = "Tool call that needs the permission.",
        intention: String = "What it is for.",
        path: String = "The path.",
        resolved_path? String = "What the path really points at.",
        managed_approval_required? bool = "Whether policy wants a person to answer.",
        request_sandbox_bypass? bool = "Whether it wants to read outside the sandbox.",
        request_sandbox_bypass_reason? String = "Why.",
    }
    McpPermission "Call a tool of an MCP server." {
        tool_call_id? String = "Tool call that needs the permission.",
        server_name: String = "The server.",
        tool_name: String = "Internal name of the tool.",
        tool_title: String = "Its name for people.",
        args? Value = "Arguments of the call.",
        read_only: bool = "Whether the tool changes nothing.",
        permission_recommendation? String = "What the host recommends.",
    }
    UrlPermission "Fetch an address." {
        tool_call_id? String = "Tool call that needs the permission.",
        intention: String = "What it is for.",
        url: String = "The address.",
        redirected_from? String = "Address that redirected here.",
        managed_approval_required? bool = "Whether policy wants a person to answer.",
        request_sandbox_bypass? bool = "Whether it wants to go outside the sandbox.",
        request_sandbox_bypass_reason? String = "Why.",
    }
    MemoryPermission "Store a memory, or vote on one." {
        tool_call_id? String = "Tool call that needs the permission.",
        action? MemoryAction = "Store or vote.",
        subject? String = "What it is about.",
        fact: String = "The fact.",
        citations? String = "Where it comes from.",
        direction? MemoryDirection = "The vote.",
        reason? String = "Why the vote.",
        scope? MemoryScope = "Who it is for.",
        repo_nwo? String = "Repository it belongs to.",
    }
    CustomToolPermission "Call a tool that a client provides." {
        tool_call_id? String = "Tool call that needs the permission.",
        tool_name: String = "Name of the tool.",
        tool_description: String = "What it does.",
        args? Value = "Arguments of the call.",
        skip_permission? bool = "Whether the tool says it needs no permission.",
    }
    HookPermission "Continue with a tool call that a hook holds back." {
        tool_call_id? String = "Tool call that needs the permission.",
        tool_name: String = "Name of the tool.",
        tool_args? Value = "Arguments of the call.",
        hook_message? String = "What the hook says.",
    }
    PermissionResult "How a permission request ended. Which of the fields are there depends on `kind`." {
        kind: PermissionResultKind = "The result.",
        rules? Vec<PermissionRule> = "Rules that denied it (`denied-by-rules`).",
        path? String = "Path that is excluded (`denied-by-content-exclusion-policy`).",
        message? String = "Explanation (`denied-by-content-exclusion-policy`, `denied-by-permission-request-hook`).",
        feedback? String = "What the user says (`denied-interactively-by-user`).",
        force_reject? bool = "Whether the turn ends with it (`denied-interactively-by-user`).",
        interrupt? bool = "Whether the turn ends with it (`denied-by-permission-request-hook`).",
        reason? String = "Why (`cancelled`).",
        approval? Value = "What was approved (`approved-for-session`, `approved-for-location`).",
        location_key? String = "Where it was approved (`approved-for-location`).",
        managed_approval_handled? bool = "Whether policy had already handled it.",
    }
    PermissionRule "A rule that matched a request." {
        kind: String = "Kind of rule, such as `Shell`.",
        argument~ String = "What it was matched against.",
    }
}

union! {
    PermissionRequest by "kind" "What the agent wants permission for." {
        "shell" Shell(ShellPermission),
        "write" Write(WritePermission),
        "read" Read(ReadPermission),
        "mcp" Mcp(McpPermission),
        "url" Url(UrlPermission),
        "memory" Memory(MemoryPermission),
        "custom-tool" CustomTool(CustomToolPermission),
        "hook" Hook(HookPermission),
    }
}

impl McpPermission {
    /// The name used instead of a tool's for a server's sampling request.
    pub const SAMPLING: &'static str = "sampling/createMessage";

    /// Whether the server wants to ask the model, in the middle of a call rather than with one of its own.
    pub fn is_sampling(&self) -> bool {
        self.tool_name == Self::SAMPLING && self.tool_call_id.is_none()
    }
}

impl PermissionRequest {
    /// The tool call that needs the permission.
    pub fn tool_call_id(&self) -> Option<&str> {
        match self {
            Self::Shell(p) => p.tool_call_id.as_deref(),
            Self::Write(p) => p.tool_call_id.as_deref(),
            Self::Read(p) => p.tool_call_id.as_deref(),
            Self::Mcp(p) => p.tool_call_id.as_deref(),
            Self::Url(p) => p.tool_call_id.as_deref(),
            Self::Memory(p) => p.tool_call_id.as_deref(),
            Self::CustomTool(p) => p.tool_call_id.as_deref(),
            Self::Hook(p) => p.tool_call_id.as_deref(),
            Self::Other(value) => value.get("toolCallId").and_then(Value::as_str),
        }
    }

    /// The same request for the given tool call, or for none.
    pub fn with_tool_call_id(mut self, id: Option<String>) -> Self {
        let slot = match &mut self {
            Self::Shell(p) => &mut p.tool_call_id,
            Self::Write(p) => &mut p.tool_call_id,
            Self::Read(p) => &mut p.tool_call_id,
            Self::Mcp(p) => &mut p.tool_call_id,
            Self::Url(p) => &mut p.tool_call_id,
            Self::Memory(p) => &mut p.tool_call_id,
            Self::CustomTool(p) => &mut p.tool_call_id,
            Self::Hook(p) => &mut p.tool_call_id,
            Self::Other(value) => {
                if let Some(object) = value.as_object_mut() {
                    match id {
                        Some(id) => drop(object.insert("toolCallId".into(), id.into())),
                        None => drop(object.remove("toolCallId")),
                    }
                }
                return self;
            }
        };
        *slot = id;
        self
    }

    /// The call that is asked for, as far as the request tells: the tool's name and its arguments.
    pub fn call(&self) -> (&str, Value) {
        let arguments = |arguments: &Option<Value>| arguments.clone().unwrap_or_else(|| json!({}));
        match self {
            Self::Shell(shell) => ("bash", json!({ "command": shell.full_command_text })),
            // Nobody knows what it writes.
            Self::Write(write) if write.diff.is_empty() => ("edit", json!({ "path": write.file_name })),
            Self::Write(write) => {
                let mut head = write.diff.lines().take_while(|line| !line.starts_with("@@"));
                let is_new = head.any(|line| line == "--- /dev/null");
                let name = if is_new { "create" } else { "edit" };
                (name, json!({ "path": write.file_name, "diff": write.diff }))
            }
            Self::Read(read) => ("view", json!({ "path": read.path })),
            Self::Url(url) => ("web_fetch", json!({ "url": url.url })),
            Self::Memory(memory) => ("memory", json!({ "fact": memory.fact })),
            Self::Mcp(mcp) => (&mcp.tool_name, arguments(&mcp.args)),
            Self::CustomTool(tool) => (&tool.tool_name, arguments(&tool.args)),
            Self::Hook(hook) => (&hook.tool_name, arguments(&hook.tool_args)),
            Self::Other(other) => ("tool", other.clone()),
        }
    }

    /// The same request without what it writes and without what is there.
    pub fn without_text(mut self) -> Self {
        if let Self::Write(write) = &mut self {
            (write.diff, write.new_file_contents) = (String::new(), None);
        }
        self
    }

    /// The same request, which policy wants a person to answer. Kinds that cannot say so stay as they are.
    pub fn with_managed_approval(mut self) -> Self {
        match &mut self {
            Self::Shell(p) => p.managed_approval_required = Some(true),
            Self::Write(p) => p.managed_approval_required = Some(true),
            Self::Read(p) => p.managed_approval_required = Some(true),
            Self::Url(p) => p.managed_approval_required = Some(true),
            _ => {}
        }
        self
    }

    /// The same request with something more that a person should know. Only commands can say so.
    pub fn with_warning(mut self, warning: Option<&str>) -> Self {
        if let (Self::Shell(shell), Some(warning)) = (&mut self, warning) {
            shell.warning = Some(match shell.warning.take() {
                Some(before) => format!("{before} {warning}"),
                None => warning.to_owned(),
            });
        }
        self
    }

    /// The request made ready for people, as clients show it (`promptRequest`). `None` for unknown kinds.
    pub fn prompt(&self) -> Option<Value> {
        let not_shown: &[&str] = match self {
            Self::Shell(_) => &[
                "commands",
                "commandSegments",
                "possiblePaths",
                "possibleUrls",
                "hasWriteFileRedirection",
                "resolvedWorkingDirectory",
                "resolvedPaths",
            ],
            Self::Write(_) | Self::Read(_) => &["requestSandboxBypass", "requestSandboxBypassReason"],
            Self::Mcp(_) => &["readOnly"],
            Self::Memory(_) => &["scope", "repoNwo"],
            Self::CustomTool(_) => &["skipPermission"],
            Self::Url(_) | Self::Hook(_) => &[],
            Self::Other(_) => return None,
        };
        let mut prompt = serde_json::to_value(self).ok()?;
        let fields = prompt.as_object_mut()?;
        fields.retain(|name, _| !not_shown.contains(&name.as_str()));
        if let Self::Shell(shell) = self {
            let identifiers: Vec<_> = shell
                .commands
                .iter()
                .map(|command| command.identifier.as_str())
                .collect();
            fields.insert("kind".into(), "commands".into());
            fields.insert("commandIdentifiers".into(), identifiers.into());
        }
        Some(prompt)
    }
}

impl PermissionResult {
    fn with_kind(kind: PermissionResultKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Approved, this once.
    pub fn approved() -> Self {
        Self::with_kind(PermissionResultKind::Approved)
    }

    /// Approved, together with what else the approval covers, for the rest of the session.
    pub fn approved_for_session(approval: Value) -> Self {
        Self {
            approval: Some(approval),
            ..Self::with_kind(PermissionResultKind::ApprovedForSession)
        }
    }

    /// Approved, together with what else the approval covers, whenever one works at this place.
    pub fn approved_for_location(approval: Value, location: impl Into<String>) -> Self {
        let approved = Self::with_kind(PermissionResultKind::ApprovedForLocation);
        Self {
            approval: Some(approval),
            location_key: Some(location.into()),
            ..approved
        }
    }

    /// Denied by rules.
    pub fn denied_by_rules(rules: Vec<PermissionRule>) -> Self {
        Self {
            rules: Some(rules),
            ..Self::with_kind(PermissionResultKind::DeniedByRules)
        }
    }

    /// Denied by the user, who may have said why.
    pub fn denied_by_user(feedback: Option<String>) -> Self {
        Self {
            feedback,
            ..Self::with_kind(PermissionResultKind::DeniedByUser)
        }
    }

    /// Denied because no rule allows it and there is nobody to ask.
    pub fn nobody_to_ask() -> Self {
        Self::with_kind(PermissionResultKind::DeniedNoApprovalRule)
    }

    /// Denied because a path is excluded.
    pub fn excluded(path: impl Into<String>, message: impl Into<String>) -> Self {
        let denied = Self::with_kind(PermissionResultKind::DeniedByContentExclusion);
        Self {
            path: Some(path.into()),
            message: Some(message.into()),
            ..denied
        }
    }

    /// Denied by a hook.
    pub fn denied_by_hook(message: Option<String>) -> Self {
        Self {
            message,
            ..Self::with_kind(PermissionResultKind::DeniedByHook)
        }
    }

    /// Cancelled before an answer came.
    pub fn cancelled(reason: Option<String>) -> Self {
        Self {
            reason,
            ..Self::with_kind(PermissionResultKind::Cancelled)
        }
    }

    /// Whether the agent may go on.
    pub fn is_approved(&self) -> bool {
        use PermissionResultKind::{Approved, ApprovedForLocation, ApprovedForSession};
        matches!(self.kind, Approved | ApprovedForSession | ApprovedForLocation)
    }
}

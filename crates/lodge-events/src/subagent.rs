//! Sub-agents, skills and hooks.

use serde_json::Value;

use crate::macros::events;
use crate::{HookError, ModelSelectionSource, SkillTrigger, TaskModelSource};

events! {
    "Sub-agents, skills and hooks";

    "subagent.started" SubagentStarted persisted seed
        "A sub-agent begins." {
        tool_call_id: String = "Tool call that started it.",
        agent_name: String = "Its internal name.",
        agent_display_name: String = "Its name for people.",
        agent_description: String = "What it does.",
        model? String = "Model it runs with.",
        task_model_source? TaskModelSource = "Where that model was given.",
        model_selection_source? ModelSelectionSource = "Who chose that model.",
        factory_run_id? String = "Factory run that started it.",
        parent_id? String = "Sub-agent that started it; absent for the session itself.",
        resumable? bool = "Whether it can be resumed.",
        agent_type? String = "Kind of agent.",
        execution_mode? String = "Whether it is waited for or runs in the background.",
    }

    "subagent.configured" SubagentConfigured persisted newer
        "How a sub-agent will run." {
        model: String = "Model it runs with.",
        reasoning_effort? String = "Reasoning effort.",
        context_tier? String = "Context size.",
        multi_turn: bool = "Whether it takes further messages.",
    }

    "subagent.completed" SubagentCompleted persisted seed
        "A sub-agent finished successfully." {
        tool_call_id: String = "Matches `subagent.started`.",
        agent_name: String = "Its internal name.",
        agent_display_name: String = "Its name for people.",
        model? String = "Model it ran with.",
        first_dispatched_model? String = "Model it called first.",
        configured_model_preference? String = "Model configured for it.",
        explicit_model_override? String = "Model the parent asked for.",
        explicit_model_matches_preference? bool = "Whether those two agree.",
        model_override_reason? String = "Why the parent's choice was not followed.",
        model_selection_source? ModelSelectionSource = "Who chose the model.",
        configured_model_matches_actual? bool = "Whether the configured model was the one called.",
        total_tool_calls? u64 = "Tool calls it made.",
        total_tokens? u64 = "Tokens it used.",
        duration_ms? u64 = "Milliseconds it took.",
        cancelled? bool = "Whether it was cancelled.",
    }

    "subagent.failed" SubagentFailed persisted seed
        "A sub-agent failed." {
        tool_call_id: String = "Matches `subagent.started`.",
        agent_name: String = "Its internal name.",
        agent_display_name: String = "Its name for people.",
        error: String = "The error.",
        model? String = "Model it ran with.",
        first_dispatched_model? String = "Model it called first.",
        configured_model_preference? String = "Model configured for it.",
        explicit_model_override? String = "Model the parent asked for.",
        explicit_model_matches_preference? bool = "Whether those two agree.",
        model_override_reason? String = "Why the parent's choice was not followed.",
        model_selection_source? ModelSelectionSource = "Who chose the model.",
        configured_model_matches_actual? bool = "Whether the configured model was the one called.",
        total_tool_calls? u64 = "Tool calls it made.",
        total_tokens? u64 = "Tokens it used.",
        duration_ms? u64 = "Milliseconds it took.",
    }

    "subagent.selected" SubagentSelected persisted seed
        "A custom agent takes over the conversation." {
        agent_name: String = "Its internal name.",
        agent_display_name: String = "Its name for people.",
        tools~ Vec<String> = "Tools it may use; null for all.",
    }

    "subagent.deselected" SubagentDeselected persisted seed
        "The default agent is back." {}

    "skill.invoked" SkillInvoked persisted seed
        "A skill was loaded into the conversation." {
        name: String = "Name of the skill.",
        model? String = "Model in use.",
        path: String = "Its SKILL.md.",
        content: String = "Its text, as given to the model.",
        allowed_tools? Vec<String> = "Tools that need no permission while it is active.",
        disable_model_invocation? bool = "Whether the model may not load it by itself.",
        source? String = "Where it was found.",
        plugin_name? String = "Plugin it comes from.",
        plugin_version? String = "Version of the plugin.",
        description? String = "What it is for.",
        trigger? SkillTrigger = "What made it load.",
    }

    "hook.start" HookStart persisted newer
        "A hook begins." {
        hook_invocation_id: String = "Identifier of this run of the hook.",
        hook_type: String = "When it runs, such as `preToolUse`.",
        input? Value = "What it is given.",
        parent_tool_call_id? String = "Set when it runs for a sub-agent.",
    }

    "hook.end" HookEnd persisted newer
        "A hook ended." {
        hook_invocation_id: String = "Matches `hook.start`.",
        hook_type: String = "When it runs, such as `preToolUse`.",
        output? Value = "What it answered.",
        success: bool = "Whether it succeeded.",
        error? HookError = "The error, when it did not.",
        parent_tool_call_id? String = "Set when it runs for a sub-agent.",
    }
}

impl crate::Payload {
    /// Marks data as a sub-agent's, where its type has a place for that: which tool call started the sub-agent.
    pub fn with_parent_tool_call(mut self, tool_call_id: &str) -> Self {
        let place = match &mut self {
            Self::AssistantMessage(data) => &mut data.parent_tool_call_id,
            Self::AssistantMessageDelta(data) => &mut data.parent_tool_call_id,
            Self::AssistantUsage(data) => &mut data.parent_tool_call_id,
            Self::ToolExecutionStart(data) => &mut data.parent_tool_call_id,
            Self::ToolExecutionComplete(data) => &mut data.parent_tool_call_id,
            Self::HookStart(data) => &mut data.parent_tool_call_id,
            Self::HookEnd(data) => &mut data.parent_tool_call_id,
            _ => return self,
        };
        place.get_or_insert_with(|| tool_call_id.to_owned());
        self
    }
}

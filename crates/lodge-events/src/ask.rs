//! Questions that wait for an answer from outside: permissions, input, forms, plans, client tools and client commands.

use serde_json::Value;

use crate::macros::events;
use crate::{
    AutoModeSwitchResponse, ElicitationAction, ElicitationMode, ElicitationSchema, ExitPlanModeAction, LimitsAnswer,
    PermissionDecisionSource, PermissionRequest, PermissionResult, SessionMode,
};

events! {
    "Questions";

    "permission.requested" PermissionRequested ephemeral seed
        "The agent needs permission for something." {
        request_id: String = "Used to answer.",
        permission_request: PermissionRequest = "What it wants to do.",
        prompt_request? Value = "The same, made ready for people.",
        agent_mode? SessionMode = "Mode the session works in.",
        risk_assessment? Value = "What the tool's host says about the risk.",
        resolved_by_hook? bool = "True when a hook has already answered.",
    }

    "permission.completed" PermissionCompleted ephemeral seed
        "A permission request was answered." {
        request_id: String = "Matches `permission.requested`.",
        tool_call_id? String = "Tool call the request was about.",
        result: PermissionResult = "The answer.",
        decision_source? PermissionDecisionSource = "Who decided.",
    }

    "user_input.requested" UserInputRequested ephemeral seed
        "The agent asks the user a question." {
        request_id: String = "Used to answer.",
        question: String = "The question.",
        choices? Vec<String> = "Answers to choose from.",
        allow_freeform? bool = "Whether any text may be the answer.",
        tool_call_id? String = "Tool call that asks.",
    }

    "user_input.completed" UserInputCompleted ephemeral seed
        "A question was answered." {
        request_id: String = "Matches `user_input.requested`.",
        answer? String = "The answer.",
        was_freeform? bool = "Whether it was typed and not chosen.",
    }

    "elicitation.requested" ElicitationRequested ephemeral seed
        "Structured input is needed, by a form or a web page." {
        request_id: String = "Used to answer.",
        tool_call_id? String = "Tool call that asks.",
        elicitation_source? String = "MCP server that asks; absent for the agent.",
        message: String = "What is needed.",
        mode? ElicitationMode = "`form` unless said otherwise.",
        requested_schema? ElicitationSchema = "The fields of the form. Always there in form mode.",
        url? String = "The page, in url mode.",
    }

    "elicitation.completed" ElicitationCompleted ephemeral seed
        "A request for structured input was answered." {
        request_id: String = "Matches `elicitation.requested`.",
        action? ElicitationAction = "What the user did.",
        content? Value = "The fields, when accepted.",
    }

    "external_tool.requested" ExternalToolRequested ephemeral seed
        "A tool that a client provides is called." {
        request_id: String = "Used to answer.",
        session_id: String = "The session.",
        tool_call_id: String = "Identifier of the call.",
        tool_name: String = "Name of the tool.",
        provider_id? String = "Who provides the tool.",
        arguments? Value = "Arguments of the call.",
        working_directory? String = "Working directory of the session.",
        traceparent? String = "W3C trace context of the call.",
        tracestate? String = "W3C trace state of the call.",
    }

    "external_tool.completed" ExternalToolCompleted ephemeral seed
        "A client's tool has answered." {
        request_id: String = "Matches `external_tool.requested`.",
    }

    "command.queued" CommandQueued ephemeral seed
        "A slash command waits to be run." {
        request_id: String = "Used to answer.",
        command: String = "The command's text, such as `/help`.",
    }

    "command.execute" CommandExecute ephemeral newer
        "A client is asked to run its slash command." {
        request_id: String = "Used to answer.",
        command: String = "The whole text, such as `/deploy production`.",
        command_name: String = "Name without the slash.",
        args: String = "What follows the name.",
    }

    "command.completed" CommandCompleted ephemeral seed
        "A slash command was handled." {
        request_id: String = "Matches `command.queued` or `command.execute`.",
    }

    "exit_plan_mode.requested" ExitPlanModeRequested ephemeral seed
        "The agent made a plan and wants to leave plan mode." {
        request_id: String = "Used to answer.",
        summary: String = "The plan in short.",
        plan_content: String = "The plan file.",
        actions: Vec<ExitPlanModeAction> = "What the user can do.",
        recommended_action: ExitPlanModeAction = "What is suggested.",
        model? String = "Model that made the plan.",
    }

    "exit_plan_mode.completed" ExitPlanModeCompleted ephemeral seed
        "The user decided about the plan." {
        request_id: String = "Matches `exit_plan_mode.requested`.",
        approved? bool = "Whether the plan was approved.",
        selected_action? ExitPlanModeAction = "What the user chose.",
        auto_approve_edits? bool = "Whether edits need no further permission.",
        feedback? String = "What the user wants changed.",
    }

    "auto_mode_switch.requested" AutoModeSwitchRequested ephemeral newer
        "The model is rate limited and switching is offered." {
        request_id: String = "Used to answer.",
        error_code? String = "The limit that was hit.",
        retry_after_seconds? u64 = "When the limit ends.",
    }

    "auto_mode_switch.completed" AutoModeSwitchCompleted ephemeral newer
        "The offer to switch was answered." {
        request_id: String = "Matches `auto_mode_switch.requested`.",
        response: AutoModeSwitchResponse = "The answer.",
    }

    "session_limits_exhausted.requested" SessionLimitsExhaustedRequested ephemeral newer
        "The session limit is used up and the user must decide." {
        request_id: String = "Used to answer.",
        used_ai_credits: f64 = "Credits used.",
        max_ai_credits: f64 = "Credits allowed.",
    }

    "session_limits_exhausted.completed" SessionLimitsExhaustedCompleted ephemeral newer
        "The user decided about the session limit." {
        request_id: String = "Matches `session_limits_exhausted.requested`.",
        response: LimitsAnswer = "The decision.",
    }
}

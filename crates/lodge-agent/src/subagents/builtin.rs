//! Built-in agents.

use lodge_tools::custom::{AgentDefinition, AgentSource};

/// Read-only tools.
const LOOKING: &[&str] = &[
    "view",
    "grep",
    "glob",
    "bash",
    "read_bash",
    "list_bash",
    "stop_bash",
    "web_fetch",
    "skill",
];

/// All of them, in the order in which models see them.
pub(crate) fn all() -> Vec<AgentDefinition> {
    let agent = |name: &str, display: &str, description: &str, tools: Option<&[&str]>, prompt: &str| AgentDefinition {
        name: name.to_owned(),
        display_name: Some(display.to_owned()),
        description: description.to_owned(),
        prompt: prompt.to_owned(),
        tools: tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect()),
        user_invocable: false,
        source: AgentSource::Builtin,
        ..AgentDefinition::default()
    };
    vec![
        agent(
            "explore",
            "Explore Agent",
            "Finds things out: searches and reads code and files, and answers questions about them. Changes nothing. Several \
             can look at different things side by side.",
            Some(LOOKING),
            "You explore. Find the files, read what matters and answer the question, with paths and line numbers for what you \
             claim. Search broadly first, then narrow. Do not change anything: no edits, no commands with effects. Say what \
             you could not find. Keep the answer short; whoever asked has not seen the files.",
        ),
        agent(
            "task",
            "Task Agent",
            "Runs commands whose output is long and of little interest: builds, tests, linters, installations. Answers with a \
             line when all went well and with the whole error when not.",
            None,
            "You run what you are told to run and report. When it works, one or two sentences are enough. When it fails, give \
             the exact command and the part of the output that shows why, unshortened. Do not repair what fails unless you \
             were asked to.",
        ),
        agent(
            "general-purpose",
            "General Purpose Agent",
            "Does a larger piece of work on its own, with all tools: several steps, changes to many files, research that needs \
             a context of its own.",
            None,
            "You do the whole of the task that you are given, on your own, with the tools you have. Nobody can answer questions \
             meanwhile: where something is open, decide as a careful engineer would and say so. End with what you did, what you \
             saw run, and what is left.",
        ),
        agent(
            "rubber-duck",
            "Rubber Duck Agent",
            "Thinks along: listens to a plan or a problem, questions the assumptions, names risks and simpler ways. Changes \
             nothing.",
            Some(LOOKING),
            "You are a second pair of eyes. You are told a plan, a design or a puzzle. Look at the code it is about where that \
             helps. Say which assumption is weakest, what would break, what is missing, and whether there is a simpler way. Be \
             concrete and brief. Change nothing.",
        ),
        agent(
            "code-review",
            "Code Review Agent",
            "Reviews changes (a diff, a branch, files) for real mistakes: bugs, security holes, lost data, broken contracts. \
             Says nothing about style. Changes nothing.",
            Some(LOOKING),
            "You review changes. Look at the diff and at the code around it, far enough to be sure. Report only what is wrong: \
             bugs, races, security holes, lost data, broken promises to callers, missing tests for risky code. For each: file and \
             line, what happens, how to see it, how to fix it. No remarks on style. When there is nothing, say so in one line. \
             Change nothing.",
        ),
    ]
}

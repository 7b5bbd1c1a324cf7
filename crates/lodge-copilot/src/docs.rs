//! `docs/sdk.md`, made from the dispatch table, so that it cannot say what is not so.

use std::fmt::Write as _;

use crate::methods::CAPABILITIES;

/// The page: every method that is served, by capability.
pub fn render() -> String {
    let mut page = String::from(HEAD);
    for capability in CAPABILITIES {
        let _ = write!(
            page,
            "\n## {}\n\n| method | what it does | in the SDK's tests |\n|---|---|---|\n",
            capability.title
        );
        for method in capability.methods {
            let _ = writeln!(page, "| `{}` | {} | {} |", method.name, method.summary, method.weight);
        }
    }
    page.push_str(TAIL);
    page
}

const HEAD: &str = "\
# Methods for the Copilot SDKs

Made by `lodge_copilot::docs::render()` from the dispatch table: what stands here is served, what does not answers
`-32601`. The last column is the number of the SDK's own tests that call the method.
";

const TAIL: &str = "
## Calls and notifications to the client

| name | kind | when |
|---|---|---|
| `session.event` | notification | for every event of a session that the client created or resumed |
| `session.lifecycle` | notification | when any session is created, updated or deleted |
| `hooks.invoke` | request | for every hook, when the session was opened with `hooks` |
| `userInput.request` | request | when the agent calls `ask_user`, when opened with `requestUserInput` |
| `exitPlanMode.request` | request | when the agent wants to leave plan mode, when opened with `requestExitPlanMode` |
| `autoModeSwitch.request` | request | when the model is rate limited, when opened with `requestAutoModeSwitch` |
| `systemMessage.transform` | request | for every section of the system prompt whose action is `transform` |
| `sessionFs.readFile`, `writeFile`, `appendFile`, `exists`, `mkdir`, `readdirWithTypes`, `rm`, `sqliteQuery` | request | for the files and the database of a session, when the client keeps them |
| `llmInference.httpRequestStart`, `llmInference.httpRequestChunk` | request | for every model request, when the client carries them |
| `gitHubToken.getToken` | request | when a session whose app gives out GitHub tokens needs one |
| `providerToken.getToken` | request | before every model call of a provider with a bearer-token callback |
";

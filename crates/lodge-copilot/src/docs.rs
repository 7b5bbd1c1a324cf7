//! `docs/sdk.md`, generated from the dispatch table.

use std::fmt::Write as _;

use crate::methods::{CAPABILITIES, absent::ABSENT};

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
    page.push_str(ABSENT_HEAD);
    for (name, reason) in ABSENT {
        let name = match name.ends_with('.') {
            true => format!("{name}*"),
            false => (*name).to_owned(),
        };
        let _ = writeln!(page, "| `{name}` | {reason} |");
    }
    page.push_str(TAIL);
    page
}

const HEAD: &str = "\
# SDK methods

Every method that Lodge serves to the Copilot SDKs. Any other method is answered with `-32601`. To write an app, start with
[sdk-app.md](sdk-app.md).

This page is generated from the dispatch table by `cargo xtask docs`; do not edit it. The last column counts the SDK's own tests that call
the method.
";

const ABSENT_HEAD: &str = "
## Not served

Methods of the SDKs that Lodge does not have. Methods that the SDKs keep for themselves are not listed.

| method | why |
|---|---|
";

const TAIL: &str = "
## Calls and notifications to the client

| name | kind | when |
|---|---|---|
| `session.event` | notification | for every event of a session that the client created or resumed |
| `session.lifecycle` | notification | when any session is created, updated or deleted |
| `hooks.invoke` | request | for every hook, if the session was opened with `hooks` |
| `userInput.request` | request | when the agent calls `ask_user`, if the session was opened with `requestUserInput` |
| `exitPlanMode.request` | request | when the agent wants to leave plan mode, if the session was opened with `requestExitPlanMode` |
| `autoModeSwitch.request` | request | when the model is rate limited, if the session was opened with `requestAutoModeSwitch` |
| `canvas.open`, `canvas.close`, `canvas.action.invoke` | request | for canvases that the client provides (`canvases`) |
| `systemMessage.transform` | request | for every section of the system prompt whose action is `transform` |
| `sessionFs.readFile`, `writeFile`, `appendFile`, `exists`, `mkdir`, `readdirWithTypes`, `rm`, `sqliteQuery` | request | for the files and the database of a session, if the client stores them |
| `llmInference.httpRequestStart`, `llmInference.httpRequestChunk` | request | for every model request, if the client carries them |
| `gitHubToken.getToken` | request | when a session needs a GitHub token that its app supplies |
| `providerToken.getToken` | request | before every model call of a provider with a bearer-token callback |
";

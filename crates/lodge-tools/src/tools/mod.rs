//! The built-in tools, one file each.

mod bash;
mod bash_control;
mod create;
mod edit;
mod glob;
mod grep;
mod search;
mod sql;
mod store_memory;
mod view;
mod web_fetch;

use std::sync::Arc;

pub(crate) use sql::words as sql_words;

use crate::Tool;

/// All built-in tools, in the order in which models see them.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(bash::Bash),
        Arc::new(bash_control::ReadBash),
        Arc::new(bash_control::WriteBash),
        Arc::new(bash_control::StopBash),
        Arc::new(bash_control::ListBash),
        Arc::new(view::View),
        Arc::new(create::Create),
        Arc::new(edit::Edit),
        Arc::new(web_fetch::WebFetch),
        Arc::new(sql::Sql),
        Arc::new(grep::Grep),
        Arc::new(glob::Glob),
        Arc::new(store_memory::StoreMemory),
    ]
}

/// Runs what blocks beside the runtime's workers.
pub(crate) async fn blocking(
    work: impl FnOnce() -> Result<crate::ToolOutput, crate::ToolError> + Send + 'static,
) -> Result<crate::ToolOutput, crate::ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(crate::ToolError(format!("The tool failed: {error}"))),
    }
}

//! The dispatch table: every method that is served, by name. `docs/sdk.md` is made from it.

pub(crate) mod absent;
mod account;
mod agents;
mod canvas;
mod client_data;
mod commands;
pub(crate) mod core;
mod event_log;
mod extensions;
mod factory;
mod history;
mod inference;
mod installed;
mod instructions;
mod mcp;
mod metadata;
pub(crate) mod model;
mod permissions;
pub(crate) mod plugins;
mod queue;
mod remote;
mod rules;
pub(crate) mod sampling;
mod schedule;
mod sessions;
mod settings;
pub(crate) mod shell;
mod skills;
mod state;
mod storage;
mod tasks;
mod tools;
mod turns;
mod ui;
mod unavailable;
mod workspace;

use std::{collections::HashMap, sync::LazyLock};

use futures_util::future::BoxFuture;

use crate::{
    connection::{Ctx, MethodResult},
    rpc::Params,
};

/// What serves a method.
pub(crate) type Handler = fn(Ctx, Params) -> BoxFuture<'static, MethodResult>;

/// A method that is served.
pub(crate) struct Method {
    /// Its name on the wire.
    pub(crate) name: &'static str,
    /// How many of the SDK's own tests call it.
    pub(crate) weight: u16,
    /// A short description.
    pub(crate) summary: &'static str,
    /// What serves it.
    pub(crate) handler: Handler,
}

/// Methods that belong together.
pub(crate) struct Capability {
    /// What they are for.
    pub(crate) title: &'static str,
    pub(crate) methods: &'static [Method],
}

/// All methods that are served.
pub(crate) static CAPABILITIES: &[&Capability] = &[
    &core::CORE,
    &turns::TURNS,
    &permissions::PERMISSIONS,
    &rules::RULES,
    &tools::TOOLS,
    &mcp::MCP,
    &sampling::SAMPLING,
    &model::MODEL,
    &inference::INFERENCE,
    &state::STATE,
    &workspace::WORKSPACE,
    &storage::STORAGE,
    &metadata::METADATA,
    &client_data::CLIENT_DATA,
    &shell::SHELL,
    &instructions::INSTRUCTIONS,
    &ui::UI,
    &commands::COMMANDS,
    &queue::QUEUE,
    &history::HISTORY,
    &event_log::EVENT_LOG,
    &schedule::SCHEDULE,
    &agents::AGENTS,
    &skills::SKILLS,
    &tasks::TASKS,
    &plugins::PLUGINS,
    &installed::INSTALLED,
    &sessions::SESSIONS,
    &settings::SETTINGS,
    &account::ACCOUNT,
    &remote::REMOTE,
    &canvas::CANVAS,
    &extensions::EXTENSIONS,
    &factory::FACTORY,
    &unavailable::UNAVAILABLE,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Method>> = LazyLock::new(|| {
    CAPABILITIES
        .iter()
        .flat_map(|capability| capability.methods)
        .map(|method| (method.name, method))
        .collect()
});

pub(crate) fn find(name: &str) -> Option<&'static Method> {
    BY_NAME.get(name).copied()
}

/// Parses nothing and takes nothing.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Nothing {}

/// One entry of the table: a method of the server, with `session` a method of a session that the client has open, or with
/// `turn` one whose response comes before the events of the turn that it begins.
macro_rules! method {
    ($name:literal, $weight:literal, $summary:literal, $function:path) => {
        $crate::methods::Method {
            name: $name,
            weight: $weight,
            summary: $summary,
            handler: |ctx, params| {
                Box::pin(async move {
                    let result = $function(ctx, params.parse()?).await?;
                    Ok($crate::connection::Outcome::of($crate::rpc::Reply::of(&result)?))
                })
            },
        }
    };
    (session $name:literal, $weight:literal, $summary:literal, $function:path) => {
        $crate::methods::Method {
            name: $name,
            weight: $weight,
            summary: $summary,
            handler: |ctx, params| {
                Box::pin(async move {
                    let session = $crate::session::of(&ctx, &params)?;
                    let result = $function(session, params.parse()?).await?;
                    Ok($crate::connection::Outcome::of($crate::rpc::Reply::of(&result)?))
                })
            },
        }
    };
    (turn $name:literal, $weight:literal, $summary:literal, $function:path) => {
        $crate::methods::Method {
            name: $name,
            weight: $weight,
            summary: $summary,
            handler: |ctx, params| {
                Box::pin(async move {
                    let session = $crate::session::of(&ctx, &params)?;
                    let (result, hold) = $function(session, params.parse()?).await?;
                    let reply = $crate::rpc::Reply::of(&result)?;
                    Ok($crate::connection::Outcome {
                        hold,
                        ..$crate::connection::Outcome::of(reply)
                    })
                })
            },
        }
    };
    (raw $name:literal, $weight:literal, $summary:literal, $function:path) => {
        $crate::methods::Method {
            name: $name,
            weight: $weight,
            summary: $summary,
            handler: |ctx, params| Box::pin($function(ctx, params)),
        }
    };
}
pub(crate) use method;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_stands_in_the_table_once() {
        let all = CAPABILITIES
            .iter()
            .map(|capability| capability.methods.len())
            .sum::<usize>();
        assert_eq!(BY_NAME.len(), all);
    }
}

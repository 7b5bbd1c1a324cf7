//! Instruction files of projects: finding them, and listing where they can be.

use std::{path::PathBuf, sync::Arc};

use lodge_host::{GitContext, Instruction, instruction_places, instructions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, rpc::RpcError, session::Attached};

pub(crate) static INSTRUCTIONS: Capability = Capability {
    title: "Instructions",
    methods: &[
        method!(session "session.instructions.getSources", 1, "instruction files that the session follows", sources),
        method!(session "session.instructions.reload", 0, "the same: files are read for every turn", sources),
        method!("instructions.discover", 1, "instruction files in projects", discover),
        method!(
            "instructions.getDiscoveryPaths",
            1,
            "where instruction files can be",
            paths
        ),
    ],
};

/// Reads files on a blocking thread.
async fn reading<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(read).await.map_err(RpcError::failed)
}

fn shown(instruction: &Instruction) -> Value {
    json!({
        "id": instruction.path,
        "label": instruction.name,
        "sourcePath": instruction.name,
        "content": instruction.content,
        "type": if instruction.at_root { "repo" } else { "nested-agents" },
        "location": if instruction.at_root { "repository" } else { "working-directory" },
    })
}

async fn sources(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let found = session.session().instructions().await;
    Ok(json!({"sources": found.iter().map(shown).collect::<Vec<_>>()}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProjectsParams {
    project_paths: Vec<PathBuf>,
}

async fn discover(_: Ctx, params: ProjectsParams) -> Result<Value, RpcError> {
    let found = reading(move || {
        let mut found = Vec::new();
        for project in params.project_paths {
            let root = GitContext::of(&project).root;
            for instruction in instructions(&project, root.as_deref(), &[]) {
                let mut source = shown(&instruction);
                source["projectPath"] = json!(project);
                found.push(source);
            }
        }
        found
    })
    .await?;
    Ok(json!({"sources": found}))
}

async fn paths(_: Ctx, params: ProjectsParams) -> Result<Value, RpcError> {
    let places = params.project_paths.iter().flat_map(|project| {
        let places = instruction_places(project).into_iter().enumerate();
        places.map(move |(n, (path, directory))| {
            json!({
                "path": path,
                "location": "repository",
                "kind": if directory { "directory" } else { "file" },
                "preferredForCreation": n == 0,
                "projectPath": project,
            })
        })
    });
    Ok(json!({"paths": places.collect::<Vec<_>>()}))
}

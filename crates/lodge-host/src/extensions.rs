//! Programs of extensions. Who serves them is a face's business.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use lodge_rpc::{Launch, Process};
use lodge_tools::custom::{Extension, Plugin, extension_arguments, find_extensions, holds_extension_sdk};
use lodge_trust::Gate;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Session, blocking::run_blocking};

/// What runs extensions.
const NODE: &str = "node";

/// A running extension. Dropping it ends its process group.
pub struct ExtensionProgram(Process);

impl ExtensionProgram {
    /// The number of its process.
    pub fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// How it ended, and what it said last.
    pub async fn epitaph(&self) -> String {
        self.0.epitaph().await
    }
}

/// An extension that was started, with its standard streams.
pub struct StartedExtension {
    /// The program.
    pub program: ExtensionProgram,
    /// What it says.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Where it listens.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Session {
    /// The extensions that the session may have: of its repository, of the person, and of plugins. Reads files.
    pub async fn find_extensions(&self) -> Vec<Extension> {
        let settings = self.settings();
        let plugins: Vec<Plugin> = settings.customization.all_plugins().cloned().collect();
        let mut of_person: Vec<PathBuf> = self
            .home_path()
            .map(|home| home.join("extensions"))
            .into_iter()
            .collect();
        let user = settings.customization.places.user.clone();
        of_person.extend(user.map(|user| user.join(".copilot/extensions")));
        let find = move || find_extensions(&settings.cwd, &of_person, &plugins);
        run_blocking(find).await.unwrap_or_default()
    }

    /// Starts an extension for an app that asks for those of the session's folder: it chose the folder, and is responsible. The
    /// error is for people.
    pub fn start_extension(&self, extension: &Extension, sdk: Option<&Path>) -> Result<StartedExtension, String> {
        let admitted = Gate::vouched_for().admit(extension.module.clone()?);
        let module = admitted.map_err(|error| error.to_string())?.into_inner();
        let host = self.host().ok_or("the host is stopping")?;
        let sdk = sdk.filter(|sdk| holds_extension_sdk(sdk));
        let variable = |name: &str, value: OsString| (OsString::from(name), value);
        let mut env = vec![
            self.agent().program_mark(),
            variable("SESSION_ID", self.id().into()),
            variable("COPILOT_EXTENSION_PARENT_PID", std::process::id().to_string().into()),
        ];
        env.extend(sdk.map(|sdk| variable("COPILOT_SDK_PATH", sdk.into())));
        let launch = Launch {
            command: NODE.to_owned(),
            args: extension_arguments(&module, sdk.is_some()),
            cwd: self.settings().cwd,
            variables: Some(host.environment().without_credentials()),
            env,
        };
        let started = Process::start(&launch);
        let (process, output, input) =
            started.map_err(|error| format!("cannot run `{NODE}`, which extensions need: {error}"))?;
        Ok(StartedExtension {
            program: ExtensionProgram(process),
            output: Box::new(output),
            input: Box::new(input),
        })
    }
}

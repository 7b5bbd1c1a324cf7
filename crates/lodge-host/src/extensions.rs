//! Programs of extensions. Who serves them is a face's business.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use lodge_rpc::{Launch, Process};
use lodge_tools::custom::{Extension, Plugin, extension_arguments, find_extensions, holds_extension_sdk};
use lodge_trust::{Admitted, Gate, Origin};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Session, blocking::run_blocking, trust::Trust};

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

/// An extension whose module passed the gate, or why it did not.
pub type AdmittedExtension = Extension<Admitted<PathBuf>>;

/// What an app vouched for when it asked for the extensions of a session: the folder that it chose, and what was in it then.
#[derive(Clone)]
pub struct AskedExtensions {
    cwd: PathBuf,
    vouched: Vec<Origin>,
}

impl Session {
    /// The extensions of the session's folder, for an app that asks for them now: it chose the folder, and is responsible for
    /// what is in it. Reads files.
    pub async fn ask_for_extensions(&self) -> (AskedExtensions, Vec<AdmittedExtension>) {
        let cwd = self.settings().cwd;
        let found = self.find_extensions(cwd.clone()).await;
        let modules = found.iter().filter_map(|extension| extension.module.as_ref().ok());
        let vouched = modules.map(|module| module.origin().clone()).collect();
        let gate = Gate::vouched_for();
        let admit = |module| gate.admit(module).map_err(|error| error.to_string());
        let admitted = found.into_iter().map(|extension| extension.admitted(admit));
        let admitted = admitted.collect();
        (AskedExtensions { cwd, vouched }, admitted)
    }

    /// The extensions that are there now, wherever the session works meanwhile. What an approved command or anybody else has
    /// changed since an app asked starts only where the person trusts it. Reads files.
    pub async fn extensions_as_asked(&self, asked: &AskedExtensions) -> Vec<AdmittedExtension> {
        let gate = self.host().map(|host| Trust::of(host.home()).gate());
        let gate = gate.map(|gate| gate.or_as_it_was(asked.vouched.clone()));
        let found = self.find_extensions(asked.cwd.clone()).await;
        let admit = |module| {
            let gate = gate.as_ref().ok_or("the host is stopping")?;
            let refused =
                |error| format!("changed since the app asked for it; trust the folder or ask again ({error})");
            gate.admit(module).map_err(refused)
        };
        found.into_iter().map(|extension| extension.admitted(admit)).collect()
    }

    /// Those of the repository around a directory, of the person, and of plugins.
    async fn find_extensions(&self, cwd: PathBuf) -> Vec<Extension> {
        let settings = self.settings();
        let plugins: Vec<Plugin> = settings.customization.all_plugins().cloned().collect();
        let mut of_person: Vec<PathBuf> = self
            .home_path()
            .map(|home| home.join("extensions"))
            .into_iter()
            .collect();
        let user = settings.customization.places.user.clone();
        of_person.extend(user.map(|user| user.join(".copilot/extensions")));
        let find = move || find_extensions(&cwd, &of_person, &plugins);
        run_blocking(find).await.unwrap_or_default()
    }

    /// Starts an extension in the folder that the app chose. The error is for people.
    pub fn start_extension(
        &self,
        asked: &AskedExtensions,
        extension: &AdmittedExtension,
        sdk: Option<&Path>,
    ) -> Result<StartedExtension, String> {
        let module = extension.module.as_ref().map_err(Clone::clone)?;
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
            args: extension_arguments(module, sdk.is_some()),
            cwd: asked.cwd.clone(),
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

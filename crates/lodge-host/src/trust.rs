//! Trust in what folders bring: hooks, MCP servers, the servers of custom agents, and extensions.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_agent::{FindHooks, GitContext, HookFiles};
use lodge_log::Home;
use lodge_tools::{
    custom::{Kind, Places, Plugin, find_agents, find_extensions},
    hooks::{self, FileHooks},
};
use lodge_trust::{Fingerprint, Gate, Origin, Standing, Store};
use serde_json::Value;

/// The trust that the person of a home has given.
#[derive(Debug, Clone)]
pub struct Trust {
    home: PathBuf,
    store: Store,
}

/// A file in a folder that can start programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// The file, or one that it needs.
    pub path: PathBuf,
    /// What it starts, as text with one line each.
    pub starts: Vec<String>,
    /// Whether it was accepted as it is.
    pub standing: Standing,
}

impl Trust {
    /// Of this home.
    pub fn of(home: &Home) -> Self {
        Self::at(home.path())
    }

    /// Of the home at this place.
    pub fn at(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            store: Store::at(home),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The gate, with the trust given at this moment.
    pub fn gate(&self) -> Gate {
        Gate::of(&self.store)
    }

    /// The trusted folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.store.folders()
    }

    /// Whether a folder is trusted, or inside a trusted one.
    pub fn covers(&self, folder: &Path) -> bool {
        self.store.covers(folder)
    }

    /// Trusts a folder and accepts its files as they are, or untrusts it. Returns the accepted files.
    pub fn set(&self, folder: &Path, trusted: bool) -> io::Result<Vec<Brought>> {
        if !trusted {
            self.store.forget(folder)?;
            return Ok(Vec::new());
        }
        let real = std::fs::canonicalize(folder)?;
        let mut folders = self.store.folders();
        folders.push(real.clone());
        // The files of a parent folder are accepted there.
        let own = |base: &Path| {
            let base = std::fs::canonicalize(base).ok();
            base.is_some_and(|base| folders.iter().any(|folder| base.starts_with(folder)))
        };
        let files: Vec<(Fingerprint, Vec<String>)> = brought_to(&real)
            .into_iter()
            .filter(|(base, ..)| own(base))
            .map(|(_, fingerprint, starts)| (fingerprint, starts))
            .collect();
        let fingerprints: Vec<Fingerprint> = files.iter().map(|(fingerprint, _)| fingerprint.clone()).collect();
        let before: Vec<Standing> = fingerprints.iter().map(|file| self.store.standing(file)).collect();
        self.store.trust(&real, &fingerprints)?;
        let accepted = files.into_iter().zip(before);
        Ok(accepted
            .map(|((fingerprint, starts), standing)| Brought {
                path: fingerprint.path,
                starts,
                standing,
            })
            .collect())
    }

    /// The files in this folder that can start programs for a session, and whether they are accepted. Reads files.
    pub fn review(&self, folder: &Path) -> Vec<Brought> {
        let files = brought_to(folder).into_iter();
        files
            .map(|(_, fingerprint, starts)| Brought {
                standing: self.store.standing(&fingerprint),
                path: fingerprint.path,
                starts,
            })
            .collect()
    }

    /// A function that finds the hooks of a session.
    pub(crate) fn find_hooks(self) -> FindHooks {
        Arc::new(move |cwd, which| self.hooks(cwd, which))
    }

    fn hook_gate(&self, which: HookFiles) -> Gate {
        match which {
            HookFiles::All => Gate::vouched_for(),
            HookFiles::Off | HookFiles::Trusted => self.gate(),
        }
    }

    /// The hooks of a session in this directory: the person's in `<home>/hooks`, a project's in `.github/hooks`.
    pub fn hooks(&self, cwd: &Path, which: HookFiles) -> FileHooks {
        let mut hooks = FileHooks::default();
        if which == HookFiles::Off {
            return hooks;
        }
        hooks.read_own(&self.home.join("hooks"), cwd);
        let gate = self.hook_gate(which);
        for base in places(cwd) {
            hooks.read_folder(&base, &gate);
        }
        hooks
    }

    /// The hook files of a session in this directory with these plugins, and whether they run.
    pub fn hook_files<'a>(
        &self,
        cwd: &Path,
        which: HookFiles,
        plugins: impl IntoIterator<Item = &'a Plugin>,
    ) -> Vec<(PathBuf, bool)> {
        let in_plugins = plugins.into_iter().flat_map(|plugin| &plugin.hooks);
        let in_plugins = in_plugins.filter(|file| file.is_file());
        let mut files: Vec<(PathBuf, bool)> = in_plugins.map(|file| (file.clone(), true)).collect();
        if which == HookFiles::Off {
            return files;
        }
        let own = hooks::files_in(&self.home.join("hooks")).into_iter();
        files.extend(own.map(|file| (file, true)));
        let gate = self.hook_gate(which);
        for base in places(cwd) {
            let brought = hooks::brought_by(&base).into_iter();
            files.extend(brought.map(|(path, file)| {
                let run = file.is_ok_and(|file| gate.check(file.origin()).is_ok());
                (path, run)
            }));
        }
        files
    }

    /// The places of hook files, and the files in which trust is stored.
    pub(crate) fn hook_places(&self, cwd: &Path) -> Vec<PathBuf> {
        let project = places(cwd).into_iter().map(|base| base.join(hooks::IN_FOLDERS));
        let own = [self.home.join("hooks")].into_iter().chain(self.store.places());
        own.chain(project).collect()
    }
}

/// The places of a project's hooks: at the root of its repository, and where the session works.
fn places(cwd: &Path) -> Vec<PathBuf> {
    let root = GitContext::of(cwd).root.map(PathBuf::from);
    let mut places: Vec<PathBuf> = root.into_iter().collect();
    if !places.iter().any(|place| place == cwd) {
        places.push(cwd.to_owned());
    }
    places
}

/// Everything in folders that can start programs for a session here: the folder, the file, and what it starts.
fn brought_to(cwd: &Path) -> Vec<(PathBuf, Fingerprint, Vec<String>)> {
    let mut found: Vec<(PathBuf, Fingerprint, Vec<String>)> = Vec::new();
    let mut add = |origin: &Origin, starts: Vec<String>| {
        let Origin::Folder { folder, fingerprints } = origin else {
            return;
        };
        for (number, fingerprint) in fingerprints.iter().enumerate() {
            // The first file describes what is started; the others come along.
            let starts = if number == 0 { starts.clone() } else { Vec::new() };
            match found.iter_mut().find(|(_, known, _)| known.path == fingerprint.path) {
                Some((_, _, known)) => known.extend(starts),
                None => found.push((folder.clone(), fingerprint.clone(), starts)),
            }
        }
    };
    for (name, server) in lodge_mcp::files::brought_by(cwd) {
        if let Ok(server) = server {
            add(server.origin(), vec![server_line(&name, server.look())]);
        }
    }
    for base in places(cwd) {
        for (_, file) in hooks::brought_by(&base) {
            if let Ok(file) = file {
                add(file.origin(), file.look().commands());
            }
        }
    }
    for agent in find_agents(&Places::project(Kind::Agents, cwd)).all {
        let Some(servers) = &agent.mcp_servers else { continue };
        let named = servers.look().as_object().into_iter().flatten();
        let lines = named.map(|(name, server)| format!("agent {}: {}", agent.name, server_line(name, server)));
        add(servers.origin(), lines.collect());
    }
    for extension in find_extensions(cwd, &[], []) {
        if let Ok(module) = extension.module {
            let line = format!("extension {}, for apps that ask for extensions", extension.name);
            add(module.origin(), vec![line]);
        }
    }
    found
}

/// A server as its file describes it.
fn server_line(name: &str, server: &Value) -> String {
    let text = |key: &str| server[key].as_str();
    let started = match (text("command"), text("url")) {
        (Some(command), _) => {
            let args = server["args"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let words: Vec<&str> = std::iter::once(command).chain(args).collect();
            words.join(" ")
        }
        (None, Some(url)) => url.to_owned(),
        (None, None) => "nothing that Lodge knows".to_owned(),
    };
    format!("MCP server {name}: {started}")
}

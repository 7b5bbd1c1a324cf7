//! Extensions: programs of a project, the person or a plugin that join a session as its clients.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use lodge_trust::{FolderFile, Origin, Startable};

use super::{LONGEST_FILE, Plugin, entries, is_name};
use crate::git_files::GitFiles;

/// Where a folder has extensions.
const IN_FOLDERS: &str = ".github/extensions";
/// The file of an extension that is run.
const MODULE: &str = "extension.mjs";
/// Has Node.js import the SDK from the directory in the variable `COPILOT_SDK_PATH`.
const LOADER: &str = include_str!("extension_loader.mjs");
/// Has the extension end with the host, also with one that is killed.
const ENDS_WITH_HOST: &str = include_str!("extension_ends_with_host.mjs");
/// The most extensions that a session gets. Each is a process.
const MOST: usize = 32;

/// Where an extension comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionSource {
    /// The repository that the session works in.
    Project,
    /// The person's home.
    User,
    /// The plugin of this name.
    Plugin(String),
}

impl ExtensionSource {
    /// Its word in the protocol of the SDKs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Plugin(_) => "plugin",
        }
    }
}

/// An extension that was found. Its module may have to pass the gate.
#[derive(Debug, Clone)]
pub struct Extension<M = Startable<PathBuf>> {
    /// Its name with its source: `project:charts`, `user:charts`, `plugin:tools:charts`.
    pub id: String,
    /// The name of its directory.
    pub name: String,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// The file that is run, or why it cannot be.
    pub module: Result<M, String>,
}

impl<M> Extension<M> {
    /// The same with a module that passed the gate, or with the reason why it did not.
    pub fn admitted<N>(self, admit: impl FnOnce(M) -> Result<N, String>) -> Extension<N> {
        Extension {
            id: self.id,
            name: self.name,
            source: self.source,
            module: self.module.and_then(admit),
        }
    }
}

/// Whether a directory holds the SDK that extensions import.
pub fn holds_extension_sdk(dir: &Path) -> bool {
    dir.is_absolute() && ["index.js", "extension.js"].iter().all(|file| dir.join(file).is_file())
}

/// The arguments with which Node.js runs an extension: with an SDK that is named by a variable, or with the one that the extension
/// brings.
pub fn extension_arguments(module: &Path, names_sdk: bool) -> Vec<String> {
    let imported = |text: &str| format!("data:text/javascript;base64,{}", BASE64_STANDARD.encode(text));
    let mut arguments = vec!["--import".to_owned(), imported(ENDS_WITH_HOST)];
    if names_sdk {
        arguments.extend(["--import".to_owned(), imported(LOADER)]);
    }
    arguments.push(module.to_string_lossy().into_owned());
    arguments
}

/// Finds the extensions of a session that works in this directory: the project's, then those of these directories of the person,
/// then those of plugins. Reads files.
pub fn find_extensions<'a>(
    cwd: &Path,
    of_person: &[PathBuf],
    plugins: impl IntoIterator<Item = &'a Plugin>,
) -> Vec<Extension> {
    let mut found: Vec<Extension> = Vec::new();
    let mut add = |dir: &Path, source: &ExtensionSource, module: &dyn Fn(&str, &Path) -> _| {
        for path in entries(dir, &mut Vec::new()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let prefix = match source {
                ExtensionSource::Plugin(plugin) => format!("plugin:{plugin}"),
                other => other.as_str().to_owned(),
            };
            let id = format!("{prefix}:{name}");
            let file = path.join(MODULE);
            let is_new = found.iter().all(|known| known.id != id);
            if is_new && found.len() < MOST && is_name(&name) && file.is_file() {
                found.push(Extension {
                    id,
                    module: module(&name, &file),
                    name,
                    source: source.clone(),
                });
            }
        }
    };
    let root = root_of(cwd, rustix::process::geteuid().as_raw());
    add(&root.join(IN_FOLDERS), &ExtensionSource::Project, &|name, file| {
        let dir = Path::new(IN_FOLDERS).join(name);
        let read = FolderFile::read(root, dir.join(MODULE), LONGEST_FILE)?.ok_or("it no longer exists")?;
        // What it imports lies beside it.
        let whole = read.with_all_beneath(&dir, |path| path == file);
        Ok(whole.startable(file.to_owned()))
    });
    for dir in of_person {
        let module = |_: &str, file: &Path| Ok(Startable::new(Origin::Person, file.to_owned()));
        add(dir, &ExtensionSource::User, &module);
    }
    for plugin in plugins {
        let source = ExtensionSource::Plugin(plugin.name.clone());
        let module = |_: &str, file: &Path| Ok(Startable::new(Origin::Client, file.to_owned()));
        add(&plugin.root.join("extensions"), &source, &module);
    }
    found
}

/// The root of the repository that a directory is in, if it belongs to this user; or else the directory itself, which somebody
/// chose. In a directory above it that all may write, anybody can make a repository.
fn root_of(cwd: &Path, user: u32) -> &Path {
    let is_own = |root: &Path| {
        let places = [root.to_owned(), root.join(".git"), root.join(IN_FOLDERS)];
        let mut owners = places.iter().filter_map(|place| place.symlink_metadata().ok());
        owners.all(|place| place.uid() == user)
    };
    let root = GitFiles::root_around(cwd).filter(|root| is_own(root));
    root.unwrap_or(cwd)
}

#[cfg(test)]
mod tests {
    use lodge_trust::{Gate, Store};

    use super::*;

    #[test]
    fn extensions_are_found_by_their_module_and_a_projects_pass_the_gate_only_as_they_were_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "// it").unwrap();
        };
        for path in [
            "work/.git/HEAD",
            "work/.github/extensions/charts/extension.mjs",
            "work/.github/extensions/charts/more.mjs",
            "work/.github/extensions/empty/readme.md",
            "work/sub/a.txt",
            "home/extensions/notes/extension.mjs",
            "tools/extensions/lint/extension.mjs",
        ] {
            write(path);
        }
        let plugin = Plugin {
            name: "tools".into(),
            root: dir.path().join("tools"),
            ..Plugin::default()
        };
        let find = || {
            let person = [dir.path().join("home/extensions"), dir.path().join("nowhere")];
            find_extensions(&dir.path().join("work/sub"), &person, [&plugin])
        };
        let found = find();
        let ids: Vec<&str> = found.iter().map(|extension| extension.id.as_str()).collect();
        assert_eq!(ids, ["project:charts", "user:notes", "plugin:tools:lint"]);

        let store = Store::at(&dir.path().join("home"));
        let admitted = || -> Vec<bool> {
            let gate = Gate::of(&store);
            let modules = find().into_iter().map(|extension| extension.module.unwrap());
            modules.map(|module| gate.admit(module).is_ok()).collect()
        };
        assert_eq!(admitted(), [false, true, true]);
        assert!(Gate::vouched_for().admit(found[0].module.clone().unwrap()).is_ok());

        // What an app vouched for passes as it was then, and not with one more file beside it.
        let asked: Vec<_> = found
            .iter()
            .map(|known| known.module.clone().unwrap().origin().clone())
            .collect();
        let still = || {
            let gate = Gate::of(&store).or_as_it_was(asked.clone());
            let modules = find().into_iter().map(|extension| extension.module.unwrap());
            modules.map(|module| gate.admit(module).is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(still(), [true, true, true]);
        write("work/.github/extensions/charts/planted.mjs");
        assert_eq!(still(), [false, true, true]);
    }

    #[test]
    fn the_root_of_a_repository_counts_only_if_it_is_this_users() {
        let dir = tempfile::tempdir().unwrap();
        let (root, sub) = (dir.path().to_owned(), dir.path().join("sub"));
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let user = root.metadata().unwrap().uid();
        assert_eq!(root_of(&sub, user), root);
        assert_eq!(root_of(&sub, user + 1), sub);
        assert_eq!(root_of(&root, user + 1), root, "somebody chose it");
    }
}

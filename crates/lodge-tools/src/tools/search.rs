//! Walks files for `grep` and `glob`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{WalkBuilder, types::TypesBuilder};

use crate::{SessionTools, ToolCx, ToolError, paths::Located};

/// Files below a place.
pub(super) struct Search {
    place: Located,
    /// How paths are shown: what the model wrote, or `.`.
    shown: PathBuf,
    walk: WalkBuilder,
    state: Arc<SessionTools>,
    /// The directories that the session works in.
    roots: Vec<PathBuf>,
    globs: Option<Globs>,
}

impl Search {
    /// Files below `path` (or the working directory) that `.gitignore` and the like leave.
    pub(super) fn new(cx: &ToolCx, path: Option<&str>) -> Result<Self, ToolError> {
        let shown = path.unwrap_or(".");
        let place = cx.permitted(shown)?;
        if !place.path.exists() {
            return Err(ToolError(format!(
                "Path {shown} does not exist. Please provide a valid path."
            )));
        }
        let mut walk = WalkBuilder::new(&place.path);
        // Sorted, so that the same question has the same answer.
        walk.sort_by_file_path(Path::cmp).require_git(false).follow_links(false);
        Ok(Self {
            place,
            shown: PathBuf::from(shown),
            walk,
            state: cx.state.clone(),
            roots: [&cx.cwd, &cx.session_dir]
                .into_iter()
                .chain(&*cx.readable)
                .filter_map(|root| crate::paths::real(root).ok())
                .collect(),
            globs: None,
        })
    }

    /// Only files whose path matches.
    pub(super) fn matching(mut self, pattern: Option<&str>) -> Result<Self, ToolError> {
        let Some(pattern) = pattern else { return Ok(self) };
        // Hidden files are looked at when they are asked for.
        self.walk.hidden(
            !pattern
                .split(['/', ',', '{'])
                .any(|part| part.starts_with('.') && part != "." && part != ".."),
        );
        self.globs = Some(Globs::new(pattern)?);
        Ok(self)
    }

    /// Only files of a type as ripgrep names them (`rust`, `py`).
    pub(super) fn of_type(mut self, name: Option<&str>) -> Result<Self, ToolError> {
        if let Some(name) = name {
            let mut types = TypesBuilder::new();
            types.add_defaults().select(name);
            let types = types
                .build()
                .map_err(|error| ToolError(format!("Unknown file type {name}: {error}")))?;
            self.walk.types(types);
        }
        Ok(self)
    }

    /// The files, each with the path to show, until `stop` says so.
    pub(super) fn files(self, stop: impl Fn() -> bool) -> impl Iterator<Item = (Located, String)> {
        let Self {
            place,
            shown,
            walk,
            state,
            roots,
            globs,
        } = self;
        walk.build().take_while(move |_| !stop()).filter_map(move |entry| {
            let entry = entry.ok()?;
            if !entry.file_type()?.is_file() {
                return None;
            }
            let path = entry.into_path();
            let below = path.strip_prefix(&place.path).ok()?;
            if below.components().any(|part| part.as_os_str() == ".git") || state.exclusions().hides(&path, &roots) {
                return None;
            }
            if globs
                .as_ref()
                .is_some_and(|globs| !globs.matches(if below == Path::new("") { &path } else { below }))
            {
                return None;
            }
            let name = if below == Path::new("") {
                shown.clone()
            } else {
                shown.join(below)
            };
            let name = name.display().to_string();
            Some((
                Located {
                    root: place.root.clone(),
                    path,
                },
                name,
            ))
        })
    }
}

/// File patterns as `.gitignore` reads them: without a slash they match at any depth.
struct Globs {
    set: GlobSet,
    /// `!pattern`: everything else.
    inverted: bool,
}

impl Globs {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        let wrong = |error: globset::Error| ToolError(format!("Invalid pattern {pattern}: {error}"));
        let inverted = pattern.starts_with('!');
        let bare = pattern
            .trim_start_matches('!')
            .trim_start_matches("./")
            .trim_start_matches('/');
        let anywhere = if bare.contains('/') {
            bare.to_owned()
        } else {
            format!("**/{bare}")
        };
        let mut set = GlobSetBuilder::new();
        set.add(
            GlobBuilder::new(&anywhere)
                .literal_separator(true)
                .build()
                .map_err(wrong)?,
        );
        Ok(Self {
            set: set.build().map_err(wrong)?,
            inverted,
        })
    }

    fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path) != self.inverted
    }
}

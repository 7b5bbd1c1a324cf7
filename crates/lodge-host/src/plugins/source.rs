//! The source of a plugin or marketplace, as people write it.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PluginError;

/// Where the files are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "camelCase")]
pub enum PluginSource {
    /// A directory of this machine.
    Local {
        /// The directory.
        path: PathBuf,
    },
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// The branch, tag or commit; its own choice without one.
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The directory in it; its top without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
}

/// `name@marketplace`, if it is that.
pub(super) fn spec(text: &str) -> Option<(&str, &str)> {
    let (name, marketplace) = text.split_once('@')?;
    (is_name(name) && is_name(marketplace)).then_some((name, marketplace))
}

/// Whether a name may become the name of a directory.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with(['.', '_']) && name.chars().all(plain)
}

/// A path that stays below where it starts.
pub(super) fn below(path: &str) -> Result<PathBuf, PluginError> {
    let mut found = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => found.push(part),
            _ => return Err(PluginError::Outside(path.to_owned())),
        }
    }
    Ok(found)
}

impl PluginSource {
    /// Reads `owner/repo`, `owner/repo:path`, an address, or a path of this machine; a part after `#` names a branch, tag
    /// or commit of a repository.
    pub(super) fn parse(text: &str, cwd: &Path) -> Result<Self, PluginError> {
        let text = text.trim();
        let path = cwd.join(text);
        let begins = |with: &str| text.starts_with(with);
        if [".", "/"].iter().any(|with| begins(with)) || (!text.is_empty() && path.is_dir()) {
            let path = std::fs::canonicalize(&path).map_err(|error| PluginError::Missing(path, error.to_string()))?;
            return Ok(Self::Local { path });
        }
        let (address, reference) = match text.split_once('#') {
            Some((address, reference)) => (address, Some(reference.to_owned())),
            None => (text, None),
        };
        let is_address = ["https://", "http://", "ssh://", "file://"]
            .iter()
            .any(|with| begins(with));
        let is_scp = address.split_once(':').is_some_and(|(host, _)| host.contains('@'));
        if is_address || is_scp {
            return Ok(Self::git(address, reference, None));
        }
        let (repository, path) = match address.split_once(':') {
            Some((repository, path)) => (repository, Some(below(path)?)),
            None => (address, None),
        };
        Self::github(repository, reference, path).ok_or_else(|| PluginError::Source(text.to_owned()))
    }

    /// What the catalogue of a marketplace says, which lies in `root`.
    pub(super) fn of_entry(source: &Value, root: &Path, plugin_root: Option<&str>) -> Result<Self, PluginError> {
        let unknown = || PluginError::Source(source.to_string());
        let text = |key: &str| source.get(key).and_then(Value::as_str);
        let local = |path: &str| {
            let base = below(plugin_root.unwrap_or_default())?;
            let path = root.join(base).join(below(path)?);
            Ok(Self::Local { path })
        };
        if let Some(path) = source.as_str() {
            return local(path);
        }
        let reference = text("sha").or_else(|| text("ref")).map(str::to_owned);
        let path = text("path").map(below).transpose()?;
        match text("source").or_else(|| text("type")) {
            Some("github") => Self::github(text("repo").ok_or_else(unknown)?, reference, path).ok_or_else(unknown),
            Some("url" | "git" | "git-subdir") => {
                let url = text("url").ok_or_else(unknown)?;
                match url.starts_with('-') {
                    true => Err(unknown()),
                    false => Ok(Self::git(url, reference, path)),
                }
            }
            Some("local") => local(text("path").ok_or_else(unknown)?),
            _ => Err(unknown()),
        }
    }

    fn git(url: &str, reference: Option<String>, path: Option<PathBuf>) -> Self {
        Self::Git {
            url: url.to_owned(),
            reference,
            path,
        }
    }

    pub(super) fn github(repository: &str, reference: Option<String>, path: Option<PathBuf>) -> Option<Self> {
        let (owner, name) = repository.split_once('/')?;
        let url = format!("https://github.com/{owner}/{name}.git");
        (is_name(owner) && is_name(name)).then(|| Self::git(&url, reference, path))
    }

    /// As people read it.
    pub fn describe(&self) -> String {
        match self {
            Self::Local { path } => format!("Local: {}", path.display()),
            Self::Git { url, reference, .. } => {
                let short = url.strip_prefix("https://github.com/");
                let name = short.map(|name| name.strip_suffix(".git").unwrap_or(name));
                let place = name.map_or_else(|| format!("Git: {url}"), |name| format!("GitHub: {name}"));
                match reference {
                    Some(reference) => format!("{place}#{reference}"),
                    None => place,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path_an_address_or_a_repository_of_github() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("here")).unwrap();
        let read = |text: &str| PluginSource::parse(text, dir.path()).map(|source| source.describe());
        assert!(read("./here").unwrap().starts_with("Local: /"));
        assert!(read("here").unwrap().ends_with("/here"));
        for (text, expected) in [
            ("owner/repo", "GitHub: owner/repo"),
            ("owner/repo#v1", "GitHub: owner/repo#v1"),
            ("owner/repo:sub/dir", "GitHub: owner/repo"),
            ("https://github.com/owner/repo.git", "GitHub: owner/repo"),
            ("git@example.com:team/repo.git", "Git: git@example.com:team/repo.git"),
            (
                "ssh://git@example.com/repo#main",
                "Git: ssh://git@example.com/repo#main",
            ),
        ] {
            assert_eq!(read(text).unwrap(), expected);
        }
        for wrong in [
            "",
            "one",
            "../nowhere",
            "owner/repo:../up",
            "--upload-pack=x/y",
            "ext::sh -c x/y",
            "a/b/c",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_of_a_catalogue_stays_below_its_marketplace() {
        let read = |text: &str| PluginSource::of_entry(&serde_json::from_str(text).unwrap(), Path::new("/m"), None);
        let local = |path: &str| PluginSource::Local { path: path.into() };
        assert_eq!(read(r#""./a/b""#).unwrap(), local("/m/a/b"));
        assert_eq!(read(r#"{"source": "local", "path": "a"}"#).unwrap(), local("/m/a"));
        assert!(matches!(
            read(r#"{"source": "github", "repo": "o/r", "ref": "v2", "path": "p"}"#).unwrap(),
            PluginSource::Git { url, reference: Some(reference), path: Some(_) }
                if url == "https://github.com/o/r.git" && reference == "v2"
        ));
        for wrong in [
            r#""../a""#,
            r#""/etc""#,
            r#"{"source": "npm"}"#,
            "7",
            r#"{"source": "url", "url": "--x"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! Grants: what people allow clients to reach outside session directories. Each grant is one small file in the home, so
//! people can see it, and revoke it by deleting it, whether or not the host runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Root, replace, settled, uri};

/// Beyond this the oldest question is forgotten.
const MOST: usize = 500;

/// One thing that was allowed, or is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The client that asked.
    pub client: String,
    /// What it asked for, as an address without links.
    pub uri: String,
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// Whether a person said yes.
    #[serde(default)]
    pub allowed: bool,
    /// Whether that holds after the host stops.
    #[serde(default)]
    pub lasting: bool,
}

/// All of them.
#[derive(Debug, Clone)]
pub struct Grants {
    dir: PathBuf,
}

impl Grants {
    /// Those of a home.
    pub fn of_home(home: &Path) -> Self {
        Self {
            dir: home.join("ahp/grants"),
        }
    }

    /// All that there are, by their names.
    pub fn list(&self) -> Vec<(String, Grant)> {
        let mut all: Vec<(String, Grant)> = fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let id = name.strip_suffix(".json")?.to_owned();
                Some((id.clone(), self.get(&id)?))
            })
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// The one of this name.
    pub fn get(&self, id: &str) -> Option<Grant> {
        let text = fs::read(self.path(id)?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric());
        plain.then(|| self.dir.join(format!("{id}.json")))
    }

    /// Keeps one. The same request of the same client has the same name.
    pub fn put(&self, grant: &Grant) -> io::Result<String> {
        let what = format!("{}\0{}\0{}\0{}", grant.client, grant.uri, grant.read, grant.write);
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, what.as_bytes())
            .simple()
            .to_string();
        // Long enough that nobody can make another request with the same name.
        let id = id[..16].to_owned();
        fs::create_dir_all(&self.dir)?;
        let all = self.list();
        if all.len() >= MOST
            && let Some((old, _)) = all.iter().find(|(_, grant)| !grant.allowed)
        {
            self.remove(old)?;
        }
        self.keep(&id, grant)?;
        Ok(id)
    }

    fn keep(&self, id: &str, grant: &Grant) -> io::Result<()> {
        let path = self.path(id).ok_or(io::ErrorKind::NotFound)?;
        replace(&path, &serde_json::to_vec_pretty(grant)?)
    }

    /// Says yes to what was asked for.
    pub fn allow(&self, id: &str, lasting: bool) -> io::Result<()> {
        let mut grant = self.get(id).ok_or(io::ErrorKind::NotFound)?;
        grant.allowed = true;
        grant.lasting = lasting;
        self.keep(id, &grant)
    }

    /// Takes one back.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        match self.path(id) {
            Some(path) => fs::remove_file(path),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Forgets what was asked and what was allowed for as long as the host ran.
    pub fn begin(&self) {
        for (id, _) in self
            .list()
            .into_iter()
            .filter(|(_, grant)| !(grant.allowed && grant.lasting))
        {
            let _ = self.remove(&id);
        }
    }

    /// What a client may reach by them.
    pub fn roots(&self, client: &str) -> Vec<Root> {
        let mine = self
            .list()
            .into_iter()
            .filter(|(_, grant)| grant.allowed && grant.client == client);
        let roots = mine.filter_map(|(_, grant)| {
            Some(Root {
                path: uri::path(&grant.uri)?,
                read: grant.read,
                write: grant.write,
                exact: true,
                project: false,
            })
        });
        roots.collect()
    }
}

impl Grant {
    /// A request for a path, which is meant as it is now: a link that changes later leads nowhere else.
    pub fn wanted(client: &str, path: &Path, read: bool, write: bool) -> Option<Self> {
        Some(Self {
            client: client.to_owned(),
            uri: uri::file(settled(path)?),
            read,
            write,
            allowed: false,
            lasting: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_files_that_can_be_seen_and_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let grants = Grants::of_home(home.path());
        assert_eq!(grants.list(), []);
        let mut grant = Grant::wanted("me", Path::new("/etc/hosts"), true, false).unwrap();
        let id = grants.put(&grant).unwrap();
        assert_eq!(grants.roots("me"), []);
        grant.allowed = true;
        assert_eq!(grants.put(&grant).unwrap(), id);
        assert_eq!(grants.list(), [(id.clone(), grant.clone())]);
        assert_eq!(grants.roots("me").len(), 1);
        assert_eq!(grants.roots("other"), []);
        grants.begin();
        assert_eq!(grants.list(), []);
        grant.lasting = true;
        grants.put(&grant).unwrap();
        grants.begin();
        assert_eq!(grants.roots("me").len(), 1);
        grants.remove(&id).unwrap();
        assert_eq!(grants.roots("me"), []);
        assert!(grants.remove("../seq").is_err() && grants.remove(&id).is_err());
    }
}

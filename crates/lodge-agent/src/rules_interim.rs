use lodge_events::{PermissionRequest, PermissionResultKind};
use std::path::{Path, PathBuf};
pub enum Decision {
    Allow { why: String },
    Deny { why: String, kind: PermissionResultKind },
    Ask,
}
pub struct Place {
    pub cwd: PathBuf,
    pub roots: Vec<PathBuf>,
    pub session_dir: Option<PathBuf>,
}
#[derive(Clone, Copy, PartialEq)]
pub enum Policy {
    AutoSafe,
    AskAll,
    ApproveAll,
    DenyAll,
}
pub enum Scope {
    Session,
    Location,
    Permanent,
}
#[derive(Default)]
pub struct Rules;
impl Rules {
    pub fn load(_: &Path, _: &Path) -> Self {
        Self
    }
    pub fn decide(&self, request: &PermissionRequest, policy: Policy, place: &Place) -> Decision {
        let inside = |p: &str| place.roots.iter().any(|r| Path::new(p).starts_with(r));
        match (policy, request) {
            (Policy::ApproveAll, _) => Decision::Allow { why: String::new() },
            (Policy::DenyAll, _) => Decision::Deny {
                why: "denied".into(),
                kind: PermissionResultKind::DeniedByRules,
            },
            (Policy::AutoSafe, PermissionRequest::Read(r)) if inside(&r.path) => Decision::Allow { why: String::new() },
            (Policy::AutoSafe, PermissionRequest::Shell(s))
                if s.commands.iter().all(|c| c.read_only)
                    && !s.commands.is_empty()
                    && !s.has_write_file_redirection =>
            {
                Decision::Allow { why: String::new() }
            }
            _ => Decision::Ask,
        }
    }
    pub fn approve(&mut self, _: &PermissionRequest, _: Scope, _: &Path) -> Result<(), String> {
        Ok(())
    }
}

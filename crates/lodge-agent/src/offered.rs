//! The tools that clients were told about, and those that the model has seen.

use lodge_events::SessionToolsUpdated;

use crate::session::Shared;

/// What was said about tools so far.
#[derive(Default)]
pub(crate) struct Offered {
    /// The model and the tools that clients were told of; nothing before the first turn.
    told: Option<(String, Vec<String>)>,
    /// The tools of the last turn.
    seen: Vec<String>,
}

impl Shared {
    /// Tells clients when other tools, or tools for another model, are offered than the last time; and the model, with
    /// the next message, of tools that are gone or new.
    pub(crate) fn tell_tools(&self) {
        let now = self.tell();
        let mut offered = self.offered.lock();
        let before = std::mem::replace(&mut offered.seen, now.clone());
        let absent = |names: &[String], from: &[String]| -> Vec<String> {
            let absent = names.iter().filter(|name| !from.contains(name));
            absent.cloned().collect()
        };
        let mut said = Vec::new();
        // In the first turn all are new, and that is no news.
        let new = absent(&now, &before);
        if !new.is_empty() && !before.is_empty() {
            said.push(format!("New tools available: {}", new.join(", ")));
        }
        let lost = absent(&before, &now);
        if !lost.is_empty() {
            said.push(format!(
                "Tools no longer available: {}\n\nImportant: Do not attempt to call tools that are no longer available unless \
                 you've been notified that they're available again.",
                lost.join(", ")
            ));
        }
        if !said.is_empty() {
            let said = said.join("\n\n");
            *self.notice.lock() = Some(format!("<tools_changed_notice>\n{said}\n</tools_changed_notice>"));
        }
    }

    /// Tells clients of other tools between and during turns. Before the first turn nobody has been told of any.
    pub(crate) fn retell_tools(&self) {
        if self.offered.lock().told.is_some() {
            let now = self.tell();
            // A turn that runs offers the model what comes; what goes is told with the next message.
            let mut offered = self.offered.lock();
            for name in now {
                if !offered.seen.contains(&name) {
                    offered.seen.push(name);
                }
            }
        }
    }

    fn tell(&self) -> Vec<String> {
        let model = self.settings.lock().model.info().id.clone();
        let names: Vec<String> = self.tools().into_iter().map(|(spec, _)| spec.name).collect();
        let now = (model.clone(), names.clone());
        let mut offered = self.offered.lock();
        if offered.told.as_ref() != Some(&now) {
            offered.told = Some(now);
            self.recorder.note(SessionToolsUpdated { model });
        }
        names
    }
}

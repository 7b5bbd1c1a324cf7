//! Watches: changes of files, told to whoever listens. A watch lives as long as somebody does.

use std::{
    ops::ControlFlow,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use ahp_types::{
    StateAction,
    actions::ResourceWatchChangedAction,
    state::{ResourceChange, ResourceChangeType, ResourceWatchState},
};
use lodge_files::{Change, Changes, Tree};
use serde_json::{Value, json};

use crate::{
    face::Face,
    state::{Service, Uri},
    uri,
};

/// Who made a watch has so long to subscribe to it.
const UNHEARD: Duration = Duration::from_secs(60);

/// What a watch rests on that is only there because a person allowed it. It ends when that is taken back.
pub(crate) struct Granted {
    pub(crate) client: String,
    pub(crate) path: PathBuf,
}

/// A watch that is running.
pub(crate) struct Watch {
    /// Whether anybody has listened to it yet.
    heard: bool,
    /// Closed: the watch ends.
    _running: OwnedFd,
}

impl Face {
    /// How many watches there are.
    pub(crate) fn watches(&self) -> usize {
        self.watches.lock().len()
    }

    /// Opens the channel of a watch. It has a thread, because looking at files blocks.
    pub(crate) fn open_watch(
        self: &Arc<Self>,
        state: ResourceWatchState,
        tree: Tree,
        granted: Option<Granted>,
    ) -> std::io::Result<Uri> {
        let channel: Uri = format!("ahp-resource-watch:/{}", uuid::Uuid::new_v4()).into();
        let (stopped, running) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let watch = Watch {
            heard: false,
            _running: running,
        };
        let root = state.root.clone();
        self.watches.lock().insert(channel.clone(), watch);
        self.inner
            .lock()
            .core
            .insert_service(channel.clone(), None, Service::Watch(state));
        let (face, told) = (Arc::downgrade(self), channel.clone());
        let follow = move || follow(&face, &told, &root, &stopped, tree, granted.as_ref());
        if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn(follow) {
            self.close_watch(&channel);
            return Err(error);
        }
        let (face, unheard) = (self.clone(), channel.clone());
        self.later(UNHEARD, move || {
            let never = face.watches.lock().get(&unheard).is_some_and(|watch| !watch.heard);
            if never {
                face.close_watch(&unheard);
            }
        });
        Ok(channel)
    }

    fn tell(&self, channel: &str, root: &str, changes: Changes) {
        let items = changes.into_iter().map(|(below, change)| {
            let r#type = match change {
                Change::Added => ResourceChangeType::Added,
                Change::Updated => ResourceChangeType::Updated,
                Change::Deleted => ResourceChangeType::Deleted,
            };
            let uri = if below.as_os_str().is_empty() {
                root.to_owned()
            } else {
                uri::child(root, &below)
            };
            ResourceChange { uri, r#type }
        });
        let items: Vec<ResourceChange> = items.collect();
        let changes = json!({ "items": items });
        let mut inner = self.inner.lock();
        if inner.core.is_heard(channel) {
            let action = StateAction::ResourceWatchChanged(ResourceWatchChangedAction { changes });
            inner.core.publish(channel, &action, None);
        }
    }

    /// Somebody came to a channel or left one.
    pub(crate) fn listeners_changed(self: &Arc<Self>) {
        self.watchers_changed();
        self.telemetry_changed();
    }

    /// Watches that had listeners and have none any more end.
    fn watchers_changed(&self) {
        let mut watches = self.watches.lock();
        if watches.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        {
            let inner = self.inner.lock();
            for (channel, watch) in watches.iter_mut() {
                let heard = inner.core.is_heard(channel);
                if watch.heard && !heard {
                    ended.push(channel.clone());
                }
                watch.heard |= heard;
            }
        }
        for channel in &ended {
            watches.remove(channel);
        }
        drop(watches);
        let mut inner = self.inner.lock();
        for channel in &ended {
            inner.core.remove_service(channel);
        }
    }

    fn close_watch(&self, channel: &str) {
        self.watches.lock().remove(channel);
        self.inner.lock().core.remove_service(channel);
    }
}

/// Tells what happens until the watch is closed.
fn follow(face: &Weak<Face>, channel: &str, root: &str, stopped: &OwnedFd, tree: Tree, granted: Option<&Granted>) {
    tree.follow(stopped, |changes| {
        let Some(face) = face.upgrade() else {
            return ControlFlow::Break(());
        };
        if granted.is_some_and(|granted| !face.files(&granted.client).files().allows(&granted.path, false)) {
            face.close_watch(channel);
            return ControlFlow::Break(());
        }
        if !changes.is_empty() {
            face.tell(channel, root, changes);
        }
        ControlFlow::Continue(())
    });
}

/// The patterns of a watch: `{ "items": […] }`, or the bare list.
pub(crate) fn patterns(value: &Value) -> Result<Vec<String>, String> {
    let items = value.get("items").unwrap_or(value).as_array();
    let items = items.ok_or("patterns are a list of texts")?;
    let text = |item: &Value| item.as_str().map(str::to_owned).ok_or("a pattern is a text".to_owned());
    items.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_a_list_of_texts() {
        for good in [json!(["a", "b"]), json!({ "items": ["a", "b"] })] {
            assert_eq!(patterns(&good).unwrap(), ["a", "b"]);
        }
        for bad in [json!("x"), json!([1]), json!({ "items": {} })] {
            assert!(patterns(&bad).is_err(), "{bad}");
        }
    }
}

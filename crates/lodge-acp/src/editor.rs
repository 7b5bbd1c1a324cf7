//! The client's own files, if it offers them: they include changes that are not saved.

use std::{path::PathBuf, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use lodge_host::{ClientCalls, Editor};
use lodge_rpc::Peer;
use serde_json::{Value, json};

use crate::wire::FileCapabilities;

/// A session's access to the files of the client that has it open.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) peer: Peer,
    pub(crate) session_id: String,
    pub(crate) can: FileCapabilities,
}

impl ClientCalls for Files {
    fn editor(&self) -> Option<Arc<dyn Editor>> {
        let any = self.can.read_text_file || self.can.write_text_file;
        any.then(|| Arc::new(self.clone()) as Arc<dyn Editor>)
    }
}

impl Files {
    async fn ask(self, method: &'static str, params: Value) -> Option<Value> {
        let answer = self.peer.request(method, &params).answer().await?;
        answer
            .inspect_err(|error| tracing::debug!(method, %error, "the editor did not"))
            .ok()
    }
}

impl Editor for Files {
    fn read(&self, path: PathBuf) -> BoxFuture<'static, Option<String>> {
        if !self.can.read_text_file {
            return std::future::ready(None).boxed();
        }
        let params = json!({ "sessionId": self.session_id, "path": path });
        let read = self.clone().ask("fs/read_text_file", params);
        read.map(|answer| Some(answer?["content"].as_str()?.to_owned())).boxed()
    }

    fn write(&self, path: PathBuf, text: String) -> BoxFuture<'static, bool> {
        if !self.can.write_text_file {
            return std::future::ready(false).boxed();
        }
        let params = json!({ "sessionId": self.session_id, "path": path, "content": text });
        let written = self.clone().ask("fs/write_text_file", params);
        written.map(|answer| answer.is_some()).boxed()
    }
}

//! Work that blocks is done beside the runtime. It stays in this room: faces are given operations that say what they do.

pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)
}

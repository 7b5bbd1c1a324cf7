//! Runs blocking work on tokio's blocking threads. Private to this crate: faces call operations named after their purpose.

pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)
}

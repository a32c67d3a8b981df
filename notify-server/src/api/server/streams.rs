//! The tasks of HTTP/2 streams.

use futures_util::future::{AbortHandle, Abortable};
use hyper_util::server::conn::auto;

/// hyper's builder of HTTP/1 and HTTP/2 connections.
pub(crate) type Builder = auto::Builder<StreamExecutor>;

// Each stream of an HTTP/2 connection runs in a task that can be aborted. Aborting the task resets
// the stream, because hyper resets a stream that is dropped before the end of its response.

tokio::task_local! {
    static STREAM: AbortHandle;
}

/// Spawns an abortable task for each stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor;

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (handle, registration) = AbortHandle::new_pair();
        tokio::spawn(STREAM.scope(handle, Abortable::new(stream, registration)));
    }
}

/// The handle that aborts the stream of the current task.
pub(super) fn current_stream() -> Option<AbortHandle> {
    STREAM.try_with(Clone::clone).ok()
}

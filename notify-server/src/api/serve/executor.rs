//! Runs the streams of HTTP/2 connections, each so that it can be ended alone: dropped before its
//! answer is over, hyper resets it.

use futures_util::future::{AbortHandle, Abortable};

tokio::task_local! {
    static STREAM: AbortHandle;
}

/// Spawns a task for each stream.
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

/// Ends the stream in whose task this is called.
pub(super) fn current_stream() -> Option<AbortHandle> {
    STREAM.try_with(Clone::clone).ok()
}

//! Answers on their way to a client that may not take them. Over HTTP/2 the client's windows decide
//! what is sent, so that the socket alone does not show who reads nothing. Each body is handed out in
//! pieces, which tell when they are written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::AbortHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::activity::Activity;
use super::executor;
use crate::api::error::ApiError;
use crate::api::pace::Pace;

/// Largest piece of a body: a frame of HTTP/2 by default (RFC 9113 section 6.5.2), in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 16_384;
/// Answers that one HTTP/2 connection may hold before another read on it waits, in KiB.
const HELD_KIB_MAX: u32 = 8_192;
/// What a read reserves of that until its size is known, in KiB.
const READ_KIB: u32 = 512;
/// How long a read waits until earlier answers of its connection are taken; then it is 503.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// Transfers that are remembered before those that ended are looked for.
const REMEMBERED_MIN: usize = 128;

/// The transfers of one connection.
pub(super) struct Transfers {
    activity: Arc<Activity>,
    timeout: Duration,
    room: Arc<Semaphore>,
    open: Mutex<Vec<Weak<Transfer>>>,
}

/// Room for the answer of one request; without one it is bounded by the protocol: HTTP/1 answers one
/// request after the other.
pub(crate) struct AnswerRoom {
    connection: Option<Arc<Transfers>>,
    reserved: Option<OwnedSemaphorePermit>,
}

/// One answer on its way.
pub(crate) struct Transfer {
    activity: Arc<Activity>,
    timeout: Duration,
    stream: Option<AbortHandle>,
    progress: Mutex<Progress>,
    _room: Option<OwnedSemaphorePermit>,
}

struct Progress {
    /// Bytes that hyper has and the socket has not.
    outstanding: usize,
    pace: Pace,
    is_aborted: bool,
}

/// A part of a body that knows when it is written.
pub(crate) struct Piece {
    bytes: Bytes,
    transfer: Option<Arc<Transfer>>,
}

impl Transfers {
    pub(super) fn new(activity: Arc<Activity>, timeout: Duration) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(HELD_KIB_MAX as usize));
        Arc::new(Self { activity, timeout, room, open: Mutex::default() })
    }

    /// Ends the streams whose clients take too little; true when one cannot be ended alone and the
    /// connection has to be.
    pub(super) fn end_stuck(&self) -> bool {
        let now = self.activity.flowing();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|transfer| transfer.strong_count() > 0);
        let mut stuck = open.iter().filter_map(Weak::upgrade).filter(|open| open.is_stuck(now));
        stuck.any(|transfer| !transfer.abort())
    }

    fn remember(&self, transfer: &Arc<Transfer>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= REMEMBERED_MIN && open.len() == open.capacity() {
            open.retain(|transfer| transfer.strong_count() > 0);
        }
        open.push(Arc::downgrade(transfer));
    }
}

impl AnswerRoom {
    /// Room on a connection; `None` for one of HTTP/1.
    pub(super) fn on(connection: Option<Arc<Transfers>>) -> Self {
        Self { connection, reserved: None }
    }

    /// Waits until the connection may hold the answer of a read.
    pub(crate) async fn reserve(&mut self) -> Result<(), ApiError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let reserving = connection.room.clone().acquire_many_owned(READ_KIB);
        match tokio::time::timeout(ROOM_WAIT, reserving).await {
            Ok(Ok(reserved)) => {
                self.reserved = Some(reserved);
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(ApiError::Busy),
        }
    }

    /// The transfer of an answer of that size, now that it is known; 0 where it comes in pieces.
    /// Called within the stream's own task.
    pub(super) fn transfer(self, bytes: usize) -> Option<Arc<Transfer>> {
        let connection = self.connection?;
        let (activity, timeout) = (connection.activity.clone(), connection.timeout);
        let pace = Pace::begin(activity.flowing(), timeout);
        let transfer = Arc::new(Transfer {
            activity,
            timeout,
            stream: executor::current_stream(),
            progress: Mutex::new(Progress { outstanding: 0, pace, is_aborted: false }),
            _room: fitted(self.reserved, &connection.room, bytes),
        });
        connection.remember(&transfer);
        Some(transfer)
    }
}

/// What was reserved, made as large as the answer. An answer that is there is not refused: where it
/// is larger than what is left, it takes that.
fn fitted(
    reserved: Option<OwnedSemaphorePermit>,
    room: &Arc<Semaphore>,
    bytes: usize,
) -> Option<OwnedSemaphorePermit> {
    let mut reserved = reserved?;
    let kib = bytes.div_ceil(1_024);
    let spare = reserved.num_permits().saturating_sub(kib);
    drop(reserved.split(spare));
    let missing = kib.saturating_sub(reserved.num_permits()).min(room.available_permits());
    let missing = u32::try_from(missing).unwrap_or(u32::MAX);
    if let Ok(more) = room.clone().try_acquire_many_owned(missing) {
        reserved.merge(more);
    }
    Some(reserved)
}

impl Transfer {
    fn is_stuck(&self, now: Duration) -> bool {
        let progress = self.progress();
        progress.outstanding > 0 && progress.pace.is_over(now)
    }

    /// Resets its stream; false when that is not possible, or did not help before.
    fn abort(&self) -> bool {
        let mut progress = self.progress();
        let Some(stream) = self.stream.as_ref().filter(|_| !progress.is_aborted) else {
            return false;
        };
        stream.abort();
        progress.is_aborted = true;
        true
    }

    fn handed_out(&self, bytes: usize) {
        let now = self.activity.flowing();
        let mut progress = self.progress();
        if progress.outstanding == 0 {
            progress.pace = Pace::begin(now, self.timeout);
        }
        progress.outstanding += bytes;
    }

    fn written(&self, bytes: usize) {
        let now = self.activity.flowing();
        let mut progress = self.progress();
        progress.outstanding -= bytes;
        progress.pace.moved(now, bytes);
    }

    fn dropped(&self, bytes: usize) {
        self.progress().outstanding -= bytes;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    pub(crate) fn new(bytes: Bytes, transfer: Option<Arc<Transfer>>) -> Self {
        if let Some(transfer) = &transfer {
            transfer.handed_out(bytes.len());
        }
        Self { bytes, transfer }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(transfer) = &self.transfer {
            transfer.written(count);
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(transfer) = &self.transfer {
            transfer.dropped(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::serve::Limits;

    fn connection() -> Arc<Transfers> {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(15),
            connections_max: 1,
            connections_per_address_max: 0,
            trusted_proxies: "".parse().unwrap(),
        };
        Transfers::new(Arc::new(Activity::new(&limits)), limits.write_timeout)
    }

    async fn read_of(connection: &Arc<Transfers>) -> Result<AnswerRoom, ApiError> {
        let mut room = AnswerRoom::on(Some(connection.clone()));
        room.reserve().await.map(|()| room)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_for_the_answers_that_a_connection_holds() {
        let connection = connection();
        let mut held = Vec::new();
        while let Ok(room) = read_of(&connection).await {
            held.push(room.transfer(1_048_576));
        }
        assert_eq!(held.len(), 8, "8 MiB of answers of a mebibyte");
        held.pop();
        assert!(read_of(&connection).await.is_ok(), "one was taken");
        let before = tokio::time::Instant::now();
        held.push(read_of(&connection).await.unwrap().transfer(20_000_000));
        assert!(matches!(read_of(&connection).await, Err(ApiError::Busy)));
        assert_eq!(before.elapsed(), ROOM_WAIT);
    }

    #[tokio::test]
    async fn small_answers_take_what_they_need_and_http_1_takes_none() {
        let connection = connection();
        let mut held = Vec::new();
        for _ in 0..200 {
            held.push(read_of(&connection).await.unwrap().transfer(2_000));
        }
        let room = connection.room.available_permits();
        assert_eq!(room, HELD_KIB_MAX as usize - 400);
        let mut of_http1 = AnswerRoom::on(None);
        of_http1.reserve().await.unwrap();
        assert!(of_http1.transfer(1_000_000).is_none());
    }

    #[tokio::test]
    async fn what_is_written_or_dropped_is_outstanding_no_more() {
        let transfer = AnswerRoom::on(Some(connection())).transfer(10).unwrap();
        let mut piece = Piece::new(Bytes::from_static(b"0123456789"), Some(transfer.clone()));
        assert!(transfer.is_stuck(Duration::from_secs(16)));
        assert!(!transfer.is_stuck(Duration::from_secs(14)));
        piece.advance(4);
        assert_eq!(transfer.progress().outstanding, 6);
        drop(piece);
        assert!(!transfer.is_stuck(Duration::from_secs(1_000)), "idle is not stuck");
        assert!(!transfer.abort(), "there is no stream of its own");
    }
}

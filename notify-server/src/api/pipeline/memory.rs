//! Limits of the memory that requests hold: their bodies, and responses that clients have not read
//! yet. Each kind has a limit for all callers together and one per owner, so that one caller cannot
//! use up what others need.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use notify_core::KeyId;
use tokio::sync::Notify;

use crate::api::caller::Caller;
use crate::api::error::ApiError;
use crate::store::AppNo;

/// Limits in bytes: of all owners together, and of one owner. [`BodyMemory::new`] raises the limits
/// of bodies if one body of `--max-body-bytes` would not fit.
struct Limits {
    total: usize,
    per_owner: usize,
}

/// Bodies of anonymous callers, which are votes on poll pages and requests of browsers.
const ANONYMOUS_BODIES: Limits = Limits { total: 64 * MIB, per_owner: MIB };
/// Bodies of calls of Messenger's webhook. Such a call can be authenticated only after its whole
/// body is read.
const WEBHOOK_BODIES: Limits = Limits { total: 64 * MIB, per_owner: 2 * MIB };
/// Bodies of authenticated callers.
const KEY_BODIES: Limits = Limits { total: 128 * MIB, per_owner: 32 * MIB };
/// Unread responses to anonymous callers, apart from bodies that all responses share.
const ANONYMOUS_RESPONSES: Limits = Limits { total: 64 * MIB, per_owner: MIB };
/// Unread responses to applications.
const KEY_RESPONSES: Limits = Limits { total: 256 * MIB, per_owner: 32 * MIB };
/// Unread responses to administrators.
const ADMIN_RESPONSES: Limits = Limits { total: 32 * MIB, per_owner: 32 * MIB };
const MIB: usize = 1_048_576;
/// What a read reserves for its response until the size is known, in bytes.
const READ_BYTES: usize = 524_288;
/// What a write reserves for its response until the size is known, in bytes.
const WRITE_BYTES: usize = 16_384;
/// How long a read waits until clients have read earlier responses to the same key. After this time,
/// the read gets 503.
const READ_WAIT: Duration = Duration::from_secs(5);
/// How often a waiting read checks whether other keys have released memory. Only memory that its
/// own key releases wakes the read.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The owner of a body or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// An API key.
    Key(KeyId),
    /// All administrators.
    Admin,
    /// A Telegram webhook. Its secret header authenticates a call before the body is read.
    TelegramWebhook(AppNo),
    /// A client address that calls Messenger webhooks.
    Messenger(IpAddr),
    /// A client address.
    Client(IpAddr),
}

/// Limits of the bodies of current requests.
pub(super) struct BodyMemory {
    anonymous: Arc<Pool>,
    webhooks: Arc<Pool>,
    keys: Arc<Pool>,
}

/// Limits of responses that are being made or have not been read yet.
pub(super) struct ResponseMemory {
    anonymous: Arc<Pool>,
    keys: Arc<Pool>,
    admins: Arc<Pool>,
}

struct Pool {
    limits: Limits,
    usage: Mutex<Usage>,
}

#[derive(Default)]
struct Usage {
    total: usize,
    by_owner: HashMap<Owner, OwnerUsage>,
}

#[derive(Default)]
struct OwnerUsage {
    bytes: usize,
    /// Notified when `bytes` shrinks.
    released: Arc<Notify>,
}

/// The memory of one body or response, released on drop.
pub(crate) struct MemoryPermit {
    pool: Arc<Pool>,
    owner: Owner,
    bytes: usize,
    overflow: Overflow,
}

/// What happens to a response that exceeds the limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// An error is sent instead.
    Refuse,
    /// The response is sent, and counted beyond the limit: a completed write is always answered.
    Allow,
}

impl Owner {
    /// The owner of a request's body and response.
    pub(super) fn of(caller: &Caller, client: IpAddr) -> Self {
        match caller {
            Caller::App(access) => Self::Key(access.key),
            Caller::Admin(_) | Caller::Console(Some(_)) => Self::Admin,
            Caller::Platform(webhook) => match webhook.authenticated_app() {
                Some(app) => Self::TelegramWebhook(app),
                None => Self::Messenger(client),
            },
            Caller::DeviceApp(_)
            | Caller::Browser(_)
            | Caller::Console(None)
            | Caller::Anonymous => Self::Client(client),
        }
    }

    /// Whether responses to this owner are small. No memory is reserved for such a response before
    /// it is made.
    fn has_small_responses(self) -> bool {
        match self {
            Self::Client(_) | Self::Messenger(_) | Self::TelegramWebhook(_) => true,
            Self::Key(_) | Self::Admin => false,
        }
    }
}

impl BodyMemory {
    /// Makes the limits. One body of `body_bytes_max` bytes always fits.
    pub(super) fn new(body_bytes_max: usize) -> Self {
        let pool = |limits: Limits| {
            let total = limits.total.max(body_bytes_max);
            Pool::new(Limits { total, per_owner: limits.per_owner.max(body_bytes_max) })
        };
        Self {
            anonymous: pool(ANONYMOUS_BODIES),
            webhooks: pool(WEBHOOK_BODIES),
            keys: pool(KEY_BODIES),
        }
    }

    /// Returns a permit for a body of the declared length. The permit reserves nothing yet and
    /// grows while the body is read, so that a caller cannot take memory from others by only
    /// declaring a length.
    ///
    /// # Errors
    /// 503 if a body of this length does not fit now.
    pub(super) fn admit(
        &self,
        owner: Owner,
        declared_bytes: u64,
    ) -> Result<MemoryPermit, ApiError> {
        let pool = match owner {
            Owner::Client(_) => &self.anonymous,
            Owner::Messenger(_) => &self.webhooks,
            Owner::Key(_) | Owner::Admin | Owner::TelegramWebhook(_) => &self.keys,
        };
        let declared = usize::try_from(declared_bytes).unwrap_or(usize::MAX);
        if !pool.usage().fits(&pool.limits, owner, declared) {
            return Err(ApiError::Busy);
        }
        Ok(MemoryPermit { pool: pool.clone(), owner, bytes: 0, overflow: Overflow::Refuse })
    }
}

impl ResponseMemory {
    pub(super) fn new() -> Self {
        let [anonymous, keys, admins] =
            [ANONYMOUS_RESPONSES, KEY_RESPONSES, ADMIN_RESPONSES].map(Pool::new);
        Self { anonymous, keys, admins }
    }

    /// Returns a permit for the response to a read, before the response is made. For a key or an
    /// administrator, it reserves [`READ_BYTES`], and waits until earlier responses have been read
    /// and leave enough memory.
    ///
    /// # Errors
    /// 503 after [`READ_WAIT`].
    pub(super) async fn reserve_read(&self, owner: Owner) -> Result<MemoryPermit, ApiError> {
        let mut permit = self.permit(owner, Overflow::Refuse);
        if owner.has_small_responses() || permit.grow(READ_BYTES).is_ok() {
            return Ok(permit);
        }
        let released = permit.pool.usage().by_owner.entry(owner).or_default().released.clone();
        let waiting = async {
            loop {
                let _ = tokio::time::timeout(CHECK_INTERVAL, released.notified()).await;
                if permit.grow(READ_BYTES).is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(READ_WAIT, waiting).await.map_err(|_| ApiError::Busy)?;
        Ok(permit)
    }

    /// Returns a permit for the response to a write. A completed write is always answered, even if
    /// the response exceeds the limits. Therefore a key whose unread responses take all its memory
    /// is refused here, before the body of its request is read.
    ///
    /// # Errors
    /// 503 when the limits are reached.
    pub(super) fn reserve_write(&self, owner: Owner) -> Result<MemoryPermit, ApiError> {
        let mut permit = self.permit(owner, Overflow::Allow);
        if !owner.has_small_responses() {
            permit.grow(WRITE_BYTES)?;
        }
        Ok(permit)
    }

    fn permit(&self, owner: Owner, overflow: Overflow) -> MemoryPermit {
        let pool = match owner {
            Owner::Client(_) | Owner::Messenger(_) | Owner::TelegramWebhook(_) => &self.anonymous,
            Owner::Key(_) => &self.keys,
            Owner::Admin => &self.admins,
        };
        MemoryPermit { pool: pool.clone(), owner, bytes: 0, overflow }
    }
}

impl Pool {
    fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, usage: Mutex::default() })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    fn fits(&self, limits: &Limits, owner: Owner, bytes: usize) -> bool {
        let owner_bytes = self.by_owner.get(&owner).map_or(0, |usage| usage.bytes);
        self.total.saturating_add(bytes) <= limits.total
            && owner_bytes.saturating_add(bytes) <= limits.per_owner
    }

    fn add(&mut self, owner: Owner, bytes: usize) {
        self.total += bytes;
        self.by_owner.entry(owner).or_default().bytes += bytes;
    }

    fn subtract(&mut self, owner: Owner, bytes: usize) {
        self.total -= bytes;
        if let Some(usage) = self.by_owner.get_mut(&owner) {
            usage.bytes -= bytes;
            usage.released.notify_one();
            if usage.bytes == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }
}

impl MemoryPermit {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// 503 when the limits are reached.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut usage = self.pool.usage();
        if !usage.fits(&self.pool.limits, self.owner, bytes) {
            return Err(ApiError::Busy);
        }
        usage.add(self.owner, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Sets the size of a finished response.
    ///
    /// # Errors
    /// 503 when the response to a read exceeds the limits.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), ApiError> {
        if let Some(spare) = self.bytes.checked_sub(bytes) {
            self.release(spare);
            return Ok(());
        }
        let more = bytes - self.bytes;
        let Err(error) = self.grow(more) else { return Ok(()) };
        match self.overflow {
            Overflow::Refuse => Err(error),
            Overflow::Allow => {
                self.pool.usage().add(self.owner, more);
                self.bytes += more;
                Ok(())
            }
        }
    }

    fn release(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.pool.usage().subtract(self.owner, bytes);
        self.bytes -= bytes;
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// The body of a request, and the memory that is reserved for it.
#[derive(Default)]
pub(crate) struct RequestBody {
    /// The body.
    pub(crate) bytes: Bytes,
    pub(super) _memory: Option<MemoryPermit>,
}

impl RequestBody {
    /// A body that the server made itself. The request that caused it has reserved its memory.
    #[cfg(feature = "console")]
    pub(crate) fn of(bytes: Bytes) -> Self {
        Self { bytes, _memory: None }
    }
}

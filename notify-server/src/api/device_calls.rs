//! Rate limits of the calls that apps and browsers make for their own device (`/device/v1`, `/web/v1`), and
//! how many calls were refused.
//!
//! Many phones can have one address: behind the NAT of a carrier, or behind a proxy that the server does not
//! trust. A call with the secret of its device therefore counts for the device, and all others for the client
//! address. Wrong secrets count apart, so that a stranger who tries secrets does not use up the registrations
//! of the phones behind the same address. Wide limits of the address count every call before its body is read:
//! one those with a secret that was right before, and one all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use governor::{DefaultDirectRateLimiter, Quota};
use http::{HeaderMap, HeaderName};
use notify_core::{AppId, DeviceId, Timestamp};

use crate::api::caller::Caller;
use crate::api::error::ApiError;
use crate::api::limiter::{FailureLimiter, Limiter, check_direct, quota_per_minute};
use crate::api::network::network;
use crate::api::request_ctx::RequestCtx;
use crate::bounded_cache::BoundedCache;
use crate::config::Config;
use crate::keys::sha256;
use crate::store::{AppNo, StoreError};
use crate::telemetry::{Metrics, RefusedBy};

/// The most devices that the server remembers after a call with the right secret. A device that is forgotten only
/// has to be looked up again.
const DEVICES_TRACKED_MAX: usize = 100_000;
/// The header with the secret of a device.
const SECRET_HEADER: HeaderName = HeaderName::from_static("x-device-secret");
/// How many devices behind one address can use up their limits at the same time. Without this bound, a
/// stranger could register many devices and call with all of them, or send any number of invalid requests.
const BUSY_DEVICES_PER_ADDRESS: u32 = 100;

/// The limits of apps and of browsers. Each area has its own: a caller with a publishable key cannot use up the
/// limits of the pages of the application.
pub(crate) struct DeviceCalls {
    apps: Area,
    browsers: Area,
    refused: Refused,
    metrics: Arc<Metrics>,
}

/// The limits of one area.
struct Area {
    /// The limit of one device; `None` for no limit.
    device_quota: Option<Quota>,
    /// The devices that called with their secret, by its hash. A secret has 256 random bits, so it is of one device.
    devices: BoundedCache<(AppNo, [u8; 32]), KnownDevice>,
    /// Calls of known devices, and all others.
    all_calls: Limiter<(AppNo, IpAddr, bool)>,
    without_secret: Limiter<(AppNo, IpAddr)>,
    wrong_secrets: FailureLimiter<(AppNo, IpAddr)>,
    registrations: Limiter<AppNo>,
}

/// A device whose secret was right.
#[derive(Clone)]
pub(crate) struct KnownDevice {
    id: DeviceId,
    /// `None` for no limit.
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
}

impl Area {
    fn new(config: &Config) -> Self {
        let per_device = config.web_requests_per_minute;
        Self {
            device_quota: quota_per_minute(per_device),
            devices: BoundedCache::new(DEVICES_TRACKED_MAX),
            all_calls: Limiter::per_minute(per_device.saturating_mul(BUSY_DEVICES_PER_ADDRESS)),
            without_secret: Limiter::per_minute(config.web_address_requests_per_minute),
            wrong_secrets: FailureLimiter::per_minute(per_device),
            registrations: Limiter::per_minute(config.web_subscriptions_per_minute),
        }
    }

    fn prune(&self) {
        self.all_calls.prune();
        self.without_secret.prune();
        self.wrong_secrets.prune();
        self.registrations.prune();
    }
}

impl DeviceCalls {
    pub(crate) fn new(config: &Config, metrics: Arc<Metrics>) -> Self {
        let (apps, browsers) = (Area::new(config), Area::new(config));
        Self { apps, browsers, refused: Refused::default(), metrics }
    }

    /// The refused calls of each application, the last refused first.
    pub(crate) fn refused(&self) -> Vec<(AppId, RefusedCounts)> {
        let mut refused: Vec<_> =
            self.refused.lock().iter().map(|(app, counts)| (*app, *counts)).collect();
        refused.sort_by_key(|(app, counts)| (std::cmp::Reverse(counts.last_at), *app));
        refused
    }

    /// Removes expired state; called periodically.
    pub(crate) fn prune(&self) {
        self.apps.prune();
        self.browsers.prune();
    }
}

/// The calls of an application that were refused since the server started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RefusedCounts {
    by: [u64; RefusedBy::ALL.len()],
    /// When the last one was refused.
    pub(crate) last_at: Timestamp,
    /// The proxy that forwarded the last call that a limit of its address refused, if that proxy is not trusted.
    pub(crate) untrusted_proxy: Option<IpAddr>,
}

impl RefusedCounts {
    /// The number of calls that a limit refused.
    pub(crate) fn by(&self, limit: RefusedBy) -> u64 {
        self.by[limit as usize]
    }
}

/// The refused calls by application. The keys are bounded by the number of applications, since a caller of
/// none is refused earlier.
#[derive(Default)]
struct Refused(Mutex<HashMap<AppId, RefusedCounts>>);

impl Refused {
    fn lock(&self) -> MutexGuard<'_, HashMap<AppId, RefusedCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of a device.
pub(crate) struct DeviceCall<'c> {
    calls: &'c DeviceCalls,
    area: &'c Area,
    app: AppNo,
    app_id: AppId,
    client: IpAddr,
    untrusted_proxy: Option<IpAddr>,
    at: Timestamp,
    /// The SHA-256 of the secret, if the head of the request has exactly one.
    pub(crate) secret: Option<[u8; 32]>,
}

impl<'c> DeviceCall<'c> {
    /// The call of a request; `None` if it is not below `/device/v1` or `/web/v1`.
    pub(crate) fn by(
        calls: &'c DeviceCalls,
        caller: &Caller,
        (address, untrusted_proxy): (IpAddr, Option<IpAddr>),
        headers: &HeaderMap,
        at: Timestamp,
    ) -> Option<Self> {
        let (area, app, app_id) = match caller {
            Caller::Browser(origin) => (&calls.browsers, origin.web.no, origin.app),
            Caller::DeviceApp(access) => (&calls.apps, access.no, access.app.id),
            Caller::App(_)
            | Caller::Admin(_)
            | Caller::Platform(_)
            | Caller::Console(_)
            | Caller::Anonymous => return None,
        };
        let (client, secret) = (network(address), secret_hash(headers));
        Some(Self { calls, area, app, app_id, client, untrusted_proxy, at, secret })
    }

    /// The call of a request below `/device/v1` or `/web/v1`.
    pub(crate) fn of(ctx: &'c RequestCtx) -> Self {
        let (calls, from) = (&ctx.api.device_calls, (ctx.address, ctx.untrusted_proxy));
        let call = Self::by(calls, &ctx.caller, from, ctx.headers(), ctx.received_at);
        call.expect("the pipeline authenticates every request of these areas")
    }

    /// Counts the call, before its body is read: for the device whose secret it has in its head, and for the address.
    ///
    /// # Errors
    /// 429 when the device or the address exceeds its limit.
    pub(crate) fn count(&self) -> Result<(), ApiError> {
        let known = self.secret.and_then(|secret| self.area.devices.get(&(self.app, secret)));
        if let Some(device) = &known {
            self.count_for_device(device)?;
        }
        let address = (self.app, self.client, known.is_some());
        self.counted(RefusedBy::Address, self.area.all_calls.check(&address))
    }

    /// Whether the call has the secret of its device, which `read` finds in the store. Counts a secret of the body
    /// for the device, and a wrong one for the address.
    ///
    /// # Errors
    /// 429 when the device exceeds its limit, or after too many wrong secrets from the same address.
    pub(crate) async fn check_secret(
        &self,
        device: &DeviceId,
        secret: [u8; 32],
        read: impl Future<Output = Result<bool, StoreError>>,
    ) -> Result<bool, ApiError> {
        let known = self.area.devices.get(&(self.app, secret));
        match &known {
            Some(known) if self.secret != Some(secret) => self.count_for_device(known)?,
            Some(_) => {}
            None => {
                let not_locked = self.area.wrong_secrets.check_not_locked(&self.address());
                self.counted(RefusedBy::Address, not_locked)?;
            }
        }
        if !read.await? {
            // The secret may have been replaced.
            if known.is_some_and(|known| known.id == *device) {
                self.area.devices.remove(&(self.app, secret));
            }
            self.count_wrong_secret()?;
            return Ok(false);
        }
        if known.is_none() {
            self.count_for_device(&self.remember(device.clone(), secret))?;
        }
        Ok(true)
    }

    /// Remembers that a device has this secret.
    pub(crate) fn remember(&self, id: DeviceId, secret: [u8; 32]) -> KnownDevice {
        let quota = self.area.device_quota;
        let limiter = || quota.map(|quota| Arc::new(DefaultDirectRateLimiter::direct(quota)));
        let make = || KnownDevice { id, limiter: limiter() };
        self.area.devices.get_or_insert_with((self.app, secret), make)
    }

    fn count_for_device(&self, device: &KnownDevice) -> Result<(), ApiError> {
        let Some(limiter) = &device.limiter else { return Ok(()) };
        self.counted(RefusedBy::Device, check_direct(limiter))
    }

    /// Counts a call without the secret of its device.
    ///
    /// # Errors
    /// 429 when the address has sent too many of them.
    pub(crate) fn count_wrong_secret(&self) -> Result<(), ApiError> {
        self.counted(RefusedBy::Address, self.area.wrong_secrets.count(&self.address()))
    }

    /// Counts a call that needs no device.
    ///
    /// # Errors
    /// 429 when the address has sent too many of them.
    pub(crate) fn count_without_device(&self) -> Result<(), ApiError> {
        self.counted(RefusedBy::Address, self.area.without_secret.check(&self.address()))
    }

    /// Counts the registration of a new device. The limit of the address comes first, so that a client over
    /// its own limit does not use up that of the application.
    ///
    /// # Errors
    /// 429 when the address or the application has too many of them.
    pub(crate) fn count_registration(&self) -> Result<(), ApiError> {
        self.count_without_device()?;
        self.counted(RefusedBy::Application, self.area.registrations.check(&self.app))
    }

    fn address(&self) -> (AppNo, IpAddr) {
        (self.app, self.client)
    }

    /// The result of a limit. Counts a refusal for the operators.
    fn counted(&self, limit: RefusedBy, result: Result<(), ApiError>) -> Result<(), ApiError> {
        if result.is_err() {
            let mut refused = self.calls.refused.lock();
            let counts = refused.entry(self.app_id).or_default();
            counts.by[limit as usize] += 1;
            counts.last_at = self.at;
            if limit == RefusedBy::Address {
                counts.untrusted_proxy = self.untrusted_proxy;
            }
            drop(refused);
            self.calls.metrics.count_refused_call(self.app, limit);
        }
        result
    }
}

/// The SHA-256 of the secret, if the request has exactly one.
fn secret_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut secrets = headers.get_all(&SECRET_HEADER).iter();
    let secret = secrets.next()?;
    secrets.next().is_none().then(|| sha256(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const APP: AppId = AppId(uuid::Uuid::from_u128(1));

    fn calls(per_device: u32, per_address: u32, registrations: u32) -> DeviceCalls {
        let config = Config {
            web_requests_per_minute: per_device,
            web_address_requests_per_minute: per_address,
            web_subscriptions_per_minute: registrations,
            ..Config::default()
        };
        DeviceCalls::new(&config, Arc::new(Metrics::new(0)))
    }

    fn call(calls: &DeviceCalls, client: u8) -> DeviceCall<'_> {
        DeviceCall {
            calls,
            area: &calls.apps,
            app: AppNo(1),
            app_id: APP,
            client: IpAddr::from([192, 0, 2, client]),
            untrusted_proxy: None,
            at: Timestamp(7),
            secret: None,
        }
    }

    fn device() -> DeviceId {
        DeviceId::new("phone").unwrap()
    }

    async fn is_allowed(calls: &DeviceCalls, client: u8, secret: u8, is_right: bool) -> bool {
        let call = DeviceCall { secret: Some([secret; 32]), ..call(calls, client) };
        let read = ready(Ok(is_right));
        call.count().is_ok() && call.check_secret(&device(), [secret; 32], read).await.is_ok()
    }

    /// A read that an attempt of a locked address must not cost.
    async fn never() -> Result<bool, StoreError> {
        panic!("the store was read")
    }

    #[tokio::test]
    async fn devices_behind_one_address_have_limits_of_their_own() {
        let calls = calls(2, 1, 1);
        for secret in 0..50 {
            for expected in [true, true, false] {
                assert_eq!(is_allowed(&calls, 1, secret, true).await, expected, "{secret}");
            }
        }
        let (app, refused) = calls.refused()[0];
        assert_eq!((app, refused.last_at), (APP, Timestamp(7)));
        assert_eq!(RefusedBy::ALL.map(|limit| refused.by(limit)), [50, 0, 0]);
    }

    #[tokio::test]
    async fn an_address_with_wrong_secrets_is_locked_out_and_devices_known_there_are_not() {
        let calls = calls(3, 1, 1);
        assert!(is_allowed(&calls, 1, 7, true).await);
        for _ in 0..3 {
            assert!(is_allowed(&calls, 1, 1, false).await, "401, not 429");
        }
        assert!(!is_allowed(&calls, 1, 1, false).await);
        assert!(call(&calls, 1).check_secret(&device(), [2; 32], never()).await.is_err());
        assert!(is_allowed(&calls, 1, 7, true).await, "a device that had its secret before");
        assert!(is_allowed(&calls, 2, 1, false).await, "another address");
        assert!(call(&calls, 1).count_registration().is_ok(), "registrations count apart");
    }

    #[tokio::test]
    async fn one_address_cannot_call_with_any_number_of_devices() {
        let calls = calls(1, 0, 0);
        let mut allowed = 0;
        for secret in 0..u8::MAX {
            allowed += u32::from(is_allowed(&calls, 1, secret, true).await);
        }
        // On a slow machine, a few more calls than the limit fit into the time.
        assert!((BUSY_DEVICES_PER_ADDRESS..u32::from(u8::MAX)).contains(&allowed), "{allowed}");
        assert!(is_allowed(&calls, 2, u8::MAX, true).await, "another address");
    }

    #[tokio::test]
    async fn a_replaced_secret_is_forgotten() {
        let calls = calls(100, 1, 1);
        assert!(is_allowed(&calls, 1, 1, true).await);
        let key = (AppNo(1), [1; 32]);
        assert!(calls.apps.devices.get(&key).is_some());
        assert!(is_allowed(&calls, 1, 1, false).await);
        assert!(calls.apps.devices.get(&key).is_none());
    }

    #[tokio::test]
    async fn a_call_for_another_device_counts_for_the_device_of_the_secret() {
        let calls = calls(2, 1, 1);
        assert!(is_allowed(&calls, 1, 1, true).await);
        let (other, read) = (DeviceId::new("other").unwrap(), ready(Ok(false)));
        assert!(!call(&calls, 1).check_secret(&other, [1; 32], read).await.unwrap());
        assert!(!is_allowed(&calls, 1, 1, true).await, "the third call");
    }

    #[tokio::test]
    async fn other_calls_of_an_address_do_not_limit_its_known_devices() {
        let calls = calls(1, 0, 0);
        drop(call(&calls, 1).remember(device(), [7; 32]));
        while call(&calls, 1).count().is_ok() {}
        assert!(!is_allowed(&calls, 1, 1, true).await, "an unknown one");
        assert!(is_allowed(&calls, 1, 7, true).await);
        assert!(!is_allowed(&calls, 1, 7, true).await, "its own limit");
    }

    #[test]
    fn a_proxy_is_named_only_for_the_last_call_that_its_address_lost() {
        let calls = calls(1, 1, 0);
        let through = |proxy: Option<u8>| DeviceCall {
            untrusted_proxy: proxy.map(|last| IpAddr::from([10, 0, 0, last])),
            ..call(&calls, 1)
        };
        assert!(through(Some(7)).count_without_device().is_ok());
        let named = || calls.refused()[0].1.untrusted_proxy.map(|proxy| proxy.to_string());
        assert!(through(Some(7)).count_without_device().is_err());
        assert_eq!(named().as_deref(), Some("10.0.0.7"));
        assert!(through(Some(8)).counted(RefusedBy::Device, Err(ApiError::NotFound)).is_err());
        assert_eq!(named().as_deref(), Some("10.0.0.7"), "a limit that no proxy influences");
        assert!(through(None).count_without_device().is_err());
        assert_eq!(named(), None);
    }

    #[test]
    fn a_limited_address_does_not_use_up_the_registrations_of_its_application() {
        let calls = calls(1, 3, 4);
        let allowed = |client| call(&calls, client).count_registration().is_ok();
        assert_eq!([0; 5].map(|_| allowed(1)), [true, true, true, false, false]);
        assert_eq!([0; 2].map(|_| allowed(2)), [true, false], "one of the four was left");
        assert!(call(&calls, 2).count_without_device().is_ok(), "not a registration");
        let (_, refused) = calls.refused()[0];
        assert_eq!(RefusedBy::ALL.map(|limit| refused.by(limit)), [0, 2, 1]);
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let calls = calls(0, 0, 0);
        for _ in 0..1_000 {
            assert!(is_allowed(&calls, 1, 1, true).await);
            assert!(is_allowed(&calls, 1, 2, false).await);
            assert!(call(&calls, 1).count_registration().is_ok());
        }
    }
}

//! The push services that are sent to: an origin each, with its connections. Endpoints are what
//! users say, so that only so many services are kept, and those that nobody uses go.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use http::Uri;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::channel::service_of;
use crate::outbound::Outbound;
use crate::provider_config::BaseUrl;
use crate::providers::transport::{
    ADDRESS_NOT_ALLOWED, Http1, Pools, STREAMS_ASSUMED, Sender, Trust,
};

/// Most push services kept at a time; the one that was not used for longest goes. Browsers use a
/// handful, Windows' service one for each of its sites.
const SERVICES_MAX: u64 = 64;
/// How long a push service is kept that nothing is sent to.
const SERVICE_IDLE: Duration = Duration::from_secs(600);
/// Most sets of extra roots whose HTTP/1.1 clients are kept.
const HTTP1_CLIENTS_MAX: u64 = 64;

/// A push service, as long as somebody has it.
struct KnownService {
    trust: Trust,
    origin: Box<str>,
    service: Weak<Sender>,
}

/// All push services of the server.
#[derive(Clone)]
pub(in crate::providers) struct Services {
    pools: Arc<Pools>,
    guard: Outbound,
    services: Cache<(Trust, Box<str>), Arc<Sender>>,
    /// The same, to be walked for each message: walking the cache takes a tenth of what sending does.
    known: Arc<Mutex<Vec<KnownService>>>,
    http1: Cache<Trust, Http1>,
}

/// Where one message goes.
pub(super) struct Destination {
    pub(super) uri: Uri,
    /// Scheme, host and port, as the audience of a VAPID token names it.
    pub(super) origin: Box<str>,
}

impl Services {
    pub(in crate::providers) fn new(pools: Arc<Pools>, guard: Outbound) -> Self {
        Self::keeping(pools, guard, SERVICES_MAX)
    }

    pub(super) fn keeping(pools: Arc<Pools>, guard: Outbound, services_max: u64) -> Self {
        let services = Cache::builder()
            .max_capacity(services_max)
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(SERVICE_IDLE)
            .build();
        let http1 = Cache::new(HTTP1_CLIENTS_MAX);
        Self { pools, guard, services, known: Arc::default(), http1 }
    }

    /// Reads the endpoint of a subscription: what was allowed when it was registered need not be
    /// now.
    ///
    /// # Errors
    /// The reason why nothing can be sent there.
    pub(super) fn destination(&self, endpoint: &str) -> Result<Destination, &'static str> {
        let url = self.guard.target(endpoint).map_err(|_| ADDRESS_NOT_ALLOWED)?;
        // What is a url need not fit into a request line.
        let uri = url.as_str().parse().map_err(|_| "endpoint_invalid")?;
        let origin = url.origin().ascii_serialization().into();
        Ok(Destination { uri, origin })
    }

    /// The push service of a destination.
    pub(super) fn get(&self, to: &Destination, trust: &Trust) -> Arc<Sender> {
        self.services.get_with((trust.clone(), to.origin.clone()), || {
            let base_url = BaseUrl::parse(&to.origin).expect("the origin of a url is one");
            let http1 = self
                .http1
                .get_with(trust.clone(), || Http1::guarded(self.pools.tls(), trust, &self.guard));
            let of = (trust.clone(), http1);
            let service = Arc::new(Sender::guarded(&self.pools, &base_url, of, &self.guard));
            let mut known = self.known.lock().expect("nothing panics under this lock");
            let (trust, origin) = (trust.clone(), to.origin.clone());
            known.push(KnownService { trust, origin, service: Arc::downgrade(&service) });
            drop(known);
            service
        })
    }

    /// How many attempts can be under way to the push service of an endpoint.
    pub(super) fn slots_of(&self, endpoint: &str, trust: &Trust) -> usize {
        let origin = service_of(endpoint);
        let known = self.known.lock().expect("nothing panics under this lock");
        let mut its = known.iter().filter(|one| *one.origin == *origin && one.trust == *trust);
        let service = its.find_map(|known| known.service.upgrade());
        service.map_or(STREAMS_ASSUMED, |service| service.slots())
    }

    /// How many can be under way to all that are known, and to one more.
    pub(super) fn slots(&self, trust: &Trust) -> usize {
        let mut known = self.known.lock().expect("nothing panics under this lock");
        known.retain(|known| known.service.strong_count() > 0);
        let of_trust = known.iter().filter(|known| known.trust == *trust);
        let slots = of_trust.filter_map(|known| Some(known.service.upgrade()?.slots()));
        slots.sum::<usize>() + STREAMS_ASSUMED
    }

    /// How many push services are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> u64 {
        self.services.run_pending_tasks();
        self.services.entry_count()
    }
}

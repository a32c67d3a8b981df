//! The whole server in one process. Only this module connects the store, the API and the delivery
//! engine. It prints nothing and reads no environment, so that tests can use it like `main`.

mod storage;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use storage::{FirstKeys, open_store};
pub(crate) use storage::{
    checked_master_key, create_data_dir, existing_master_key, refuse_missing_database, write_marker,
};
use tokio::net::TcpListener;
#[cfg(feature = "sandbox")]
use tokio::task::AbortHandle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{self, Api, KeyCache, Limits, Pipeline, Port, ServerState};
use crate::certificates::{self, Certificates, TlsError, TlsFiles};
use crate::clock::{SharedClock, TrustedClock};
use crate::config::{Config, MASTER_KEY_VARIABLE, Switch};
#[cfg(feature = "sandbox")]
use crate::delivery::EngineHandle;
use crate::delivery::{Engine, EngineConfig, EngineDeps};
use crate::descriptors;
use crate::enrichment::EnrichmentCache;
use crate::enrichment::feeds::FeedReader;
use crate::enrichment::feeds::worker::{self, FeedWorker};
use crate::erasure::ErasureWorker;
use crate::operations::{Operations, Readiness};
use crate::outbound::{EgressProxy, Outbound};
use crate::playground;
use crate::provider_source::DatabaseTokenStore;
use crate::provider_source::StoredProviders;
use crate::providers::Providers;
use crate::retention::{Retention, RetentionPolicy};
use crate::secrets::{MasterKey, MasterKeyError};
use crate::store::sqlite::OpenError;
use crate::store::{SharedStore, StoreError, postgres};
use crate::telemetry::Metrics;
use crate::webhooks::{self, Webhooks};
use crate::zone_offsets::ZoneOffsetWorker;

/// How often the times of the last use of keys are written to the store.
const KEY_USE_INTERVAL: Duration = Duration::from_secs(60);
/// How long connections may take to close after the last request. This time comes after
/// `--shutdown-grace`.
const CLOSING_GRACE: Duration = Duration::from_secs(1);

/// A running server.
pub struct App {
    /// The address on which the server listens.
    pub address: SocketAddr,
    /// `http://` or `https://` and the address.
    pub origin: String,
    /// The origin of the admin API and the metrics. It is `origin` without an address of their own.
    pub admin_origin: String,
    /// The origin of the console; `None` if the server has no console.
    pub console_origin: Option<String>,
    /// The keys of the first start. If an earlier start created keys but ended before it showed
    /// them, these are new keys.
    pub first_keys: Option<FirstKeys>,
    /// Storage.
    pub store: SharedStore,
    #[cfg(feature = "console")]
    api: Arc<Api>,
    serving: Arc<ServerState>,
    key_cache: Arc<KeyCache>,
    certificates: Option<Arc<Certificates>>,
    pub(crate) engine: Engine,
    webhooks: Webhooks,
    tasks: Vec<JoinHandle<()>>,
    grace: Duration,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl App {
    /// Opens the database, listens on the configured address and starts the server.
    ///
    /// # Errors
    /// When the database, the master key, the certificate or the address cannot be used.
    pub async fn start(config: Config) -> Result<Self, AppError> {
        let address = config.listen.clone();
        let listen_error = |source| listen_error("listen", &address, source);
        // The database is opened first, so that a second server with the same file does not take
        // the address. The address is taken before the first keys are created, because a start that
        // fails afterwards could not show them.
        let store = open_store(&config, true).await?;
        let listener = TcpListener::bind(&address).await.map_err(listen_error)?;
        let clock = storage::start_clock(&store).await?;
        Self::start_on(config, listener, store, clock).await
    }

    /// Starts the server with the listener, the store and the clock of the caller.
    ///
    /// # Errors
    /// When the master key, the certificate or the store cannot be used.
    #[expect(
        clippy::too_many_lines,
        reason = "the one place that connects all parts, in their order"
    )]
    pub async fn start_on(
        config: Config,
        listener: TcpListener,
        store: SharedStore,
        clock: SharedClock,
    ) -> Result<Self, AppError> {
        let master_key = Arc::new(storage::master_key(&config, &store).await?);
        let certificates = tls_files(&config).map(Certificates::read).transpose()?;
        let tls = certificates.as_ref().map(Certificates::acceptor).transpose()?;
        let listen_error = |source| listen_error("listen", &config.listen, source);
        let address = listener.local_addr().map_err(listen_error)?;
        let origin = api::origin(address, tls.is_some());
        let admin_listener = listen_apart("admin-listen", config.admin_listen.as_deref()).await?;
        let console_listen =
            config.console_listen.as_deref().filter(|_| config.console == Switch::On);
        let console_listener = listen_apart("console-listen", console_listen).await?;
        let config = Arc::new(config);
        let trusted_clock = Arc::new(TrustedClock::start(clock.clone(), store.clock_mark().await?));
        let outbound = Outbound::new(config.allow_private_networks).through(egress_proxy(&config));
        let metrics = Arc::new(Metrics::new(config.metrics_apps));
        let apps_max = u32::try_from(config.metrics_apps).unwrap_or(u32::MAX);
        if apps_max > 0 {
            // The oldest applications, so that the same ones have series after a restart and on each server.
            metrics.apps().reserve(store.oldest_apps(apps_max).await?);
        }
        let retention = Retention {
            store: store.clone(),
            clock: clock.clone(),
            trusted_clock: trusted_clock.clone(),
            policy: RetentionPolicy::of(&config),
            metrics: metrics.retention(),
        };
        let providers = stored_providers(&store, &master_key, &clock, &outbound);
        let engine_deps = EngineDeps {
            store: store.clone(),
            providers: providers.clone(),
            clock: clock.clone(),
            public_url: public_url(&config, &origin),
            metrics: metrics.delivery(),
        };
        let public_url = engine_deps.public_url.clone();
        let origin_of = |listener: &Option<(TcpListener, SocketAddr)>| {
            listener.as_ref().map(|(_, address)| api::origin(*address, tls.is_some()))
        };
        let admin_origin = origin_of(&admin_listener).unwrap_or_else(|| origin.clone());
        let console_origin = Port::of_console(&config)
            .map(|_| origin_of(&console_listener).unwrap_or_else(|| admin_origin.clone()));
        // Before the engine, which must not start zones with offsets of before the stop of the server.
        let correction = store.begin_offset_correction(clock.now()).await?;
        let engine =
            Engine::start(engine_deps, engine_config(&config)).map_err(AppError::Engine)?;
        let operations = Operations {
            store: store.clone(),
            clock: clock.clone(),
            trusted_clock: trusted_clock.clone(),
            engine: engine.handle(),
            providers,
            metrics: metrics.clone(),
            readiness: Readiness::new(store.clone(), clock.clone()),
            certificates: certificates.clone(),
            started_at: clock.now(),
            last_sample: tokio::sync::Mutex::default(),
        };
        let stopping = CancellationToken::new();
        let (webhooks, webhooks_handle) = Webhooks::start(webhooks::Deps {
            store: store.clone(),
            clock: clock.clone(),
            trusted_clock: trusted_clock.clone(),
            outbound: outbound.clone(),
            master_key: master_key.clone(),
            metrics: metrics.webhooks(),
            clustered: config.is_shared(),
        });
        let feeds = FeedWorker {
            store: store.clone(),
            clock: clock.clone(),
            reader: Arc::new(FeedReader::new(outbound.clone())),
            metrics: metrics.feeds(),
        };
        let key_cache = KeyCache::new(&store);
        let api = Arc::new(Api {
            key_cache: key_cache.clone(),
            store: store.clone(),
            clock: clock.clone(),
            trusted_clock: trusted_clock.clone(),
            master_key: master_key.clone(),
            outbound,
            provider_changes: tokio::sync::Mutex::default(),
            device_calls: api::DeviceCalls::new(&config, metrics.clone()),
            metrics,
            operations,
            public_url,
            config: config.clone(),
            enrichments: EnrichmentCache::new(store.clone()),
            feed_reader: feeds.reader.clone(),
            webhooks: webhooks_handle,
            streams: api::Streams::new(stopping.clone()),
            #[cfg(feature = "console")]
            first_sign_in: api::FirstSignIn::default(),
            #[cfg(feature = "sandbox")]
            playground: playground(&store, &clock, master_key, &engine),
        });
        let first_keys = storage::bootstrap(&store, &clock).await?;
        playground::erase(&store).await?;
        write_marker(&config)?;
        let pipeline = Arc::new(Pipeline::new(api.clone(), key_cache.clone(), stopping.clone()));
        let serving = ServerState::new(pipeline, limits(&config), tls, stopping);
        let erasure = ErasureWorker { store: store.clone(), clock: clock.clone() };
        let mut tasks = start_tasks(&serving, &key_cache, feeds, retention);
        tasks.push(tokio::spawn(erasure.run(serving.stopping.clone())));
        let zone_offsets =
            ZoneOffsetWorker { store: store.clone(), clock: clock.clone(), first: correction };
        tasks.push(tokio::spawn(zone_offsets.run(serving.stopping.clone())));
        serving.listeners.spawn(api::serve(listener, Port::Main, serving.clone()));
        for (listener, port) in [(admin_listener, Port::Admin), (console_listener, Port::Console)] {
            if let Some((listener, _)) = listener {
                serving.listeners.spawn(api::serve(listener, port, serving.clone()));
            }
        }
        serving.listeners.close();
        if let Some(certificates) = &certificates {
            let stopping = serving.stopping.clone();
            tasks.push(tokio::spawn(certificates::watch(certificates.clone(), clock, stopping)));
        }
        Ok(Self {
            address,
            origin,
            admin_origin,
            console_origin,
            first_keys,
            store,
            #[cfg(feature = "console")]
            api,
            serving,
            key_cache,
            certificates,
            engine,
            webhooks,
            tasks,
            grace: config.shutdown_grace.0,
        })
    }

    /// Returns when the delivery engine has ended unexpectedly. Nothing is delivered any more until
    /// the server is restarted, which resumes open deliveries.
    pub async fn engine_ended(&self) {
        self.engine.handle().ended().await;
    }

    /// Stores that the keys of the first start were shown, so that no later start creates and shows
    /// new keys.
    ///
    /// # Errors
    /// When the store cannot be written. The next start then shows new keys.
    pub async fn keys_shown(&self) -> Result<(), StoreError> {
        self.store.keys_shown().await
    }

    /// A link that signs in to the console once, as the admin key of the first start, within ten minutes.
    /// A new link replaces the previous one. `None` if this is not the first start, or if there is no
    /// console.
    #[must_use]
    pub fn first_sign_in_link(&self) -> Option<String> {
        #[cfg(feature = "console")]
        if let (Some(keys), Some(origin)) = (&self.first_keys, &self.console_origin) {
            let code = self.api.first_sign_in.offer(keys.admin_key_id, self.api.clock.now());
            return Some(format!("{origin}/console/first?code={code}"));
        }
        None
    }

    /// Reads the TLS certificate again. All other settings are read only at the start.
    pub fn reload(&self) {
        match &self.certificates {
            Some(certificates) => certificates.reload(),
            None => tracing::info!("nothing to reload: this server has no TLS certificate"),
        }
    }

    /// A guard that ends the server when it is dropped.
    #[cfg(feature = "sandbox")]
    pub(crate) fn abort_on_drop(&self) -> AbortGuard {
        AbortGuard {
            serving: self.serving.clone(),
            engine: self.engine.handle(),
            webhooks: self.webhooks.stopping(),
            tasks: self.tasks.iter().map(JoinHandle::abort_handle).collect(),
        }
    }

    /// Stops the server. It accepts the connections in the queues of its listeners and no others,
    /// responds with 503 to new requests, waits up to `--shutdown-grace` for requests and messages in
    /// flight, and closes the store. Returns false if requests or messages were still in flight at the
    /// end of that time.
    pub async fn stop(self) -> bool {
        let deadline = Instant::now() + self.grace;
        let serving = &self.serving;
        serving.stopping.cancel();
        serving.listeners.wait().await;
        serving.requests.close();
        // The requests, the engine and the webhooks end concurrently.
        let requests = tokio::time::timeout_at(deadline, serving.requests.wait());
        let webhooks = self.webhooks.stop(self.grace);
        let (requests_result, is_engine_done, are_webhooks_done) =
            tokio::join!(requests, self.engine.stop(self.grace), webhooks);
        let in_time = requests_result.is_ok() && is_engine_done && are_webhooks_done;
        serving.closing.cancel();
        serving.connections.close();
        let closed = tokio::time::timeout(CLOSING_GRACE, serving.connections.wait()).await;
        for task in self.tasks {
            task.abort();
        }
        self.key_cache.write_last_used().await;
        self.store.close().await;
        in_time && closed.is_ok()
    }
}

/// Ends a server without waiting when it is dropped: for tests that end early. Requests in progress are cut
/// off. Messages in flight are completed.
#[cfg(feature = "sandbox")]
pub(crate) struct AbortGuard {
    serving: Arc<ServerState>,
    engine: EngineHandle,
    webhooks: CancellationToken,
    tasks: Vec<AbortHandle>,
}

#[cfg(feature = "sandbox")]
impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.serving.stopping.cancel();
        self.serving.closing.cancel();
        self.webhooks.cancel();
        self.engine.begin_stop();
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Runs a server on a listener until `shutdown` resolves. Returns the result of [`App::stop`].
///
/// # Errors
/// When the server does not start.
pub async fn run(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<bool, AppError> {
    let store = open_store(&config, true).await?;
    let clock = storage::start_clock(&store).await?;
    let app = App::start_on(config, listener, store, clock).await?;
    shutdown.await;
    Ok(app.stop().await)
}

fn listen_error(setting: &'static str, address: &str, source: std::io::Error) -> AppError {
    AppError::Listen { setting, address: address.to_owned(), source }
}

/// Listens on the address of a setting other than `--listen`, if it is given.
async fn listen_apart(
    setting: &'static str,
    listen: Option<&str>,
) -> Result<Option<(TcpListener, SocketAddr)>, AppError> {
    let Some(listen) = listen else { return Ok(None) };
    let listen_error = |source| listen_error(setting, listen, source);
    let listener = TcpListener::bind(listen).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    Ok(Some((listener, address)))
}

fn tls_files(config: &Config) -> Option<TlsFiles> {
    let (certificate, key) = (config.tls_cert.clone()?, config.tls_key.clone()?);
    Some(TlsFiles { certificate, key })
}

fn egress_proxy(config: &Config) -> Option<EgressProxy> {
    let url = config.egress_proxy.clone()?;
    tracing::info!("outgoing connections use the proxy {url}");
    Some(EgressProxy::new(url, config.no_proxy.clone()))
}

fn stored_providers(
    store: &SharedStore,
    master_key: &Arc<MasterKey>,
    clock: &SharedClock,
    outbound: &Outbound,
) -> Arc<StoredProviders> {
    let (store, master_key) = (store.clone(), master_key.clone());
    let tokens = DatabaseTokenStore { store: store.clone(), master_key: master_key.clone() };
    let providers =
        Providers::new(clock.clone(), outbound.clone()).with_token_store(Arc::new(tokens));
    Arc::new(StoredProviders { store, master_key, providers })
}

#[cfg(feature = "sandbox")]
fn playground(
    store: &SharedStore,
    clock: &SharedClock,
    master_key: Arc<MasterKey>,
    engine: &Engine,
) -> Arc<playground::Playground> {
    playground::Playground::new(playground::Deps {
        store: store.clone(),
        clock: clock.clone(),
        master_key,
        instance: engine.handle().instance(),
    })
}

fn engine_config(config: &Config) -> EngineConfig {
    EngineConfig {
        max_unacked: config.max_unacked_deliveries,
        max_unacked_without_dedup: config.max_unacked_without_dedup,
        keep_message_ids: config.keep_message_ids,
        clustered: config.is_shared(),
        ..EngineConfig::default()
    }
}

/// The url under which clients reach the server. `notify doctor` reports one that phones cannot reach.
fn public_url(config: &Config, origin: &str) -> String {
    let url = config.public_url.as_ref();
    url.map_or_else(|| origin.to_owned(), api::without_trailing_slash)
}

/// The limits of the API. Warns if the limit of open files allows fewer connections than
/// `--max-connections`.
fn limits(config: &Config) -> Limits {
    let share = descriptors::share(config.max_connections, descriptors::limit());
    if let Some(limit) = share.too_low_limit {
        let (wanted, needed) =
            (config.max_connections, descriptors::needed_limit(config.max_connections));
        tracing::warn!(
            limit,
            needed,
            "the limit of open files is too low for --max-connections {wanted}: at most {} \
             connections are served",
            share.connections_max
        );
    }
    Limits {
        header_timeout: config.header_timeout.0,
        idle_timeout: config.idle_timeout.0,
        write_timeout: config.write_timeout.0,
        connections_max: share.connections_max,
        connections_per_address_max: config.max_connections_per_address,
        trusted_proxies: config.trusted_proxies.clone(),
    }
}

/// Starts the background tasks.
fn start_tasks(
    serving: &Arc<ServerState>,
    key_cache: &Arc<KeyCache>,
    feeds: FeedWorker,
    retention: Retention,
) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(worker::run(feeds, serving.stopping.clone())),
        tokio::spawn(write_last_use_of_keys(key_cache.clone(), serving.stopping.clone())),
        tokio::spawn(retention.run(serving.stopping.clone())),
    ]
}

async fn write_last_use_of_keys(key_cache: Arc<KeyCache>, stopping: CancellationToken) {
    // The first tick is after one interval, because there is nothing to write at the start.
    let first = Instant::now() + KEY_USE_INTERVAL;
    let mut due = tokio::time::interval_at(first, KEY_USE_INTERVAL);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            _ = due.tick() => key_cache.write_last_used().await,
        }
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The data folder cannot be created.
    #[error("cannot create the data folder {}", path.display())]
    DataDir {
        /// The folder, or the file in it that cannot be written.
        path: PathBuf,
        /// Why it cannot be created.
        #[source]
        source: std::io::Error,
    },
    /// The path of the data folder is not a folder.
    #[error("{} is not a folder: --data-dir takes the folder of the database", .0.display())]
    NoFolder(PathBuf),
    /// The data folder contains no database, and the caller needs one.
    #[error("there is no installation in {}: give --data-dir", .0.display())]
    NoInstallation(PathBuf),
    /// The folder contains traces of a database, but not the database itself.
    #[error(
        "{} holds an installation ({} exists), but {} is missing: mount its volume or restore the last \
         backup. For a new installation, give --data-dir an empty folder",
        folder.display(), evidence.display(), database.display()
    )]
    NoDatabase {
        /// The folder.
        folder: PathBuf,
        /// The missing database file.
        database: PathBuf,
        /// The file that shows that there was a database.
        evidence: PathBuf,
    },
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Open(#[from] OpenError),
    /// The database of `--database-url` cannot be opened.
    #[error("cannot open the database")]
    Connect(#[from] postgres::OpenError),
    /// No master key is configured for a PostgreSQL database. A key that the server creates in its
    /// data folder would exist on one machine only.
    #[error(
        "--database-url needs a master key of your own, the same for all servers of that \
         database: set {MASTER_KEY_VARIABLE}, or --master-key-file"
    )]
    NoMasterKey,
    /// The thread that opens the database ended early.
    #[error("the database was not opened")]
    Interrupted,
    /// The master key is missing, cannot be read, or is not the key of the database.
    #[error("cannot use the master key in {place}")]
    MasterKey {
        /// The variable or file that holds it.
        place: String,
        /// Why it cannot be used.
        #[source]
        source: MasterKeyError,
    },
    /// TLS cannot be served.
    #[error("cannot serve TLS")]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another address with --{setting}")]
    Listen {
        /// The setting of the address.
        setting: &'static str,
        /// The address.
        address: String,
        /// Why the server cannot listen on it.
        #[source]
        source: std::io::Error,
    },
    /// The delivery engine cannot run.
    #[error("the delivery engine did not start")]
    Engine(#[source] std::io::Error),
    /// The store failed at the start.
    #[error("the database does not answer")]
    Store(#[from] StoreError),
}

//! Connecting to PostgreSQL: the hosts, options and TLS settings of a database.

use std::io;

use tokio::runtime::Builder;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::{MakeTlsConnect, NoTlsStream};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::Failure;
use super::schema::name_locks;
use super::session::{
    CONNECT_WAIT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, Losses, REPLY_WAIT,
    Session, TCP_WAIT, configure_session,
};
use super::tls;
use super::url::DatabaseUrl;
use crate::store::sql::{Error, Result};

/// A TLS stream of the connector.
type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// A client and its connection, which the caller has to poll.
pub(super) enum Connected {
    Plain(Client, Box<Connection<Socket, NoTlsStream>>),
    Tls(Client, Box<Connection<Socket, TlsStream>>),
}

/// How to connect to a database.
pub(super) struct ConnectConfig {
    /// A configuration for each host, in the order of the URL. The client library has no time limit
    /// for a host that accepts a connection and does not reply. If all hosts were in one
    /// configuration, the library would never try the next host.
    hosts: Vec<Config>,
    /// Whether each connection begins with a random host.
    in_any_order: bool,
    tls: Option<MakeRustlsConnect>,
    /// The host, port, name and schema of the database, for display.
    pub(super) place: String,
    losses: Losses,
    /// Whether each statement waits a random moment before it runs.
    #[cfg(test)]
    pub(super) has_pauses: bool,
}

impl ConnectConfig {
    /// Reads the URL and the certificates, without connecting.
    pub(super) fn of(url: &DatabaseUrl) -> io::Result<Self> {
        let parsed = url.parsed();
        let mut common = options_of(&parsed.config);
        common
            .connect_timeout(CONNECT_WAIT)
            .tcp_user_timeout(TCP_WAIT)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        if common.get_application_name().is_none() {
            common.application_name("notify-server");
        }
        Ok(Self {
            hosts: each_host(&parsed.config, &common),
            in_any_order: parsed.config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            tls: tls::connector(&parsed.tls)?,
            place: parsed.place,
            losses: Losses::default(),
            #[cfg(test)]
            has_pauses: false,
        })
    }

    /// Makes each statement wait a random moment before it runs, or not.
    #[cfg(test)]
    pub(super) fn with_pauses(self, has_pauses: bool) -> Self {
        Self { has_pauses, ..self }
    }

    /// Connects and applies the session settings. Must not be called on a thread of a runtime.
    pub(super) fn connect(&self) -> Result<Session> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Postgres(Failure::Runtime(error)))?;
        let client = runtime.block_on(self.connect_client()).map_err(Error::Postgres)?;
        let session = Session::new(runtime, client, self.losses.clone());
        #[cfg(test)]
        session.has_pauses.set(self.has_pauses);
        configure_session(&session)?;
        name_locks(&session)?;
        Ok(session)
    }

    /// Connects to the first usable host, and runs the connection on the current runtime.
    async fn connect_client(&self) -> std::result::Result<Client, Failure> {
        // An error of the connection is ignored here, since the next query reports it.
        match self.connect_first().await? {
            Connected::Tls(client, connection) => {
                tokio::spawn(connection);
                Ok(client)
            }
            Connected::Plain(client, connection) => {
                tokio::spawn(connection);
                Ok(client)
            }
        }
    }

    /// Connects to the first usable host. Returns the client and its connection, which the caller
    /// has to poll. Divides [`REPLY_WAIT`] equally among the hosts.
    pub(super) async fn connect_first(&self) -> std::result::Result<Connected, Failure> {
        let mut hosts: Vec<_> = self.hosts.iter().collect();
        if self.in_any_order {
            fastrand::shuffle(&mut hosts);
        }
        let wait = REPLY_WAIT / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let mut last_failure = Failure::Late(wait);
        for host in hosts {
            let failure = match tokio::time::timeout(wait, self.connect_to(host)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => error.into(),
                Err(_) => Failure::Late(wait),
            };
            // The error of a host that replied, such as a wrong password, is more useful than the
            // timeout of another host.
            if !matches!(last_failure, Failure::Answered { .. }) {
                last_failure = failure;
            }
        }
        Err(last_failure)
    }

    async fn connect_to(
        &self,
        host: &Config,
    ) -> std::result::Result<Connected, tokio_postgres::Error> {
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = host.connect(tls.clone()).await?;
                Connected::Tls(client, Box::new(connection))
            }
            None => {
                let (client, connection) = host.connect(NoTls).await?;
                Connected::Plain(client, Box::new(connection))
            }
        })
    }
}

/// The options that apply to every host.
fn options_of(config: &Config) -> Config {
    let mut options = Config::new();
    options
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    if let Some(user) = config.get_user() {
        options.user(user);
    }
    if let Some(password) = config.get_password() {
        options.password(password);
    }
    if let Some(name) = config.get_dbname() {
        options.dbname(name);
    }
    if let Some(set) = config.get_options() {
        options.options(set);
    }
    if let Some(name) = config.get_application_name() {
        options.application_name(name);
    }
    options
}

/// Makes a configuration for each host, with the options that apply to every host. If the URL has
/// only one port, every host has this port.
fn each_host(config: &Config, common: &Config) -> Vec<Config> {
    let (addresses, ports) = (config.get_hostaddrs(), config.get_ports());
    let hosts = config.get_hosts().iter().enumerate();
    hosts
        .map(|(nth, host)| {
            let mut host_config = common.clone();
            match host {
                Host::Tcp(name) => host_config.host(name),
                #[cfg(unix)]
                Host::Unix(folder) => host_config.host_path(folder),
            };
            if let Some(address) = addresses.get(nth) {
                host_config.hostaddr(*address);
            }
            if let Some(port) = ports.get(nth).or(ports.first()) {
                host_config.port(*port);
            }
            host_config
        })
        .collect()
}

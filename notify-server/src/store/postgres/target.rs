//! Making connections.

use std::io;

use tokio::runtime::Builder;
use tokio_postgres::tls::{MakeTlsConnect, NoTlsStream};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::Failure;
use super::session::Session;
use super::settings::{
    ANSWER_WAIT, CONNECT_WAIT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, TCP_WAIT,
    settle,
};
use super::tls;
use super::url::DatabaseUrl;
use crate::store::sql::{Error, Result};

/// A stream with TLS, as the connector makes it.
type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// A client, and the connection that somebody has to drive.
pub(super) enum Connected {
    Plain(Client, Box<Connection<Socket, NoTlsStream>>),
    Tls(Client, Box<Connection<Socket, TlsStream>>),
}

/// A database that can be connected to.
pub(super) struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Host, port and name, for people.
    pub(super) place: String,
}

impl Target {
    /// Reads what the url names; nothing is connected to yet.
    pub(super) fn of(url: &DatabaseUrl) -> io::Result<Self> {
        let parsed = url.parsed();
        let mut config = parsed.config;
        config
            .connect_timeout(CONNECT_WAIT)
            .tcp_user_timeout(TCP_WAIT)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        if config.get_application_name().is_none() {
            config.application_name("notify-server");
        }
        Ok(Self { config, tls: tls::connector(&parsed.tls)?, place: parsed.place })
    }

    /// Connects, and sets the session up. Not to be called on a thread of a runtime.
    pub(super) fn connect(&self) -> Result<Session> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Postgres(Failure::Runtime(error)))?;
        let connecting = async { tokio::time::timeout(ANSWER_WAIT, self.client()).await };
        let client = match runtime.block_on(connecting) {
            Ok(client) => client.map_err(|error| Error::Postgres(Failure::from(error)))?,
            Err(_) => return Err(Error::Postgres(Failure::Late(ANSWER_WAIT))),
        };
        let session = Session::new(runtime, client);
        settle(&session)?;
        Ok(session)
    }

    /// The client, whose connection goes on beside it on the same runtime.
    async fn client(&self) -> std::result::Result<Client, tokio_postgres::Error> {
        // How a connection ended is told to whoever asks something on it.
        match self.listener().await? {
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

    /// A client and its connection, for who hears what the database says unasked.
    pub(super) async fn listener(&self) -> std::result::Result<Connected, tokio_postgres::Error> {
        Ok(match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Connected::Tls(client, Box::new(connection))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Connected::Plain(client, Box::new(connection))
            }
        })
    }
}

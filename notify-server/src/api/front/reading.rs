//! How the body of a request is read: within the bounds of who sends it.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};

use super::body::{self, Reading};
use super::room::{Owner, Room};
use super::{Front, page};
use crate::api::ctx::Caller;
use crate::api::error::ApiError;
use crate::api::{hooks, poll_page};

/// What is left to a body once the server stops: a stranger's, and one of a caller with a key.
const STRANGER_STOPPING_WAIT: Duration = Duration::from_secs(1);
const STOPPING_WAIT: Duration = Duration::from_secs(5);

impl Front {
    /// The whole body, with its room among all bodies.
    pub(super) async fn read_body(
        &self,
        incoming: Incoming,
        caller: &Caller,
        owner: Owner,
    ) -> Result<(Bytes, Room), ApiError> {
        let config = &self.api.config;
        let limit = config.max_body_bytes;
        let bytes_max = match caller {
            Caller::App(_) | Caller::Admin => limit,
            Caller::Page(_) => limit.min(page::BODY_BYTES_MAX),
            Caller::Platform(_) => limit.min(hooks::BODY_BYTES_MAX),
            Caller::Anyone => limit.min(poll_page::FORM_BYTES_MAX),
        };
        let stopping_wait = match owner {
            Owner::Client(_) | Owner::Messenger(_) => STRANGER_STOPPING_WAIT,
            Owner::Key(_) | Owner::Admin | Owner::ChatApp(_) => STOPPING_WAIT,
        };
        // What is too large is too large however much room there is.
        let declared = incoming.size_hint().lower().min(bytes_max as u64);
        let mut room = self.bodies.enter(owner, declared)?;
        let reading = Reading {
            bytes_max,
            timeout: config.body_timeout.0,
            room: &mut room,
            stopping: &self.stopping,
            stopping_wait,
        };
        let body = body::collect(incoming, reading).await?;
        Ok((body, room))
    }
}

/// Who the body and the answer of a request belong to.
pub(super) fn owner(caller: &Caller, client: IpAddr) -> Owner {
    match caller {
        Caller::App(access) => Owner::Key(access.key),
        Caller::Admin => Owner::Admin,
        Caller::Platform(hook) => match hook.proven_by_head() {
            Some(app) => Owner::ChatApp(app),
            None => Owner::Messenger(client),
        },
        Caller::Page(_) | Caller::Anyone => Owner::Client(client),
    }
}

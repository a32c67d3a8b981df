//! Endpoints outside the API; they need no key.

use notify_core::Timestamp;
use reqwest::{Method, header};

use crate::{call::Call, handle::handle};

/// The response of a server that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// The server's clock, to the second; `None` if the response has no `Date`.
    pub date: Option<Timestamp>,
}

handle! {
    /// The state of the server.
    Server from server;

    /// Checks that the server is ready: `GET /readyz`.
    ///
    /// # Errors
    /// [`crate::Error::Server`] if it is not ready.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// notify.server().ready().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn ready() -> Readiness = Ok(Call::<()>::public(Method::GET, &["readyz"]).decode_with(|response| {
        let date = response.header(header::DATE);
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        let date = date.and_then(|date| parser.parse_timestamp(date).ok());
        Ok(Readiness { date: date.map(|date| Timestamp::from_ms(date.as_millisecond())) })
    }));
}

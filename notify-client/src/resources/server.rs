//! The server itself, beside the API; no key is needed.

use notify_core::Timestamp;
use reqwest::{Method, header};

use crate::{call::Call, handle::handle};

/// A server that can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// The server's clock, to the second; `None` when something in between took its date away.
    pub date: Option<Timestamp>,
}

handle! {
    /// The server itself.
    Server from server;

    /// Asks whether the server can serve: `GET /readyz`.
    ///
    /// # Errors
    /// [`crate::Error::Server`] when it cannot.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// notify.server().ready().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn ready() -> Readiness = Ok(Call::<()>::open(Method::GET, &["readyz"]).reading(|answer| {
        let date = answer.header(header::DATE);
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        let date = date.and_then(|date| parser.parse_timestamp(date).ok());
        Ok(Readiness { date: date.map(|date| Timestamp::from_ms(date.as_millisecond())) })
    }));
}

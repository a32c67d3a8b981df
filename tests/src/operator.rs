//! An operator who uses the console without a browser.

use anyhow::{Context, Result, ensure};
use http::Method;

use crate::{Caller, Response};

/// A signed-in operator.
#[derive(Debug, Clone)]
pub struct Operator {
    caller: Caller,
    /// The cookie, as the browser sends it.
    pub cookie: String,
}

impl Operator {
    /// Signs in with an admin key.
    ///
    /// # Errors
    /// When the server does not respond, or refuses the key.
    pub async fn sign_in(origin: &str, admin_key: &str) -> Result<Self> {
        let visitor = Caller::with_header(origin, "accept", "text/html");
        let form = format!("key={admin_key}");
        let response = visitor.send(&Method::POST, "/console/sign-in", form).await?;
        ensure!(response.status == 303, "{response:?}");
        let cookie = response.header("set-cookie").split(';').next().context("a cookie")?;
        Ok(Self::with_cookie(origin, cookie))
    }

    /// An operator whose browser has this cookie, and who may be signed in.
    #[must_use]
    pub fn with_cookie(origin: &str, cookie: &str) -> Self {
        let caller = Caller::with_header(origin, "cookie", cookie);
        Self { caller, cookie: cookie.to_owned() }
    }

    /// The same browser at another address of the server.
    #[must_use]
    pub fn moved_to(&self, origin: &str) -> Self {
        Self::with_cookie(origin, &self.cookie)
    }

    /// Loads a page; `path` is below `/console/`.
    pub async fn get(&self, path: &str) -> Response {
        self.caller.get(&format!("/console/{path}")).await
    }

    /// Submits a form with the token of the session.
    ///
    /// # Errors
    /// When the server does not respond, or the session has ended.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Result<Response> {
        let mut form = vec![("token", self.token().await?)];
        form.extend(fields.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self.submit_as_is(path, &form).await
    }

    /// Submits exactly these fields.
    ///
    /// # Errors
    /// When the server does not respond.
    pub async fn submit_as_is(&self, path: &str, form: &[(&str, String)]) -> Result<Response> {
        let pairs = form.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        self.caller.send(&Method::POST, &format!("/console/{path}"), body).await
    }

    /// The token that the forms of this session contain.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn token(&self) -> Result<String> {
        let page = self.get("new-app").await;
        let value = page.text.split("name=\"token\" value=\"").nth(1);
        let token = value.and_then(|rest| rest.split('"').next());
        Ok(token.with_context(|| format!("a page with a form: {page:?}"))?.to_owned())
    }
}

/// Percent-encodes every byte except letters and digits.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

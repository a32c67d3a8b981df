//! Who visits: a random id that a form brings along and, after the vote, a cookie. It stands for one
//! browser and one poll; a hash of it is all that is kept.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;

use crate::keys::sha256;
use crate::store::Visitor;

/// Random bytes of an id.
const ID_BYTES: usize = 16;
/// The form of an id: that many bytes in base64url.
pub(super) const VISITOR_ID: &str = "^[A-Za-z0-9_-]{21}[AQgw]$";
const COOKIE: &str = "visitor";
/// How long an answer is remembered by the browser: a year, in seconds.
const COOKIE_SECONDS: u32 = 31_536_000;

/// The id of a visitor, as the browser keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VisitorId(String);

impl VisitorId {
    /// A new one.
    pub(super) fn random() -> Self {
        let mut random = [0; ID_BYTES];
        aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// An id in the form in which we make them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == ID_BYTES).then(|| Self(text.to_owned()))
    }

    /// The id that the cookie holds.
    pub(super) fn of_cookies<'h>(headers: impl Iterator<Item = &'h HeaderValue>) -> Option<Self> {
        let lines = headers.filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        pairs.find_map(Self::parse)
    }

    /// The text of the hidden field.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub(super) fn kept(&self) -> Visitor {
        Visitor::of(&sha256(self.0.as_bytes()))
    }

    /// The cookie. Without `Path` it is the poll's alone, under whatever path a proxy shows it; no
    /// script reads it, and other sites' forms do not bring it along.
    pub(super) fn cookie(&self, secure: bool) -> HeaderValue {
        let secure = if secure { "; Secure" } else { "" };
        let cookie = format!(
            "{COOKIE}={}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}",
            self.0
        );
        HeaderValue::try_from(cookie).expect("base64 is visible ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_gives_back_the_id_that_it_was_made_of() {
        let id = VisitorId::random();
        assert_ne!(id, VisitorId::random());
        let line = id.cookie(true);
        let line = line.to_str().unwrap();
        assert!(line.ends_with("; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"), "{line}");
        assert!(!id.cookie(false).to_str().unwrap().contains("Secure"));
        let pair = line.split(';').next().unwrap();
        let own = |lines: &[&str]| {
            let lines: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            VisitorId::of_cookies(lines.iter())
        };
        assert_eq!(own(&[&format!("a=b; visitor=short;{pair}")]), Some(id.clone()));
        assert_eq!(own(&["x=1", pair]), Some(id.clone()));
        assert_eq!(own(&["visitor=", "visitors=AAAAAAAAAAAAAAAAAAAAAA"]), None);
        assert_eq!(id.kept(), VisitorId::parse(id.as_str()).unwrap().kept());
    }
}

//! The id of a visitor: random, and sent in the form and, after the vote, in a cookie. It identifies one browser
//! at one poll. Only its hash is stored.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;

use crate::keys::sha256;
use crate::store::Visitor;

/// Random bytes of an id.
const ID_BYTES: usize = 16;
/// The pattern of an id: [`ID_BYTES`] in base64url.
pub(super) const VISITOR_ID_PATTERN: &str = "^[A-Za-z0-9_-]{21}[AQgw]$";
const COOKIE: &str = "visitor";
/// How long the browser stores the cookie: a year, in seconds.
const COOKIE_SECONDS: u32 = 31_536_000;

/// The id of a visitor, as the browser stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VisitorId(String);

impl VisitorId {
    /// A new random id.
    pub(super) fn random() -> Self {
        let mut random = [0; ID_BYTES];
        aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// Parses an id.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == ID_BYTES).then(|| Self(text.to_owned()))
    }

    /// The id in the cookie.
    pub(super) fn from_cookies<'h>(headers: impl Iterator<Item = &'h HeaderValue>) -> Option<Self> {
        let lines = headers.filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        pairs.find_map(Self::parse)
    }

    /// The value of the form's hidden field.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash that is stored.
    pub(super) fn hash(&self) -> Visitor {
        Visitor::of(&sha256(self.0.as_bytes()))
    }

    /// The cookie. Without `Path` the cookie applies to this poll alone, whatever path a proxy
    /// adds. Scripts cannot read the cookie, and forms of other sites do not send it.
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
    fn reads_the_id_from_the_cookie() {
        let id = VisitorId::random();
        assert_ne!(id, VisitorId::random());
        let line = id.cookie(true);
        let line = line.to_str().unwrap();
        assert!(line.ends_with("; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"), "{line}");
        assert!(!id.cookie(false).to_str().unwrap().contains("Secure"));
        let pair = line.split(';').next().unwrap();
        let own = |lines: &[&str]| {
            let lines: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            VisitorId::from_cookies(lines.iter())
        };
        assert_eq!(own(&[&format!("a=b; visitor=short;{pair}")]), Some(id.clone()));
        assert_eq!(own(&["x=1", pair]), Some(id.clone()));
        assert_eq!(own(&["visitor=", "visitors=AAAAAAAAAAAAAAAAAAAAAA"]), None);
        assert_eq!(id.hash(), VisitorId::parse(id.as_str()).unwrap().hash());
    }
}

//! The way from bytes to a request model to its validated form.

use crate::{
    Parameter, Timestamp, Violations,
    json::{Body, Object, read_body},
    violations::Findings,
};

/// A request model: what a caller builds or sends.
///
/// ```text
/// bytes --from_json--> model --validate--> validated form
///       (shape)              (rules)
/// ```
pub trait Request: Sized {
    /// What is left after every rule held.
    type Valid;

    /// Whether the endpoint needs a body; an empty one is an error then.
    const NEEDS_BODY: bool;

    /// Reads a body strictly: JSON, types, known fields.
    ///
    /// # Errors
    /// Everything that is wrong with the body's shape.
    fn from_json(body: &[u8]) -> Result<Self, Violations>;

    /// Checks every rule; `now` is what instants are compared with.
    ///
    /// # Errors
    /// Every broken rule.
    fn validate(self, now: Timestamp) -> Result<Self::Valid, Violations>;

    /// Reads and checks in one go, so that an answer lists unknown fields beside broken rules.
    ///
    /// # Errors
    /// Everything that is wrong.
    fn parse(body: &[u8], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// The query of an endpoint, read as strictly as a body.
pub trait Query: Sized {
    /// What is left after every rule held.
    type Valid;

    /// Every parameter that there is.
    const PARAMETERS: &'static [Parameter];

    /// Reads percent-decoded names and values.
    ///
    /// # Errors
    /// Everything that is wrong, each with the parameter's name.
    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// [`Request::from_json`] by a reader.
pub(crate) fn from_json<D>(
    body: &[u8],
    presence: Body,
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
) -> Result<D, Violations> {
    let (draft, findings) = read_body(body, presence, read)?;
    findings.into_result(draft)
}

/// [`Request::validate`] by a check.
pub(crate) fn validate<D, V>(
    draft: D,
    now: Timestamp,
    check: impl FnOnce(D, Timestamp, &mut Findings) -> Option<V>,
) -> Result<V, Violations> {
    let mut findings = Findings::default();
    let valid = check(draft, now, &mut findings);
    findings.into_result(valid)
}

/// [`Request::parse`] by a reader and a check. With a type error the rules are not checked: what
/// is left of the body is not what the caller meant.
pub(crate) fn parse<D, V>(
    body: &[u8],
    presence: Body,
    now: Timestamp,
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
    check: impl FnOnce(D, Timestamp, &mut Findings) -> Option<V>,
) -> Result<V, Violations> {
    parse_into(Findings::default(), body, (presence, now), read, check)
}

/// The same with findings of the caller's, which know what the rules are held against.
pub(crate) fn parse_into<D, V>(
    mut rules: Findings,
    body: &[u8],
    (presence, now): (Body, Timestamp),
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
    check: impl FnOnce(D, Timestamp, &mut Findings) -> Option<V>,
) -> Result<V, Violations> {
    let (draft, mut findings) = read_body(body, presence, read)?;
    let draft = draft.filter(|_| !findings.is_mistyped());
    let valid = draft.and_then(|draft| check(draft, now, &mut rules));
    findings.merge(rules);
    findings.into_result(valid)
}

/// Implements [`Request`] by a function that reads and one that checks.
macro_rules! request {
    ($model:ty => $valid:ty, $body:expr, $read:path, $check:path) => {
        impl crate::Request for $model {
            type Valid = $valid;
            const NEEDS_BODY: bool = matches!($body, crate::json::Body::Required);

            fn from_json(body: &[u8]) -> Result<Self, crate::Violations> {
                crate::request::from_json(body, $body, $read)
            }

            fn validate(self, now: crate::Timestamp) -> Result<$valid, crate::Violations> {
                crate::request::validate(self, now, $check)
            }

            fn parse(body: &[u8], now: crate::Timestamp) -> Result<$valid, crate::Violations> {
                crate::request::parse(body, $body, now, $read, $check)
            }
        }
    };
}
pub(crate) use request;

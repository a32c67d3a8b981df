//! The scope that an API key needs for each endpoint of `/v1`.

use http::Method;
use notify_core::KeyScope;

use crate::api::caller::Caller;
use crate::api::error::ApiError;
use crate::api::path::segments;
use crate::api::router::Endpoint;

/// The scope of the writes of each resource: the first segment of the path below `/v1`.
const WRITES: &[(&str, KeyScope)] = &[
    ("notifications", KeyScope::Send),
    ("devices", KeyScope::Devices),
    ("subscriptions", KeyScope::Devices),
    ("users", KeyScope::Devices),
    ("events", KeyScope::Devices),
    ("polls", KeyScope::Devices),
    ("campaigns", KeyScope::Content),
    ("feeds", KeyScope::Content),
    ("segments", KeyScope::Content),
    ("webhooks", KeyScope::Webhooks),
];

/// The scope that a request to an endpoint needs; `None` for an endpoint outside of `/v1`, and for a
/// write of a resource that is not in [`WRITES`], which no route has.
pub(crate) fn scope_of(endpoint: &Endpoint) -> Option<KeyScope> {
    let mut segments = segments(endpoint.path);
    if segments.next() != Some("v1") {
        return None;
    }
    if endpoint.method == Method::GET {
        return Some(KeyScope::Read);
    }
    let resource = segments.next()?;
    WRITES.iter().find(|(name, _)| *name == resource).map(|(_, scope)| *scope)
}

/// Checks that the API key of a request has the scope of the endpoint.
///
/// # Errors
/// 403. The caller is authenticated, so this does not count as a failed authentication.
pub(super) fn check(caller: &Caller, endpoint: &Endpoint) -> Result<(), ApiError> {
    match (caller, scope_of(endpoint)) {
        (Caller::App(access), Some(scope)) if !access.terms.has_scope(scope) => {
            Err(ApiError::MissingScope(scope))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::routes;

    /// The endpoints of `/v1` that write, with their scopes. Every `GET` needs `read`.
    const EXPECTED: &[(KeyScope, &[&str])] = &[
        (
            KeyScope::Send,
            &[
                "POST /v1/notifications",
                "POST /v1/notifications/notify",
                "POST /v1/notifications/preview",
                "DELETE /v1/notifications/{id}",
                "POST /v1/notifications/{id}/pause",
                "POST /v1/notifications/{id}/resume",
            ],
        ),
        (
            KeyScope::Devices,
            &[
                "POST /v1/polls/{id}/answers/{answer_id}",
                "POST /v1/events",
                "POST /v1/devices",
                "DELETE /v1/devices/{device_id}",
                "POST /v1/devices/{device_id}/tags",
                "DELETE /v1/devices/{device_id}/tags/{name}",
                "PATCH /v1/devices/{device_id}/attributes",
                "PUT /v1/devices/{device_id}/user",
                "DELETE /v1/devices/{device_id}/user",
                "POST /v1/devices/{device_id}/secret",
                "POST /v1/subscriptions",
                "PATCH /v1/users/{user_id}",
                "DELETE /v1/users/{user_id}",
                "POST /v1/users/{user_id}/tokens",
            ],
        ),
        (
            KeyScope::Content,
            &[
                "POST /v1/segments/preview",
                "PUT /v1/segments/{name}",
                "DELETE /v1/segments/{name}",
                "POST /v1/campaigns",
                "PUT /v1/campaigns/{id}",
                "PUT /v1/campaigns/{id}/status",
                "DELETE /v1/campaigns/{id}",
                "POST /v1/feeds",
                "POST /v1/feeds/check",
                "DELETE /v1/feeds/{id}",
            ],
        ),
        (
            KeyScope::Webhooks,
            &[
                "POST /v1/webhooks",
                "PATCH /v1/webhooks/{id}",
                "DELETE /v1/webhooks/{id}",
                "POST /v1/webhooks/{id}/rotate",
                "POST /v1/webhooks/{id}/test",
                "POST /v1/webhooks/{id}/attempts/{attempt_id}/redeliver",
                "POST /v1/webhooks/{id}/recover",
            ],
        ),
    ];

    #[test]
    fn every_endpoint_of_v1_and_no_other_needs_a_scope() {
        let mut writes = 0;
        for endpoint in routes() {
            let name = format!("{} {}", endpoint.method, endpoint.path);
            let expected = if !endpoint.path.starts_with("/v1/") {
                None
            } else if endpoint.method == Method::GET {
                Some(KeyScope::Read)
            } else {
                writes += 1;
                let found = EXPECTED.iter().find(|(_, names)| names.contains(&name.as_str()));
                Some(found.unwrap_or_else(|| panic!("{name} has no expected scope")).0)
            };
            assert_eq!(scope_of(&endpoint), expected, "{name}");
        }
        let listed: usize = EXPECTED.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(writes, listed, "an expected endpoint does not exist");
    }
}

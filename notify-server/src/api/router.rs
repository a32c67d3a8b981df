//! Finds the endpoint of a request by path and method.

use http::Method;

use crate::api::endpoint::{Endpoint, placeholder, segments};
use crate::api::error::ApiError;

/// Every endpoint, grouped by path.
pub(crate) struct Router {
    paths: Vec<Path>,
}

struct Path {
    template: Vec<&'static str>,
    endpoints: Vec<Endpoint>,
}

/// The result of routing a request.
pub(crate) enum RouteMatch<'r> {
    /// The endpoint of the path and method.
    Endpoint(&'r Endpoint),
    /// The path exists, but not with this method.
    MethodNotAllowed {
        /// Template of the path.
        path: &'static str,
        /// The methods of the path, in the form of the header `Allow`.
        allow: String,
    },
    /// No such path.
    NotFound,
}

impl Router {
    /// A router over these endpoints.
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        for endpoint in endpoints {
            let template: Vec<_> = segments(endpoint.path).collect();
            match paths.iter_mut().find(|path| path.template == template) {
                Some(path) => path.endpoints.push(endpoint),
                None => paths.push(Path { template, endpoints: vec![endpoint] }),
            }
        }
        // Literal paths first: `/v1/notifications/notify` is not the id of a notification.
        paths.sort_by_key(|path| path.template.iter().any(|part| placeholder(part).is_some()));
        Self { paths }
    }

    /// Finds the endpoint of a method and path. `HEAD` matches the endpoint of `GET`.
    pub(crate) fn find(&self, method: &Method, path: &str) -> RouteMatch<'_> {
        let Some(path) = self.paths.iter().find(|known| known.matches(path)) else {
            return RouteMatch::NotFound;
        };
        let method = if method == Method::HEAD { &Method::GET } else { method };
        match path.endpoints.iter().find(|endpoint| endpoint.method == *method) {
            Some(endpoint) => RouteMatch::Endpoint(endpoint),
            None => {
                RouteMatch::MethodNotAllowed { path: path.endpoints[0].path, allow: path.allow() }
            }
        }
    }
}

impl Path {
    fn matches(&self, path: &str) -> bool {
        let mut given = segments(path);
        let fits = self.template.iter().all(|part| match (placeholder(part), given.next()) {
            (Some(_), Some(text)) => !text.is_empty(),
            (None, Some(text)) => text == *part,
            (_, None) => false,
        });
        // A trailing slash leaves an empty segment, which makes it another path.
        fits && given.next().is_none()
    }

    fn allow(&self) -> String {
        let mut methods: Vec<&str> =
            self.endpoints.iter().map(|endpoint| endpoint.method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.join(", ")
    }
}

impl<'r> RouteMatch<'r> {
    /// The matched endpoint.
    ///
    /// # Errors
    /// 404 or 405.
    pub(crate) fn endpoint(&self) -> Result<&'r Endpoint, ApiError> {
        match self {
            Self::Endpoint(endpoint) => Ok(endpoint),
            Self::MethodNotAllowed { allow, .. } => {
                Err(ApiError::MethodNotAllowed { allow: allow.clone() })
            }
            Self::NotFound => Err(ApiError::NotFound),
        }
    }

    /// Whether this is the endpoint of that method and path template.
    pub(crate) fn is(&self, method: &Method, path: &str) -> bool {
        matches!(self, Self::Endpoint(found) if found.method == *method && found.path == path)
    }

    /// The path template, as metrics label.
    pub(crate) fn path_label(&self) -> &'static str {
        match self {
            Self::Endpoint(endpoint) => endpoint.path,
            Self::MethodNotAllowed { path, .. } => path,
            Self::NotFound => "unknown",
        }
    }

    /// The method of the endpoint, as metrics label. All other methods share one label, since
    /// clients can send any text.
    pub(crate) fn method_label(&self) -> &'static str {
        const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let name = match self {
            Self::Endpoint(endpoint) => {
                METHODS.into_iter().find(|method| endpoint.method == *method)
            }
            Self::MethodNotAllowed { .. } | Self::NotFound => None,
        };
        name.unwrap_or("other")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::routes;

    #[test]
    fn matches_paths_and_methods() {
        let router = Router::new(routes());
        let found = |method: &Method, path: &str| match router.find(method, path) {
            RouteMatch::Endpoint(endpoint) => endpoint.path.to_owned(),
            RouteMatch::MethodNotAllowed { allow, .. } => allow,
            RouteMatch::NotFound => "unknown".to_owned(),
        };
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        let cases = [
            (&post, "/v1/notifications/notify", "/v1/notifications/notify"),
            (&get, "/v1/notifications/notify", "POST"),
            (&get, "/v1/notifications/abc", "/v1/notifications/{id}"),
            (&Method::HEAD, "/v1/notifications/abc", "/v1/notifications/{id}"),
            (&get, "/v1/notifications/", "unknown"),
            (&get, "/v1/devices/", "unknown"),
            (&get, "//v1/devices", "unknown"),
            (&get, "/v1//devices", "unknown"),
            (&get, "/v1/devices/a%2Fb", "/v1/devices/{device_id}"),
            (&delete, "/v1/devices/a/tags/b", "/v1/devices/{device_id}/tags/{name}"),
            (&Method::OPTIONS, "/v1/devices", "GET, HEAD, POST"),
            (&Method::PATCH, "/v1/campaigns/x", "DELETE, GET, HEAD, PUT"),
            (&get, "/v1", "unknown"),
            (&get, "/", "/"),
            (&get, "/docs/", "/docs/"),
            (&get, "//", "unknown"),
            (&get, "/docs//", "unknown"),
            (&get, "/healthz", "/healthz"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(found(method, path), expected, "{method} {path}");
        }
    }
}

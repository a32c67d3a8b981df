//! From a path and a method to a route, or to the reason why there is none.

use std::sync::Arc;

use http::Method;
use warp::filters::BoxedFilter;

use super::endpoint::{Route, placeholder, segments};
use super::error::ApiError;
use super::request_ctx::Exchange;

/// What a path and a method lead to.
pub(crate) enum Found<'t> {
    /// A route.
    Row(&'t Row),
    /// A path without that method; `Allow` lists those that it has.
    OtherMethod {
        /// The template, as the metrics' label.
        template: &'static str,
        /// `Allow`.
        allow: String,
    },
    /// No path.
    Nothing,
}

/// A route, ready to be called.
pub(crate) struct Row {
    /// Its template, as the metrics' label.
    pub(crate) template: &'static str,
    method: Method,
    filter: BoxedFilter<(warp::reply::Response,)>,
}

impl Row {
    /// Runs the route.
    pub(crate) async fn call(&self, exchange: Exchange) -> warp::reply::Response {
        let mut request = http::Request::new(http_body_util::Empty::<bytes::Bytes>::new());
        *request.method_mut() = exchange.method.clone();
        *request.uri_mut() = exchange.uri.clone();
        request.extensions_mut().insert(Arc::new(exchange));
        let Ok(response) =
            tower::ServiceExt::oneshot(warp::service(self.filter.clone()), request).await;
        response
    }
}

/// The routes by path. Each is a boxed warp filter of its own and is called directly: the front
/// has to know the path's methods anyway (405), and a chain of forty filters would ask each again.
pub(crate) struct Table {
    paths: Vec<(Vec<&'static str>, Vec<Row>)>,
}

impl Table {
    /// The table of these routes.
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut paths: Vec<(Vec<&'static str>, Vec<Row>)> = Vec::new();
        for route in routes {
            let row = Row {
                template: route.template,
                method: route.method.clone(),
                filter: route.filter(),
            };
            let path: Vec<_> = segments(route.template).collect();
            match paths.iter_mut().find(|(known, _)| *known == path) {
                Some((_, rows)) => rows.push(row),
                None => paths.push((path, vec![row])),
            }
        }
        // Words before placeholders: `/v1/notifications/notify` is not a notification's id.
        paths.sort_by_key(|(path, _)| path.iter().any(|segment| placeholder(segment).is_some()));
        Self { paths }
    }

    /// What a path and a method lead to; `HEAD` goes where `GET` does (B4).
    pub(crate) fn find(&self, method: &Method, path: &str) -> Found<'_> {
        let Some((_, rows)) = self.paths.iter().find(|(template, _)| matches(template, path))
        else {
            return Found::Nothing;
        };
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match rows.iter().find(|row| row.method == *wanted) {
            Some(row) => Found::Row(row),
            None => Found::OtherMethod { template: rows[0].template, allow: allow(rows) },
        }
    }
}

impl Found<'_> {
    /// The template, as the metrics' label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Row(row) => row.template,
            Self::OtherMethod { template, .. } => template,
            Self::Nothing => "unknown",
        }
    }

    /// The method of the route, as the metrics' label. Whatever else a client sends shares one.
    pub(crate) fn method(&self) -> &'static str {
        const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let known = match self {
            Self::Row(row) => METHODS.into_iter().find(|method| row.method == *method),
            Self::OtherMethod { .. } | Self::Nothing => None,
        };
        known.unwrap_or("other")
    }

    /// The route, or why there is none.
    pub(crate) fn row(&self) -> Result<&Row, ApiError> {
        match self {
            Self::Row(row) => Ok(row),
            Self::OtherMethod { allow, .. } => {
                Err(ApiError::MethodNotAllowed { allow: allow.clone() })
            }
            Self::Nothing => Err(ApiError::NotFound),
        }
    }
}

fn matches(template: &[&'static str], path: &str) -> bool {
    let mut given = segments(path);
    let fits = template.iter().all(|segment| match (placeholder(segment), given.next()) {
        (Some(_), Some(text)) => !text.is_empty(),
        (None, Some(text)) => text == *segment,
        (_, None) => false,
    });
    // A slash at the end leaves an empty segment over: an unknown path.
    fits && given.next().is_none()
}

fn allow(rows: &[Row]) -> String {
    let mut methods: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::routes;

    fn label(method: &Method, path: &str) -> String {
        match Table::new(&routes()).find(method, path) {
            Found::Row(row) => row.template.to_owned(),
            Found::OtherMethod { allow, .. } => allow,
            Found::Nothing => "unknown".to_owned(),
        }
    }

    #[test]
    fn paths_lead_to_their_route() {
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
            assert_eq!(label(method, path), expected, "{method} {path}");
        }
    }
}

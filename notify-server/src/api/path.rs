//! Paths of requests and templates.

/// The path below which the admin API is.
pub(crate) const ADMIN_API: &str = "/admin/v1";

/// The name of a placeholder, if the segment of a template is one.
pub(crate) fn placeholder(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// The segments of a template or path.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

/// Whether a path is `area` or below it.
pub(crate) fn is_below(path: &str, area: &str) -> bool {
    path.strip_prefix(area).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

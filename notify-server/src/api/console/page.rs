//! What all pages share: the layout, the headers, the files, and the pages without a session.

use std::sync::LazyLock;

use askama::Template;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{App, AppList};
use warp::Reply;
use warp::reply::Response;

use super::calls::AppScope;
use super::visit::Visit;
use crate::api::error::ApiError;
use crate::keys::{hex, sha256};

/// Files and images come from this server, or over https for images that notifications show. No script can
/// be inserted as text (Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
/// An entry of the navigation.
pub(super) struct Entry {
    /// Its name, which is the `section` of its pages.
    pub(super) name: &'static str,
    /// Its path, below the application or the console.
    pub(super) path: &'static str,
}

/// The pages of an application.
pub(super) const APP_ENTRIES: [Entry; 15] = [
    Entry { name: "Dashboard", path: "" },
    Entry { name: "Send", path: "/send" },
    Entry { name: "Notifications", path: "/notifications" },
    Entry { name: "Devices", path: "/devices" },
    Entry { name: "Tags", path: "/tags" },
    Entry { name: "Users", path: "/users" },
    Entry { name: "Segments", path: "/segments" },
    Entry { name: "Campaigns", path: "/campaigns" },
    Entry { name: "Feeds", path: "/feeds" },
    Entry { name: "Polls", path: "/polls" },
    Entry { name: "Providers", path: "/providers" },
    Entry { name: "Webhooks", path: "/webhooks" },
    Entry { name: "Events", path: "/events" },
    Entry { name: "Web access", path: "/web" },
    Entry { name: "Settings", path: "/settings" },
];
/// The pages of the installation.
pub(super) const SERVER_ENTRIES: [Entry; 6] = [
    Entry { name: "Overview", path: "./" },
    Entry { name: "Playground", path: "playground" },
    Entry { name: "Doctor", path: "doctor" },
    Entry { name: "Server", path: "server" },
    Entry { name: "Admin keys", path: "keys" },
    Entry { name: "Audit", path: "audit" },
];

/// The most applications in the switcher.
const SWITCHER_APPS_MAX: u32 = 100;

/// A file of the console. Its address has a version, so browsers may keep it forever.
pub(super) struct Asset {
    content_type: &'static str,
    text: &'static str,
    version: String,
}

impl Asset {
    fn new(content_type: &'static str, text: &'static str) -> Self {
        let version = hex(&sha256(text.as_bytes())[..6]);
        Self { content_type, text, version }
    }
}

pub(super) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/css; charset=utf-8", include_str!("assets/console.css")));
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("text/javascript; charset=utf-8", include_str!("assets/console.js"))
});
pub(super) static ICONS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("image/svg+xml", include_str!("assets/icons.svg")));

impl Visit {
    /// The layout of a page of the installation.
    pub(super) async fn layout(
        &self,
        title: &str,
        section: &'static str,
    ) -> Result<Layout, ApiError> {
        self.layout_of(title, section, None).await
    }

    /// The layout of a page of an application.
    pub(super) async fn app_layout(
        &self,
        scope: &AppScope,
        title: &str,
        section: &'static str,
    ) -> Result<Layout, ApiError> {
        self.layout_of(title, section, Some(scope.app.clone())).await
    }

    async fn layout_of(
        &self,
        title: &str,
        section: &'static str,
        app: Option<App>,
    ) -> Result<Layout, ApiError> {
        let list = format!("/admin/v1/apps?limit={SWITCHER_APPS_MAX}");
        let apps: AppList = self.admin(&list).await?;
        Ok(Layout {
            root: root_of(self.ctx.parts.uri.path()),
            title: title.to_owned(),
            section,
            app,
            apps: apps.apps,
            operator: self.session.access.key.label.clone(),
            token: self.session.form_token.clone(),
            done: self.query("done")?,
            style: &STYLE.version,
            script: &SCRIPT.version,
            icons: &ICONS.version,
        })
    }
}

/// What `base.html` shows around each page.
pub(super) struct Layout {
    /// The relative address of `/console/` from the page.
    pub(super) root: String,
    /// The title of the page.
    pub(super) title: String,
    /// The name of the current entry of the navigation.
    pub(super) section: &'static str,
    /// The application of the page.
    pub(super) app: Option<App>,
    /// The applications of the switcher.
    pub(super) apps: Vec<App>,
    /// The name of the admin key that signed in.
    pub(super) operator: String,
    /// The token of forms.
    pub(super) token: String,
    /// What the action that led to this page did.
    pub(super) done: String,
    /// The versions of the files.
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) icons: &'static str,
}

impl Layout {
    /// Whether the page belongs to this application.
    pub(super) fn is_current(&self, app: &App) -> bool {
        self.app.as_ref().is_some_and(|current| current.id == app.id)
    }

    /// What the last action did, as a sentence; empty if there was none.
    pub(super) fn done_text(&self) -> &'static str {
        match self.done.as_str() {
            "created" => "Created.",
            "saved" => "Saved.",
            "deleted" => "Deleted.",
            "revoked" => "Revoked. The server refuses the key from now on.",
            "ended" => "The session has ended.",
            "ended-others" => "All other sessions have ended.",
            "canceled" => "Canceled. Messages that were sent already stay sent.",
            "paused" => "Paused. Messages that are on their way still arrive.",
            "continued" => "Resumed. The rest is sent now.",
            "logged-in" => "Logged in.",
            "logged-out" => "Logged out.",
            "sent" => "Notify has stored the notification and sends it when it is due.",
            "applied" => "Applied. The campaigns are now as in the files.",
            "redelivered" => "Queued. The message is sent again now.",
            "recovered" => "Queued. The messages are sent again now.",
            "nothing-recovered" => "There was no failed message in this time.",
            "resumed" => "Deliveries resume now.",
            "started" => "The playground runs.",
            "scripted" => "The next message to this device gets this answer.",
            "stopped" => "Stopped: the playground and its application are deleted.",
            _ => "",
        }
    }
}

/// The relative address of `/console/` from a page of the console.
pub(super) fn root_of(path: &str) -> String {
    let below = path.strip_prefix("/console/").unwrap_or_default();
    match below.matches('/').count() {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    }
}

/// An address of the console that a form named, relative to `/console/`; the overview for anything else.
pub(super) fn local_target(next: &str) -> &str {
    let first_segment = next.split(['/', '?', '#']).next().unwrap_or_default();
    let is_local = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !next.starts_with('/')
        && !first_segment.contains([':', '%'])
        // A browser also reads `%2e%2e` as the folder above.
        && !next.to_ascii_lowercase().replace("%2e", ".").contains("..")
        && !next.contains("//");
    if is_local && !next.is_empty() { next } else { "./" }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignIn<'a> {
    /// The relative address of `/console/`.
    pub(super) root: &'a str,
    /// Hidden fields.
    pub(super) kept: &'a [(&'static str, String)],
    /// What is wrong with the key.
    pub(super) error: Option<&'a str>,
    /// Whether the page stands for the response to a form whose session has ended.
    pub(super) has_ended: bool,
    /// Whether others on the network could read the key.
    pub(super) is_exposed: bool,
    /// The versions of the files.
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) icons: &'static str,
}

impl<'a> SignIn<'a> {
    /// The sign-in page at an address with this root.
    pub(super) fn new(root: &'a str) -> Self {
        let (style, script, icons) = versions();
        let (kept, error, has_ended, is_exposed) = (&[], None, false, false);
        Self { root, kept, error, has_ended, is_exposed, style, script, icons }
    }
}

/// The versions of the style sheet, of the script and of the icons.
pub(super) fn versions() -> (&'static str, &'static str, &'static str) {
    (&STYLE.version, &SCRIPT.version, &ICONS.version)
}

/// The sign-in page.
pub(super) fn sign_in(page: &SignIn<'_>) -> Response {
    let is_refusal = page.error.is_some() || page.has_ended;
    render(page, if is_refusal { StatusCode::UNAUTHORIZED } else { StatusCode::OK })
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    root: String,
    heading: &'a str,
    errors: Vec<String>,
    advice: &'a str,
    request_id: &'a str,
    style: &'static str,
    icons: &'static str,
}

/// The page of an error at a path of the console.
pub(crate) fn error_page(error: ApiError, path: &str, request_id: &str) -> Response {
    let status = error.status();
    let (heading, advice) = match &error {
        ApiError::WrongSignInKey { message, kept, is_exposed } => {
            let (error, is_exposed) = (Some(*message), *is_exposed);
            return sign_in(&SignIn { kept, error, is_exposed, ..SignIn::new("./") });
        }
        ApiError::NotFound => {
            ("Not found", "It may have been deleted, or it belongs to another application.")
        }
        ApiError::ForeignForm => ("Not accepted", "Open the page again and repeat the action."),
        ApiError::TooLarge { .. } => (
            "Too large",
            "Go back: your input is still in the form. If your session has ended, sign in in another \
             tab before you send the form again.",
        ),
        ApiError::RateLimited { .. } => ("Too many attempts", "Wait a minute, then try again."),
        _ if status.is_client_error() => ("Not accepted", "Go back, correct it, and try again."),
        _ => (
            "The server could not do this now",
            "The change may have been stored or not. Look before you send the form again.",
        ),
    };
    let errors = if matches!(error, ApiError::NotFound) { Vec::new() } else { error.errors() };
    let (error_head, _) = error.into_response().into_parts();
    let page = ErrorPage {
        root: root_of(path),
        heading,
        errors,
        advice,
        request_id,
        style: &STYLE.version,
        icons: &ICONS.version,
    };
    let (head, body) = render(&page, status).into_parts();
    let mut response = Response::from_parts(error_head, body);
    // The response keeps the headers of the error, such as `Retry-After` and `Allow`, unless the page sets
    // the same header.
    response.headers_mut().extend(head.headers);
    response
}

/// A page that loads itself again, because the browser keeps the cookie back from a link of another site.
pub(super) fn refresh() -> Response {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta http-equiv=\"refresh\" content=\"0\"><title>Notify</title></head><body></body></html>";
    html(PAGE.to_owned(), StatusCode::OK)
}

/// A page from its template.
pub(super) fn render(template: &impl Template, status: StatusCode) -> Response {
    match template.render() {
        Ok(text) => html(text, status),
        Err(error) => ApiError::Internal(Box::new(error)).into_response(),
    }
}

/// A page with status 200.
#[expect(clippy::unnecessary_wraps, reason = "the result of every screen")]
pub(super) fn show(template: &impl Template) -> Result<Response, ApiError> {
    Ok(render(template, StatusCode::OK))
}

fn html(text: String, status: StatusCode) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // The default, `no-store`, keeps pages out of caches.
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A file.
pub(super) fn asset(asset: &'static Asset) -> Response {
    let mut response = Response::new(Bytes::from_static(asset.text.as_bytes()).into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// A redirect to a relative address, which the browser loads with `GET`.
pub(super) fn redirect(target: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let location = HeaderValue::from_str(target).unwrap_or(HeaderValue::from_static("./"));
    response.headers_mut().insert(header::LOCATION, location);
    response
}

/// The address of an application's pages, relative to a page.
pub(super) fn base_of(layout: &Layout, scope: &AppScope) -> String {
    format!("{}apps/{}", layout.root, scope.app.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_relative_to_the_page() {
        for (path, root) in [
            ("/console/", "./"),
            ("/console/audit", "./"),
            ("/console/apps/1", "../"),
            ("/console/apps/1/send", "../../"),
            ("/console/apps/1/notifications/2/deliveries", "../../../../"),
        ] {
            assert_eq!(root_of(path), root, "{path}");
        }
    }

    #[test]
    fn only_addresses_of_the_console_are_targets_of_a_sign_in() {
        for next in [
            "audit",
            "apps/1/notifications?status=sending",
            "apps/1",
            "apps/1/devices/telegram:a%2Fb",
        ] {
            assert_eq!(local_target(next), next);
        }
        for next in [
            "",
            "/etc",
            "//evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "apps/../../x",
            "apps/%2E%2e/x",
            "a\\b",
            "a b",
            "apps//x",
            "%2F%2Fevil.example",
            "\u{7}",
        ] {
            assert_eq!(local_target(next), "./", "{next}");
        }
    }
}

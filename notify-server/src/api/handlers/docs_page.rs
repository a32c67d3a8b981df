//! The reference page: Swagger UI out of the binary, under a policy that lets it load nothing from
//! elsewhere and run no inline script.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use utoipa_swagger_ui::Config;

use crate::api::error::ApiError;
use crate::api::request_ctx::Ctx;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Notify: API reference</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"><noscript>The same as JSON: <a href="/openapi.json">openapi.json</a></noscript></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"#;

const START_NAME: &str = "start.js";
const START: &str = "SwaggerUIBundle({ url: '/openapi.json', dom_id: '#swagger-ui', \
    deepLinking: true, validatorUrl: null });\n";

/// What `/docs` needs of Swagger UI; the rest of it is not served.
const FILES: [&str; 3] = ["swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"];

/// The names of the files under `/docs`.
pub(crate) fn files() -> Vec<&'static str> {
    FILES.into_iter().chain([START_NAME]).collect()
}

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

/// `GET /docs`.
pub(crate) async fn page(_: Ctx) -> http::Response<Bytes> {
    served("text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes()))
}

/// `GET /` and `GET /docs/`: whoever looks at the server with a browser finds the page.
pub(crate) async fn elsewhere(_: Ctx) -> http::Response<Bytes> {
    let mut response = served("text/html; charset=utf-8", Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs"));
    response
}

/// `GET /docs/{file}`.
pub(crate) async fn file(ctx: Ctx) -> http::Response<Bytes> {
    match ctx.text("file") {
        Ok(START_NAME) => {
            served("text/javascript; charset=utf-8", Bytes::from_static(START.as_bytes()))
        }
        Ok(name) if FILES.contains(&name) => swagger(name),
        Ok(_) | Err(_) => ApiError::NotFound.into_response(),
    }
}

fn swagger(name: &str) -> http::Response<Bytes> {
    match utoipa_swagger_ui::serve(name, CONFIG.clone()) {
        Ok(Some(file)) => {
            // The files of the binary are not copied: hundreds may be on their way at once.
            let bytes = match file.bytes {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => bytes.into(),
            };
            let mut response = served(&file.content_type, bytes);
            let headers = response.headers_mut();
            if file.gzpipped {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            let kept = HeaderValue::from_static("public, max-age=86400");
            headers.insert(header::CACHE_CONTROL, kept);
            response
        }
        Ok(None) => ApiError::NotFound.into_response(),
        Err(error) => ApiError::Internal(error.to_string().into()).into_response(),
    }
}

fn served(content_type: &str, body: Bytes) -> http::Response<Bytes> {
    let mut response = http::Response::new(body);
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

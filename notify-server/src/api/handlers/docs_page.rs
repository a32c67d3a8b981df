//! The reference page: Swagger UI from the binary. Its content security policy allows only files of
//! this server and no inline scripts.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use utoipa_swagger_ui::Config;
use warp::Reply;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::request_ctx::RequestCtx;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Notify: API reference</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"><noscript>As JSON: <a href="openapi.json">openapi.json</a></noscript></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"#;

const START_NAME: &str = "start.js";
const START: &str = "SwaggerUIBundle({ url: 'openapi.json', dom_id: '#swagger-ui', \
    deepLinking: true, validatorUrl: null });\n";

/// The files of Swagger UI that `/docs` needs. Other files of Swagger UI are not served.
const FILES: [&str; 3] = ["swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"];

/// The names of the files under `/docs`.
pub(crate) fn files() -> Vec<&'static str> {
    FILES.into_iter().chain([START_NAME]).collect()
}

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json")));

/// `GET /docs`.
pub(crate) async fn page(_: RequestCtx) -> Result<Response, ApiError> {
    let page = Response::new(Bytes::from_static(PAGE.as_bytes()).into());
    Ok(with_policy(page, "text/html; charset=utf-8"))
}

/// `GET /` and `GET /docs/`: redirects people who open the server in a browser to the page. The address is
/// relative (RFC 9110 section 10.2.2), like the links of the page: a proxy may serve all below a prefix.
pub(crate) async fn redirect(ctx: RequestCtx) -> Result<Response, ApiError> {
    let page = if ctx.parts.uri.path() == "/" { "docs" } else { "../docs" };
    let mut redirect =
        with_policy(StatusCode::SEE_OTHER.into_response(), "text/html; charset=utf-8");
    redirect.headers_mut().insert(header::LOCATION, HeaderValue::from_static(page));
    Ok(redirect)
}

/// `GET /docs/{file}`.
pub(crate) async fn file(ctx: RequestCtx) -> Result<Response, ApiError> {
    match &*ctx.path_param("file")? {
        START_NAME => {
            let script = Response::new(Bytes::from_static(START.as_bytes()).into());
            Ok(with_policy(script, "text/javascript; charset=utf-8"))
        }
        name if FILES.contains(&name) => swagger_file(name),
        _ => Err(ApiError::NotFound),
    }
}

fn swagger_file(name: &str) -> Result<Response, ApiError> {
    match utoipa_swagger_ui::serve(name, CONFIG.clone()) {
        Ok(Some(file)) => {
            // Files from the binary are not copied, because clients may load hundreds of them at
            // once.
            let bytes = match file.bytes {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => bytes.into(),
            };
            let mut response = with_policy(Response::new(bytes.into()), &file.content_type);
            let headers = response.headers_mut();
            if file.gzpipped {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            let cached = HeaderValue::from_static("public, max-age=86400");
            headers.insert(header::CACHE_CONTROL, cached);
            Ok(response)
        }
        Ok(None) => Err(ApiError::NotFound),
        Err(error) => Err(ApiError::Internal(error.to_string().into())),
    }
}

fn with_policy(mut response: Response, content_type: &str) -> Response {
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

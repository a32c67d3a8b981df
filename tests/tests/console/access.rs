//! How the console is reached: its own address, the link of the first start, encryption, and forms that were
//! sent after their session had ended.

use std::time::Duration;

use anyhow::Result;
use http::Method;
use notify_tests::{Caller, Operator, Response, ServerCertificate, TestServer};
use url::Url;

use crate::html::{HtmlForm, forms};
use crate::{first_app, is_unknown_path, operator, visitor};

/// The address of a page, as its browser sees it.
fn at(origin: &str, path: &str) -> Url {
    Url::parse(&format!("{origin}/console/{path}")).unwrap()
}

async fn submit(visitor: &Caller, form: &HtmlForm) -> Result<Response> {
    visitor.send(&Method::POST, form.action.path(), form.body()).await
}

#[tokio::test]
async fn its_own_address_has_the_console_alone() -> Result<()> {
    let server = TestServer::without_providers_with(|config| {
        config.console_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    assert_ne!(server.console_origin(), server.origin());
    for path in ["/console", "/console/", "/console/sign-in", "/console/first", "/console/audit"] {
        is_unknown_path(&server, path).await?;
    }
    server.caller().get("/v1/devices").await.ok();
    let console = server.console_origin();
    let own = Caller::with_header(console, "accept", "text/html");
    assert_eq!(own.get("/").await.header("location"), "console/");
    for probe in ["/healthz", "/readyz"] {
        own.get(probe).await.ok();
    }
    let (app, admin) =
        (Caller::app(console, server.api_key()), Caller::admin(console, server.admin_key()));
    app.get("/v1/devices").await.is(404);
    admin.get("/admin/v1/apps").await.is(404);
    for path in ["/docs", "/openapi.json", "/metrics", "/v1/devices", "/web/v1/x", "/polls/x"] {
        own.get(path).await.is(404);
    }
    let operator = Operator::sign_in(console, server.admin_key()).await?;
    assert!(operator.get("").await.text.contains("<h1>Overview</h1>"));
    operator.submit("new-app", &[("name", "Shop")]).await?.is(303);
    // Both addresses stop together.
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn its_own_address_has_connections_of_its_own() -> Result<()> {
    let server = TestServer::without_providers_with(|config| {
        config.max_connections = 1;
        config.console_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    let address = server.origin().strip_prefix("http://").expect("a server without TLS");
    let only_connection = tokio::net::TcpStream::connect(address).await?;
    let operator = Operator::sign_in(server.console_origin(), server.admin_key()).await?;
    assert!(operator.get("").await.text.contains("<h1>Overview</h1>"));
    // The server closes an idle connection when another one waits for its permit.
    let read = only_connection.try_read(&mut [0]);
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    Ok(())
}

#[tokio::test]
async fn its_own_address_has_the_certificate_of_the_server() -> Result<()> {
    let certificate = ServerCertificate::of("127.0.0.1")?;
    let server = TestServer::without_providers_with(|config| {
        certificate.configure(config);
        config.console_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    let console = server.console_origin();
    assert!(console.starts_with("https://"), "{console}");
    let http = certificate.client().redirect(reqwest::redirect::Policy::none()).build()?;
    let page = http.get(format!("{console}/console/sign-in")).send().await?.text().await?;
    assert!(page.contains("Admin key") && !page.contains("not encrypted"), "{page}");
    let form = format!("key={}", server.admin_key());
    let signed_in = http.post(format!("{console}/console/sign-in")).body(form).send().await?;
    let cookie = signed_in.headers()["set-cookie"].to_str()?.to_owned();
    assert!(cookie.starts_with("__Secure-notify=") && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap_or_default();
    let page = http.get(format!("{console}/console/")).header("cookie", cookie).send().await?;
    assert_eq!(page.status(), 200);
    Ok(())
}

#[tokio::test]
async fn the_browser_decides_whether_the_cookie_needs_tls() -> Result<()> {
    // A TLS proxy is in front of the server, and an operator also uses a tunnel to the server itself.
    let server = TestServer::without_providers_with(|config| {
        config.public_url = Some(Url::parse("https://push.example").unwrap());
    })
    .await;
    let visitor = visitor(&server);
    let form = format!("key={}", server.admin_key());
    let own = server.origin().to_owned();
    for (origin, name) in [
        (Some("https://push.example"), "__Secure-notify"),
        (Some(own.as_str()), "notify"),
        (None, "__Secure-notify"),
    ] {
        let headers: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        let path = "/console/sign-in";
        let signed_in = visitor.send_with(&Method::POST, path, form.clone(), &headers).await?;
        let cookie = signed_in.header("set-cookie");
        assert!(cookie.starts_with(&format!("{name}=")), "{origin:?}: {cookie}");
        let cookie = cookie.split(';').next().unwrap_or_default();
        assert_eq!(Operator::with_cookie(&own, cookie).get("").await.status, 200, "{origin:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_sign_in_page_warns_when_it_is_not_encrypted() -> Result<()> {
    let server = TestServer::without_providers_with(|config| {
        config.public_url = Some(Url::parse("https://push.example/notify").unwrap());
    })
    .await;
    let visitor = visitor(&server);
    let browser_over_tls = ("sec-fetch-site", "none");
    for (headers, is_warned) in [
        (vec![], false),
        (vec![("host", "localhost:8080")], false),
        (vec![("host", "[::1]:8080")], false),
        (vec![("host", "push.example")], false),
        (vec![("host", "192.0.2.7:8080")], true),
        (vec![("host", "localhost.example")], true),
        (vec![("host", "192.0.2.7:8080"), browser_over_tls], false),
    ] {
        for path in ["/console/sign-in", "/console/first?code=x"] {
            let page = visitor.send_with(&Method::GET, path, "", &headers).await?;
            assert_eq!(page.text.contains("This page is not encrypted"), is_warned, "{headers:?}");
        }
    }
    let headers = [("host", "192.0.2.7")];
    let wrong = visitor.send_with(&Method::POST, "/console/sign-in", "key=x", &headers).await?;
    assert!(wrong.status == 401 && wrong.text.contains("not encrypted"), "{}", wrong.text);
    Ok(())
}

/// The page of the first link, and the form of its button.
async fn first_page(server: &TestServer, link: &str) -> (Response, HtmlForm) {
    let path = link.strip_prefix(server.console_origin()).unwrap();
    let page = visitor(server).get(path).await;
    let form = forms(&page.text, &Url::parse(link).unwrap()).remove(0);
    (page, form)
}

#[tokio::test]
async fn the_first_link_signs_in_once_when_its_button_is_pressed() -> Result<()> {
    let mut server = TestServer::without_providers().await;
    let link = server.first_sign_in_link();
    for _ in 0..3 {
        // A program that loads the link for a preview, or checks it.
        let (page, _) = first_page(&server, &link).await;
        assert_eq!((page.status, page.header("set-cookie")), (200, ""));
    }
    let (_, form) = first_page(&server, &link).await;
    let visitor = visitor(&server);
    let foreign = [("sec-fetch-site", "cross-site")];
    let path = form.action.path();
    visitor.send_with(&Method::POST, path, form.body(), &foreign).await?.is(403);
    let entered = submit(&visitor, &form).await?;
    assert_eq!((entered.status, entered.header("location")), (303, "./"));
    let cookie = entered.header("set-cookie").split(';').next().unwrap_or_default();
    let operator = Operator::with_cookie(server.origin(), cookie);
    assert!(operator.get("keys").await.text.contains("this session"), "it is the admin key");
    let again = submit(&visitor, &form).await?;
    assert_eq!((again.status, again.header("set-cookie")), (401, ""));
    assert!(again.text.contains("this link was used"), "{}", again.text);
    // Only the process of the first start has a link.
    server.restart().await;
    let restarted = Caller::with_header(server.origin(), "accept", "text/html");
    submit(&restarted, &form).await?.is(401);
    Ok(())
}

#[tokio::test]
async fn the_first_link_expires_and_a_newer_one_replaces_it() -> Result<()> {
    let server = TestServer::without_providers().await;
    let visitor = visitor(&server);
    let (_, replaced) = first_page(&server, &server.first_sign_in_link()).await;
    let (_, expired) = first_page(&server, &server.first_sign_in_link()).await;
    submit(&visitor, &replaced).await?.is(401);
    server.clock().advance(Duration::from_secs(600));
    submit(&visitor, &expired).await?.is(401);
    let (_, fresh) = first_page(&server, &server.first_sign_in_link()).await;
    server.clock().advance(Duration::from_secs(599));
    submit(&visitor, &fresh).await?.is(303);
    Ok(())
}

#[tokio::test]
async fn wrong_codes_count_as_wrong_keys() -> Result<()> {
    let server = TestServer::without_providers().await;
    let visitor = visitor(&server);
    let (_, form) = first_page(&server, &server.first_sign_in_link()).await;
    for attempt in 1..=11 {
        let path = if attempt % 2 == 0 { "first" } else { "sign-in" };
        let path = format!("/console/{path}");
        let page = visitor.send(&Method::POST, &path, "code=wrong&key=wrong").await?;
        assert_eq!(page.status, if attempt <= 10 { 401 } else { 429 }, "{attempt}");
    }
    // The right code still works: nobody can lock the operator out.
    submit(&visitor, &form).await?.is(303);
    Ok(())
}

/// A form that is sent when its session has ended: the page that answers it, and its sign-in form.
async fn sent_late(
    server: &TestServer,
    path: &str,
    fields: &[(&str, &str)],
) -> Result<(Response, Option<HtmlForm>)> {
    let operator = operator(server).await?;
    let mut form = vec![("token", operator.token().await?)];
    form.extend(fields.iter().map(|(name, value)| (*name, (*value).to_owned())));
    server.clock().advance(Duration::from_secs(3 * 3_600));
    let page = operator.submit_as_is(path, &form).await?;
    let sign_in = forms(&page.text, &at(server.origin(), path)).into_iter().next();
    Ok((page, sign_in))
}

#[tokio::test]
async fn a_form_of_an_ended_session_is_shown_after_the_sign_in_and_sent_by_a_button() -> Result<()>
{
    let server = TestServer::without_providers().await;
    let app = first_app(&server).await;
    let path = format!("apps/{app}/settings");
    let name = "Ünser <b>\"Shop\"</b> & more\r\nline 2";
    let key = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let fields = [("name", name), ("language", "de"), ("key", key)];
    let (page, sign_in) = sent_late(&server, &path, &fields).await?;
    assert_eq!(page.status, 401);
    assert!(page.text.contains("Your session has ended"), "{}", page.text);
    let visitor = visitor(&server);
    let sign_in = sign_in.unwrap();
    assert_eq!(sign_in.action, at(server.origin(), "sign-in"));
    // A wrong key does not lose the form.
    let wrong = submit(&visitor, &sign_in.clone().with("key", "wrong")).await?;
    assert_eq!(wrong.status, 401);
    let sign_in = forms(&wrong.text, &sign_in.action).remove(0);
    let entered = submit(&visitor, &sign_in.with("key", server.admin_key())).await?;
    assert_eq!(entered.status, 200);
    assert!(entered.text.contains("<h1>Your form was not sent</h1>"), "{}", entered.text);
    assert!(!entered.text.contains("<b>\""), "the text is not markup: {}", entered.text);
    let apps = server.admin().get("/admin/v1/apps").await;
    assert!(!apps.text.contains("Shop"), "nothing was sent: {}", apps.text);
    let cookie = entered.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let send = forms(&entered.text, &at(server.origin(), "sign-in"))
        .into_iter()
        .find(|form| form.action == at(server.origin(), &path))
        .unwrap();
    assert_eq!((send.value("name"), send.value("language")), (name, "de"));
    assert_eq!(send.value("key"), key, "the form still takes effect once");
    let operator = Caller::with_header(server.origin(), "cookie", cookie);
    let sent = submit(&operator, &send).await?;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let apps = server.admin().get("/admin/v1/apps").await;
    assert!(apps.text.contains("Shop"), "{}", apps.text);
    Ok(())
}

#[tokio::test]
async fn secrets_of_a_late_form_are_not_carried() -> Result<()> {
    let server = TestServer::without_providers().await;
    let app = first_app(&server).await;
    let key = server.admin_key().to_owned();
    let fields = [
        ("name", "Shop"),
        ("config", "s3cret-1"),
        ("key", "s3cret-2"),
        ("App-Secret", "s3cret-3"),
        ("verify_token", "s3cret-4"),
        ("new_password", "s3cret-5"),
        ("note", "-----BEGIN PRIVATE KEY----- s3cret-6"),
        ("paste", key.as_str()),
        ("custom_json_key", "order"),
    ];
    let (page, sign_in) = sent_late(&server, &format!("apps/{app}/settings"), &fields).await?;
    let sign_in = sign_in.unwrap();
    let entered = submit(&visitor(&server), &sign_in.with("key", &key)).await?;
    for text in [&page.text, &entered.text] {
        assert!(!text.contains("s3cret") && !text.contains(&key), "{text}");
    }
    assert!(entered.text.contains("Shop") && entered.text.contains("custom_json_key"));
    assert!(entered.text.contains("<b>config, key, App-Secret, verify_token, new_password, note"));
    assert!(!entered.text.contains("Send the form"), "an incomplete form is not sent");
    Ok(())
}

#[tokio::test]
async fn a_form_of_an_earlier_session_is_shown_again_and_sent_by_a_button() -> Result<()> {
    let server = TestServer::without_providers().await;
    let app = first_app(&server).await;
    let earlier = operator(&server).await?.token().await?;
    // The operator has signed in again in another tab.
    let again = operator(&server).await?;
    let browser = Caller::with_header(server.origin(), "cookie", again.cookie.as_str());
    let path = format!("/console/apps/{app}/settings");
    let referer = format!("{}{path}", server.origin());
    let headers = [("sec-fetch-site", "same-origin"), ("referer", referer.as_str())];
    let send = async |headers: &[(&str, &str)], fields: &str| {
        let body = format!("token={earlier}&{fields}");
        browser.send_with(&Method::POST, &path, body, headers).await
    };
    let page = send(&headers, "name=Shop+%3Cb%3E&language=de").await?;
    assert_eq!(page.status, 403);
    assert!(page.text.contains("<h1>Your form was not sent</h1>"), "{}", page.text);
    assert!(page.text.contains("Send it again:") && !page.text.contains("<b>"), "{}", page.text);
    assert!(page.text.contains(&format!("apps/{app}/settings\">Open the page")), "{}", page.text);
    let apps = server.admin().get("/admin/v1/apps").await;
    assert!(!apps.text.contains("Shop"), "nothing was sent: {}", apps.text);
    let form = forms(&page.text, &at(server.origin(), &format!("apps/{app}/settings")))
        .into_iter()
        .find(|form| form.action == at(server.origin(), &format!("apps/{app}/settings")))
        .unwrap();
    assert_eq!((form.value("name"), form.value("language")), ("Shop <b>", "de"));
    submit(&browser, &form).await?.is(303);
    let apps = server.admin().get("/admin/v1/apps").await;
    assert!(apps.text.contains("Shop"), "{}", apps.text);

    let secret = send(&headers, "name=Shop&config=s3cret").await?.text;
    assert!(!secret.contains("s3cret") && secret.contains("<b>config</b>"), "{secret}");
    assert!(!secret.contains("Send the form"), "an incomplete form is not sent: {secret}");
    let button = send(&headers, "").await?.text;
    assert!(button.contains("press the button again"), "{button}");
    // A script gets an error, and so does a form of which the browser does not say where it is from.
    let script = [headers[0], headers[1], ("sec-fetch-dest", "empty")];
    for headers in [&script[..], &[("referer", &*referer)], &[("sec-fetch-site", "cross-site")]] {
        let refused = send(headers, "name=Shop").await?;
        assert_eq!(refused.status, 403, "{headers:?}");
        assert!(refused.text.contains("<h1>Not accepted</h1>"), "{}", refused.text);
    }
    Ok(())
}

#[tokio::test]
async fn a_forged_or_too_large_form_is_not_carried() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let token = operator.token().await?;
    server.clock().advance(Duration::from_secs(3 * 3_600));
    let large = "x".repeat(20_000);
    for (token, name) in [("", "Shop"), ("forged", "Shop"), (&*token, ""), (&*token, &*large)] {
        let form = [("token", token.to_owned()), ("name", name.to_owned())];
        let page = operator.submit_as_is("new-app", &form).await?;
        assert_eq!((page.status, page.text.as_str()), (303, ""), "{token} {}", name.len());
        assert_eq!(page.header("location"), "./sign-in?next=");
    }
    // Without a cookie, no form is from this browser.
    let body = format!("token={token}&name=Shop");
    visitor(&server).send(&Method::POST, "/console/new-app", body).await?.is(303);
    let huge = format!("token={token}&name={}", "x".repeat(70_000));
    let refused = visitor(&server).send(&Method::POST, "/console/new-app", huge).await?;
    assert_eq!(refused.status, 413);
    assert!(refused.text.contains("your input is still in the form"), "{}", refused.text);
    Ok(())
}

//! The console behind a proxy that serves it below a prefix and removes the prefix.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use notify_tests::{PrefixProxy, TestServer};
use serde_json::json;
use url::Url;

use crate::android;
use crate::html::{HtmlForm, forms, links};

const PREFIX: &str = "/tools/notify";

/// A browser without scripts. It keeps one cookie and sends it as RFC 6265 demands (section 5.1.4).
struct Browser {
    http: reqwest::Client,
    /// The cookie and the path below which it is sent.
    cookie: Option<(String, String)>,
}

struct Page {
    at: Url,
    status: u16,
    location: Option<Url>,
    text: String,
}

impl Browser {
    async fn load(&mut self, request: reqwest::Request) -> Result<Page> {
        let (mut request, at) = (request.try_clone().context("a body in memory")?, request.url());
        if let Some((cookie, path)) = &self.cookie
            && at.path().strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        {
            request.headers_mut().insert("cookie", cookie.parse()?);
        }
        let at = at.clone();
        let response = self.http.execute(request).await?;
        if let Some(given) = response.headers().get("set-cookie") {
            let given = given.to_str()?;
            assert!(!given.contains("Path") && !given.contains("Domain"), "{given}");
            let folder = at.path().rsplit_once('/').unwrap().0.to_owned();
            self.cookie = Some((given.split(';').next().unwrap().to_owned(), folder));
        }
        let status = response.status().as_u16();
        let location = response.headers().get("location").map(|value| value.to_str().unwrap());
        let location = location.map(|location| at.join(location).unwrap());
        Ok(Page { at, status, location, text: response.text().await? })
    }

    async fn get(&mut self, at: &Url) -> Result<Page> {
        let request = self.http.get(at.clone()).build()?;
        self.load(request).await
    }

    async fn submit(&mut self, form: &HtmlForm) -> Result<Page> {
        if form.method == "get" {
            let mut at = form.action.clone();
            at.set_query(Some(&form.body()));
            return self.get(&at).await;
        }
        let request = self.http.post(form.action.clone()).body(form.body()).build()?;
        self.load(request).await
    }

    /// Follows redirects to a page.
    async fn follow(&mut self, mut page: Page) -> Result<Page> {
        while let Some(location) = page.location.take() {
            assert_below(&location, &page.at);
            page = self.get(&location).await?;
        }
        Ok(page)
    }
}

#[track_caller]
fn assert_below(url: &Url, from: &Url) {
    let is_below = url.path().starts_with(PREFIX) && url.origin() == from.origin();
    assert!(is_below, "{url} on {from}");
}

#[tokio::test]
async fn behind_a_proxy_that_strips_a_prefix_everything_works_and_the_cookie_stays_there()
-> Result<()> {
    let server = TestServer::start().await;
    server.caller().post("/v1/devices", &android("phone")).await.ok();
    let sent = json!({"text": "Hello", "platforms": ["android"]});
    server.caller().post("/v1/notifications", &sent).await.id();
    let proxy = PrefixProxy::start(server.address(), PREFIX).await?;
    let http = notify_tests::http_client().redirect(reqwest::redirect::Policy::none()).build()?;
    let mut browser = Browser { http, cookie: None };

    let start = Url::parse(&format!("{}{PREFIX}/console", proxy.origin))?;
    let page = browser.get(&start).await?;
    let page = browser.follow(page).await?;
    let sign_in = forms(&page.text, &page.at).remove(0).with("key", server.admin_key());
    let page = browser.submit(&sign_in).await?;
    let page = browser.follow(page).await?;
    assert!(page.text.contains("<h1>Overview</h1>"), "{}", page.text);
    let (_, path) = browser.cookie.as_ref().unwrap();
    assert_eq!(path, "/tools/notify/console", "the cookie is not sent to other tools");

    let new_app = page.at.join("new-app")?;
    let page = browser.get(&new_app).await?;
    let form = forms(&page.text, &page.at).into_iter().find(|form| form.action == new_app);
    let created = browser.submit(&form.unwrap().with("name", "Shop")).await?;
    assert_eq!(created.status, 303, "{}", created.text);
    let page = browser.follow(created).await?;
    assert!(page.text.contains("Shop"), "{}", page.text);

    let (mut seen, mut submitted, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![page.at]);
    let mut sign_out = None;
    while let Some(at) = open.pop() {
        if !seen.insert(at.clone()) {
            continue;
        }
        let page = browser.get(&at).await?;
        let page = browser.follow(page).await?;
        assert_eq!(page.status, 200, "{at}");
        if !page.at.path().contains("/console") {
            continue;
        }
        let files = page.text.split(['"', '\'']).filter(|text| text.contains("?v="));
        open.extend(files.map(|file| page.at.join(file.split('#').next().unwrap()).unwrap()));
        for link in links(&page.text, &page.at) {
            // A page may lead to other sites, such as the console of a provider.
            if link.origin() == page.at.origin() {
                assert_below(&link, &page.at);
                open.push(link);
            }
        }
        for form in forms(&page.text, &page.at) {
            assert_below(&form.action, &page.at);
            if form.action.path().ends_with("/sign-out") {
                sign_out.get_or_insert(form);
            } else if form.method == "post" && submitted.insert(form.action.clone()) {
                // A wrong token shows that the form arrives, without its effect.
                let refused = browser.submit(&form.with("token", "wrong")).await?;
                assert_eq!(refused.status, 403, "{}: {}", refused.at, refused.text);
            }
        }
    }
    assert!(seen.len() > 15 && submitted.len() > 10, "{seen:?} {submitted:?}");
    let page = browser.submit(&sign_out.unwrap()).await?;
    let page = browser.follow(page).await?;
    assert!(page.at.path().ends_with("/console/sign-in"), "{}", page.at);
    Ok(())
}

//! The public page of a poll: what visitors see, and what is counted.

use notify_tests::TestServer;
use reqwest::header::{HeaderMap, LOCATION, SET_COOKIE};
use serde_json::{Value, json};

use crate::PATIENCE;

/// A page as a browser gets it.
struct Page {
    status: u16,
    headers: HeaderMap,
    html: String,
}

impl Page {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, html: response.text().await.unwrap() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks what every page of these has.
    #[track_caller]
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.html);
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(self.header("referrer-policy"), "same-origin");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert_eq!(self.header("cache-control"), "no-store");
        let policy = self.header("content-security-policy");
        for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(!self.html.contains("<script") && !self.html.contains("style="), "{}", self.html);
        assert!(!self.headers.contains_key(SET_COOKIE), "a page sets no cookie");
        self
    }

    /// The value of the first attribute after that mark.
    fn value_after(&self, mark: &str) -> &str {
        let rest = self.html.split_once(mark).unwrap_or_else(|| panic!("{mark}: {}", self.html)).1;
        rest.split('"').next().unwrap()
    }
}

/// A poll with its page.
struct Poll {
    http: reqwest::Client,
    url: String,
    answers: Vec<String>,
    read: Value,
}

impl Poll {
    async fn make(server: &TestServer, poll: &Value) -> Self {
        let caller = server.caller();
        let body = json!({"platforms": ["android"], "poll": poll});
        let id = caller.post("/v1/notifications", &body).await.id();
        let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
        let url = read["url"].as_str().unwrap();
        let url = format!("{}{}", server.origin(), &url[url.find("/polls/").unwrap()..]);
        let answers = read["answers"].as_array().unwrap().iter();
        let answers = answers.map(|answer| answer["id"].as_str().unwrap().to_owned()).collect();
        let http = notify_tests::http_client()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { http, url, answers, read }
    }

    async fn tea(server: &TestServer) -> Self {
        let tea = json!({"text": "Tea?", "layout_id": "poll_text",
            "answers": [{"text": "yes"}, {"text": "no"}]});
        Self::make(server, &tea).await
    }

    async fn page(&self, cookie: &str) -> Page {
        Page::of(self.http.get(&self.url).header("cookie", cookie)).await
    }

    fn form(&self, form: &str) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}/votes", self.url));
        request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned())
    }

    async fn clicks(&self, server: &TestServer) -> Vec<u64> {
        let id = self.read["id"].as_str().unwrap();
        let poll = server.caller().get(&format!("/v1/polls/{id}")).await.ok();
        let answers = poll["answers"].as_array().unwrap();
        answers.iter().map(|answer| answer["clicks"].as_u64().unwrap()).collect()
    }
}

#[tokio::test]
async fn a_visitor_answers_once_and_sees_the_results() {
    let server = TestServer::without_providers_with(|config| {
        config.public_url = Some("https://push.example/".parse().unwrap());
    })
    .await;
    let poll = Poll::tea(&server).await;
    let page = poll.page("").await.is(200);
    assert!(page.html.contains("<html lang=\"en\" dir=\"ltr\">"), "{}", page.html);
    assert!(page.html.contains("Tea?</h1>") && !page.html.contains("<progress"), "{}", page.html);
    let visitor = page.value_after("name=\"visitor\" value=\"").to_owned();
    let action = page.value_after("action=\"");
    assert!(poll.url.ends_with(action.strip_suffix("/votes").unwrap()), "{action}");

    let form = format!("visitor={visitor}&answer={}", poll.answers[0]);
    let own = poll.form(&form).header("origin", server.origin());
    assert_eq!(Page::of(own).await.status, 303, "a browser without Fetch Metadata");
    let voted = Page::of(poll.form(&form).header("sec-fetch-site", "same-origin")).await;
    assert_eq!((voted.status, voted.html.as_str()), (303, ""));
    let back = reqwest::Url::parse(&format!("{}/votes", poll.url)).unwrap();
    let back = back.join(voted.headers[LOCATION].to_str().unwrap()).unwrap();
    assert_eq!(back.as_str(), poll.url);
    let cookie = voted.headers[SET_COOKIE].to_str().unwrap();
    let (pair, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(pair, format!("visitor={visitor}"));
    assert_eq!(rest, "Max-Age=31536000; HttpOnly; SameSite=Lax; Secure");

    // The same form again, and another answer by who has answered.
    let other = format!("answer={}", poll.answers[1]);
    for again in [poll.form(&form), poll.form(&other).header("cookie", pair)] {
        assert_eq!(Page::of(again).await.status, 303);
    }
    assert_eq!(poll.clicks(&server).await, [1, 0]);
    // Another visitor.
    assert_eq!(Page::of(poll.form(&other)).await.status, 303);
    assert_eq!(poll.clicks(&server).await, [1, 1]);

    let results = poll.page(pair).await.is(200);
    assert_eq!(results.html.matches("<progress max=\"100\" value=\"50\">").count(), 2);
    assert_eq!(results.html.matches("result chosen").count(), 1);
    assert!(results.html.contains("Votes: 2") && !results.html.contains("<form"));
    assert!(poll.page("visitor=AAAAAAAAAAAAAAAAAAAAAA").await.is(200).html.contains("<form"));
}

#[tokio::test]
async fn unknown_polls_and_answers_get_an_error_page() {
    let server = TestServer::without_providers().await;
    let (poll, other) = (Poll::tea(&server).await, Poll::tea(&server).await);
    let huge = "9".repeat(2_000);
    let unknown = "0190a7c0-0000-7000-8000-000000000000";
    let [yes, foreign] = [&poll.answers[0], &other.answers[0]];
    for (form, status) in [
        (format!("answer={foreign}"), 400),
        (format!("answer={unknown}"), 400),
        ("answer=1".to_owned(), 400),
        (String::new(), 400),
        (format!("answer={yes}&answer={yes}"), 400),
        (format!("answer={yes}&visitor=me"), 400),
        (format!("answer={yes}&more=1"), 400),
        (format!("answer=%FF{yes}"), 400),
        (format!("answer={huge}"), 413),
    ] {
        Page::of(poll.form(&form)).await.is(status);
    }
    for site in ["cross-site", "same-site"] {
        let form = poll.form(&format!("answer={yes}")).header("sec-fetch-site", site);
        let page = Page::of(form.header("accept-language", "xx, de-DE;q=0.9")).await.is(400);
        assert!(page.html.contains("<html lang=\"de\""), "{}", page.html);
    }
    // Browsers without Fetch Metadata send `Origin`.
    for from in ["null", "https://other.example", "http://127.0.0.1:1", "nonsense"] {
        let form = poll.form(&format!("answer={yes}")).header("origin", from);
        Page::of(form).await.is(400);
    }
    let origin = server.origin();
    for path in [
        format!("/polls/{unknown}"),
        "/polls/1".to_owned(),
        format!("/polls/{huge}"),
        "/polls".to_owned(),
        "/polls/%00".to_owned(),
        format!("/polls/{unknown}/votes/more"),
    ] {
        Page::of(poll.http.get(format!("{origin}{path}"))).await.is(404);
    }
    let lost = poll.http.post(format!("{origin}/polls/{unknown}/votes"));
    Page::of(lost.body(format!("answer={yes}"))).await.is(404);
    let page = Page::of(poll.http.delete(&poll.url)).await.is(405);
    assert_eq!(page.header("allow"), "GET, HEAD");
    assert_eq!((poll.clicks(&server).await, other.clicks(&server).await), (vec![0, 0], vec![0, 0]));
}

#[tokio::test]
async fn votes_are_rate_limited_by_address_and_views_are_not() {
    let server =
        TestServer::without_providers_with(|config| config.poll_votes_per_minute = 3).await;
    let poll = Poll::tea(&server).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let answered = Page::of(poll.form(&format!("answer={}", poll.answers[0]))).await;
        if answered.status == 429 {
            let seconds: u64 = answered.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&seconds), "{seconds}");
        }
        statuses.push(answered.status);
    }
    assert_eq!(statuses, [303, 303, 303, 429, 429]);
    assert_eq!(poll.clicks(&server).await, [3, 0]);
    poll.page("").await.is(200);
}

#[tokio::test]
async fn every_layout_is_rendered_and_texts_are_escaped() {
    let server = TestServer::without_providers().await;
    let evil = "\"><script>alert(1)</script>";
    let image = |name: &str| json!({"image_url": format!("https://img.example/{name}")});
    let both = |text: &str, name: &str| json!({"text": text, "image_url": format!("https://img.example/{name}")});
    for (layout, answers, expected) in [
        ("poll_images", json!([image("a.png"), image("b.png")]), "Answer 2"),
        ("poll_images", json!([{"image_url": "http://img.example/a"}, image("b")]), "Answer 1"),
        ("poll_text", json!([{"text": evil}, {"text": "no"}]), "&quot;&gt;&lt;script&gt;"),
        ("poll_text_wide_image", json!([both(evil, "a?x='y"), both("b", "b")]), "a?x=&#39;y"),
    ] {
        let poll = json!({"text": evil, "layout_id": layout, "answers": answers,
            "image_url": "https://img.example/top.png"});
        let poll = Poll::make(&server, &poll).await;
        let page = poll.page("").await.is(200);
        assert!(page.html.contains(&format!("<ul class=\"{layout}\">")), "{}", page.html);
        assert!(page.html.contains(expected), "{layout}: {}", page.html);
        assert!(page.html.contains("src=\"https://img.example/top.png\""), "{}", page.html);
        assert!(!page.html.contains("src=\"http:"), "{}", page.html);
        assert_eq!(page.html.matches("<button").count(), 2);
        assert!(page.html.contains("<title>&quot;&gt;&lt;script&gt;"), "{}", page.html);
    }
}

#[tokio::test]
async fn the_page_uses_the_language_of_its_application() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = format!("/admin/v1/apps/{}", apps["apps"][0]["id"].as_str().unwrap());
    for (language, dir, thanks, text_language) in [
        ("de", "ltr", "Danke für Ihre Antwort.", "de"),
        ("he", "rtl", "תודה על התשובה.", "he"),
        ("ar", "rtl", "شكرًا على إجابتك.", "ar"),
        ("ja", "ltr", "Thank you for your answer.", "en"),
    ] {
        admin.patch(&app, &json!({"language": language})).await.ok();
        let poll = Poll::tea(&server).await;
        let start = format!("<html lang=\"{language}\" dir=\"{dir}\">");
        assert!(poll.page("").await.is(200).html.contains(&start), "{language}");
        let voted = Page::of(poll.form(&format!("answer={}", poll.answers[1]))).await;
        let cookie = voted.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        let results = poll.page(cookie).await.is(200).html;
        assert!(results.contains(&format!("lang=\"{text_language}\">{thanks}")), "{results}");
    }
}

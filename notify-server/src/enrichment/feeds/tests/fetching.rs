//! Fetching feeds from test servers: the requests, the addresses that are never reached, and hostile
//! bodies.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::rss_item;
use crate::enrichment::feeds::ParseError;
use crate::enrichment::feeds::fetch::{FETCH_TIMEOUT, FetchError};
use crate::enrichment::feeds::reader::{FeedReader, FetchedFeed};
use crate::outbound::Outbound;
use crate::outbound::tests::{DISGUISES, TestResolver};
use crate::store::{AppNo, Validators};

/// The tests treat this loopback address as public.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Longest wait for a server that does not end its response.
const SHORT: Duration = Duration::from_millis(500);

/// A server that sends its responses in order, one on each connection, and the last one repeatedly.
struct Host {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Host {
    async fn on(ip: IpAddr, answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut answers = answers.into_iter().peekable();
            let mut answer = Vec::new();
            while let Ok((mut io, _)) = listener.accept().await {
                answer = answers.next().unwrap_or(answer);
                let (answer, seen) = (answer.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut request = vec![0; 4_096];
                    let length = io.read(&mut request).await.unwrap_or(0);
                    let request = String::from_utf8_lossy(&request[..length]).to_ascii_lowercase();
                    seen.lock().unwrap().push(request);
                    let _ = io.write_all(&answer).await;
                    // The connection of an incomplete response stays open.
                    if !answer.ends_with(b"...") {
                        let _ = io.shutdown().await;
                    }
                    let _ = io.read(&mut [0]).await;
                });
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
    answer = answer.replace('\n', "\r\n").replace("\r\r", "\r");
    [answer.as_bytes(), body].concat()
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    answer(&format!("{status} Moved\nlocation: {to}"), b"")
}

fn ok(body: &[u8]) -> Vec<u8> {
    answer("200 OK", body)
}

/// A reader for which `feed.example` is one host, and `inside.example` another that it must not
/// reach.
fn reader(public: &Host, inside: &Host) -> FeedReader {
    reader_within(SHORT, public, inside)
}

fn reader_within(timeout: Duration, public: &Host, inside: &Host) -> FeedReader {
    let names = Arc::new(TestResolver::default());
    names.answers("feed.example", &[public.address]);
    names.answers("inside.example", &[inside.address]);
    names.answers("mixed.example", &[inside.address, public.address]);
    // Resolves to a public address once, and to a private address afterwards.
    names.answers("rebinds.example", &[public.address]);
    names.answers("rebinds.example", &[inside.address]);
    FeedReader::with_timeout(Outbound::over_with(names, PUBLIC), timeout)
}

async fn inside() -> Host {
    Host::on(Ipv4Addr::LOCALHOST.into(), vec![ok(rss_item("").as_bytes())]).await
}

/// The result of a fetch of `http://feed.example/`, and the requests.
async fn fetched(answers: Vec<Vec<u8>>) -> (Result<FetchedFeed, FetchError>, Vec<String>) {
    let (public, inside) = (Host::on(PUBLIC, answers).await, inside().await);
    let known = Validators {
        etag: Some("W/\"a b\"".to_owned()),
        last_modified: Some("Tue, 02 Jun 2026 08:30:00 GMT".to_owned()),
    };
    let read = reader(&public, &inside).read("http://feed.example/a?b#c", &known).await;
    assert_eq!(inside.requests(), [""; 0]);
    (read, public.requests())
}

#[tokio::test]
async fn validators_are_sent_and_new_ones_stored_unchanged() {
    let head = "200 OK\netag: W/\"x\"\nlast-modified: then\ncache-control: max-age=60\n\
        content-type: text/xml; charset=iso-8859-1";
    let body = b"<rss><channel><item><title>\xe9</title><link>/1</link></item></channel></rss>";
    let (read, requests) = fetched(vec![answer(head, body)]).await;
    let Ok(FetchedFeed::Changed { head, validators, feed }) = read else { panic!("{read:?}") };
    assert_eq!((head.max_age_seconds, head.moved_to), (Some(60), None));
    let kept = (validators.etag.as_deref(), validators.last_modified.as_deref());
    assert_eq!(kept, (Some("W/\"x\""), Some("then")));
    assert_eq!((&*feed.items[0].title, &*feed.items[0].url), ("é", "http://feed.example/1"));
    for line in [
        "get /a?b http/1.1\r\n",
        "\r\nif-none-match: w/\"a b\"\r\n",
        "\r\nif-modified-since: tue, 02 jun 2026 08:30:00 gmt\r\n",
        "\r\naccept-encoding: gzip\r\n",
        "\r\nhost: feed.example\r\n",
    ] {
        assert!(requests[0].contains(line), "{line} in {requests:?}");
    }
    let (read, _) = fetched(vec![answer("304 Not Modified\ncache-control: max-age=60", b"")]).await;
    assert!(matches!(&read, Ok(FetchedFeed::Unchanged(head)) if head.max_age_seconds == Some(60)));
}

#[tokio::test]
async fn redirects_to_public_addresses_are_followed() {
    let good = || ok(rss_item("").as_bytes());
    let moved = |answers| async {
        let (read, requests) = fetched(answers).await;
        let moved = match read {
            Ok(FetchedFeed::Changed { head, .. }) => Ok(head.moved_to),
            Ok(FetchedFeed::Unchanged(_)) => panic!("nothing was unchanged"),
            Err(error) => Err(error),
        };
        (moved, requests.len())
    };
    let to = |path: &str| Some(format!("http://feed.example{path}"));
    let hop = |status| redirect(status, "/b");
    assert_eq!(moved(vec![hop(301), good()]).await, (Ok(to("/b")), 2));
    assert_eq!(
        moved(vec![hop(308), redirect(301, "//feed.example/c"), good()]).await,
        (Ok(to("/c")), 3)
    );
    for status in [302, 303, 307] {
        assert_eq!(moved(vec![hop(status), good()]).await, (Ok(None), 2));
        // Only permanent redirects before the first temporary one count.
        assert_eq!(moved(vec![hop(301), redirect(status, "/c"), good()]).await, (Ok(to("/b")), 3));
        assert_eq!(moved(vec![hop(status), hop(301), good()]).await, (Ok(None), 3));
    }
    assert_eq!(moved(vec![hop(302), hop(302), hop(302), good()]).await, (Ok(None), 4));
    assert_eq!(moved(vec![hop(301); 9]).await, (Err(FetchError::Redirected), 4));
    for to in ["http://", ""] {
        let (error, requests) = moved(vec![redirect(302, to), hop(302)]).await;
        assert!(error.is_err() && requests <= 4, "{error:?}");
    }
    // The longest url that is allowed, and a longer one.
    let start = "http://feed.example/";
    let path = "x".repeat(2_048 - start.len());
    assert_eq!(moved(vec![redirect(301, &format!("/{path}")), good()]).await.1, 2);
    let long = moved(vec![redirect(301, &format!("/{path}x")), good()]).await;
    assert_eq!(long, (Err(FetchError::Redirected), 1));
}

#[tokio::test]
async fn private_addresses_are_unreachable_by_url_redirect_or_name() {
    let inside = inside().await;
    let port = inside.address.port();
    let mut targets: Vec<String> = DISGUISES.iter().map(|host| format!("http://{host}/")).collect();
    targets.extend(DISGUISES.iter().map(|host| format!("http://{host}:{port}/")));
    targets.extend(
        ["http://inside.example/", "http://feed.example:22/", "http://a:b@feed.example/"]
            .map(str::to_owned),
    );
    targets.extend(["file:///etc/passwd", "gopher://feed.example/", "data:,x"].map(str::to_owned));
    for target in &targets {
        for status in [301, 302, 307, 308] {
            let public = Host::on(PUBLIC, vec![redirect(status, target)]).await;
            let reader = reader_within(FETCH_TIMEOUT, &public, &inside);
            for url in [target.as_str(), "http://feed.example/"] {
                let read = reader.read(url, &Validators::default()).await;
                let is_name = target.contains("inside.example");
                let expected =
                    if is_name { FetchError::PrivateAddress } else { FetchError::Blocked };
                assert_eq!(read.err(), Some(expected), "{url} to {target}");
            }
        }
    }
    let public = Host::on(PUBLIC, vec![redirect(302, "http://rebinds.example/")]).await;
    let reader = reader_within(FETCH_TIMEOUT, &public, &inside);
    let none = Validators::default();
    // The name resolves to a public address first, and the connection goes to the address that was checked.
    // Afterwards, the name resolves to a private address.
    assert_eq!(
        reader.read("http://rebinds.example/", &none).await.err(),
        Some(FetchError::PrivateAddress)
    );
    assert_eq!(
        reader.read("http://rebinds.example/", &none).await.err(),
        Some(FetchError::PrivateAddress)
    );
    assert_eq!(public.requests().len(), 1);
    // If a name has a public and a private address, the public one is used.
    let public = Host::on(PUBLIC, vec![ok(rss_item("").as_bytes())]).await;
    let reader = reader_within(FETCH_TIMEOUT, &public, &inside);
    assert!(reader.read("http://mixed.example/", &none).await.is_ok());
    assert_eq!(public.requests().len(), 1);
    // A name with a private address gives the same error as an unknown name.
    let unresolved = reader.read("http://nobody.example/", &none).await.err();
    let named = reader.read("http://inside.example/", &none).await.err();
    let text = |error: Option<FetchError>| error.map(|error| error.to_string());
    assert_eq!((unresolved, text(unresolved)), (Some(FetchError::Unresolved), text(named)));
    assert_eq!(inside.requests(), [""; 0]);
}

#[tokio::test]
async fn not_modified_is_valid_only_with_validators() {
    let (public, inside) =
        (Host::on(PUBLIC, vec![answer("304 Not Modified", b"")]).await, inside().await);
    let read = reader(&public, &inside).read("http://feed.example/", &Validators::default()).await;
    let refused = FetchError::Status { status: 304, retry_after_ms: None };
    assert_eq!(read.err(), Some(refused));
}

#[tokio::test]
async fn unread_feed_is_not_reported_as_silent() {
    let (public, inside) =
        (Host::on(PUBLIC, vec![ok(rss_item("").as_bytes())]).await, inside().await);
    let reader = reader(&public, &inside);
    reader.parsers.close();
    let read = reader.read("http://feed.example/", &Validators::default()).await;
    assert_eq!(read.err(), Some(FetchError::NotAttempted));
}

#[tokio::test]
async fn one_feed_check_per_application_at_a_time() {
    let silent = b"HTTP/1.1 200 OK...".to_vec();
    let (public, inside) = (Host::on(PUBLIC, vec![silent]).await, inside().await);
    let reader = reader(&public, &inside);
    let check = |app| reader.check(AppNo(app), "http://feed.example/");
    let (first, second, other) = tokio::join!(check(1), check(1), check(2));
    assert_eq!((first.is_some(), second.is_some(), other.is_some()), (true, false, true));
    assert!(check(1).await.is_some(), "its place is free again");
}

#[tokio::test]
async fn errors_depend_on_the_response_and_quote_none_of_it() {
    let status = |status, retry_after_ms| FetchError::Status { status, retry_after_ms };
    let gzip = |body: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(body).unwrap();
        answer("200 OK\ncontent-encoding: gzip", &gzip.finish().unwrap())
    };
    let whole = rss_item("");
    let cut_off = format!("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{whole}").into_bytes();
    let mut gzipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzipped.write_all(whole.as_bytes()).unwrap();
    let gzipped = gzipped.finish().unwrap();
    let cut_off_gzip = answer("200 OK\ncontent-encoding: gzip", &gzipped[..gzipped.len() - 20]);
    let large = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b' '; 6 * 1_024 * 1_024]];
    let cases = [
        (answer("404 Secret", b"secret"), status(404, None)),
        (answer("500 Secret\nretry-after: 60", b"secret"), status(500, None)),
        (answer("429 Secret\nretry-after: 60", b"secret"), status(429, Some(60_000))),
        (answer("503 Secret\nretry-after: 60", b"secret"), status(503, Some(60_000))),
        (answer("206 Secret", b"secret"), status(206, None)),
        (answer("410 Secret", b"secret"), FetchError::Gone),
        (ok(b"secret"), FetchError::Unreadable(ParseError::NotAFeed)),
        (ok(b"<rss>secret"), FetchError::Unreadable(ParseError::NotWellFormed)),
        (answer("200 OK\ncontent-encoding: br", b"secret"), FetchError::Compression),
        (answer("200 OK\ncontent-encoding: gzip", b"secret"), FetchError::Compression),
        // A gzip bomb: 64 MiB of zeros in 64 KiB.
        (gzip(&vec![b' '; 64 * 1_024 * 1_024]), FetchError::TooLarge),
        // A transfer that breaks off is a failure, even after complete items.
        (cut_off, FetchError::Unreachable),
        (cut_off_gzip, FetchError::Compression),
        (large.concat(), FetchError::TooLarge),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n<rss>...".to_vec(), FetchError::Unreachable),
        (b"HTTP/1.1 200 OK\r\nsecret...".to_vec(), FetchError::Unreachable),
        (b"SSH-2.0-secret\r\n".to_vec(), FetchError::Unreachable),
        (b"".to_vec(), FetchError::Unreachable),
    ];
    for (answer, expected) in cases {
        let (read, _) = fetched(vec![answer]).await;
        let error = read.expect_err("it is no feed");
        assert_eq!(error, expected);
        assert!(!error.to_string().contains("secret"));
    }
    let (read, _) = fetched(vec![gzip(rss_item("").as_bytes())]).await;
    assert!(matches!(read, Ok(FetchedFeed::Changed { feed, .. }) if feed.items.len() == 1));
}

//! S5: hostile feeds. The server marks each of them as failing and uses limited CPU time and memory, measured
//! from outside the process.

use std::fs;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use notify_tests::{Launch, ServerProcess};
use serde_json::json;

use crate::host::{Host, Reply, Then, rss};
use crate::{create, fetched};

/// The most CPU time that one feed may take, in seconds. The slowest takes about 1 s, and 2 s on a busy machine.
/// A feed that is read in quadratic time would take minutes.
const CPU_SECONDS_MAX: f64 = 15.0;
/// The most memory that one feed may add, in bytes.
const MEMORY_BYTES_MAX: u64 = 64 * 1_024 * 1_024;
/// The ticks a second in `/proc/<pid>/stat`, on every current Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The feeds and the error of each.
const HOSTILE: [(&str, &str); 21] = [
    ("/laughs", "has a document type, which feeds do not need"),
    ("/external", "has a document type, which feeds do not need"),
    ("/attributes", "has too many attributes of one element"),
    ("/namespaces", "has too many attributes of one element"),
    ("/nested-namespaces", "has too many namespaces"),
    ("/depth", "is nested too deep"),
    ("/items", "has too many items"),
    ("/json-items", "has too many items"),
    ("/texts", "has too many items"),
    ("/bases", "has too many items"),
    ("/ends", "has too many elements"),
    ("/unclosed", "has too many items"),
    ("/pictures", "has too many items"),
    ("/sets", "has too many items"),
    ("/garbage", "is not in the charset that it names"),
    ("/large", "is larger than 5 MiB"),
    ("/bomb", "is larger than 5 MiB"),
    ("/endless", "is larger than 5 MiB"),
    ("/drips", "the host does not answer, or not in time"),
    ("/charset", "is not in the charset that it names"),
    ("/redirects", "redirects too often, or to an invalid address"),
];

#[expect(clippy::too_many_lines, reason = "one arm for each attack")]
fn respond(path: &str) -> Reply {
    let whole = |body: String| ("200 OK".to_owned(), body.into_bytes(), Then::Ends);
    let in_rss = |inside: &str| whole(format!("<rss><channel>{inside}</channel></rss>"));
    match path {
        path if path.starts_with("/good") => whole(rss(&[1])),
        "/laughs" => {
            let entities: String = (1..30)
                .map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10)))
                .collect();
            whole(format!("<!DOCTYPE rss [<!ENTITY l0 \"lol\">{entities}]><rss>&l29;</rss>"))
        }
        // If the server fetched the external entity, this host would see the request.
        "/external" => whole(
            "<!DOCTYPE rss SYSTEM \"/canary\" [<!ENTITY % x SYSTEM \"/canary\">]><rss/>".into(),
        ),
        "/attributes" => in_rss(&format!("<x {}/>", "a=\"\" ".repeat(800_000))),
        "/namespaces" => in_rss(&format!("<x {}/>", "xmlns:a=\"\" ".repeat(400_000))),
        "/nested-namespaces" => {
            let inside = format!("<x {}>", "xmlns:a=\"\" ".repeat(60)).repeat(50);
            in_rss(&inside)
        }
        "/depth" => in_rss(&"<x>".repeat(1_000_000)),
        "/items" => in_rss(&"<item/>".repeat(700_000)),
        "/json-items" => whole(format!(
            r#"{{"version": "https://jsonfeed.org/version/1.1", "items": [{}{{}}]}}"#,
            "{},".repeat(1_000_000)
        )),
        // All texts have the maximum length and look like markup.
        "/texts" => in_rss(&format!(
            "<item><title>{}</title><description>{}</description></item>{}",
            "&lt;a &quot;&gt;".repeat(60_000),
            "&amp;amp;".repeat(300_000),
            "<item><title/></item>".repeat(20_001),
        )),
        // The base URL has the maximum length, and every link would copy it.
        "/bases" => whole(format!(
            "<rss><channel xml:base=\"http://a.example/{}/\">{}</channel></rss>",
            "x".repeat(4 * 1_024 * 1_024),
            "<item><link>b</link></item>".repeat(20_001),
        )),
        // The parser searches each end tag among all open elements.
        "/ends" => in_rss(&format!("{}{}", "<x>".repeat(60), "</y>".repeat(1_000_000))),
        "/unclosed" => in_rss(&"<item><title>T</title><link>/1</link>".repeat(100_000)),
        // All texts have the maximum length and consist of tags that look like images.
        "/pictures" => in_rss(&format!(
            "{}{}",
            format!(
                "<item><description>{}</description><a>{}</a></item>",
                "&lt;img src=x data-src='".repeat(2_600),
                "<img src='' srcset='' class='emoji' style='display:none'/>".repeat(300),
            )
            .repeat(50),
            "<item/>".repeat(20_001),
        )),
        "/sets" => in_rss(&format!(
            "{}{}",
            format!(
                "<item><description>&lt;img srcset='{}'></description></item>",
                "data:,x 1w, ".repeat(5_000)
            )
            .repeat(70),
            "<item/>".repeat(20_001),
        )),
        // What is guessed at, in the longest way.
        "/garbage" => {
            let head = "200 OK\r\ncontent-type: text/xml; charset=utf-8".to_owned();
            let bytes =
                (0..5_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80);
            let body = [b"<rss><channel><title>".to_vec(), bytes.collect()].concat();
            (head, body, Then::Ends)
        }
        "/large" => whole(" ".repeat(100 * 1_024 * 1_024)),
        "/bomb" => ("200 OK\r\ncontent-encoding: gzip".to_owned(), bomb(), Then::Ends),
        "/endless" => ("200 OK".to_owned(), b"<rss>".to_vec(), Then::Endless),
        "/drips" => ("200 OK".to_owned(), b"<rss>".to_vec(), Then::Drips),
        "/charset" => {
            let head = "200 OK\r\ncontent-type: text/xml; charset=utf-8".to_owned();
            (
                head,
                b"<rss><channel><title>\xff\xfe\xe9</title></channel></rss>".to_vec(),
                Then::Ends,
            )
        }
        _ => ("302 Found\r\nlocation: /redirects".to_owned(), Vec::new(), Then::Ends),
    }
}

/// Five gibibytes of zeros in five mebibytes: the same compressed 8 MiB, repeated.
fn bomb() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 8 * 1_024 * 1_024]).expect("a Vec takes everything");
    gzip.finish().expect("a Vec takes everything").repeat(600)
}

/// Resets the kernel's record of the peak memory. Returns the current memory of the server.
fn begin_peak(server: &ServerProcess) -> Result<u64> {
    // 5 resets the peak: proc_pid_clear_refs(5).
    fs::write(format!("/proc/{}/clear_refs", server.id()?), "5")?;
    server.memory_peak()
}

/// The CPU time of a server so far, in seconds.
fn cpu_seconds(server: &ServerProcess) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.id()?))?;
    let (_, after) = stat.rsplit_once(") ").context("a process")?;
    let ticks = after.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_SECOND)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_feeds_fail_and_use_few_resources() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let host = Host::start(respond).await?;
    let launch = Launch::on(folder.path()).argument("--allow-private-networks");
    let server = launch.start().await?;
    let caller = server.caller();
    // The first fetch allocates memory that stays: root certificates and threads.
    let good = create(&caller, &host.url("/good")).await?;
    assert_eq!(fetched(&caller, &good).await?["status"], "ok");
    for (path, expected) in HOSTILE {
        let before = cpu_seconds(&server)?;
        let memory_before = begin_peak(&server)?;
        let feed = create(&caller, &host.url(path)).await?;
        let feed = fetched(&caller, &feed).await?;
        let state = (&feed["status"], &feed["last_error"]);
        assert_eq!(state, (&json!("failing"), &json!(expected)), "{path}");
        let took = cpu_seconds(&server)? - before;
        let memory = server.memory_peak()?.saturating_sub(memory_before);
        println!("S5: {path}: {took:.2} s CPU, {} KiB more at the most", memory / 1_024);
        ensure!(took <= CPU_SECONDS_MAX, "{path} took {took} s of the processor");
        ensure!(memory <= MEMORY_BYTES_MAX, "{path} took {memory} bytes");
    }
    let asked = host.requests();
    assert!(asked.iter().all(|request| !request.contains("canary")), "{asked:?}");
    // A valid feed is fetched as before.
    let good = create(&caller, &host.url("/good?again")).await?;
    fetched(&caller, &good).await?;
    server.kill().await
}

//! `notify-server serve`.

use std::io::{IsTerminal, Write};

use crate::app::App;
use crate::config::Config;
use crate::descriptors;
use crate::error_chain::error_chain;
use crate::keys::reveal;
use crate::store::postgres::DatabaseUrl;

use super::{print, signals};

/// Serves until a signal.
pub(super) async fn serve(config: Config) -> anyhow::Result<()> {
    let stop = signals::first_signal()?;
    let hangups = signals::Hangups::listen()?;
    descriptors::raise_limit();
    let folder_path = std::path::absolute(&config.data_dir)?;
    let is_new = !config.database_path().exists();
    let place = config.database_url.as_ref().map(DatabaseUrl::place);
    let has_own_address = config.console_listen.is_some();
    let has_admin_address = config.admin_listen.is_some();
    let app = App::start(config).await?;
    let folder = folder_path.display();
    // The log names the data folder: an operator who started the server in another folder by
    // mistake would otherwise not see why the server refuses the keys.
    match place {
        Some(place) if app.first_keys.is_some() => {
            tracing::info!("database {place}: new installation");
        }
        Some(place) => tracing::info!("database {place}: existing installation"),
        None if is_new => tracing::info!("data folder {folder}: new installation"),
        None => tracing::info!("data folder {folder}: existing installation"),
    }
    if let Some(keys) = &app.first_keys {
        print(&format!("api key: {}", reveal(&keys.api_key)))?;
        print(&format!("admin key: {}", reveal(&keys.admin_key)))?;
        // Logged to standard error, because scripts read the lines of standard output.
        tracing::warn!("save the api key and the admin key: they are not shown again");
        if let Err(error) = app.keys_shown().await {
            let cause = error_chain(&error);
            tracing::warn!(cause, "the next start shows other keys; these stay valid");
        }
    }
    if has_admin_address {
        print(&format!("admin: {}", app.admin_origin))?;
    }
    if let Some(origin) = app.console_origin.as_ref().filter(|_| has_own_address) {
        print(&format!("console: {origin}/console/"))?;
    }
    print(&format!("listening on {}", app.origin))?;
    if std::io::stderr().is_terminal() {
        // Only for a person at a terminal, not for the log of a service. A closed output is not an
        // error.
        let console = app.console_origin.as_deref();
        let hints = if app.first_keys.is_some() {
            first_hints(console, app.first_sign_in_link().as_deref(), &app.admin_origin)
        } else {
            console.filter(|_| !has_own_address).map(console_hint).unwrap_or_default()
        };
        let _ = write!(std::io::stderr(), "{hints}");
    }
    serve_until_stopped(app, stop, hangups).await
}

/// The hints of a first start. `console` is the origin of the console, and `link` signs in to it.
fn first_hints(console: Option<&str>, link: Option<&str>, origin: &str) -> String {
    let console = link.map(link_hint).or_else(|| console.map(console_hint)).unwrap_or_default();
    let gap = if console.is_empty() { "" } else { "\n" };
    format!("\n{console}{gap}{}\n", next_steps(origin))
}

/// The address of the console.
fn console_hint(origin: &str) -> String {
    format!("console: {origin}/console/ (sign in with the admin key)\n")
}

/// The link that signs in to the console without the admin key.
fn link_hint(link: &str) -> String {
    format!(
        "console: {link}\n  \
         (this link signs in once, within 10 minutes; start the playground there)\n"
    )
}

/// Hints for the first start of a server.
fn next_steps(origin: &str) -> String {
    format!(
        "next steps, in another terminal:\n  \
         export NOTIFY_URL={origin}\n  \
         export NOTIFY_API_KEY=nk_… NOTIFY_ADMIN_KEY=na_…  # the keys above\n  \
         notify apps update default --name 'My App'        # the title of notifications\n  \
         notify providers put fcm service-account.json     # or apns, webpush, …\n  \
         notify doctor                                     # what is still missing\n\
         without credentials: `notify-server sandbox` starts fake providers\n\
         reference: {origin}/docs\n"
    )
}

/// Serves until `stop` resolves, or until the delivery engine ends, which is an error. The engine
/// is not started again in this process, because the fault that ended it may have damaged more than
/// the engine. Instead, the process fails, so that its supervisor restarts it. The next start
/// resumes open deliveries.
async fn serve_until_stopped(
    app: App,
    stop: impl Future<Output = ()>,
    mut hangups: signals::Hangups,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(stop);
    let is_engine_running = loop {
        tokio::select! {
            () = &mut stop => break true,
            () = app.engine_ended() => break false,
            () = hangups.next() => app.reload(),
        }
    };
    if !is_engine_running {
        tracing::error!(
            "the delivery engine has ended: the server stops and must be started again"
        );
    }
    if !app.stop().await && is_engine_running {
        tracing::warn!("requests or messages were cut off: they took longer than --shutdown-grace");
    }
    anyhow::ensure!(is_engine_running, "the delivery engine has ended");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use notify_core::Timestamp;
    use tokio::net::TcpListener;

    use super::*;
    use crate::app::open_store;
    use crate::clock::Clock;

    /// A clock that panics in the thread of the delivery engine, after a test switched that on.
    struct FailingClock(AtomicBool);

    #[async_trait::async_trait]
    impl Clock for FailingClock {
        fn now(&self) -> Timestamp {
            let is_engine = std::thread::current().name() == Some("delivery");
            assert!(!(is_engine && self.0.load(Ordering::SeqCst)), "the clock broke");
            Timestamp(1_795_219_200_000)
        }

        async fn sleep_until(&self, _: Timestamp) {
            std::future::pending().await
        }
    }

    #[test]
    fn first_start_hints_name_the_server_and_no_key() {
        let origin = "http://127.0.0.1:8080";
        let link = format!("{origin}/console/first?code={}", "x".repeat(22));
        let steps = first_hints(Some(origin), Some(&link), origin);
        assert!(steps.starts_with(&format!("\n{}\n", link_hint(&link))), "{steps}");
        let steps = first_hints(Some(origin), None, origin);
        assert!(steps.starts_with(&format!("\n{}\n", console_hint(origin))), "{steps}");
        for part in ["NOTIFY_URL=http://127.0.0.1:8080\n", "providers put", "/docs\n"] {
            assert!(steps.contains(part), "{steps}");
        }
        assert!(steps.lines().all(|line| line.chars().count() <= 80), "{steps}");
    }

    #[tokio::test]
    async fn ended_engine_is_logged_and_stops_the_server_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        let store = open_store(&config, true).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let clock = Arc::new(FailingClock(AtomicBool::new(false)));
        let app = App::start_on(config, listener, store, clock.clone()).await.unwrap();
        let key = reveal(&app.first_keys.as_ref().unwrap().api_key);
        let http = reqwest::Client::new();
        let (ready, send) =
            (format!("{}/readyz", app.origin), format!("{}/v1/notifications", app.origin));
        assert_eq!(http.get(&ready).send().await.unwrap().status(), 200);
        clock.0.store(true, Ordering::SeqCst);
        let body = r#"{"text": "t", "platforms": ["ios"]}"#;
        let accepted = http.post(&send).header("x-api-key", key).body(body).send().await.unwrap();
        assert_eq!(accepted.status(), 200, "an accepted notification waits for the next start");
        app.engine_ended().await;
        let hangups = signals::Hangups::listen().unwrap();
        let answer = http.get(&ready).send().await.unwrap();
        assert_eq!(answer.status(), 503);
        let body = answer.text().await.unwrap();
        assert_eq!(body, r#"{"errors":["the delivery engine has ended"]}"#);
        let ended = serve_until_stopped(app, std::future::pending(), hangups).await.unwrap_err();
        assert_eq!(ended.to_string(), "the delivery engine has ended");
    }
}

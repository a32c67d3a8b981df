//! `notify-server serve`.

use crate::app::App;
use crate::config::Config;
use crate::keys::reveal;

use super::{print, signals};

/// Serves until a signal.
pub(super) async fn serve(config: Config) -> anyhow::Result<()> {
    let stop = signals::first_signal()?;
    let app = App::start(config).await?;
    if let Some(keys) = &app.first_keys {
        print(&format!("api key: {}", reveal(&keys.api_key)))?;
        print(&format!("admin key: {}", reveal(&keys.admin_key)))?;
        // On standard error: scripts read the lines of standard output.
        tracing::warn!("keep the api key and the admin key: they are shown this once");
    }
    print(&format!("listening on {}", app.origin))?;
    let engine_ended = tokio::select! {
        () = stop => false,
        () = app.engine_ended() => true,
    };
    if engine_ended {
        tracing::error!("the delivery engine has ended; the server stops, to be started again");
    }
    if !app.stop().await {
        tracing::warn!("some requests were cut off: they took longer than --shutdown-grace");
    }
    // Not restarted here: what broke it may have left more behind than the engine, and whoever
    // runs the server sees a process that ended.
    anyhow::ensure!(!engine_ended, "the delivery engine has ended");
    Ok(())
}

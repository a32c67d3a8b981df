//! `notify-server serve`.

use crate::app::App;
use crate::config::Config;
use crate::keys::reveal;

use super::{print, signals};

/// Serves until a signal.
pub(super) async fn serve(config: Config) -> anyhow::Result<()> {
    let stop = signals::first_signal()?;
    let folder = std::path::absolute(&config.data_dir)?;
    let is_new = !config.database().exists();
    let app = App::start(config).await?;
    let folder = folder.display();
    // Who started in another folder wonders why no key is taken.
    if is_new {
        tracing::info!("data folder {folder}: a new installation");
    } else {
        tracing::info!("data folder {folder}: what was there before");
    }
    if let Some(keys) = &app.first_keys {
        print(&format!("api key: {}", reveal(&keys.api_key)))?;
        print(&format!("admin key: {}", reveal(&keys.admin_key)))?;
        // On standard error: scripts read the lines of standard output.
        tracing::warn!("keep the api key and the admin key: they are shown this once");
    }
    print(&format!("listening on {}", app.origin))?;
    stop.await;
    if !app.stop().await {
        tracing::warn!("requests or messages were cut off: they took longer than --shutdown-grace");
    }
    Ok(())
}

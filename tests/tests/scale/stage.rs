//! A server process with an audience, and a sandbox that accepts messages as fast as they arrive.

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::ProviderKind;
use notify_sandbox::{Sandbox, SandboxConfig, Settings};
use notify_tests::{Launch, ServerProcess, back_up, configure_providers};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::audience::{Mix, register};

/// A rate limit of the chat platforms that no machine reaches. With the default limits, a large audience
/// would take half an hour.
const CHATS_PER_SECOND: u32 = 100_000;

/// The server, the sandbox and the data of a scale test.
pub(crate) struct Stage {
    pub(crate) server: ServerProcess,
    /// A client with the first application's key and the admin key.
    pub(crate) client: Client,
    pub(crate) sandbox: Sandbox,
    folder: TempDir,
}

impl Stage {
    /// Starts a server whose first application has this audience and all providers.
    pub(crate) async fn with(mix: Mix, count: u64) -> Result<Self> {
        let sandbox = fast_sandbox().await?;
        let folder = tempfile::tempdir()?;
        let data_dir = folder.path().join("data");
        let launch = Launch::on(&data_dir).argument("--allow-private-networks");
        let server = launch.start().await?;
        let api_key = server.api_key.clone().context("the first start shows a key")?;
        let admin_key = server.admin_key.clone().context("the first start shows a key")?;
        let client = |origin: &str| {
            let keys = Client::builder(origin).api_key(api_key.as_str());
            keys.admin_key(admin_key.as_str()).build()
        };
        configure(&client(&server.origin)?, &sandbox).await?;
        ensure!(server.terminate().await?.success(), "the server did not stop in order");
        register(&data_dir, &sandbox, mix, count).await?;
        let server = launch.start().await?;
        let client = client(&server.origin)?;
        Ok(Self { server, client, sandbox, folder })
    }

    /// The size of a copy of the database, in bytes.
    pub(crate) async fn bytes(&self) -> Result<u64> {
        let file = self.folder.path().join("copy.db");
        back_up(&self.folder.path().join("data"), &file).await?;
        let bytes = std::fs::metadata(&file)?.len();
        std::fs::remove_file(&file)?;
        Ok(bytes)
    }
}

/// Starts a sandbox that has no rate limits and only counts messages.
async fn fast_sandbox() -> Result<Sandbox> {
    let settings = Settings {
        messenger_per_second: 0,
        telegram_per_second: 0,
        telegram_chat_burst: 0,
        ..Settings::default()
    };
    let config = SandboxConfig { log_entries_max: 0, settings, ..SandboxConfig::default() };
    Ok(Sandbox::start(TcpListener::bind("127.0.0.1:0").await?, config).await?)
}

async fn configure(client: &Client, sandbox: &Sandbox) -> Result<()> {
    let app = configure_providers(client, sandbox).await?;
    let fast = |mut config: Value| {
        config["rate_per_second"] = json!(CHATS_PER_SECOND);
        config
    };
    let admin = client.admin();
    let messenger = fast(sandbox.messenger_config());
    admin.put_provider(app, ProviderKind::Messenger, &messenger).await?;
    let telegram = fast(sandbox.telegram_config());
    admin.put_provider(app, ProviderKind::Telegram, &telegram).await?;
    Ok(())
}

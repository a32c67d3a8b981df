//! Runs the README's quick start line by line, with real processes on free ports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use notify_tests::{Block, ServerProcess, WAIT_MAX, blocks};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{commands, read, root, sh};

/// The most lines of a quick start that a reader types before the first notification arrives.
const QUICK_START_LINES_MAX: usize = 6;

/// A binary built with this test.
fn binary(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let found = here.ancestors().skip(1).take(3).map(|folder| folder.join(name));
    found
        .into_iter()
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not built: run `cargo build --workspace --bins`"))
}

/// `notify-server sandbox` as a process, and its address.
async fn start_sandbox(arguments: &str, folder: &Path) -> Result<(Child, String)> {
    let mut child = Command::new(binary("notify-server")?)
        .args(arguments.split_whitespace())
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let first = tokio::time::timeout(WAIT_MAX, lines.next_line()).await??.unwrap_or_default();
    let address = first.strip_prefix("sandbox listening on https://").context(first.clone())?;
    let (address, _) = address.split_once(' ').context("an address and a second one")?;
    Ok((child, address.to_owned()))
}

/// The words of the README's lines that stand for something of the reader's own.
struct Reader {
    server: ServerProcess,
    /// The folder of the data, the keys and the installed command.
    home: tempfile::TempDir,
    /// The variables that were exported or assigned so far.
    assignments: String,
    sandbox: Option<(Child, String)>,
}

impl Reader {
    async fn start() -> Result<Self> {
        let home = tempfile::tempdir()?;
        fs::create_dir(home.path().join("bin"))?;
        let server = ServerProcess::start(&home.path().join("notify-data")).await?;
        Ok(Self { server, home, assignments: String::new(), sandbox: None })
    }

    /// Executes a line of the quick start. Replaces the document's addresses and keys by real ones, and does
    /// not build a program that is already built.
    async fn follow(&mut self, line: &str) -> Result<()> {
        if let Some(arguments) = line.strip_prefix("cargo run --release --bin notify-server -- ") {
            self.sandbox = Some(start_sandbox(arguments, self.home.path()).await?);
            return Ok(());
        }
        if let Some(package) = line.strip_prefix("cargo install --locked --path ") {
            let manifest = read(&format!("{package}/Cargo.toml"));
            ensure!(manifest.contains("name = \"notify\""), "{package} has no command `notify`");
            std::os::unix::fs::symlink(binary("notify")?, self.home.path().join("bin/notify"))?;
            return Ok(());
        }
        let api_key = self.server.api_key.as_deref().context("the first start shows a key")?;
        let admin_key = self.server.admin_key.as_deref().context("it shows an admin key")?;
        let address = self.server.origin.trim_start_matches("http://");
        let sandbox = self.sandbox.as_ref().map_or("", |(_, address)| address);
        let line = line
            .replace("nk_…", api_key)
            .replace("na_…", admin_key)
            .replace("127.0.0.1:8080", address)
            .replace("127.0.0.1:8081", sandbox)
            .replace("curl ", "curl -fsS ");
        if line.starts_with("export ") || line.starts_with("APP=") {
            // The variable is kept for the following lines, because each line runs in a separate shell.
            self.assignments.push_str(&line);
            self.assignments.push('\n');
            return Ok(());
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = [
            ("PATH", format!("{}:{path}", self.home.path().join("bin").display())),
            ("HOME", self.home.path().display().to_string()),
            ("NOTIFY_URL", self.server.origin.clone()),
        ];
        sh(&format!("{}{line}", self.assignments), self.home.path(), &variables).await?;
        Ok(())
    }

    /// Waits until the sandbox shows the message.
    async fn sees(&self, text: &str) -> Result<()> {
        let (_, address) = self.sandbox.as_ref().context("the quick start runs the sandbox")?;
        let counts = format!("http://{address}/sandbox/counts");
        let arriving = async {
            loop {
                let counts: Value = reqwest::get(&counts).await?.json().await?;
                if counts["received"] != 0 {
                    return Ok::<_, reqwest::Error>(());
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT_MAX, arriving).await.context("nothing arrived")??;
        let page = reqwest::get(format!("http://{address}/")).await?.text().await?;
        ensure!(page.contains("Received: 1, accepted: 1"), "{page}");
        ensure!(page.contains(text), "{page}");
        Ok(())
    }
}

/// Follows the quick start, and then the lines of `further`.
async fn follow(blocks: [&Block; 2], further: Option<&Block>) -> Result<()> {
    let lines: Vec<_> = blocks.into_iter().flat_map(commands).collect();
    ensure!(lines.len() <= QUICK_START_LINES_MAX, "{} lines", lines.len());
    let mut reader = Reader::start().await?;
    for line in lines {
        reader.follow(line).await.with_context(|| format!("the line `{line}`"))?;
    }
    reader.sees("Hello").await?;
    for line in further.map(commands).into_iter().flatten() {
        reader.follow(line).await.with_context(|| format!("the line `{line}`"))?;
    }
    reader.server.kill().await
}

#[tokio::test]
async fn the_quick_start_delivers_a_notification() -> Result<()> {
    let readme = read("README.md");
    let blocks = blocks(&readme);
    let quick: Vec<_> = blocks.iter().filter(|block| block.heading == "Quick start").collect();
    let [sandbox, with_command, with_curl, people, package, program] = quick.as_slice() else {
        bail!("the quick start has {} blocks", quick.len());
    };
    // The SDK's documentation tests compile the program.
    ensure!(package.text.contains("cargo add") && program.language == "rust,no_run");
    // It does not end: a block that is pasted whole has no line behind it.
    ensure!(commands(sandbox).len() == 1);
    ensure!(with_command.text.contains("notify send"));
    ensure!(people.text.contains("--user") && people.text.contains("--segment"));
    follow([sandbox, with_command], Some(people)).await.context("with the command")?;
    ensure!(!with_curl.text.contains("notify send"));
    follow([sandbox, with_curl], None).await.context("with curl")?;

    let two: Vec<_> =
        blocks.iter().filter(|block| block.heading == "See a push in a minute").collect();
    // The first is what the reader started with; the second runs this test. Pasted together, the second would
    // run when the reader stops the server.
    let two: Vec<_> = two.into_iter().map(commands).collect();
    ensure!(two == [["cargo run --release --bin notify-server"], ["./scripts/test.sh"]]);
    ensure!(root().join("scripts/test.sh").is_file());
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""));
    let version = version.and_then(|rest| rest.split('"').next()).context("a version of Rust")?;
    ensure!(readme.contains(&format!("You need Rust {version} or newer")));
    Ok(())
}

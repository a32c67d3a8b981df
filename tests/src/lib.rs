//! The test kit.
//!
//! | to test | use |
//! |---|---|
//! | the API alone | [`TestServer::without_providers`] |
//! | sends to fake providers | [`TestServer::start`], or [`TestServer::with_manual_clock`] where hours pass |
//! | a process and its files | [`Launch`] and [`ServerProcess`] |
//! | a process that is killed | [`RestartableServer`]; [`RequestLog`] and [`History`] check that it loses nothing |
//! | the command `notify` | [`Notify`] |
//! | TLS | [`ServerCertificate`] |
//! | pages of the console without a browser | [`Operator`] |
//! | a page in both browsers | [`Browser`]; [`walk`] visits the console, [`Shop`] is a server with a history |
//! | what only one browser can do | [`Chromium`], [`Firefox`] |
//!
//! [`Caller`] sends requests that the SDK cannot make, and checks every response. A function panics when a
//! step fails that always works without a bug. A function that may fail during a fault returns a
//! [`Result`].

mod api_report;
mod audience;
mod backend;
mod browser;
mod caller;
mod certificate;
mod checker;
mod chromium;
mod cluster;
mod command;
mod console_pages;
mod db_inspect;
mod disk_fault;
mod fault_proxy;
mod firefox;
mod fixtures;
mod log;
mod markdown;
mod operator;
mod prefix_proxy;
mod process;
mod received;
mod request_log;
mod restartable;
mod server;
mod shop;
mod site;
mod tenant;
mod tight_disk;
mod wait;

pub use audience::{android, browser, browser_endpoint, crowd, ios, register};
pub use backend::{Backend, Installation, Settings, empty_database};
pub use browser::{Browser, BrowserKind, Key};
pub use caller::{Caller, Response, http_client, read_to_end};
pub use certificate::ServerCertificate;
pub use checker::{EndedProcess, Expected, History, Member, NotificationReport, Verdict};
pub use chromium::{Attached, Chromium};
pub use cluster::{Cluster, Frozen, StopMode};
pub use command::{Following, Notify, Output};
pub use console_pages::{ConsolePage, sign_in, walk};
pub use db_inspect::DatabaseInspector;
pub use disk_fault::DiskFault;
pub use fault_proxy::{Fault, FaultProxy, Side};
pub use firefox::Firefox;
pub use fixtures::{Resources, Route, body, routes, template};
pub use log::{capture_log, logged};
pub use markdown::{Block, blocks};
pub use operator::Operator;
pub use prefix_proxy::PrefixProxy;
pub use process::{Launch, ServerProcess, back_up, system_program};
pub use received::{Arrival, ReceivedByToken};
pub use request_log::{LogEntry, LoggedRequest, LoggedResponse, RequestLog};
pub use restartable::RestartableServer;
pub use server::{
    NOW, TestServer, configure_all, configure_providers, start_sandbox, start_sandbox_with,
    unlimited,
};
pub use shop::Shop;
pub use site::Site;
pub use tenant::{AudienceSize, Tenant};
pub use tight_disk::TightDisk;
pub use wait::{completed, tomorrow, until};

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

/// The longest time that a test waits for an event. After it, the event counts as lost.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The path of the workspace's binary `name`, which is built next to this test.
///
/// # Errors
/// When it is not built.
pub fn binary(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let mut candidates = test.ancestors().skip(1).take(3).map(|folder| folder.join(name));
    let binary = candidates.find(|path| path.is_file());
    binary.with_context(|| format!("{name} is not built: run `cargo build --workspace --bins`"))
}

/// Compiles the example of the README of the project. A packaged crate does not have this file.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct Guide;

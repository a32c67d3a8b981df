//! The commands, one file for each resource.

mod apps;
mod campaigns;
mod content;
mod devices;
mod doctor;
mod endpoint;
mod enrichments;
mod events;
mod example_events;
mod explain;
mod feeds;
mod keys;
mod listen;
mod notifications;
mod operators;
mod paging;
mod playground;
mod polls;
mod profile;
mod providers;
mod segments;
mod send;
mod statistics;
mod subscriptions;
mod tail;
mod trigger;
mod users;
mod watch;
mod webhooks;

use clap::Subcommand;

use crate::{
    failure::Failure,
    import::{self, Import},
    session::Session,
};

/// The commands, except `completions`, which needs the whole command line.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a notification.
    Send(Box<send::Send>),
    /// Show why a device did or did not receive a notification.
    Explain(explain::Explain),
    /// Follow a notification until every delivery has an outcome.
    Watch(watch::Watch),
    /// Register a notification that something else delivers.
    Report(Box<send::Report>),
    /// Read, pause and cancel notifications.
    #[command(subcommand)]
    Notifications(notifications::Notifications),
    /// Register, read, tag, log in and delete devices.
    #[command(subcommand)]
    Devices(Devices),
    /// Read, change, import and delete users.
    #[command(subcommand)]
    Users(users::Users),
    /// Read, set, delete and preview segments: audiences with a name.
    #[command(subcommand)]
    Segments(segments::Segments),
    /// List the tags of the application.
    #[command(subcommand)]
    Tags(devices::Tags),
    /// Subscribe browsers, Messenger and chat recipients.
    #[command(subcommand)]
    Subscriptions(subscriptions::Subscriptions),
    /// Create, change and list campaigns.
    #[command(subcommand)]
    Campaigns(campaigns::Campaigns),
    /// Create, list, check and delete feeds.
    #[command(subcommand)]
    Feeds(feeds::Feeds),
    /// Read and answer polls. `notify send --poll` sends one.
    #[command(subcommand)]
    Polls(polls::Polls),
    /// Report that devices received, opened, clicked or dismissed notifications.
    #[command(subcommand)]
    Events(events::Events),
    /// Print events as they happen, one a line, until interrupted.
    Tail(tail::Tail),
    /// Forward events to a url, such as one on this machine, in the form of webhook messages.
    Listen(Box<listen::Listen>),
    /// Post example events to a url, or let the server test the webhooks.
    Trigger(Box<trigger::Trigger>),
    /// Create, test and manage webhooks, which receive events.
    #[command(subcommand)]
    Webhooks(webhooks::Webhooks),
    /// Show what a device displays for a campaign.
    #[command(subcommand)]
    Enrichments(enrichments::Enrichments),
    /// Count devices, and notifications by day.
    #[command(subcommand, visible_alias = "stats")]
    Statistics(statistics::Statistics),
    /// Administer applications (needs the admin key).
    #[command(subcommand)]
    Apps(apps::Apps),
    /// Administer API keys (needs the admin key).
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Administer admin keys (needs the admin key).
    #[command(subcommand)]
    AdminKeys(operators::AdminKeys),
    /// List and end sessions of the console (needs the admin key).
    #[command(subcommand)]
    Sessions(operators::Sessions),
    /// List the changes that operators made with the admin API and the console, newest first (needs the
    /// admin key).
    Audit(operators::Audit),
    /// Administer push providers (needs the admin key).
    #[command(subcommand)]
    Providers(providers::Providers),
    /// Try notifications out with fake providers and devices inside the server (needs the admin key).
    #[command(subcommand)]
    Playground(playground::Playground),
    /// Find problems that prevent delivery, and show how to fix them (needs the admin key).
    Doctor(doctor::Doctor),
    /// Manage profiles: addresses and keys of servers, stored in the user's config folder.
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
}

/// `notify devices`. An import opens its connection after it has read its mapping.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    #[command(flatten)]
    Plain(devices::Devices),
    /// Register or subscribe the devices of a file, with their users, tags and attributes.
    Import(Import),
}

/// Runs a command.
pub(crate) async fn run(command: Command, session: &mut Session) -> Result<(), Failure> {
    match command {
        Command::Send(args) => send::run(*args, session).await,
        Command::Explain(args) => explain::run(args, session).await,
        Command::Watch(args) => watch::run(args, session).await,
        Command::Report(args) => send::run_report(*args, session).await,
        Command::Notifications(command) => notifications::run(command, session).await,
        Command::Devices(Devices::Plain(command)) => devices::run(command, session).await,
        Command::Devices(Devices::Import(args)) => import::run_devices(args, session).await,
        Command::Users(command) => users::run(command, session).await,
        Command::Segments(command) => segments::run(command, session).await,
        Command::Tags(command) => devices::run_tags(command, session).await,
        Command::Subscriptions(command) => subscriptions::run(command, session).await,
        Command::Campaigns(command) => campaigns::run(command, session).await,
        Command::Feeds(command) => feeds::run(command, session).await,
        Command::Polls(command) => polls::run(command, session).await,
        Command::Events(command) => events::run(command, session).await,
        Command::Tail(args) => tail::run(args, session).await,
        Command::Listen(args) => listen::run(*args, session).await,
        Command::Trigger(args) => trigger::run(*args, session).await,
        Command::Webhooks(command) => webhooks::run(command, session).await,
        Command::Enrichments(command) => enrichments::run(command, session).await,
        Command::Statistics(command) => statistics::run(command, session).await,
        Command::Apps(command) => apps::run(command, session).await,
        Command::Keys(command) => keys::run(command, session).await,
        Command::AdminKeys(command) => operators::run_admin_keys(command, session).await,
        Command::Sessions(command) => operators::run_sessions(command, session).await,
        Command::Audit(args) => operators::run_audit(args, session).await,
        Command::Providers(command) => providers::run(command, session).await,
        Command::Playground(command) => playground::run(command, session).await,
        Command::Doctor(args) => doctor::run(args, session).await,
        Command::Profile(command) => profile::run(command, session),
    }
}

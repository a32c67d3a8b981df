//! The commands, one file for each resource.

pub(crate) mod apps;
pub(crate) mod campaigns;
mod content;
pub(crate) mod devices;
pub(crate) mod doctor;
mod endpoint;
pub(crate) mod enrichments;
pub(crate) mod events;
mod example_events;
pub(crate) mod explain;
pub(crate) mod feeds;
pub(crate) mod keys;
pub(crate) mod listen;
pub(crate) mod notifications;
pub(crate) mod operators;
mod paging;
pub(crate) mod playground;
pub(crate) mod polls;
pub(crate) mod profile;
pub(crate) mod providers;
pub(crate) mod segments;
pub(crate) mod send;
pub(crate) mod statistics;
pub(crate) mod subscriptions;
pub(crate) mod tail;
pub(crate) mod trigger;
pub(crate) mod users;
pub(crate) mod watch;
pub(crate) mod webhooks;

use clap::CommandFactory;
use clap_complete::Shell;

pub(crate) use self::paging::LARGE_PAGE;
use crate::{
    args::{Cli, Command, Devices},
    failure::Failure,
    import,
    session::Session,
};

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
        Command::Completions { shell } => print_completions(shell, session),
    }
}

/// Runs `notify completions`.
fn print_completions(shell: Shell, session: &mut Session) -> Result<(), Failure> {
    // The generator panics if it writes to a closed pipe, so it writes to a buffer.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "notify", &mut script);
    session.out.text(&script)
}

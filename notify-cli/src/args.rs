//! The command line: options that every command has, and the commands.

use clap::{Parser, Subcommand};

use crate::{commands, connection::ConnectionArgs, import::Import, output::Format};

/// What the command says about its surroundings.
const ENVIRONMENT: &str = "\
Environment:
  NOTIFY_URL             address of the server (default http://127.0.0.1:8080)
  NOTIFY_API_KEY         key of the application
  NOTIFY_ADMIN_KEY       key of the administrator, for apps, keys and providers
  NOTIFY_PROFILE         profile to use, see `notify profile`
  NOTIFY_CA_CERTIFICATE  PEM file of an authority to trust beside the system's
  NO_COLOR               no colours

Which server and key: --server or --profile; then NOTIFY_URL and the keys of the environment; then
the profile of NOTIFY_PROFILE; then that of `notify profile use`. A variable that takes the place of
what the profile in use says is noted on stderr.

Exit status:
  0 done, 1 a check failed (doctor, `test`, `check`), what was watched ended with deliveries that
  failed, expired or were canceled, a question was not answered with yes, or `--exit-code` found a
  difference; 2 wrong usage, 3 rejected, 4 not authorised,
  5 not found, 6 the server or the network failed, after retries";

/// Sends notifications with a Notify server, and administers it.
#[derive(Debug, Parser)]
#[command(name = "notify", version, after_help = ENVIRONMENT, max_term_width = 100)]
pub(crate) struct Cli {
    /// Form of the result; a table on a terminal, json in a pipe.
    #[arg(short, long, global = true, value_name = "FORM")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a notification.
    Send(Box<commands::send::Send>),
    /// Tell why a device did or did not get a notification.
    Explain(commands::explain::Explain),
    /// Watch a notification until every delivery has its outcome.
    Watch(commands::watch::Watch),
    /// Make a notification known that is delivered by other means.
    Report(Box<commands::report::Report>),
    /// Read and cancel notifications.
    #[command(subcommand)]
    Notifications(commands::notifications::Notifications),
    /// Register, read, tag and delete devices.
    #[command(subcommand)]
    Devices(Devices),
    /// List the tags of the application.
    #[command(subcommand)]
    Tags(commands::tags::Tags),
    /// Subscribe browsers, Messenger and chat recipients.
    #[command(subcommand)]
    Subscriptions(commands::subscriptions::Subscriptions),
    /// Create, change and list campaigns.
    #[command(subcommand)]
    Campaigns(commands::campaigns::Campaigns),
    /// Create, list, check and delete feeds.
    #[command(subcommand)]
    Feeds(commands::feeds::Feeds),
    /// Read and answer polls.
    #[command(subcommand)]
    Polls(commands::polls::Polls),
    /// Report what devices did with notifications.
    #[command(subcommand)]
    Events(commands::events::Events),
    /// Show what happens as it happens, a line for each event, until it is interrupted.
    Tail(commands::tail::Tail),
    /// Be told what happens: create, test and watch over webhooks.
    #[command(subcommand)]
    Webhooks(commands::webhooks::Webhooks),
    /// Read what a device shows for a campaign.
    #[command(subcommand)]
    Enrichments(commands::enrichments::Enrichments),
    /// Count devices, and what became of notifications day by day.
    #[command(subcommand, visible_alias = "stats")]
    Statistics(commands::statistics::Statistics),
    /// Administer applications (needs the admin key).
    #[command(subcommand)]
    Apps(commands::apps::Apps),
    /// Administer API keys (needs the admin key).
    #[command(subcommand)]
    Keys(commands::keys::Keys),
    /// Administer push providers (needs the admin key).
    #[command(subcommand)]
    Providers(commands::providers::Providers),
    /// Look for what keeps notifications from arriving, and say how to mend it (needs the admin
    /// key).
    Doctor(commands::doctor::Doctor),
    /// Keep addresses and keys of servers in the user's config folder.
    #[command(subcommand)]
    Profile(commands::profile::ProfileCommand),
    /// Print completions for a shell.
    Completions(commands::completions::Completions),
}

/// `notify devices`.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    #[command(flatten)]
    Plain(commands::devices::Devices),
    /// Register or subscribe every device of a file, with its tags.
    Import(Import),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// What `--help` says, command by command; what all commands share stands at the top alone.
    fn describe(command: &clap::Command, path: &str, text: &mut String) {
        let is_root = !path.contains(' ');
        if is_root || !command.has_subcommands() {
            let mut command = command.clone().mut_args(|argument| {
                let is_shared = argument.is_global_set() || argument.get_id() == "help";
                argument.hide_env_values(true).hide(!is_root && is_shared)
            });
            let help = command.render_help().to_string();
            let help: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
            let help = help.join("\n");
            text.push_str(&format!("\n## `{path}`\n\n```text\n{help}\n```\n"));
        }
        for child in command.get_subcommands() {
            describe(child, &format!("{path} {}", child.get_name()), text);
        }
    }

    fn document() -> String {
        let mut command = Cli::command().term_width(100).disable_help_subcommand(true);
        command.build();
        let mut text = "# The command `notify`\n\nWritten from the command itself.\n".to_owned();
        describe(&command, "notify", &mut text);
        text
    }

    #[test]
    fn the_document_of_commands_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
        let expected = document();
        if std::env::var_os("NOTIFY_WRITE_DOCS").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run this test with NOTIFY_WRITE_DOCS=1 and look at the change");
    }

    #[test]
    fn no_option_takes_a_key() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let long = argument.get_long().unwrap_or_default();
                let takes_key = long.ends_with("api-key") || long.ends_with("admin-key");
                assert!(!takes_key, "{} --{long}: keys do not belong on a command line", command);
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}

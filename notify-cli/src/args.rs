//! The command line: the options that every command has, and how it is parsed.

use std::{any::TypeId, ffi::OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgMatches, Command as ClapCommand, CommandFactory, FromArgMatches, Parser, Subcommand,
};

use crate::{
    commands::Command,
    connection::{CONNECTION, ConnectionArgs},
    failure::Failure,
    output::{Format, Output},
};

/// The end of the help text: environment variables, their precedence, and exit statuses.
const ENVIRONMENT: &str = "\
Environment:
  NOTIFY_URL             Address of the server (default http://127.0.0.1:8080)
  NOTIFY_API_KEY         API key of the application
  NOTIFY_ADMIN_KEY       Admin key, for apps, keys and providers
  NOTIFY_PROFILE         Profile to use, see `notify profile`
  NOTIFY_WEBHOOK_SECRET  Secret with which `listen` and `trigger` sign messages
  NOTIFY_CA_CERTIFICATE  PEM file of an authority to trust in addition to the system's
  NO_COLOR               Turn colours off

The server and keys come from the first of these that sets them: --server or --profile, NOTIFY_URL
and the key variables, the profile of NOTIFY_PROFILE, the profile of `notify profile use`. A note on
stderr shows when a variable overrides the current profile.

Exit status:
  0  done
  1  a check failed (doctor, `test`, `check`, `trigger`); a watched notification ended with failed,
     expired or canceled deliveries, or did not end within --wait; a confirmation was declined;
     `--exit-code` found a difference
  2  wrong usage
  3  the server rejected the request
  4  not authorised
  5  not found
  6  the server or the network failed, after retries";

/// Where the help of a command sends readers for the other options.
const CONNECTION_HELP: &str =
    "`notify --help` describes the options of the connection, such as --server and --profile.";

/// Send notifications through a Notify server, and administer it.
#[derive(Debug, Parser)]
#[command(name = "notify", version, after_help = ENVIRONMENT, max_term_width = 100)]
pub(crate) struct Cli {
    /// Format of the result; `table` on a terminal, `json` in a pipe.
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What the command line asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    #[command(flatten)]
    Run(Command),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Reads the command line. The value of an option may begin with a hyphen: `--text '-5% today'`.
pub(crate) fn parse(line: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_hyphens(Cli::command());
    // The options of the connection are added to every command now, and described once.
    command.build();
    let mut command = command.mut_subcommands(without_connection);
    let matches = command.try_get_matches_from_mut(line)?;
    refuse_options_as_values(&command, &matches)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Runs `notify completions`.
pub(crate) fn print_completions(
    shell: clap_complete::Shell,
    out: &mut Output,
) -> Result<(), Failure> {
    // The generator panics if it writes to a closed pipe, so it writes to a buffer.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "notify", &mut script);
    out.text(&script)
}

/// Lets every option that takes a text accept a hyphen at its beginning.
fn with_hyphens(command: ClapCommand) -> ClapCommand {
    command
        .mut_args(
            |option| {
                if takes_text(&option) { option.allow_hyphen_values(true) } else { option }
            },
        )
        .mut_subcommands(with_hyphens)
}

/// A command whose help names the options of the connection, but does not describe them.
fn without_connection(command: ClapCommand) -> ClapCommand {
    let command = command.mut_args(|option| {
        let is_of_connection = option.get_help_heading() == Some(CONNECTION);
        let is_hidden = is_of_connection || option.is_hide_set();
        option.hide(is_hidden)
    });
    if command.has_subcommands() {
        return command.mut_subcommands(without_connection);
    }
    let help = command.get_after_help().map(|help| format!("{}\n\n", help.ansi()));
    command.after_help(format!("{}{CONNECTION_HELP}", help.unwrap_or_default()))
}

/// Whether this is an option whose value is a text of the user's.
fn takes_text(option: &Arg) -> bool {
    !option.is_positional()
        && option.get_num_args().is_none_or(|count| count.min_values() > 0)
        && option.get_value_parser().type_id() == TypeId::of::<String>()
        && option.get_possible_values().is_empty()
}

/// Refuses an option in place of a value, as in `--text --watch`: the value was forgotten.
fn refuse_options_as_values(
    command: &ClapCommand,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    for option in command.get_arguments().filter(|option| takes_text(option)) {
        let values = matches.try_get_raw(option.get_id().as_str()).ok().flatten();
        for value in values.into_iter().flatten().filter_map(|value| value.to_str()) {
            if is_option(command, value) {
                let message =
                    format!("a value is required for '{option}' but `{value}` is an option");
                return Err(command.clone().error(ErrorKind::InvalidValue, message));
            }
        }
    }
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let subcommand = command.find_subcommand(name);
    subcommand.map_or(Ok(()), |subcommand| refuse_options_as_values(subcommand, matches))
}

/// Whether a text is the name of an option of the command.
fn is_option(command: &ClapCommand, text: &str) -> bool {
    let long =
        text.strip_prefix("--").map(|long| long.split_once('=').map_or(long, |(long, _)| long));
    let short = text.strip_prefix('-').and_then(|short| short.parse::<char>().ok());
    command.get_arguments().any(|option| {
        (long.is_some() && option.get_long() == long)
            || (short.is_some() && option.get_short() == short)
    })
}

/// Adds a suggestion for common mistakes: several platforms in one option, and a text without `--text`.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    if let Some(tip) = platforms_tip(&error).or_else(|| text_tip(&error)) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The suggestion for several platforms in one option: `--platform android,ios`.
fn platforms_tip(error: &clap::Error) -> Option<String> {
    let option = context_text(error, ContextKind::InvalidArg)?;
    let value = context_text(error, ContextKind::InvalidValue)?;
    let is_list = option.starts_with("--platform") && value.contains(',');
    if error.kind() != ErrorKind::InvalidValue || !is_list {
        return None;
    }
    let options = value.split(',').map(|platform| format!("--platform {}", platform.trim()));
    let options = options.collect::<Vec<_>>().join(" ");
    Some(format!("`send` and `report` take each platform separately: {options}"))
}

/// The suggestion for a text without `--text`: `notify send 'Hello'`.
fn text_tip(error: &clap::Error) -> Option<String> {
    let argument = context_text(error, ContextKind::InvalidArg)?;
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let takes_text = ["notify send ", "notify report "].iter().any(|name| usage.contains(name));
    if error.kind() != ErrorKind::UnknownArgument || argument.starts_with('-') || !takes_text {
        return None;
    }
    let quoted = argument.replace('\'', "'\\''");
    Some(format!("give the text with --text '{quoted}'; --android-title sets the title on Android"))
}

/// The text that clap stores with an error under this kind.
fn context_text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Cli, clap::Error> {
        parse(["notify"].iter().chain(line).map(OsString::from))
    }

    #[test]
    fn a_value_may_begin_with_a_hyphen() {
        for line in [
            &["send", "--platform", "ios", "--text", "-5% today"][..],
            &["send", "--text", "--5", "--title", "- sale -", "--platform", "ios"],
            &["send", "--text", "-", "--platform", "ios"],
            &["send", "--text", "--watchful eyes", "--platform", "ios"],
            &["devices", "register", "d", "--platform", "ios", "--push-token", "-a"],
            &["devices", "list", "--cursor", "-a", "--user", "-7"],
            &["keys", "create", "--name", "-ci"],
            &["users", "set", "u", "--remove", "-x"],
        ] {
            assert!(read(line).is_ok(), "{line:?}: {}", read(line).unwrap_err());
        }
    }

    #[test]
    fn the_options_of_the_connection_are_described_once() {
        for (line, describes) in [
            (&["--help"][..], true),
            (&["send", "--help"], false),
            (&["help", "keys", "list"], false),
        ] {
            let help = read(line).unwrap_err().to_string();
            assert_eq!(help.contains("--ca-certificate <FILE>"), describes, "{help}");
            assert_eq!(help.contains("`notify --help` describes"), !describes, "{help}");
        }
        assert!(read(&["send", "--text", "t", "--server", "https://a", "--timeout", "3"]).is_ok());
    }

    #[test]
    fn an_option_is_not_taken_as_a_value() {
        for (line, name) in [
            (&["send", "--text", "--watch", "--platform", "ios"][..], "--watch"),
            (&["send", "--title", "--platform=ios", "--text", "t"], "--platform=ios"),
            (&["devices", "list", "--user", "--all"], "--all"),
            (&["devices", "list", "--user", "-o"], "-o"),
            (&["keys", "create", "--name", "--server"], "--server"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.to_string().contains(&format!("but `{name}` is an option")), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Appends the help texts of the root command and of each command without subcommands. Options that all
    /// commands have appear only in the text of the root command.
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
        let mut text =
            "# The command `notify`\n\nThis page is generated from the help texts.\n".to_owned();
        describe(&command, "notify", &mut text);
        text
    }

    #[test]
    fn the_reference_of_commands_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
        let expected = document();
        if std::env::var_os("NOTIFY_WRITE_DOCS").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let current = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            current == expected,
            "run this test with NOTIFY_WRITE_DOCS=1 and look at the change"
        );
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

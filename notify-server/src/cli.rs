//! The command line: subcommands, and a flag for every setting.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use url::Url;

use crate::config::{Config, ConfigError, Kind, SETTINGS, Setting, Sources, default_of};

/// The action to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Serve until a signal.
    Serve,
    /// Create an application with a key.
    CreateApp {
        /// Its name.
        name: String,
        /// Print JSON.
        json: bool,
    },
    /// Create an admin key.
    CreateAdminKey {
        /// Print JSON.
        json: bool,
    },
    /// Print the OpenAPI document.
    OpenApi,
    /// Copy the database.
    Backup {
        /// The destination.
        file: PathBuf,
    },
    /// Put a backup in the place of the database.
    Restore(Restore),
    /// Delete the provider credentials that were sealed with a lost master key.
    ForgetCredentials,
    /// Trust the clock again after it jumped.
    ConfirmClock,
    /// Check whether a server is ready.
    Healthcheck {
        /// The url to check, instead of the address in the settings.
        url: Option<Url>,
    },
    /// Move the installation to another database.
    Move {
        /// The destination, if it is given on the command line. It may contain a password, so clap
        /// does not parse it: an error of clap would show the value.
        to: Option<String>,
    },
    /// Allow servers to use the source of a move again.
    UndoMove,
    /// Run fake providers.
    #[cfg(feature = "sandbox")]
    Sandbox {
        /// The address, if it is given on the command line. `NOTIFY_LISTEN` is the address of the
        /// server and does not apply.
        listen: Option<String>,
        /// Whether a server for tests runs beside the providers.
        with_server: bool,
    },
}

/// What `notify-server restore` does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restore {
    /// The backup.
    pub file: PathBuf,
    /// Replace an existing database, and keep it under another name.
    pub replace: bool,
    /// Cancel the notifications that have not ended. To hold them would need a pause of each of them, also of
    /// scheduled ones.
    pub cancel_open: bool,
    /// Delete the credentials that the master key does not open.
    pub forget_credentials: bool,
}

/// The command line.
#[must_use]
pub fn command() -> Command {
    let mut command = full_command();
    // `build` propagates the settings to the subcommands. Each subcommand accepts all settings, and
    // its help shows only the settings that it uses.
    command.build();
    for subcommand in command.get_subcommands_mut() {
        hide_unused_settings(subcommand);
    }
    command
}

/// Hides the settings that a subcommand does not use from the help of the subcommand.
fn hide_unused_settings(command: &mut Command) {
    let database_settings = ["data-dir", "master-key-file", "log", "log-format", "config"];
    let shown: &[&str] = match command.get_name() {
        "backup" | "restore" | "forget-credentials" => &database_settings,
        "confirm-clock" => {
            &["data-dir", "database-url", "master-key-file", "log", "log-format", "config"]
        }
        "move" => &["data-dir", "database-url", "master-key-file", "log", "log-format", "config"],
        "app" | "admin-key" => &["data-dir", "log", "log-format", "config"],
        "healthcheck" => &["listen", "tls-cert", "tls-key", "log", "log-format", "config"],
        "sandbox" => &["listen", "log", "log-format", "config"],
        "openapi" => &[],
        // `serve` uses all settings.
        _ => return,
    };
    hide_settings_except(command, shown);
}

fn hide_settings_except(command: &mut Command, shown: &[&str]) {
    let all = std::mem::take(command);
    *command = all.mut_args(|arg| {
        let is_setting = arg.is_global_set();
        let is_hidden = is_setting && !shown.contains(&arg.get_id().as_str());
        arg.hide(is_hidden)
    });
    for subcommand in command.get_subcommands_mut() {
        hide_settings_except(subcommand, shown);
    }
}

/// The command line with all settings visible.
fn full_command() -> Command {
    let json =
        || Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON on stdout");
    let app_create = Command::new("create")
        .about("Creates an application and shows its API key; it is not shown again")
        .arg(Arg::new("name").value_name("NAME").required(true).help("Name of the application"))
        .arg(json());
    let admin_key_create = Command::new("create")
        .about("Creates an admin key and shows it; it is not shown again")
        .arg(json());
    let file = Arg::new("file").value_name("FILE").required(true);
    let command = Command::new("notify-server")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A self-hosted push-notification and enrichment server")
        .args(SETTINGS.iter().map(flag))
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .global(true)
                .help("TOML file of settings [env: NOTIFY_CONFIG]"),
        )
        .subcommand(Command::new("serve").about("Serves until SIGTERM or SIGINT (the default)"))
        .subcommand(
            Command::new("app")
                .about("Applications")
                .subcommand_required(true)
                .subcommand(app_create),
        )
        .subcommand(
            Command::new("admin-key")
                .about("Admin keys")
                .subcommand_required(true)
                .subcommand(admin_key_create),
        )
        .subcommand(Command::new("openapi").about("Prints the OpenAPI document"))
        .subcommand(
            Command::new("backup")
                .about("Copies the database to a new file, while the server runs or not")
                .arg(file.value_parser(value_parser!(PathBuf)).help("File to create")),
        )
        .subcommand(restore_command())
        .subcommand(
            Command::new("forget-credentials")
                .about("Forgets the provider credentials that the master key does not open"),
        )
        .subcommand(
            Command::new("healthcheck")
                .about("Checks whether the server with these settings is ready; exits 0 or 1")
                .arg(
                    Arg::new("url")
                        .long("url")
                        .value_name("URL")
                        .value_parser(value_parser!(Url))
                        .help("Another address to check, such as http://10.0.0.7:8080/healthz"),
                ),
        )
        .subcommand(Command::new("confirm-clock").about(
            "Lets retention trust the clock again after it jumped by more than a day; works while servers run",
        ))
        .subcommand(move_command());
    #[cfg(feature = "sandbox")]
    let command = command.subcommand(sandbox_command());
    command
}

#[cfg(feature = "sandbox")]
fn sandbox_command() -> Command {
    let with_server = Arg::new("with-server")
        .long("with-server")
        .action(ArgAction::SetTrue)
        .help("Also runs a server that sends to them, with an empty database, for tests; prints its url and keys as JSON");
    Command::new("sandbox")
        .about("Runs fake providers (on --listen ADDR or 127.0.0.1:8081; ignores NOTIFY_LISTEN)")
        .arg(with_server)
}

fn restore_command() -> Command {
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let file = Arg::new("file")
        .value_name("FILE")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Backup that `notify-server backup` made");
    Command::new("restore")
        .about(
            "Checks a backup and makes it the database of the data folder; no server may run there",
        )
        .args([
            file,
            switch("replace")
                .help("Replaces an existing database, which is kept as notify.db.replaced-TIME"),
            switch("cancel-open").help(
                "Cancels the notifications that had not ended, some of which may have been sent \
                 after the backup",
            ),
            switch("forget-credentials").help(
                "Forgets the provider credentials that the master key does not open, instead of \
                 refusing the backup",
            ),
        ])
}

fn move_command() -> Command {
    let to = Arg::new("to")
        .long("to")
        .value_name("PLACE")
        .help("postgres://user:password@host/database or sqlite:FILE; it must be empty [env: NOTIFY_MOVE_TO]");
    let undo = Arg::new("undo")
        .long("undo")
        .action(ArgAction::SetTrue)
        .conflicts_with("to")
        .help("Lets the source of a move be served again");
    Command::new("move")
        .about("Moves everything from SQLite to PostgreSQL or back; after an interruption the same command resumes")
        .args([to, undo])
}

/// The action that the command line requests.
#[must_use]
pub fn action(matches: &ArgMatches) -> Action {
    match matches.subcommand() {
        Some(("app", app)) => {
            let create = subcommand_of(app);
            let name = create.get_one::<String>("name").expect("NAME is required");
            Action::CreateApp { name: name.clone(), json: create.get_flag("json") }
        }
        Some(("admin-key", key)) => {
            Action::CreateAdminKey { json: subcommand_of(key).get_flag("json") }
        }
        Some(("openapi", _)) => Action::OpenApi,
        Some(("backup", backup)) => {
            let file = backup.get_one::<PathBuf>("file").expect("FILE is required");
            Action::Backup { file: file.clone() }
        }
        Some(("restore", restore)) => {
            let file = restore.get_one::<PathBuf>("file").expect("FILE is required");
            Action::Restore(Restore {
                file: file.clone(),
                replace: restore.get_flag("replace"),
                cancel_open: restore.get_flag("cancel-open"),
                forget_credentials: restore.get_flag("forget-credentials"),
            })
        }
        Some(("forget-credentials", _)) => Action::ForgetCredentials,
        Some(("confirm-clock", _)) => Action::ConfirmClock,
        Some(("healthcheck", check)) => {
            Action::Healthcheck { url: check.get_one::<Url>("url").cloned() }
        }
        Some(("move", moving)) if moving.get_flag("undo") => Action::UndoMove,
        Some(("move", moving)) => Action::Move { to: moving.get_one::<String>("to").cloned() },
        #[cfg(feature = "sandbox")]
        Some(("sandbox", sandbox)) => {
            let listen = sandbox.get_one::<String>("listen").cloned();
            Action::Sandbox { listen, with_server: sandbox.get_flag("with-server") }
        }
        Some(_) | None => Action::Serve,
    }
}

/// Loads the settings from the flags, which can have any position, the environment and the file.
///
/// # Errors
/// The first setting that cannot be used.
pub fn settings(
    matches: &ArgMatches,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let mut deepest = matches;
    while let Some((_, deeper)) = deepest.subcommand() {
        deepest = deeper;
    }
    Config::load(&Sources { flag: &|name| deepest.get_one::<String>(name).cloned(), variable })
}

/// The matches of a required subcommand.
fn subcommand_of(matches: &ArgMatches) -> &ArgMatches {
    let (_, subcommand) = matches.subcommand().expect("a subcommand is required");
    subcommand
}

fn flag(setting: &Setting) -> Arg {
    let default =
        default_of(setting).map_or_else(String::new, |default| format!(" [default: {default}]"));
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .aliases(setting.alias)
        .value_name(setting.value)
        .global(true)
        .help(format!("{}{default} [env: {}]", setting.help, setting.variable()));
    match setting.kind {
        Kind::Text | Kind::Word | Kind::OnOff | Kind::Count => arg.allow_hyphen_values(true),
        Kind::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> ArgMatches {
        let all = std::iter::once("notify-server").chain(arguments.iter().copied());
        command().try_get_matches_from(all).unwrap()
    }

    #[test]
    fn clap_accepts_the_command() {
        command().debug_assert();
    }

    #[test]
    fn flags_work_before_and_after_the_subcommand() {
        let create = Action::CreateApp { name: "shop".into(), json: true };
        for arguments in [
            ["--data-dir", "/d", "app", "create", "shop", "--json"],
            ["app", "--data-dir", "/d", "create", "shop", "--json"],
            ["app", "create", "shop", "--json", "--data-dir", "/d"],
        ] {
            let matches = parse(&arguments);
            assert_eq!(action(&matches), create);
            let config = settings(&matches, &|_| None).unwrap();
            assert_eq!(config.data_dir, PathBuf::from("/d"), "{arguments:?}");
        }
    }

    #[test]
    fn serve_is_the_default_subcommand() {
        assert_eq!(action(&parse(&[])), Action::Serve);
        assert_eq!(action(&parse(&["serve"])), Action::Serve);
        let config = settings(&parse(&["--allow-private-networks"]), &|_| None).unwrap();
        assert!(config.allow_private_networks);
        let config = settings(&parse(&["--allow-private-networks=false"]), &|_| None).unwrap();
        assert!(!config.allow_private_networks);
    }

    #[test]
    fn a_setting_accepts_its_earlier_flag() {
        for name in ["--max-unacked-deliveries", "--delivery-credit"] {
            let config = settings(&parse(&[name, "64"]), &|_| None).unwrap();
            assert_eq!(config.max_unacked_deliveries, 64, "{name}");
        }
    }

    #[test]
    fn move_takes_a_destination_or_undo() {
        let to = Some("sqlite:x.db".to_owned());
        assert_eq!(action(&parse(&["move", "--to", "sqlite:x.db"])), Action::Move { to });
        assert_eq!(action(&parse(&["move"])), Action::Move { to: None });
        assert_eq!(action(&parse(&["move", "--undo"])), Action::UndoMove);
    }

    #[test]
    fn restore_has_no_effects_that_were_not_requested() {
        let plain = Restore { file: "b.db".into(), ..Restore::default() };
        assert_eq!(action(&parse(&["restore", "b.db"])), Action::Restore(plain.clone()));
        let all = ["restore", "--replace", "--cancel-open", "--forget-credentials", "b.db"];
        let wanted =
            Restore { replace: true, cancel_open: true, forget_credentials: true, ..plain };
        assert_eq!(action(&parse(&all)), Action::Restore(wanted));
    }

    #[cfg(feature = "sandbox")]
    #[test]
    fn sandbox_has_its_own_listen_address() {
        let listen = Some("127.0.0.1:0".to_owned());
        let matches = parse(&["sandbox", "--listen", "127.0.0.1:0"]);
        assert_eq!(action(&matches), Action::Sandbox { listen, with_server: false });
        let with_server = parse(&["sandbox", "--with-server"]);
        assert_eq!(action(&with_server), Action::Sandbox { listen: None, with_server: true });
    }
}

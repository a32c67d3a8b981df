//! `notify profile`, which needs no server.

use std::path::PathBuf;

use clap::Subcommand;
use secrecy::SecretString;
use serde::Serialize;

use crate::{
    confirm::{self, ConfirmArgs},
    connection::variable,
    failure::Failure,
    input,
    output::view,
    profiles::{Profile, Profiles},
    session::Session,
};

/// `notify profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Add or replace a profile. Its keys come from the environment or a file, since other users can
    /// see a command line.
    Set {
        /// Its name.
        name: String,
        /// Address of the server.
        server: String,
        /// File with the API key; `-` for standard input (default: `NOTIFY_API_KEY`).
        #[arg(long, value_name = "FILE")]
        api_key_file: Option<PathBuf>,
        /// File with the admin key; `-` for standard input (default: `NOTIFY_ADMIN_KEY`).
        #[arg(long, value_name = "FILE")]
        admin_key_file: Option<PathBuf>,
    },
    /// List the profiles, without their keys.
    List,
    /// Make a profile the default one.
    Use {
        /// Its name.
        name: String,
    },
    /// Remove a profile.
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// A profile without its keys.
#[derive(Debug, Serialize)]
struct ProfileView<'a> {
    name: &'a str,
    url: &'a str,
    api_key: bool,
    admin_key: bool,
    current: bool,
}

#[derive(Debug, Serialize)]
struct List<'a> {
    profiles: Vec<ProfileView<'a>>,
}

/// Runs the command.
pub(crate) fn run(command: ProfileCommand, session: &mut Session) -> Result<(), Failure> {
    let mut profiles = Profiles::load()?;
    match command {
        ProfileCommand::Set { name, server, api_key_file, admin_key_file } => {
            let api_key = read_key(api_key_file, "NOTIFY_API_KEY")?;
            let admin_key = read_key(admin_key_file, "NOTIFY_ADMIN_KEY")?;
            check(&server, [&api_key, &admin_key])?;
            profiles.set(&name, Profile { url: server, api_key, admin_key });
        }
        ProfileCommand::List => {
            let shown = profiles.iter().map(|(name, profile, current)| ProfileView {
                name,
                url: &profile.url,
                api_key: profile.api_key.is_some(),
                admin_key: profile.admin_key.is_some(),
                current,
            });
            return session.out.show(&List { profiles: shown.collect() }, &view::PROFILES);
        }
        ProfileCommand::Use { name } => profiles.set_current(&name)?,
        ProfileCommand::Remove { name, confirm } => {
            let exists = profiles.iter().any(|(profile_name, ..)| profile_name == name);
            if exists && confirm.is_required()? {
                confirm::ask(&format!(
                    "Remove the profile `{name}` with its keys? The server cannot show them again."
                ))?;
            }
            profiles.remove(&name)?;
        }
    }
    profiles.save()?;
    session.out.done()
}

/// Reads a key from the given file, or from an environment variable if no file is given.
fn read_key(file: Option<PathBuf>, variable_name: &str) -> Result<Option<SecretString>, Failure> {
    let Some(path) = file else {
        return Ok(variable(variable_name).map(SecretString::from));
    };
    let text = String::from_utf8(input::read(&path)?)
        .map_err(|_| Failure::Usage(format!("{}: not a key", path.display())))?;
    match text.trim() {
        "" => Err(Failure::Usage(format!("{}: is empty", path.display()))),
        key => Ok(Some(SecretString::from(key.to_owned()))),
    }
}

/// Validates the address and the keys before they are stored.
fn check(server: &str, keys: [&Option<SecretString>; 2]) -> Result<(), Failure> {
    use secrecy::ExposeSecret;
    let mut builder = notify_client::Client::builder(server);
    for key in keys.into_iter().flatten() {
        // This checks the format of a key; calls check its kind.
        builder = builder.api_key(key.expose_secret());
        builder.clone().build()?;
    }
    builder.build()?;
    Ok(())
}

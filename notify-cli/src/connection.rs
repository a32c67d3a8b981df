//! The server and its keys. They come from `--server` or `--profile`, else from the environment, else from
//! the current profile. A key of a profile is sent only to the address of that profile.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use notify_client::{Client, RETRIES_DEFAULT, TIMEOUT_DEFAULT};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    failure::Failure,
    input, output,
    profiles::{Profile, Profiles},
};

/// The default address of a server.
const URL_DEFAULT: &str = "http://127.0.0.1:8080";
const USER_AGENT: &str = concat!("notify-cli/", env!("CARGO_PKG_VERSION"));

/// The heading of the options of the connection.
pub(crate) const CONNECTION: &str = "Connection";

/// Options of the connection. No option takes a key, because other users can see a command line.
#[derive(Debug, Args)]
#[command(next_help_heading = CONNECTION)]
pub(crate) struct ConnectionArgs {
    #[arg(
        long,
        global = true,
        value_name = "URL",
        conflicts_with = "profile",
        help = "Address of the server [env: NOTIFY_URL]"
    )]
    pub(crate) server: Option<String>,
    #[arg(long, global = true, value_name = "NAME", help = "Profile to use [env: NOTIFY_PROFILE]")]
    pub(crate) profile: Option<String>,
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help = "PEM file of an authority to trust in addition to the system's [env: NOTIFY_CA_CERTIFICATE]"
    )]
    ca_certificate: Option<PathBuf>,
    /// Time limit of one attempt, in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = TIMEOUT_DEFAULT.as_secs())]
    pub(crate) timeout: u64,
    /// How often to retry a call when the server or the network fails.
    #[arg(long, global = true, value_name = "TIMES", default_value_t = RETRIES_DEFAULT)]
    pub(crate) retries: usize,
}

impl ConnectionArgs {
    /// The file of an authority to trust in addition to the system's. The variable is not read by Clap, because
    /// a blank variable counts as absent.
    pub(crate) fn ca_certificate(&self) -> Option<PathBuf> {
        self.ca_certificate.clone().or_else(|| Some(variable("NOTIFY_CA_CERTIFICATE")?.into()))
    }
}

/// Paths below the address of a server, the longest first. Users may copy an address with such a path from
/// a browser or a document, but the client appends the paths itself.
const API_PATHS: [&str; 5] = ["/admin/v1", "/v1", "/admin", "/docs", "/console"];

/// A client and its server.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
    /// The profile with this address, if it was used.
    pub(crate) profile: Option<String>,
}

/// Builds the client.
pub(crate) fn connect(args: &ConnectionArgs) -> Result<Connection, Failure> {
    let target = Target::choose(args, &variable, &Profiles::load()?)?;
    let address = target.url.trim_end_matches('/');
    for path in API_PATHS {
        let Some(server) = address.strip_suffix(path) else { continue };
        return Err(Failure::ServerAddress(format!(
            "{address} is not the address of a Notify server: remove `{path}` ({server}), the command adds it"
        )));
    }
    if let Some(note) = target.note() {
        output::print_message(&note);
    }
    let mut builder = Client::builder(&target.url)
        .timeout(Duration::from_secs(args.timeout))
        .retries(args.retries)
        .user_agent(USER_AGENT);
    if let Some(key) = &target.api_key {
        builder = builder.api_key(key.expose_secret());
    }
    if let Some(key) = &target.admin_key {
        builder = builder.admin_key(key.expose_secret());
    }
    if let Some(path) = args.ca_certificate() {
        builder = builder.root_certificate(input::read(&path)?);
    }
    Ok(Connection { client: builder.build()?, server: target.url, profile: target.profile })
}

/// The value of an environment variable without the blanks around it, unless empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A server and the keys for it.
#[derive(Debug)]
struct Target {
    url: String,
    api_key: Option<SecretString>,
    admin_key: Option<SecretString>,
    /// The profile with this address.
    profile: Option<String>,
    /// The current profile, and the variables that override its values.
    overridden: Option<(String, Vec<&'static str>)>,
}

impl Target {
    /// Chooses the server and the keys. `variable` returns the value of an environment variable.
    fn choose(
        args: &ConnectionArgs,
        variable: &dyn Fn(&str) -> Option<String>,
        profiles: &Profiles,
    ) -> Result<Self, Failure> {
        let given_url = match (&args.server, &args.profile) {
            (Some(server), _) => Some(server.clone()),
            // A profile on the command line takes precedence over the variable.
            (None, Some(_)) => None,
            (None, None) => variable("NOTIFY_URL"),
        };
        let requested = args.profile.clone().or_else(|| variable("NOTIFY_PROFILE"));
        let name = requested.or_else(|| profiles.current().map(str::to_owned));
        let profile = name.as_deref().map(|name| profiles.get(name)).transpose()?;
        let url = given_url
            .or_else(|| profile.map(|profile| profile.url.clone()))
            .unwrap_or_else(|| URL_DEFAULT.to_owned());
        // The keys of a profile are used only for the server of the profile.
        let matching = profile.filter(|profile| is_same_server(&profile.url, &url));
        let mut overriding = Vec::new();
        if args.server.is_none() && profile.is_some() && matching.is_none() {
            overriding.push("NOTIFY_URL");
        }
        let mut key = |name: &'static str, key_of: fn(&Profile) -> &Option<SecretString>| {
            let stored = matching.and_then(|profile| key_of(profile).clone());
            let from_environment = variable(name).map(SecretString::from);
            // A profile on the command line takes precedence over the variables.
            if args.profile.is_some() {
                return stored.or(from_environment);
            }
            if let (Some(variable_key), Some(stored_key)) = (&from_environment, &stored)
                && variable_key.expose_secret() != stored_key.expose_secret()
            {
                overriding.push(name);
            }
            from_environment.or(stored)
        };
        let api_key = key("NOTIFY_API_KEY", |profile| &profile.api_key);
        let admin_key = key("NOTIFY_ADMIN_KEY", |profile| &profile.admin_key);
        let profile = name.clone().filter(|_| matching.is_some());
        let overridden = name.filter(|_| !overriding.is_empty()).map(|name| (name, overriding));
        Ok(Self { url, api_key, admin_key, profile, overridden })
    }

    /// A note that variables override the current profile.
    fn note(&self) -> Option<String> {
        let (profile, variables) = self.overridden.as_ref()?;
        let verb = if variables.len() == 1 { "overrides" } else { "override" };
        Some(format!(
            "note: {} {verb} the profile `{profile}`; --profile {profile} uses the profile",
            variables.join(" and ")
        ))
    }
}

fn is_same_server(first: &str, second: &str) -> bool {
    first.trim_end_matches('/') == second.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: Option<&str>, profile: Option<&str>, env: &[(&str, &str)]) -> Target {
        let profiles = Profiles::parse(
            "current = 'home'\n\
             [profiles.home]\nurl = 'http://home'\napi_key = 'nk_home'\n\
             [profiles.away]\nurl = 'http://away'\napi_key = 'nk_away'\n\
             [profiles.bare]\nurl = 'http://bare'\n",
        )
        .unwrap();
        let args = ConnectionArgs {
            server: url.map(str::to_owned),
            profile: profile.map(str::to_owned),
            ca_certificate: None,
            timeout: 1,
            retries: 0,
        };
        let variable = |name: &str| {
            env.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        };
        Target::choose(&args, &variable, &profiles).unwrap()
    }

    fn url_and_key(url: Option<&str>, profile: Option<&str>, env: &[(&str, &str)]) -> [String; 2] {
        let target = target(url, profile, env);
        let key = target.api_key.map_or_else(String::new, |key| key.expose_secret().to_owned());
        [target.url, key]
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_current_profile() {
        let env_url = [("NOTIFY_URL", "http://env")];
        let env_key = [("NOTIFY_API_KEY", "nk_env")];
        let env_profile = [("NOTIFY_PROFILE", "away")];
        assert_eq!(url_and_key(None, None, &[]), ["http://home", "nk_home"]);
        assert_eq!(url_and_key(None, None, &env_key), ["http://home", "nk_env"]);
        assert_eq!(url_and_key(None, None, &env_profile), ["http://away", "nk_away"]);
        assert_eq!(url_and_key(None, Some("away"), &[]), ["http://away", "nk_away"]);
        assert_eq!(url_and_key(None, Some("away"), &env_key), ["http://away", "nk_away"]);
        assert_eq!(url_and_key(None, Some("away"), &env_url), ["http://away", "nk_away"]);
        assert_eq!(url_and_key(None, Some("bare"), &env_key), ["http://bare", "nk_env"]);
    }

    #[test]
    fn a_key_of_a_profile_is_sent_only_to_its_server() {
        assert_eq!(url_and_key(Some("http://flag"), None, &[]), ["http://flag", ""]);
        assert_eq!(url_and_key(None, None, &[("NOTIFY_URL", "http://env")]), ["http://env", ""]);
        let home = [("NOTIFY_URL", "http://home/")];
        assert_eq!(url_and_key(None, None, &home), ["http://home/", "nk_home"]);
    }

    #[test]
    fn a_note_names_variables_that_override_the_profile() {
        fn note(url: Option<&str>, profile: Option<&str>, env: &[(&str, &str)]) -> Option<String> {
            target(url, profile, env).note()
        }
        let (url, key) = (("NOTIFY_URL", "http://env"), ("NOTIFY_API_KEY", "nk_env"));
        let same = [("NOTIFY_URL", "http://home/"), ("NOTIFY_API_KEY", "nk_home")];
        let away = [("NOTIFY_PROFILE", "away"), key];
        for (env, names) in [
            (&[url][..], Some("NOTIFY_URL overrides the profile `home`")),
            (&[key], Some("NOTIFY_API_KEY overrides the profile `home`")),
            (&away, Some("NOTIFY_API_KEY overrides the profile `away`")),
            (&[url, key], Some("NOTIFY_URL overrides the profile `home`")),
            (&same, None),
            (&[], None),
        ] {
            let note = note(None, None, env);
            assert_eq!(note.is_some(), names.is_some(), "{env:?}: {note:?}");
            assert!(note.unwrap_or_default().contains(names.unwrap_or_default()), "{env:?}");
        }
        assert_eq!(note(None, Some("away"), &[key]), None, "--profile takes precedence");
        assert_eq!(note(Some("http://flag"), None, &[key]), None, "--server takes precedence");
        assert_eq!(target(None, None, &[]).profile.as_deref(), Some("home"));
        assert_eq!(target(Some("http://flag"), None, &[]).profile, None);
    }
}

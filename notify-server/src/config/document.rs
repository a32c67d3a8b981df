//! `docs/configuration.md`, written from the list of settings; a test compares the two.

use std::fmt::Write;

use toml::Value;

use super::{Config, Kind, SETTINGS};

const HEAD: &str = "\
# Configuration

Every setting is a flag (`--listen`), a variable of the environment (`NOTIFY_LISTEN`) and a key of
the TOML file that `--config` or `NOTIFY_CONFIG` names (`listen = \"…\"`). A flag beats the
environment, which beats the file. A key that is no setting is refused. All subcommands take the
same settings.

A span of time is `30s`, `500ms`, `2m` or `1h`; a plain number is seconds. A list of networks is
`10.0.0.0/8, 192.168.1.1`, in the file also a TOML array.

| setting | default | what |
|---|---|---|
";

const FOOT: &str = "
`NOTIFY_MASTER_KEY` holds the master key itself (32 bytes in base64) in place of a file. It is no
flag and no key of the file, which others can read. Without either, `master.key` in the data folder
is used, and made when missing (mode 0600) unless something is sealed already. A backup of the
database needs the master key too: without the right one the server does not start, since it cannot
open the providers' credentials. If the key is lost for good, `notify-server forget-credentials`
deletes these credentials: messages wait until the providers are configured again.
";

/// The whole document.
///
/// # Panics
/// Never: the defaults are TOML values.
#[must_use]
pub fn configuration_document() -> String {
    let defaults = Value::try_from(Config::default()).expect("the defaults are TOML values");
    let mut text = HEAD.to_owned();
    for setting in SETTINGS {
        let default = match defaults.get(setting.name) {
            None => String::new(),
            Some(Value::Array(list)) if list.is_empty() => String::new(),
            Some(Value::String(default)) => format!("`{default}`"),
            Some(Value::Integer(default)) => format!("`{default}`"),
            Some(Value::Boolean(default)) => format!("`{default}`"),
            Some(default) => unreachable!("no setting is {}", default.type_str()),
        };
        let value = match setting.kind {
            Kind::Switch => String::new(),
            Kind::Text | Kind::Count => format!(" {}", setting.value.replace('|', "\\|")),
        };
        let (name, help) = (setting.name, setting.help);
        writeln!(text, "| `--{name}{value}` | {default} | {help} |")
            .expect("writing to a String cannot fail");
    }
    text.push_str(FOOT);
    text
}

//! `notify devices`, but for `import` (spec 4.3, B21 to B24).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::{
    Client, Error,
    notify_core::{DeviceId, ListDevices, Platform, RegisterDevice, SetTags, Tag},
};

use super::paging::{PAGE_OF_ALL, PageArgs, show_all};
use crate::{
    confirm::{self, Consent},
    failure::Failure,
    import::{self, FileOptions, Format, Purpose},
    input,
    output::view,
    session::{Session, own_id},
};

/// `notify devices`.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    /// Register a device, or replace every field of the one with that id.
    Register(Box<Register>),
    /// Show a device.
    Get {
        /// Its id.
        device_id: String,
    },
    /// List devices.
    List {
        /// Only this platform: android, ios, web, fb-messenger (Facebook Messenger) or chatapp
        /// (Telegram).
        #[arg(long, value_parser = input::platform())]
        platform: Option<Platform>,
        /// Only devices that have this tag set to true.
        #[arg(long)]
        tag: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Write every device as `import` reads it, with its tags and states, to standard output.
    Export {
        /// Form of the file; ndjson unless given.
        #[arg(long)]
        format: Option<Format>,
        /// Only this platform: android, ios, web, fb-messenger (Facebook Messenger) or chatapp
        /// (Telegram).
        #[arg(long, value_parser = input::platform())]
        platform: Option<Platform>,
        /// Only devices that have this tag set to true.
        #[arg(long)]
        tag: Option<String>,
    },
    /// Erase a device and all data about it.
    Delete {
        /// Its id.
        device_id: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Set tags of a device, or of the devices of a file. Their other tags stay.
    #[command(after_help = TAG_HELP)]
    Tag(Box<TagArgs>),
    /// Remove tags of a device.
    Untag {
        /// Its id.
        device_id: String,
        /// Names of the tags.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

const TAG_HELP: &str = "\
A file has the columns `device_id` and `tags`: names with commas between them, or a JSON array of
names and tags. An NDJSON file has the same members. Other columns are ignored, so a file of `notify
devices export` works too. State file and refused rows work as in `notify devices import`.";

/// Arguments of `notify devices tag`.
#[derive(Debug, Args)]
#[command(override_usage = "notify devices tag [OPTIONS] <DEVICE_ID> <NAMES>...\n       \
        notify devices tag --file <FILE> [OPTIONS]")]
pub(crate) struct TagArgs {
    /// Its id.
    #[arg(required_unless_present = "file", conflicts_with = "FileOptions")]
    device_id: Option<String>,
    /// Names of the tags.
    #[arg(required_unless_present = "file")]
    names: Vec<String>,
    /// Set them to false, not true.
    #[arg(long = "false", conflicts_with = "file")]
    set_false: bool,
    /// Devices and their tags, as CSV or NDJSON; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device_id", "names"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: FileOptions,
}

/// Arguments of `notify devices register`.
#[derive(Debug, Args)]
pub(crate) struct Register {
    /// The request as JSON; excludes the other options. `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device_id", "platform"])]
    file: Option<PathBuf>,
    /// Its id, of your making.
    #[arg(required_unless_present = "file")]
    device_id: Option<String>,
    /// Its platform.
    #[arg(long, value_parser = ["android", "ios"], required_unless_present = "file")]
    platform: Option<String>,
    /// Identifier from the platform push provider. It belongs to one device of the application,
    /// whatever its platform: registering it takes it from the device that had it.
    #[arg(long, value_name = "TOKEN", conflicts_with = "file")]
    push_token: Option<String>,
    /// The user disabled push reception.
    #[arg(long, conflicts_with = "file")]
    push_disabled: bool,
    /// Push provisioning profile on iOS.
    #[arg(long, value_parser = ["production", "sandbox"], conflicts_with = "file")]
    ios_env: Option<String>,
    /// Application version.
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    app_version: Option<String>,
    /// OS version.
    #[arg(long, value_name = "VERSION", conflicts_with = "file")]
    os_version: Option<String>,
    /// Language code.
    #[arg(long, value_name = "CODE", conflicts_with = "file")]
    language: Option<String>,
    /// Country code.
    #[arg(long, value_name = "CODE", conflicts_with = "file")]
    country: Option<String>,
    /// Offset from UTC: GMT or GMT±HH:MM.
    #[arg(long, value_name = "OFFSET", conflicts_with = "file")]
    timezone: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(command: Devices, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let devices = notify.devices();
    match command {
        Devices::Register(args) => {
            devices.register(&registration(*args)?).await?;
            session.out.done()
        }
        Devices::Get { device_id } => {
            let device = devices.get(&id(&device_id)?).await;
            let device = device.map_err(Failure::of_id("device", &device_id))?;
            session.out.show(&device, &view::DEVICE)
        }
        Devices::List { platform, tag, page } => {
            let all = page.all;
            let page = page.query();
            let query = ListDevices { limit: page.limit, cursor: page.cursor, platform, tag };
            if all {
                return show_all(devices.all(&query), session, &view::DEVICES).await;
            }
            let page = devices.list(&query).await?;
            session.out.show(&page, &view::DEVICES)
        }
        Devices::Export { format, platform, tag } => {
            let limit = Some(PAGE_OF_ALL);
            let query = ListDevices { limit, platform, tag, ..ListDevices::default() };
            let is_csv = match format {
                Some(format) => format == Format::Csv,
                None => session.out.is_asked_for_csv(),
            };
            let mut file = session.out.file(is_csv, &view::DEVICES)?;
            let mut all = devices.all(&query);
            while let Some(device) = all.next().await {
                file.push(&device?)?;
            }
            file.end()
        }
        Devices::Delete { device_id, consent } => {
            if consent.is_to_be_asked()? {
                let device = devices.get(&id(&device_id)?).await;
                let device = device.map_err(Failure::of_id("device", &device_id))?;
                confirm::ask(&format!(
                    "Erase the device `{device_id}` ({}) with its tags and all data about it? \
                     This cannot be undone.",
                    device.platform
                ))?;
            }
            let deleted = devices.delete(&id(&device_id)?).await;
            deleted.map_err(Failure::of_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Tag(args) => {
            let TagArgs { device_id, names, set_false, file, options } = *args;
            if let Some(file) = file {
                return import::run(&file, options, Purpose::Tag, session).await;
            }
            let device_id = device_id.unwrap_or_default();
            let tags = names.into_iter().map(|name| Tag::new(name, !set_false)).collect();
            let set = devices.set_tags(&id(&device_id)?, &SetTags { tags }).await;
            set.map_err(Failure::of_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Untag { device_id, names } => {
            untag(&notify, &id(&device_id)?, &names).await?;
            session.out.done()
        }
    }
}

/// Removes what is there, and names what is not.
async fn untag(notify: &Client, device_id: &DeviceId, names: &[String]) -> Result<(), Failure> {
    let devices = notify.devices();
    let mut missing = Vec::new();
    for name in names {
        match devices.remove_tag(device_id, name).await {
            Ok(()) => {}
            Err(Error::NotFound { .. }) => missing.push(format!("`{name}`")),
            Err(error) => return Err(error.into()),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    devices.get(device_id).await.map_err(Failure::of_id("device", device_id))?;
    let what = if missing.len() == 1 { "tag" } else { "tags" };
    Err(Failure::Missing(format!("`{device_id}` has no {what} {}", missing.join(", "))))
}

fn id(text: &str) -> Result<DeviceId, Failure> {
    own_id("device_id", text, DeviceId::new)
}

fn registration(args: Register) -> Result<RegisterDevice, Failure> {
    if let Some(path) = &args.file {
        return input::request(path);
    }
    let platform = args.platform.unwrap_or_default();
    Ok(RegisterDevice {
        device_id: args.device_id.unwrap_or_default(),
        sdk_type: format!("{platform}_push"),
        platform,
        push_token: args.push_token,
        push_disabled: args.push_disabled.then_some(true),
        ios_env: args.ios_env,
        app_version: args.app_version,
        os_version: args.os_version,
        language: args.language,
        country: args.country,
        timezone: args.timezone,
        ..RegisterDevice::default()
    })
}

//! `notify devices`, except `import`, and `notify tags`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::{
    Client, Error,
    notify_core::{
        AttributeValue, DeviceId, DeviceState, ListDevices, PageQuery, RegisterDevice, SetTags, Tag,
    },
};

use super::paging::{self, PageArgs};
use super::users::parse_user_id;
use crate::{
    attribute::{self, RemoveArgs, value_help},
    confirm::{self, ConfirmArgs},
    failure::Failure,
    import::{self, FileOptions, Format, Purpose},
    input::{self, Platforms},
    output::{print_warnings, view},
    session::{LARGE_PAGE, Session, parse_caller_id},
};

/// `notify devices`.
#[derive(Debug, Subcommand)]
pub(crate) enum Devices {
    /// Register a device, or replace every field of the device with that id.
    Register(Box<Register>),
    /// Show a device.
    Get {
        /// Its id.
        device_id: String,
    },
    /// List devices.
    List {
        /// Only this platform: android, ios, web, fb-messenger (Facebook Messenger), chatapp
        /// (Telegram) or all.
        #[arg(long, value_parser = input::platforms())]
        platform: Option<Platforms>,
        /// Only devices that have this tag set to true.
        #[arg(long, value_parser = input::filter())]
        tag: Option<String>,
        /// Only devices in this state: enabled, disabled for any reason, or disabled because the
        /// provider reported the address as unregistered.
        #[arg(long, value_parser = input::device_state())]
        state: Option<DeviceState>,
        /// Only devices with this push token, endpoint or recipient id.
        #[arg(long, value_parser = input::filter())]
        token: Option<String>,
        /// Only devices on which this user is logged in.
        #[arg(long, value_name = "USER_ID", value_parser = input::filter())]
        user: Option<String>,
        /// Only devices that meet the condition of this segment.
        #[arg(long, value_name = "NAME", value_parser = input::filter())]
        segment: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Write all devices to standard output in the format of `import`, with their tags and states.
    Export {
        /// Format of the file (default: ndjson).
        #[arg(long)]
        format: Option<Format>,
        /// Only this platform: android, ios, web, fb-messenger (Facebook Messenger), chatapp
        /// (Telegram) or all.
        #[arg(long, value_parser = input::platforms())]
        platform: Option<Platforms>,
        /// Only devices that have this tag set to true.
        #[arg(long, value_parser = input::filter())]
        tag: Option<String>,
    },
    /// Erase a device and all data about it.
    Delete {
        /// Its id.
        device_id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Set tags of a device, or of the devices of a file. Other tags stay.
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
    /// Set and remove attributes of a device. Other attributes stay.
    #[command(
        override_usage = "notify devices attributes <DEVICE_ID> <NAME=VALUE>... [OPTIONS]\n       \
            notify devices attributes <DEVICE_ID> --remove <NAME>",
        group = clap::ArgGroup::new("change").required(true).multiple(true),
        after_help = ATTRIBUTES_HELP,
    )]
    Attributes {
        /// Its id.
        device_id: String,
        /// Attributes to set.
        #[arg(value_name = "NAME=VALUE", value_parser = attribute::parse_pair, group = "change")]
        attributes: Vec<(String, AttributeValue)>,
        #[command(flatten)]
        remove: RemoveArgs,
    },
    /// Log a device in as a user, and out of any other user. The user is created if necessary.
    Login {
        /// Its id.
        device_id: String,
        /// Id of the user, of your choice.
        user_id: String,
    },
    /// Create a secret for an Android or iOS device, with which its app manages the device under
    /// /device/v1, and print it. It is shown only once, and replaces the current one.
    Secret {
        /// Its id.
        device_id: String,
    },
    /// Log a device out.
    Logout {
        /// Its id.
        device_id: String,
    },
}

const ATTRIBUTES_HELP: &str = concat!(
    value_help!(),
    ":
  notify devices attributes my-phone plan=pro seats=3 'zip=\"10115\"' --remove trial
An attribute of a device hides the one of its user with the same name."
);

const TAG_HELP: &str = "\
A file has the columns `device_id` and `tags` (comma-separated names, or a JSON array of names and
tags). An NDJSON file has the same members. Other columns are ignored, so that a file of `notify
devices export` works too. The state file and refused rows work as in `notify devices import`.";

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
    /// Set the tags to false instead of true.
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
    /// Its id, of your choice.
    #[arg(required_unless_present = "file")]
    device_id: Option<String>,
    /// Its platform.
    #[arg(long, value_parser = ["android", "ios"], required_unless_present = "file")]
    platform: Option<String>,
    /// Token from the push provider. Only one device of the application can have it: registering it
    /// removes it from any other device.
    #[arg(long, value_name = "TOKEN", conflicts_with = "file")]
    push_token: Option<String>,
    /// The user has disabled push notifications.
    #[arg(long, conflicts_with = "file")]
    push_disabled: bool,
    /// Push environment of an iOS app.
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
    /// Time zone, such as Europe/Vienna, or offset from UTC: GMT or GMT±HH:MM.
    #[arg(long, value_name = "ZONE", conflicts_with = "file")]
    timezone: Option<String>,
    /// User to log in. Without it, the log-in does not change.
    #[arg(long, value_name = "USER_ID", conflicts_with = "file")]
    user: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(command: Devices, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let devices = notify.devices();
    match command {
        Devices::Register(args) => {
            let registered = devices.register(&registration(*args)?).await?;
            print_warnings(&registered.warnings);
            session.out.done()
        }
        Devices::Get { device_id } => {
            let device = devices.get(&parse_device_id(&device_id)?).await;
            let device = device.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.show(&device, &view::DEVICE)
        }
        Devices::List { platform, tag, state, token, user, segment, page } => {
            let PageQuery { limit, cursor } = page.query();
            let (push_token, user_id) = (token, user);
            let platform = platform.and_then(Platforms::only);
            let query =
                ListDevices { limit, cursor, platform, tag, state, push_token, segment, user_id };
            let (first, all) = (devices.list(&query), devices.all(&query));
            paging::show(page.all, first, all, session, &view::DEVICES).await
        }
        Devices::Export { format, platform, tag } => {
            let limit = Some(LARGE_PAGE);
            let platform = platform.and_then(Platforms::only);
            let query = ListDevices { limit, platform, tag, ..ListDevices::default() };
            export(&notify, &query, format, session).await
        }
        Devices::Delete { device_id, confirm } => {
            if confirm.is_required()? {
                confirm_delete(&notify, &device_id).await?;
            }
            let result = devices.delete(&parse_device_id(&device_id)?).await;
            result.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Tag(args) => set_tags(*args, session).await,
        Devices::Attributes { device_id, attributes, remove } => {
            let changes = attribute::changes(attributes, remove)?;
            let result = devices.update_attributes(&parse_device_id(&device_id)?, &changes).await;
            result.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Login { device_id, user_id } => {
            let user = parse_user_id(&user_id)?;
            let result = devices.log_in(&parse_device_id(&device_id)?, &user).await;
            result.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Secret { device_id } => {
            let created = devices.create_secret(&parse_device_id(&device_id)?).await;
            let created = created.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.show(&created, &view::DEVICE_SECRET)
        }
        Devices::Logout { device_id } => {
            let result = devices.log_out(&parse_device_id(&device_id)?).await;
            result.map_err(Failure::unknown_id("device", &device_id))?;
            session.out.done()
        }
        Devices::Untag { device_id, names } => {
            untag(&notify, &parse_device_id(&device_id)?, &names).await?;
            session.out.done()
        }
    }
}

async fn set_tags(args: TagArgs, session: &mut Session) -> Result<(), Failure> {
    let TagArgs { device_id, names, set_false, file, options } = args;
    if let Some(file) = file {
        return import::run(&file, options, Purpose::Tag, session).await;
    }
    let device_id = device_id.unwrap_or_default();
    let tags = names.into_iter().map(|name| Tag::new(name, !set_false)).collect();
    let notify = session.client()?;
    let result = notify.devices().set_tags(&parse_device_id(&device_id)?, &SetTags { tags }).await;
    result.map_err(Failure::unknown_id("device", &device_id))?;
    session.out.done()
}

/// Prints all devices of the query in the format of a file.
async fn export(
    notify: &Client,
    query: &ListDevices,
    format: Option<Format>,
    session: &mut Session,
) -> Result<(), Failure> {
    let is_csv = match format {
        Some(format) => format == Format::Csv,
        None => session.out.is_csv_requested(),
    };
    let mut file = session.out.file(is_csv, &view::DEVICES)?;
    let mut all = notify.devices().all(query);
    while let Some(device) = all.next().await {
        let device = device?;
        if device.address_hidden {
            return Err(Failure::Usage(
                "the key lacks the scope `devices`, so the file would have no addresses, and an import of it \
                 would remove those of the devices"
                    .to_owned(),
            ));
        }
        file.push(&device)?;
    }
    file.end()
}

async fn confirm_delete(notify: &Client, device_id: &str) -> Result<(), Failure> {
    let device = notify.devices().get(&parse_device_id(device_id)?).await;
    let device = device.map_err(Failure::unknown_id("device", &device_id))?;
    confirm::ask(&format!(
        "Erase the device `{device_id}` ({}) with its tags and all data about it? This cannot be \
         undone.",
        device.platform
    ))
}

/// Removes tags of a device. If the device lacks some of these tags, the function removes the others and
/// then fails.
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
    devices.get(device_id).await.map_err(Failure::unknown_id("device", device_id))?;
    let noun = if missing.len() == 1 { "tag" } else { "tags" };
    Err(Failure::NoMatch(format!("`{device_id}` has no {noun} {}", missing.join(", "))))
}

fn parse_device_id(text: &str) -> Result<DeviceId, Failure> {
    parse_caller_id("device_id", text, DeviceId::new)
}

/// The request of `notify devices register`: that of `--file`, or that of the other arguments.
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
        user_id: args.user,
        ..RegisterDevice::default()
    })
}

/// `notify tags`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tags {
    /// List the tags, and how many devices have each of them set to true.
    List(PageArgs),
}

/// Runs `notify tags`.
pub(crate) async fn run_tags(command: Tags, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Tags::List(page) => {
            let (tags, query) = (notify.tags(), page.query());
            let (first, all) = (tags.list(&query), tags.all(&query));
            paging::show(page.all, first, all, session, &view::TAGS).await
        }
    }
}

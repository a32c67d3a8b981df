//! `notify send` and `notify report`.

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{
        Audience, Canary, CanaryThen, CreateAnswer, CreateNotification, CreatePoll, DeviceId,
        NotificationId, NotificationPreview, PollLayout, ReportNotification, Request, StepKind,
        Timestamp,
    },
};

use super::{content::ContentArgs, watch};
use crate::{
    failure::Failure,
    input::{self, Platforms},
    output::{print_message, print_warnings, view},
    session::{Session, parse_caller_id},
};

const SEND_HELP: &str = "\
Examples:
  notify send --text 'Dinner is ready' --platform android --platform ios --tag hungry
  notify send --text 'Your order has shipped' --user user-7
  notify send --poll 'Pizza or pasta?' --answer Pizza --answer Pasta --platform all
  notify send --text 'We miss you' --platform ios \\
    --audience 'country in (DE, AT) and not last_active_at within 30 days'

  notify send --text 'Dinner is ready' --platform ios --watch --wait 60s && echo 'all sent'

  ID=$(notify send --text 'Dinner is ready' --platform ios | jq -r .id)
  notify watch \"$ID\"

Exit status with --watch: 0 if every delivery was sent or its address was unregistered, 1 if a
delivery failed, expired or was canceled, or if --wait ends first.

`notify polls get ID` shows the answers of a poll. A poll with pictures as answers needs --file.

Platforms: android, ios, web (browsers), fb-messenger (Facebook Messenger), chatapp (Telegram), all.
`notify segments set --help` describes audiences.";

/// Arguments of `notify send`.
#[derive(Debug, Args)]
#[command(
    override_usage = "notify send --text <TEXT> --platform <PLATFORM> [OPTIONS]\n       \
        notify send --text <TEXT> --device <DEVICE_ID> [OPTIONS]\n       \
        notify send --text <TEXT> --user <USER_ID> [OPTIONS]\n       \
        notify send --file <FILE>",
    after_help = SEND_HELP
)]
pub(crate) struct Send {
    /// The request as JSON; excludes the options of target, content and delivery. `-` for standard
    /// input.
    #[arg(
        long, value_name = "FILE",
        conflicts_with_all = ["TargetArgs", "ContentArgs", "TimingArgs"],
    )]
    file: Option<PathBuf>,
    /// Send once, even if the command runs again with this key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Show the payloads and how many devices they would reach now, without sending.
    #[arg(long, conflicts_with = "idempotency_key")]
    preview: bool,
    /// With --preview: show the message that this device would get, in its language and with its
    /// attributes.
    #[arg(long, value_name = "DEVICE_ID", requires = "preview")]
    preview_device: Option<String>,
    /// Follow the notification until every delivery has an outcome, like `notify watch` and with its exit
    /// statuses.
    #[arg(long, conflicts_with = "preview")]
    watch: bool,
    #[command(flatten)]
    wait: watch::WaitArgs,
    /// Wake the app with --url, --campaign or --custom-json-key and show nothing; only on Android and iOS.
    #[arg(long, conflicts_with_all = ["file", "text"])]
    silent: bool,
    /// Send a poll with this question in place of a text; give each answer with --answer.
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["file", "text", "silent"], requires = "answers")]
    poll: Option<String>,
    /// An answer of the poll; repeatable, at least two.
    #[arg(long = "answer", value_name = "TEXT", conflicts_with_all = ["file", "text", "silent"])]
    answers: Vec<String>,
    /// Replace `{{name|default}}` in texts and titles with the attribute of each device or its user.
    #[arg(long, conflicts_with = "file")]
    personalize: bool,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    content: ContentArgs,
    #[command(flatten)]
    timing: TimingArgs,
}

/// The recipients. An option for devices or users needs a value: a script whose list is empty then fails,
/// instead of reaching every device.
#[derive(Debug, Args)]
#[command(next_help_heading = "Target")]
struct TargetArgs {
    /// All devices of this platform (those with --tag, if given); repeatable. Ignored if devices are
    /// given; with users, only their devices of this platform.
    #[arg(long = "platform", value_name = "PLATFORM", value_parser = input::platforms())]
    platforms: Vec<Platforms>,
    /// A device of any platform, such as a browser or a chat; repeatable.
    #[arg(long = "device", value_name = "DEVICE_ID")]
    devices: Vec<String>,
    /// An Android device; repeatable.
    #[arg(long = "android-device", value_name = "DEVICE_ID")]
    android_devices: Vec<String>,
    /// An iOS device; repeatable.
    #[arg(long = "ios-device", value_name = "DEVICE_ID")]
    ios_devices: Vec<String>,
    /// A user: the devices on which the user is logged in when the notification is due; repeatable.
    #[arg(long = "user", value_name = "USER_ID")]
    users: Vec<String>,
    /// Only devices that meet this condition: an expression, JSON, or `@FILE` with one of the two (`@-`
    /// for standard input).
    #[arg(long)]
    audience: Option<String>,
    /// Only devices that meet the condition of this segment, and that of --audience if given.
    #[arg(long, value_name = "NAME", value_parser = input::filter())]
    segment: Option<String>,
}

impl TargetArgs {
    fn is_empty(&self) -> bool {
        [&self.devices, &self.android_devices, &self.ios_devices, &self.users]
            .iter()
            .all(|ids| ids.is_empty())
            && self.platforms.is_empty()
    }

    /// The condition of `--audience` and `--segment`.
    fn audience(&self) -> Result<Option<Audience>, Failure> {
        let audience = self.audience.as_deref();
        let audience = audience.map(|text| input::audience("--audience", text)).transpose()?;
        let segment = self.segment.as_ref().map(Audience::segment);
        Ok(match (segment, audience) {
            (Some(segment), Some(audience)) => Some(segment.and(audience)),
            (segment, audience) => segment.or(audience),
        })
    }
}

/// Options of delivery.
#[derive(Debug, Args)]
#[command(next_help_heading = "Delivery")]
struct TimingArgs {
    /// When to send: `+10m`, `2h`, a time like 2026-05-01T09:00:00Z, or unix milliseconds.
    #[arg(
        long, visible_alias = "at", value_name = "TIME", conflicts_with = "send_at_local",
        value_parser = input::future_instant,
    )]
    send_at: Option<Timestamp>,
    /// When to send, in the local time of each device: YYYY-MM-DDTHH:MM.
    #[arg(long, value_name = "TIME")]
    send_at_local: Option<String>,
    /// How long to keep trying a delivery (default: 28 days).
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u32>,
    /// How soon the provider should deliver.
    #[arg(long, value_parser = ["high", "normal"])]
    priority: Option<String>,
    /// Notifications with the same key replace each other on the device.
    #[arg(long, value_name = "KEY")]
    collapse_key: Option<String>,
    /// Maximum number of first attempts per minute, over all platforms.
    #[arg(long, value_name = "NUMBER")]
    per_minute: Option<u32>,
    /// Send to this share of the devices first, 1 to 50 percent, and to the others only if few of these
    /// deliveries fail. Otherwise the notification pauses.
    #[arg(long, value_name = "PERCENT", conflicts_with = "send_at_local")]
    canary: Option<u32>,
    /// How long after the last first attempt the canary is judged (default: 600).
    #[arg(long, value_name = "SECONDS", requires = "canary")]
    canary_wait: Option<u32>,
    /// The canary fails if more than this share of its deliveries failed or is still pending; 5 unless
    /// given. Dead addresses (`unregistered`) do not count as failed.
    #[arg(long, value_name = "PERCENT", requires = "canary")]
    canary_max_failed: Option<u32>,
    /// Pause after the canary, even if it does not fail.
    #[arg(long, requires = "canary")]
    canary_pause: bool,
}

impl TimingArgs {
    fn canary(&self) -> Option<Canary> {
        Some(Canary {
            percent: Some(self.canary?),
            wait_seconds: self.canary_wait,
            max_failed_percent: self.canary_max_failed,
            then: self.canary_pause.then(|| CanaryThen::Pause.to_string()),
        })
    }
}

/// The options that are a target.
const TARGETS: &str = "give --platform PLATFORM (android, ios, web, fb-messenger, chatapp or all; several as \
    in --platform android --platform ios), --device ID, --user ID, --android-device ID or \
    --ios-device ID";

/// The error of a command without a target. Tags, audiences and segments are not targets, because they only
/// restrict one.
fn no_target(args: &Send) -> Failure {
    let given = [
        ("--audience", args.target.audience.is_some()),
        ("--segment", args.target.segment.is_some()),
        ("--tag", args.content.tag.is_some()),
    ];
    let given = given.into_iter().filter_map(|(option, is_given)| is_given.then_some(option));
    let restrictions = match given.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [only] => format!("{only} only restricts one; "),
        several => format!("{} only restrict one; ", several.join(" and ")),
    };
    Failure::Usage(format!("no target: {restrictions}{TARGETS}"))
}

/// The error of a command without a text.
const NO_TEXT: &str = "no text: give --text TEXT, --poll QUESTION for a poll, or --silent for a \
    notification that shows nothing";

/// Runs the command.
pub(crate) async fn run(mut args: Send, session: &mut Session) -> Result<(), Failure> {
    let (key, is_preview, is_watched) = (args.idempotency_key.clone(), args.preview, args.watch);
    let (preview_device, wait) = (args.preview_device.clone(), args.wait);
    if wait.is_given() && !is_watched {
        return Err(Failure::Usage("--wait needs --watch".to_owned()));
    }
    let notification = match &args.file {
        Some(path) => input::request(path)?,
        None if args.target.is_empty() => return Err(no_target(&args)),
        None if args.poll.is_none() && !args.answers.is_empty() => {
            return Err(Failure::Usage("--answer needs --poll QUESTION".to_owned()));
        }
        None if args.content.text.is_none() && args.poll.is_none() && !args.silent => {
            return Err(Failure::Usage(NO_TEXT.to_owned()));
        }
        None => {
            session.resolve_campaign(&mut args.content.campaign).await?;
            notification(args)?
        }
    };
    let notify = session.client()?;
    let mut notifications = notify.notifications();
    if is_preview {
        let preview = match preview_device {
            None => notifications.preview(&notification).await?,
            Some(id) => {
                let device = parse_caller_id("--preview-device", &id, DeviceId::new)?;
                let preview = notifications.preview_for(&notification, &device).await;
                preview.map_err(Failure::unknown_id("device", &id))?
            }
        };
        if let Some(ids) = preview.unknown {
            print_message(&format!("warning: {}", unknown_ids_message(ids, &notification)));
        }
        return session.out.show(&preview, &view::PREVIEW);
    }
    if let Some(key) = key {
        notifications = notifications.idempotency_key(key);
    }
    let created = notifications.create(&notification).await?;
    if let Some(ids) = created.unknown {
        print_message(&format!(
            "warning: no device receives it: {}",
            no_recipient_message(ids, &notification)
        ));
    } else {
        warn_of_obstacles(&created.id, &notification, &notify).await;
    }
    if is_watched {
        // The result is printed only at the end. The id is printed now, in case the command is interrupted.
        print_message(&format!("id {}", created.id));
        return watch::follow(&created.id, watch::INTERVAL_DEFAULT, wait, session).await;
    }
    session.out.show(&created, &view::CREATED)
}

/// Warnings about a notification to all devices of its platforms, to those that a condition selects, or to
/// those of users: the problems of the platforms. A platform without a device is left out if another platform
/// has one.
fn audience_warnings(
    notification: &CreateNotification,
    preview: NotificationPreview,
) -> Vec<String> {
    let has_tags = !notification.content.tags.as_deref().unwrap_or_default().is_empty();
    let has_device = preview.platforms.iter().any(|platform| platform.devices > 0);
    let mut warnings = Vec::new();
    if let Some(unknown) = preview.unknown {
        warnings.push(unknown_ids_message(unknown, notification));
    }
    let no_device = if has_device {
        None
    } else if notification.audience.is_some() {
        Some("no device that meets the condition would receive it now; is the condition right?")
    } else if has_tags {
        Some("no device with that tag would receive it now; is the tag right?")
    } else if notification.user_ids.is_some() {
        Some("no device of the given users would receive it now")
    } else {
        None
    };
    warnings.extend(no_device.map(str::to_owned));
    warnings.extend(audience_problems(&preview));
    for platform in preview.platforms.into_iter().filter(|one| one.devices > 0 || !has_device) {
        // The number of many devices is no problem of a notification that is already sent, and the warning
        // that no device would receive it covers all platforms.
        let problems = platform.problems.into_iter().filter(|problem| {
            let is_covered = (no_device.is_some() && problem.starts_with("no device "))
                || problem.starts_with(OF_AUDIENCE)
                || OF_ITSELF.iter().any(|of_itself| problem.starts_with(of_itself));
            !problem.starts_with("many devices") && !is_covered
        });
        warnings.extend(problems.map(|problem| format!("{}: {problem}", platform.platform)));
    }
    warnings
}

/// The beginnings of the problems that [`own_warnings`] finds too, which each platform repeats.
const OF_ITSELF: [&str; 2] = ["personalize: ", "send_at: is in the past"];

/// Warnings about the notification itself, which need no request.
fn own_warnings(notification: &CreateNotification) -> Vec<String> {
    let now = Timestamp::from_ms(jiff::Timestamp::now().as_millisecond());
    let Ok(valid) = notification.clone().validate(now) else { return Vec::new() };
    let variable = valid.content.literal_variable().map(|variable| {
        format!(
            "people see `{variable}` itself: --personalize (in a file, `personalize`) replaces it with the \
             attribute"
        )
    });
    let passed =
        valid.passed_send_at.map(|_| "send_at is in the past, so it is sent at once".to_owned());
    variable.into_iter().chain(passed).collect()
}

/// The beginning of a problem of the condition, which each platform repeats.
const OF_AUDIENCE: &str = "audience: ";

/// The problems of the condition, such as a name that no device and no user has.
pub(super) fn audience_problems(preview: &NotificationPreview) -> Vec<String> {
    let problems = preview.platforms.first().into_iter().flat_map(|one| &one.problems);
    problems.filter(|problem| problem.starts_with(OF_AUDIENCE)).cloned().collect()
}

/// A warning about devices that would receive nothing now. `given_ids` is the number of device ids of the
/// notification.
fn shortfall_warning(given_ids: usize, preview: &NotificationPreview) -> Option<String> {
    let reached: u64 = preview.platforms.iter().map(|platform| platform.devices).sum();
    let missed = (given_ids as u64).saturating_sub(reached);
    let unknown = preview.unknown.unwrap_or_default();
    (missed > 0).then(|| match unknown {
        0 => {
            format!(
                "{missed} of {given_ids} given devices receive nothing now; `--preview` shows why"
            )
        }
        unknown => {
            format!(
                "{missed} of {given_ids} given devices receive nothing now; unknown ids: {unknown}"
            )
        }
    })
}

/// The distinct ids of users of a notification.
fn user_ids(notification: &CreateNotification) -> BTreeSet<&String> {
    notification.user_ids.iter().flatten().collect()
}

/// The distinct device ids of a notification.
fn device_ids(notification: &CreateNotification) -> BTreeSet<&String> {
    let CreateNotification { device_ids, android_device_ids, ios_device_ids, .. } = notification;
    [device_ids, android_device_ids, ios_device_ids].into_iter().flatten().flatten().collect()
}

/// A message with the number of unknown ids among the ids of the notification.
fn unknown_ids_message(unknown: u64, notification: &CreateNotification) -> String {
    let given_ids = device_ids(notification).len() + user_ids(notification).len();
    if given_ids as u64 == unknown {
        return no_recipient_message(unknown, notification);
    }
    format!("unknown ids: {unknown} of {given_ids}")
}

/// A message that no device receives the notification, because all ids are unknown. An id with a comma may
/// be meant as several ids, so the message mentions it.
fn no_recipient_message(unknown: u64, notification: &CreateNotification) -> String {
    let (mut ids, what, option) = match &notification.user_ids {
        Some(_) => (user_ids(notification).into_iter(), "user", "--user"),
        None => (device_ids(notification).into_iter(), "device", "--device"),
    };
    let tip = match ids.find(|id| id.contains(',')) {
        Some(id) => {
            format!("; `{id}` is one id that contains a comma: repeat {option} for each id")
        }
        None => String::new(),
    };
    format!("{}{tip}", watch::no_such_ids(what, unknown))
}

/// Most devices for which the command prints separate warnings, because each of them takes a request. For
/// more devices, it prints one warning with their number.
const EXPLAINED_MAX: usize = 10;

/// Warns of devices that would receive nothing now. A failure of these requests is not reported, because
/// the server has already accepted the notification.
async fn warn_of_obstacles(
    id: &NotificationId,
    notification: &CreateNotification,
    notify: &Client,
) {
    print_warnings(own_warnings(notification));
    let ids = device_ids(notification);
    if ids.is_empty() || ids.len() > EXPLAINED_MAX {
        let Ok(preview) = notify.notifications().preview(notification).await else { return };
        let warnings = if ids.is_empty() {
            audience_warnings(notification, preview)
        } else {
            shortfall_warning(ids.len(), &preview).into_iter().collect()
        };
        print_warnings(warnings);
        return;
    }
    for device in ids.into_iter().filter_map(|id| DeviceId::new(id.clone()).ok()) {
        let why = match notify.notifications().explain(id, &device).await {
            Ok(explained) => explained
                .steps
                .into_iter()
                .find(|step| OBSTACLES.contains(&step.what))
                .map(|step| step.detail),
            Err(Error::NotFound { .. }) => Some(watch::no_such_ids("device", 1)),
            Err(_) => None,
        };
        if let Some(why) = why {
            print_message(&format!("warning: {device}: {why}"));
        }
    }
}

/// The steps of an explanation that are a reason for not delivering.
const OBSTACLES: [StepKind; 10] = [
    StepKind::NotTargeted,
    StepKind::LacksTag,
    StepKind::FailsAudience,
    StepKind::Disabled,
    StepKind::AddressDead,
    StepKind::NoAddress,
    StepKind::AddressUnusable,
    StepKind::ProviderNotConfigured,
    StepKind::CredentialsRefused,
    StepKind::Paused,
];

/// The request of `notify send` without `--file`.
fn notification(args: Send) -> Result<CreateNotification, Failure> {
    let audience = args.target.audience()?;
    let (text, mut content) = args.content.into_parts()?;
    content.poll = args.poll.map(|question| poll(question, args.answers, &mut content.image_url));
    let platforms = Platforms::of(&args.target.platforms).iter().map(ToString::to_string).collect();
    let canary = args.timing.canary();
    Ok(CreateNotification {
        text,
        platforms: non_empty(platforms),
        android_device_ids: non_empty(args.target.android_devices),
        ios_device_ids: non_empty(args.target.ios_devices),
        device_ids: non_empty(args.target.devices),
        user_ids: non_empty(args.target.users),
        audience,
        content,
        send_at: args.timing.send_at,
        send_at_local: args.timing.send_at_local,
        ttl_seconds: args.timing.ttl,
        priority: args.timing.priority,
        collapse_key: args.timing.collapse_key,
        silent: args.silent.then_some(true),
        personalize: args.personalize.then_some(true),
        per_minute: args.timing.per_minute,
        canary,
    })
}

/// A poll whose answers are texts. It has the image of the notification.
fn poll(question: String, answers: Vec<String>, image_url: &mut Option<String>) -> CreatePoll {
    let answer = |text| CreateAnswer { text: Some(text), image_url: None };
    CreatePoll {
        text: question,
        layout_id: PollLayout::PollText.as_str().to_owned(),
        image_url: image_url.take(),
        answers: answers.into_iter().map(answer).collect(),
    }
}

/// The list, or `None` if it is empty: the API refuses an empty list.
fn non_empty(list: Vec<String>) -> Option<Vec<String>> {
    if list.is_empty() { None } else { Some(list) }
}

/// Arguments of `notify report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The request as JSON; excludes the other options. `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "platforms", "ContentArgs"])]
    file: Option<PathBuf>,
    /// Id of the notification, of your choice.
    #[arg(long, required_unless_present = "file")]
    id: Option<String>,
    /// Platform of the recipients, such as fb-messenger (Facebook Messenger) or chatapp (Telegram);
    /// repeatable.
    #[arg(
        long = "platform", value_name = "PLATFORM", value_parser = input::platforms(),
        required_unless_present = "file",
    )]
    platforms: Vec<Platforms>,
    #[command(flatten)]
    content: ContentArgs,
}

/// Runs `notify report`.
pub(crate) async fn run_report(mut args: Report, session: &mut Session) -> Result<(), Failure> {
    let report = match &args.file {
        Some(path) => input::request(path)?,
        None if args.content.text.is_none() => {
            return Err(Failure::Usage("no text: give --text TEXT".to_owned()));
        }
        None => {
            session.resolve_campaign(&mut args.content.campaign).await?;
            report(args)?
        }
    };
    let created = session.client()?.notifications().report(&report).await?;
    session.out.show(&created, &view::CREATED)
}

/// The request of `notify report` without `--file`.
fn report(args: Report) -> Result<ReportNotification, Failure> {
    let (text, content) = args.content.into_parts()?;
    Ok(ReportNotification {
        id: args.id.unwrap_or_default(),
        text,
        platforms: Some(Platforms::of(&args.platforms).iter().map(ToString::to_string).collect()),
        content,
    })
}

//! `notify segments`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::Client;
use notify_client::notify_core::{
    Audience, CreateNotification, Platform, PreviewSegment, PutSegment, SegmentName,
};

use super::paging::{self, PageArgs};
use super::send::audience_problems;
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    input::{self, Platforms},
    output::{print_message, print_warnings, view},
    session::{Session, parse_caller_id},
};

/// `notify segments`.
#[derive(Debug, Subcommand)]
pub(crate) enum Segments {
    /// List segments by name.
    List(PageArgs),
    /// Show a segment.
    #[command(alias = "show")]
    Get {
        /// Its name.
        name: String,
    },
    /// Create a segment, or replace its condition. Notifications that were accepted earlier keep theirs.
    #[command(
        override_usage = "notify segments set <NAME> <AUDIENCE>\n       \
            notify segments set <NAME> --file <FILE>",
        after_help = AUDIENCE_HELP,
    )]
    Set {
        /// Its name, of your choice.
        name: String,
        #[command(flatten)]
        audience: AudienceArgs,
    },
    /// Delete a segment. Notifications that were accepted earlier keep its condition.
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Count the devices that meet a condition now, or the condition of a segment.
    #[command(
        override_usage = "notify segments preview <AUDIENCE> [OPTIONS]\n       \
            notify segments preview <NAME> [OPTIONS]\n       \
            notify segments preview --file <FILE>",
        after_help = "`notify segments set --help` describes audiences. A number that is not exact is \
            an estimate."
    )]
    Preview {
        #[command(flatten)]
        audience: AudienceArgs,
        /// Only devices of this platform; repeatable (default: all platforms).
        #[arg(
            long = "platform", value_name = "PLATFORM", value_parser = input::platforms(),
            conflicts_with = "file",
        )]
        platforms: Vec<Platforms>,
    },
}

/// A condition, or the request that contains it.
#[derive(Debug, Args)]
pub(crate) struct AudienceArgs {
    /// The condition: an expression, JSON, or `@FILE` with one of the two (`@-` for standard input).
    #[arg(required_unless_present = "file")]
    audience: Option<String>,
    /// The request as JSON, `{"audience": …}`; excludes the other arguments. `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "audience")]
    file: Option<PathBuf>,
}

const AUDIENCE_HELP: &str = "\
An audience is an expression, or JSON if it begins with `{`. Conditions in an expression:
  tag = vip                            the device has the tag set to true
  plan = pro, seats >= 3, seats < 10   an attribute of the device, or else of its user
  plan in (pro, team)                  one of several values
  plan exists, plan is absent          whether it has a value
  attribute country = x                an attribute with the name of a field
  platform, language, country          =, in, exists, is absent
  app_version, os_version, timezone    also >= and <; the time zone is in minutes
  created_at, last_active_at           >= and < with a date, and `within 30 days`
  user exists                          a user is logged in
  segment = fans                       the condition of another segment; not in a segment
`and`, `or`, `not` and parentheses combine conditions. Values with characters other than letters,
digits and _-.:+ need double quotes, as do texts that look like a number or a boolean.

Example:
  notify segments set 'active customers' \\
    'plan in (pro, team) and last_active_at within 30 days and not tag = staff'";

/// Runs the command.
pub(crate) async fn run(command: Segments, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let segments = notify.segments();
    match command {
        Segments::List(page) => {
            let query = page.query();
            let (first, all) = (segments.list(&query), segments.all(&query));
            paging::show(page.all, first, all, session, &view::SEGMENTS).await
        }
        Segments::Get { name } => {
            let segment = segments.get(&parse_name(&name)?).await;
            let segment = segment.map_err(unknown_name(&name))?;
            session.out.show(&segment, &view::SEGMENT)
        }
        Segments::Set { name, audience } => {
            let request = match (audience.file, audience.audience) {
                (Some(path), _) => input::request(&path)?,
                (None, text) => PutSegment::new(parse_audience(text)?),
            };
            let segment = segments.put(&parse_name(&name)?, &request).await?;
            session.out.show(&segment, &view::SEGMENT)?;
            warn_of_problems(&notify, &segment.audience).await;
            Ok(())
        }
        Segments::Delete { name, confirm } => {
            let parsed = parse_name(&name)?;
            if confirm.is_required()? {
                let segment = segments.get(&parsed).await.map_err(unknown_name(&name))?;
                confirm::ask(&format!(
                    "Delete the segment `{name}` ({})? This cannot be undone.",
                    segment.audience
                ))?;
            }
            segments.delete(&parsed).await.map_err(unknown_name(&name))?;
            session.out.done()
        }
        Segments::Preview { audience, platforms } => {
            let request = match (audience.file, audience.audience) {
                (Some(path), _) => input::request(&path)?,
                (None, text) => {
                    let audience = audience_or_segment(text, &notify).await?;
                    let platforms = Platforms::of(&platforms);
                    let platforms = platforms.iter().map(ToString::to_string).collect::<Vec<_>>();
                    PreviewSegment {
                        platforms: Some(platforms).filter(|platforms| !platforms.is_empty()),
                        ..PreviewSegment::new(audience)
                    }
                }
            };
            let preview = segments.preview(&request).await?;
            session.out.show(&preview, &view::SEGMENT_PREVIEW)?;
            if let Some(audience) = &request.audience {
                warn_of_problems(&notify, audience).await;
            }
            if session.out.is_human_readable() {
                session.out.flush()?;
                let devices: u64 = preview.platforms.iter().map(|size| size.devices).sum();
                let is_exact = preview.platforms.iter().all(|size| size.exact);
                let about = if is_exact { "" } else { "about " };
                print_message(&format!("{about}{devices} in all"));
            }
            Ok(())
        }
    }
}

/// Warns about names in a condition that no device and no user has. The preview of a notification finds them.
/// A failure of this request is not reported: the key may not permit it.
async fn warn_of_problems(notify: &Client, audience: &Audience) {
    let everyone = CreateNotification::to_platforms(Platform::ALL, "Preview");
    let preview = notify.notifications().preview(&everyone.audience(audience.clone())).await;
    print_warnings(preview.iter().flat_map(audience_problems));
}

fn parse_audience(text: Option<String>) -> Result<Audience, Failure> {
    input::audience("audience", &text.unwrap_or_default())
}

/// A condition, or that of the segment with this name.
async fn audience_or_segment(text: Option<String>, notify: &Client) -> Result<Audience, Failure> {
    let name = text.clone().unwrap_or_default();
    // One word alone is never a condition, and several words may be a name if they have no operator.
    let has_operator = name.contains(|c: char| "@{}()=<>\"".contains(c));
    if !name.is_empty() && !has_operator && !name.contains(char::is_whitespace) {
        return Ok(Audience::segment(name));
    }
    match (parse_audience(text), SegmentName::new(&*name)) {
        (Err(_), Ok(known)) if !has_operator && notify.segments().get(&known).await.is_ok() => {
            Ok(Audience::segment(name))
        }
        (audience, _) => audience,
    }
}

fn parse_name(text: &str) -> Result<SegmentName, Failure> {
    parse_caller_id("name", text, SegmentName::new)
}

fn unknown_name<E: Into<Failure>>(name: &str) -> impl FnOnce(E) -> Failure + use<E> {
    Failure::not_found(format!("no segment has the name `{name}`"))
}

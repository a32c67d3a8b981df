//! `notify explain`.

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{
        DeviceId, ExplainedStep, ExplainedSummary, Explanation, ListDevices, NotificationId,
        StepKind, UserId,
    },
};
use serde::Serialize;

use super::users::parse_user_id;
use crate::{
    failure::Failure,
    output::{print_message, view},
    session::{Session, parse_caller_id},
};

/// Most devices of a user that are explained, because each of them takes a request.
const DEVICES_MAX: u32 = 20;

/// Arguments of `notify explain`.
#[derive(Debug, Args)]
#[command(
    override_usage = "notify explain <NOTIFICATION> <DEVICE>\n       \
        notify explain <NOTIFICATION> --user <USER_ID>",
    after_help = "Steps without a timestamp describe the current state."
)]
pub(crate) struct Explain {
    /// Id of the notification.
    notification: String,
    /// Id of the device.
    #[arg(required_unless_present = "user")]
    device: Option<String>,
    /// Explain each device on which this user is logged in now, up to 20 devices.
    #[arg(long, value_name = "USER_ID", conflicts_with = "device")]
    user: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(args: Explain, session: &mut Session) -> Result<(), Failure> {
    let id = parse_caller_id("notification", &args.notification, NotificationId::new)?;
    if let Some(user) = args.user {
        return explain_user(&id, &parse_user_id(&user)?, session).await;
    }
    let device = args.device.expect("clap requires it without --user");
    let device = parse_caller_id("device", &device, DeviceId::new)?;
    let notify = session.client()?;
    let explained = explain(&notify, &id, &device).await?;
    if session.out.is_human_readable() {
        return show(explained, session);
    }
    session.out.show(&explained, &view::EXPLANATION)
}

/// Explains each device of a user.
async fn explain_user(
    id: &NotificationId,
    user: &UserId,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.client()?;
    let user_id = Some(user.to_string());
    let query = ListDevices { user_id, limit: Some(DEVICES_MAX), ..ListDevices::default() };
    let page = notify.devices().list(&query).await?;
    if page.devices.is_empty() {
        // The listing is empty for an unknown user as well.
        notify.users().get(user).await.map_err(Failure::unknown_id("user", user))?;
    }
    let mut explanations = Vec::with_capacity(page.devices.len());
    for device in &page.devices {
        match notify.notifications().explain(id, &device.device_id).await {
            Ok(explained) => explanations.push(explained),
            // A device that was deleted since the listing is left out.
            Err(Error::NotFound { .. }) if notify.notifications().get(id).await.is_ok() => {}
            Err(error @ Error::NotFound { .. }) => {
                return Err(Failure::unknown_id("notification", id)(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let has_devices = !explanations.is_empty();
    if session.out.is_human_readable() {
        for explained in explanations {
            show(explained, session)?;
        }
    } else if session.out.is_json() {
        session.out.show(&explanations, &view::EXPLANATIONS)?;
    } else {
        let mut rows = session.out.rows(&view::EXPLANATIONS)?;
        for Explanation { device_id, steps, .. } in &explanations {
            for step in steps {
                rows.push(&DeviceStep { device_id, step })?;
            }
        }
        rows.end()?;
    }
    session.out.flush()?;
    if !has_devices {
        print_message(&format!("no device is logged in as the user `{user}` now"));
    }
    if page.next_cursor.is_some() {
        print_message(&format!(
            "the user has more devices than these: `notify devices list --user {user}` lists all"
        ));
    }
    Ok(())
}

/// A step with its device: a row of a CSV file.
#[derive(Serialize)]
struct DeviceStep<'e> {
    device_id: &'e DeviceId,
    #[serde(flatten)]
    step: &'e ExplainedStep,
}

async fn explain(
    notify: &Client,
    id: &NotificationId,
    device: &DeviceId,
) -> Result<Explanation, Failure> {
    match notify.notifications().explain(id, device).await {
        Err(error @ Error::NotFound { .. }) => Err(unknown_id(notify, id, device, error).await),
        explained => Ok(explained?),
    }
}

/// Prints an explanation for a reader: the summary, then the steps.
fn show(mut explained: Explanation, session: &mut Session) -> Result<(), Failure> {
    session.out.heading(&heading(&explained))?;
    // Every explanation begins with this step, which has no information for a reader.
    explained.steps.retain(|step| step.what != StepKind::Accepted);
    session.out.show(&explained, &view::EXPLANATION)
}

/// The summary in one line, which is printed before the steps.
fn heading(explained: &Explanation) -> String {
    let ExplainedSummary { mark, outcome, cause, .. } = explained.summary();
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{mark} {} {outcome}{cause}", explained.device_id)
}

/// The failure for a 404. The response does not contain the unknown id, so the function reads the
/// notification to find out which of the two ids it is.
async fn unknown_id(
    notify: &Client,
    id: &NotificationId,
    device: &DeviceId,
    error: Error,
) -> Failure {
    match notify.notifications().get(id).await {
        Ok(_) => Failure::unknown_id("device", device)(error),
        Err(Error::NotFound { .. }) => Failure::unknown_id("notification", id)(error),
        Err(_) => error.into(),
    }
}

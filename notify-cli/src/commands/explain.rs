//! `notify explain`.

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{DeviceId, ExplainedSummary, Explanation, NotificationId, StepKind},
};

use crate::{
    failure::Failure,
    output::view,
    session::{Session, parse_caller_id},
};

/// Arguments of `notify explain`.
#[derive(Debug, Args)]
#[command(after_help = "Steps without a timestamp describe the current state.")]
pub(crate) struct Explain {
    /// Id of the notification.
    notification: String,
    /// Id of the device.
    device: String,
}

/// Runs the command.
pub(crate) async fn run(args: Explain, session: &mut Session) -> Result<(), Failure> {
    let id = parse_caller_id("notification", &args.notification, NotificationId::new)?;
    let device = parse_caller_id("device", &args.device, DeviceId::new)?;
    let notify = session.client()?;
    let mut explained = match notify.notifications().explain(&id, &device).await {
        Err(error @ Error::NotFound { .. }) => {
            return Err(unknown_id(&notify, &id, &device, error).await);
        }
        explained => explained?,
    };
    session.out.heading(&heading(&explained))?;
    if session.out.is_human_readable() {
        // Every explanation begins with this step, which has no information for a reader.
        explained.steps.retain(|step| step.what != StepKind::Accepted);
    }
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

//! `notify explain`.

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{DeviceId, ExplainedOutcome, Explanation, NotificationId, StepKind},
};

use crate::{
    failure::Failure,
    output::view,
    session::{Session, parse_caller_id},
};

/// The text before the last response of a provider, in the detail of a step.
const LAST_RESPONSE_PREFIX: &str = "the last answer: ";

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
    session.out.heading(&summary(&explained))?;
    if session.out.is_human_readable() {
        // Every explanation begins with this step, which has no information for a reader.
        explained.steps.retain(|step| step.what != StepKind::Accepted);
    }
    session.out.show(&explained, &view::EXPLANATION)
}

/// The outcome and its cause, in one line that is printed before the steps.
fn summary(explained: &Explanation) -> String {
    use StepKind as Kind;
    let (mark, outcome, causes): (_, _, &[Kind]) = match explained.outcome {
        ExplainedOutcome::Sent => ('✓', "sent", &[Kind::Sent]),
        ExplainedOutcome::Reported => ('✓', "reported", &[Kind::Reported]),
        ExplainedOutcome::Pending => (
            '!',
            "pending",
            &[
                Kind::CredentialsRefused,
                Kind::Paused,
                Kind::ProviderNotConfigured,
                Kind::NextAttempt,
                Kind::Waiting,
                Kind::Scheduled,
            ],
        ),
        ExplainedOutcome::Failed => ('✗', "failed", &[Kind::ProviderNotConfigured, Kind::Failed]),
        ExplainedOutcome::Unregistered => ('✗', "unregistered", &[Kind::Unregistered]),
        ExplainedOutcome::Expired => ('✗', "expired", &[Kind::CredentialsRefused, Kind::Expired]),
        ExplainedOutcome::Canceled => ('✗', "canceled", &[Kind::Canceled, Kind::CancelRequested]),
        ExplainedOutcome::NotTargeted => (
            '✗',
            "not sent",
            &[
                Kind::RegisteredLater,
                Kind::NotTargeted,
                Kind::LacksTag,
                Kind::Disabled,
                Kind::AddressDead,
                Kind::NoAddress,
                Kind::AddressMoved,
                Kind::PassedOver,
            ],
        ),
    };
    let cause =
        causes.iter().find_map(|kind| explained.steps.iter().find(|step| step.what == *kind));
    let device = &explained.device_id;
    match cause {
        // The detail often begins with the outcome, which the line already has.
        Some(step) => {
            let detail = step.detail.strip_prefix(outcome).unwrap_or(&step.detail);
            let detail = detail.trim_start_matches([':', ' ']);
            let answer = last_response(explained).filter(|_| step.what == Kind::NextAttempt);
            let answer = answer.map_or_else(String::new, |answer| format!("{answer}; "));
            format!("{mark} {device} {outcome}: {answer}{detail}")
        }
        None => format!("{mark} {device} {outcome}"),
    }
}

/// The last response of the provider, which is in the step about the attempts.
pub(super) fn last_response(explained: &Explanation) -> Option<&str> {
    let attempted = explained.steps.iter().rev().find(|step| step.what == StepKind::Attempted)?;
    attempted.detail.find(LAST_RESPONSE_PREFIX).map(|at| &attempted.detail[at..])
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

#[cfg(test)]
mod tests {
    use notify_client::notify_core::ExplainedStep;

    use super::*;

    fn explained(outcome: ExplainedOutcome, steps: &[(StepKind, &str)]) -> Explanation {
        let step = |(what, detail): &(StepKind, &str)| ExplainedStep {
            at: None,
            what: *what,
            detail: (*detail).to_owned(),
        };
        Explanation {
            device_id: DeviceId::new("d".to_owned()).unwrap(),
            outcome,
            steps: steps.iter().map(step).collect(),
        }
    }

    #[test]
    fn the_summary_contains_the_cause() {
        use ExplainedOutcome as Outcome;
        use StepKind as Kind;
        for (outcome, steps, text) in [
            (
                Outcome::NotTargeted,
                &[
                    (Kind::Accepted, "accepted"),
                    (Kind::Targeted, "it names the device"),
                    (Kind::Disabled, "push is turned off by its user now"),
                    (Kind::NoAddress, "has no address now"),
                    (Kind::PassedOver, "it was not a device to send to then"),
                ][..],
                "✗ d not sent: push is turned off by its user now",
            ),
            (
                Outcome::NotTargeted,
                &[(Kind::NotTargeted, "it goes to ios; the device is on android")],
                "✗ d not sent: it goes to ios; the device is on android",
            ),
            (
                Outcome::Pending,
                &[
                    (Kind::CredentialsRefused, "fcm refuses the server's credentials"),
                    (Kind::NextAttempt, "the next attempt is due"),
                ],
                "! d pending: fcm refuses the server's credentials",
            ),
            (
                Outcome::Failed,
                &[(Kind::Attempted, "1 attempt"), (Kind::Failed, "failed: http_400")],
                "✗ d failed: http_400",
            ),
            (
                Outcome::Sent,
                &[(Kind::Sent, "the provider took it")],
                "✓ d sent: the provider took it",
            ),
            (
                Outcome::Canceled,
                &[(Kind::CancelRequested, "canceled by request")],
                "✗ d canceled: by request",
            ),
            (Outcome::Canceled, &[], "✗ d canceled"),
        ] {
            assert_eq!(summary(&explained(outcome, steps)), text);
        }
    }

    #[test]
    fn the_summary_contains_the_last_response_before_the_next_attempt() {
        use ExplainedOutcome as Outcome;
        use StepKind as Kind;
        for (outcome, steps, text) in [
            (
                Outcome::Pending,
                &[
                    (Kind::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Kind::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ][..],
                "! d pending: the last answer: connect_failed; due at 2026-01-02T03:04:05Z",
            ),
            (
                Outcome::Pending,
                &[
                    (Kind::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Kind::Paused, "https://push.example cannot be reached"),
                    (Kind::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ],
                "! d pending: https://push.example cannot be reached",
            ),
        ] {
            assert_eq!(summary(&explained(outcome, steps)), text);
        }
    }
}

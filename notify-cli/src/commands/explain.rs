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

/// The prefix of the last response of a provider, in the detail of a step.
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
        // Every explanation begins with this step, which adds nothing for a reader.
        explained.steps.retain(|step| step.what != StepKind::Accepted);
    }
    session.out.show(&explained, &view::EXPLANATION)
}

/// The outcome and its cause, printed before the steps.
fn summary(explained: &Explanation) -> String {
    use StepKind as Word;
    let (mark, outcome, causes): (_, _, &[Word]) = match explained.outcome {
        ExplainedOutcome::Sent => ('✓', "sent", &[Word::Sent]),
        ExplainedOutcome::Reported => ('✓', "reported", &[Word::Reported]),
        ExplainedOutcome::Pending => (
            '!',
            "pending",
            &[
                Word::CredentialsRefused,
                Word::Paused,
                Word::ProviderNotConfigured,
                Word::NextAttempt,
                Word::Waiting,
                Word::Scheduled,
            ],
        ),
        ExplainedOutcome::Failed => ('✗', "failed", &[Word::ProviderNotConfigured, Word::Failed]),
        ExplainedOutcome::Unregistered => ('✗', "unregistered", &[Word::Unregistered]),
        ExplainedOutcome::Expired => ('✗', "expired", &[Word::CredentialsRefused, Word::Expired]),
        ExplainedOutcome::Canceled => ('✗', "canceled", &[Word::Canceled, Word::CancelRequested]),
        ExplainedOutcome::NotTargeted => (
            '✗',
            "not sent",
            &[
                Word::RegisteredLater,
                Word::NotTargeted,
                Word::LacksTag,
                Word::Disabled,
                Word::AddressDead,
                Word::NoAddress,
                Word::AddressMoved,
                Word::PassedOver,
            ],
        ),
    };
    let cause =
        causes.iter().find_map(|word| explained.steps.iter().find(|step| step.what == *word));
    let device = &explained.device_id;
    match cause {
        // The outcome is not repeated.
        Some(step) => {
            let detail = step.detail.strip_prefix(outcome).unwrap_or(&step.detail);
            let detail = detail.trim_start_matches([':', ' ']);
            let answer = last_response(explained).filter(|_| step.what == Word::NextAttempt);
            let answer = answer.map_or_else(String::new, |answer| format!("{answer}; "));
            format!("{mark} {device} {outcome}: {answer}{detail}")
        }
        None => format!("{mark} {device} {outcome}"),
    }
}

/// The last response of the provider, from the step of the attempts.
pub(super) fn last_response(explained: &Explanation) -> Option<&str> {
    let attempted = explained.steps.iter().rev().find(|step| step.what == StepKind::Attempted)?;
    attempted.detail.find(LAST_RESPONSE_PREFIX).map(|at| &attempted.detail[at..])
}

/// Which of the two ids is unknown; the response does not say.
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
        use StepKind as Word;
        for (outcome, steps, text) in [
            (
                Outcome::NotTargeted,
                &[
                    (Word::Accepted, "accepted"),
                    (Word::Targeted, "it names the device"),
                    (Word::Disabled, "push is turned off by its user now"),
                    (Word::NoAddress, "has no address now"),
                    (Word::PassedOver, "it was not a device to send to then"),
                ][..],
                "✗ d not sent: push is turned off by its user now",
            ),
            (
                Outcome::NotTargeted,
                &[(Word::NotTargeted, "it goes to ios; the device is on android")],
                "✗ d not sent: it goes to ios; the device is on android",
            ),
            (
                Outcome::Pending,
                &[
                    (Word::CredentialsRefused, "fcm refuses the server's credentials"),
                    (Word::NextAttempt, "the next attempt is due"),
                ],
                "! d pending: fcm refuses the server's credentials",
            ),
            (
                Outcome::Failed,
                &[(Word::Attempted, "1 attempt"), (Word::Failed, "failed: http_400")],
                "✗ d failed: http_400",
            ),
            (
                Outcome::Sent,
                &[(Word::Sent, "the provider took it")],
                "✓ d sent: the provider took it",
            ),
            (
                Outcome::Canceled,
                &[(Word::CancelRequested, "canceled by request")],
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
        use StepKind as Word;
        for (outcome, steps, text) in [
            (
                Outcome::Pending,
                &[
                    (Word::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Word::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ][..],
                "! d pending: the last answer: connect_failed; due at 2026-01-02T03:04:05Z",
            ),
            (
                Outcome::Pending,
                &[
                    (Word::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Word::Paused, "https://push.example cannot be reached"),
                    (Word::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ],
                "! d pending: https://push.example cannot be reached",
            ),
        ] {
            assert_eq!(summary(&explained(outcome, steps)), text);
        }
    }
}

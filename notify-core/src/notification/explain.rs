//! Why a device did or did not receive a notification.

use serde::{Deserialize, Serialize};

use crate::wire_enum::wire_enum;
use crate::{DeviceId, Timestamp};

/// The text before the last response of a provider, in the detail of a step.
const LAST_RESPONSE_PREFIX: &str = "the last answer: ";

wire_enum! {
    /// Outcome of a notification for one device.
    pub enum ExplainedOutcome {
        /// The provider accepted the notification.
        Sent = "sent",
        /// The delivery failed for good, with a reason.
        Failed = "failed",
        /// The provider reported the address as unregistered.
        Unregistered = "unregistered",
        /// `ttl_seconds` elapsed before the provider accepted it.
        Expired = "expired",
        /// Canceled by request before it was sent.
        Canceled = "canceled",
        /// No outcome yet.
        Pending = "pending",
        /// The device is not in the audience.
        NotTargeted = "not_targeted",
        /// The caller delivers it by other means.
        Reported = "reported",
    }
}

wire_enum! {
    /// Kind of a step of an explanation. The list is complete.
    pub enum StepKind {
        /// The notification was accepted.
        Accepted = "accepted",
        /// The notification was reported: the caller delivers it by other means.
        Reported = "reported",
        /// The notification is not due yet, or sending has not started.
        Scheduled = "scheduled",
        /// The notification was canceled by request.
        CancelRequested = "cancel_requested",
        /// The notification became due, and the server chose the recipients.
        Started = "started",
        /// The device registered after the server had chosen the recipients.
        RegisteredLater = "registered_later",
        /// The target includes the device.
        Targeted = "targeted",
        /// The target does not include the device.
        NotTargeted = "not_targeted",
        /// The device has the tag of the audience.
        HasTag = "has_tag",
        /// The device does not have the tag of the audience set to true.
        LacksTag = "lacks_tag",
        /// The device does not meet the condition of the audience. The detail shows the first condition
        /// that is not met.
        FailsAudience = "fails_audience",
        /// The device is no longer logged in as the user that the notification names.
        UserChanged = "user_changed",
        /// The device is enabled.
        Enabled = "enabled",
        /// The user disabled push notifications.
        Disabled = "disabled",
        /// The provider reported the address as unregistered.
        AddressDead = "address_dead",
        /// The device has an address.
        HasAddress = "has_address",
        /// The device has no address.
        NoAddress = "no_address",
        /// The address cannot be a push token of its provider; the detail says what it looks like.
        AddressUnusable = "address_unusable",
        /// Whether the device is in the canary, or waits until the canary is judged.
        Canary = "canary",
        /// Which texts of a translated notification the device gets.
        Language = "language",
        /// The address belonged to another device during sending, which may have received it.
        AddressMoved = "address_moved",
        /// The device could not receive notifications when the server reached it. Its state may have changed
        /// since then.
        PassedOver = "passed_over",
        /// The platform's provider is not configured.
        ProviderNotConfigured = "provider_not_configured",
        /// The provider rejects the server's credentials; all deliveries through it wait.
        CredentialsRefused = "credentials_refused",
        /// The notification is paused; or all deliveries through the provider wait: it throttles, or is
        /// unavailable.
        Paused = "paused",
        /// The server has not reached the device yet.
        Waiting = "waiting",
        /// Delivery was attempted; the detail has the provider's last answer.
        Attempted = "attempted",
        /// Another attempt follows; the detail has the time at which it is due.
        NextAttempt = "next_attempt",
        /// The provider accepted the notification.
        Sent = "sent",
        /// The delivery failed for good, with a reason.
        Failed = "failed",
        /// The provider answered that the address is unregistered.
        Unregistered = "unregistered",
        /// `ttl_seconds` elapsed.
        Expired = "expired",
        /// It was canceled before it was sent.
        Canceled = "canceled",
    }
}

/// One step of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplainedStep {
    /// When it happened, unix ms. Null for a state that the server knows only as of now, and not as of
    /// the time of sending.
    pub at: Option<Timestamp>,
    /// Kind of the step.
    pub what: StepKind,
    /// The step as a sentence, with names and numbers.
    pub detail: String,
}

/// Answer of `GET /v1/notifications/:id/explain/:device_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Outcome.
    pub outcome: ExplainedOutcome,
    /// Steps that led to the outcome, in order.
    pub steps: Vec<ExplainedStep>,
}

impl ExplainedStep {
    /// The detail, unless it only repeats the kind of the step.
    #[must_use]
    pub fn further_detail(&self) -> Option<&str> {
        (self.detail != self.what.as_str()).then_some(&self.detail)
    }
}

/// The outcome of an explanation and its cause, for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedSummary {
    /// `✓` if the device got the notification, `!` if it may still get it, `✗` if not.
    pub mark: char,
    /// The outcome in words, such as `not sent`.
    pub outcome: &'static str,
    /// The kind of the step that led to the outcome.
    pub step: Option<StepKind>,
    /// The detail of this step, without the words of `outcome`.
    pub cause: Option<String>,
}

impl Explanation {
    /// The outcome and the step that led to it.
    #[must_use]
    pub fn summary(&self) -> ExplainedSummary {
        if let Some(summary) = self.summary_before_start() {
            return summary;
        }
        let (mark, outcome, causes) = causes_of(self.outcome);
        let step = self.first_of(causes);
        let cause = step.map(|step| {
            // The detail often begins with the outcome, which the summary already has.
            let detail = step.detail.strip_prefix(outcome).unwrap_or(&step.detail);
            let detail = detail.trim_start_matches([':', ' ']);
            let answer = self.last_response().filter(|_| step.what == StepKind::NextAttempt);
            let answer = answer.map_or_else(String::new, |answer| format!("{answer}; "));
            format!("{answer}{detail}")
        });
        ExplainedSummary { mark, outcome, step: step.map(|step| step.what), cause }
    }

    /// The summary of a notification that is not due yet and would leave the device out, as the device is now: it
    /// says when the notification is due before it says what has to change until then.
    fn summary_before_start(&self) -> Option<ExplainedSummary> {
        if self.outcome != ExplainedOutcome::NotTargeted
            || self.first_of(&[StepKind::Started, StepKind::CancelRequested]).is_some()
        {
            return None;
        }
        let scheduled = self.first_of(&[StepKind::Scheduled])?;
        let (_, _, causes) = causes_of(self.outcome);
        let obstacle = self.first_of(causes).map(|step| format!("; the device {}", step.detail));
        Some(ExplainedSummary {
            mark: '!',
            outcome: "not sent yet",
            step: Some(StepKind::Scheduled),
            cause: Some(format!("{}{}", scheduled.detail, obstacle.unwrap_or_default())),
        })
    }

    /// The step of the first of these kinds that the explanation has.
    fn first_of(&self, kinds: &[StepKind]) -> Option<&ExplainedStep> {
        kinds.iter().find_map(|kind| self.steps.iter().find(|step| step.what == *kind))
    }

    /// The last response of the provider, which is in the step about the attempts.
    #[must_use]
    pub fn last_response(&self) -> Option<&str> {
        let attempted = self.steps.iter().rev().find(|step| step.what == StepKind::Attempted)?;
        attempted.detail.find(LAST_RESPONSE_PREFIX).map(|at| &attempted.detail[at..])
    }
}

/// The mark and the words of an outcome, and the steps that can be its cause, the most likely first.
fn causes_of(outcome: ExplainedOutcome) -> (char, &'static str, &'static [StepKind]) {
    use StepKind as Kind;
    match outcome {
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
                Kind::Canary,
                Kind::Scheduled,
            ],
        ),
        ExplainedOutcome::Failed => {
            let causes = &[
                Kind::ProviderNotConfigured,
                Kind::UserChanged,
                Kind::FailsAudience,
                Kind::Failed,
            ];
            ('✗', "failed", causes)
        }
        ExplainedOutcome::Unregistered => ('✗', "unregistered", &[Kind::Unregistered]),
        ExplainedOutcome::Expired => ('✗', "expired", &[Kind::CredentialsRefused, Kind::Expired]),
        ExplainedOutcome::Canceled => ('✗', "canceled", &[Kind::Canceled, Kind::CancelRequested]),
        ExplainedOutcome::NotTargeted => (
            '✗',
            "not sent",
            &[
                Kind::CancelRequested,
                Kind::RegisteredLater,
                Kind::NotTargeted,
                Kind::LacksTag,
                Kind::FailsAudience,
                Kind::UserChanged,
                Kind::Disabled,
                Kind::AddressDead,
                Kind::NoAddress,
                Kind::AddressMoved,
                Kind::PassedOver,
            ],
        ),
    }
}

#[cfg(test)]
mod tests {
    use ExplainedOutcome as Outcome;
    use StepKind as Kind;

    use super::*;

    fn explained(outcome: Outcome, steps: &[(Kind, &str)]) -> Explanation {
        let step = |(what, detail): &(Kind, &str)| ExplainedStep {
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

    fn text_of(explained: &Explanation) -> String {
        let ExplainedSummary { mark, outcome, cause, .. } = explained.summary();
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        format!("{mark} {outcome}{cause}")
    }

    /// An outcome, the steps, and the text of the summary.
    type Case<'a> = (Outcome, &'a [(Kind, &'a str)], &'a str);

    fn check(cases: &[Case<'_>]) {
        for (outcome, steps, text) in cases {
            assert_eq!(text_of(&explained(*outcome, steps)), *text);
        }
    }

    #[test]
    fn the_summary_of_what_was_not_sent_contains_the_cause() {
        check(&[
            (
                Outcome::NotTargeted,
                &[
                    (Kind::Accepted, "accepted"),
                    (Kind::Targeted, "it names the device"),
                    (Kind::Disabled, "push is turned off by its user now"),
                    (Kind::NoAddress, "has no address now"),
                    (Kind::PassedOver, "it was not a device to send to then"),
                ],
                "✗ not sent: push is turned off by its user now",
            ),
            (
                Outcome::NotTargeted,
                &[(Kind::NotTargeted, "it goes to ios; the device is on android")],
                "✗ not sent: it goes to ios; the device is on android",
            ),
            (
                Outcome::NotTargeted,
                &[
                    (Kind::Targeted, "it names a user of the device"),
                    (Kind::FailsAudience, "does not meet: seats >= 3"),
                    (Kind::Enabled, "enabled now"),
                ],
                "✗ not sent: does not meet: seats >= 3",
            ),
            (
                Outcome::NotTargeted,
                &[
                    (Kind::NoAddress, "has no address now"),
                    (Kind::CancelRequested, "canceled by request"),
                ],
                "✗ not sent: canceled by request",
            ),
            (
                Outcome::NotTargeted,
                &[
                    (Kind::Scheduled, "due at 2026-01-02T03:04:05Z"),
                    (Kind::NoAddress, "has no address now"),
                ],
                "! not sent yet: due at 2026-01-02T03:04:05Z; the device has no address now",
            ),
            (
                Outcome::NotTargeted,
                &[
                    (Kind::Started, "became due"),
                    (Kind::Scheduled, "the device's turn comes at 2026-01-02T03:04:05Z"),
                    (Kind::NoAddress, "has no address now"),
                ],
                "✗ not sent: has no address now",
            ),
        ]);
    }

    #[test]
    fn the_summary_contains_the_cause() {
        check(&[
            (
                Outcome::Pending,
                &[
                    (Kind::CredentialsRefused, "fcm refuses the server's credentials"),
                    (Kind::NextAttempt, "the next attempt is due"),
                ],
                "! pending: fcm refuses the server's credentials",
            ),
            (
                Outcome::Failed,
                &[(Kind::Attempted, "1 attempt"), (Kind::Failed, "failed: http_400")],
                "✗ failed: http_400",
            ),
            (
                Outcome::Sent,
                &[(Kind::Sent, "the provider accepted it")],
                "✓ sent: the provider accepted it",
            ),
            (
                Outcome::Canceled,
                &[(Kind::CancelRequested, "canceled by request")],
                "✗ canceled: by request",
            ),
            (Outcome::Canceled, &[], "✗ canceled"),
        ]);
    }

    #[test]
    fn the_summary_contains_the_last_response_before_the_next_attempt() {
        check(&[
            (
                Outcome::Pending,
                &[
                    (Kind::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Kind::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ],
                "! pending: the last answer: connect_failed; due at 2026-01-02T03:04:05Z",
            ),
            (
                Outcome::Pending,
                &[
                    (Kind::Attempted, "2 attempts, the last answer: connect_failed"),
                    (Kind::Paused, "https://push.example cannot be reached"),
                    (Kind::NextAttempt, "due at 2026-01-02T03:04:05Z"),
                ],
                "! pending: https://push.example cannot be reached",
            ),
        ]);
    }
}

//! What became of attempts, and how a delivery ended.

use notify_core::{ExplainedOutcome, StepWord, Timestamp};

use super::Telling;
use crate::channel::ChannelState;
use crate::reasons;
use crate::store::{Progress, Settled};

/// Reasons that are the server's own: no provider said them.
const OWN_REASONS: [&str; 5] = [
    reasons::PROVIDER_NOT_CONFIGURED,
    reasons::CREDENTIALS_REFUSED,
    reasons::OVERTAKEN,
    reasons::EXPIRED,
    reasons::CANCELED,
];

impl Telling<'_> {
    pub(super) fn tell_retrying(&mut self) -> ExplainedOutcome {
        let Progress::Retrying { attempts, first_attempt_at, reason, due_at } =
            &self.facts.progress
        else {
            return ExplainedOutcome::Pending;
        };
        self.tell_attempts(*attempts, Some(*first_attempt_at), reason.as_deref());
        let is_disabled = self.tell_disabled();
        if !self.facts.device.has_address {
            self.tell_no_address();
        }
        self.tell_channel();
        let (at, mut detail) = self.next_attempt(*due_at);
        if is_disabled || !self.facts.device.has_address {
            detail.push_str("; it ends then, unless the device has changed");
        }
        self.add(at, StepWord::NextAttempt, detail);
        ExplainedOutcome::Pending
    }

    pub(super) fn tell_settled(&mut self) -> ExplainedOutcome {
        let Progress::Settled { settled, reason, attempts, first_attempt_at, at } =
            &self.facts.progress
        else {
            return ExplainedOutcome::Pending;
        };
        let (at, attempts, reason) = (*at, *attempts, reason.as_deref());
        self.tell_attempts(attempts, first_attempt_at.or(Some(at)), reason);
        let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        match settled {
            Settled::Sent => {
                self.add(Some(at), StepWord::Sent, "the provider took it");
                ExplainedOutcome::Sent
            }
            Settled::Failed => {
                if reason == Some(reasons::PROVIDER_NOT_CONFIGURED) {
                    let detail = "the platform's provider was not configured";
                    self.add(Some(at), StepWord::ProviderNotConfigured, detail);
                }
                let hint = match reason {
                    Some("address_not_allowed") => {
                        " (the server runs without --allow-private-networks)"
                    }
                    Some(_) | None => "",
                };
                self.add(Some(at), StepWord::Failed, format!("failed{because}{hint}"));
                ExplainedOutcome::Failed
            }
            Settled::Unregistered => {
                let detail = format!("the provider reported the address as dead{because}");
                self.add(Some(at), StepWord::Unregistered, detail);
                self.tell_dead();
                self.tell_enabled_again();
                ExplainedOutcome::Unregistered
            }
            Settled::Expired => {
                self.tell_expired(at, attempts, reason);
                ExplainedOutcome::Expired
            }
            Settled::Canceled => {
                self.tell_cancel_request();
                let detail = if attempts == 0 {
                    "canceled before it was sent"
                } else {
                    "canceled before it was tried again"
                };
                self.add(Some(at), StepWord::Canceled, detail);
                ExplainedOutcome::Canceled
            }
        }
    }

    fn tell_expired(&mut self, at: Timestamp, attempts: u16, reason: Option<&str>) {
        let detail = match reason {
            Some(reasons::CREDENTIALS_REFUSED) => {
                let refused = "the provider refused the server's credentials";
                self.add(Some(at), StepWord::CredentialsRefused, refused);
                "ttl_seconds is 0: its only attempt could not wait for valid credentials".into()
            }
            Some(reasons::OVERTAKEN) => {
                "a newer notification with the same collapse_key was sent to the device".into()
            }
            Some(reasons::EXPIRED) | None => {
                if attempts == 0 {
                    // What holds everything back now may be what did then: nothing else is kept.
                    self.tell_channel();
                    "it expired (ttl_seconds) before it could be sent".into()
                } else {
                    "it expired (ttl_seconds) before the next attempt".into()
                }
            }
            Some(reason) => format!("it expired (ttl_seconds): {reason}"),
        };
        self.add(Some(at), StepWord::Expired, detail);
    }

    /// A device that was disabled for this, and is enabled now.
    fn tell_enabled_again(&mut self) {
        let device = &self.facts.device;
        if device.dead.is_some() || device.push_disabled {
            return;
        }
        let detail = if self.channel.state == ChannelState::Stopped {
            "is enabled again: so many addresses looked dead at once that the server doubts it"
        } else {
            "is enabled again now: it registered anew, or the server doubted that so many \
             addresses were dead at once"
        };
        self.add(None, StepWord::Enabled, detail);
    }

    fn tell_attempts(&mut self, attempts: u16, first: Option<Timestamp>, reason: Option<&str>) {
        if attempts == 0 {
            return;
        }
        let plural = if attempts == 1 { "" } else { "s" };
        let said = reason
            .filter(|reason| !OWN_REASONS.contains(reason))
            .map_or_else(String::new, |said| format!(", the last answer: {said}"));
        self.add(first, StepWord::Attempted, format!("{attempts} attempt{plural}{said}"));
    }

    pub(super) fn tell_cancel_request(&mut self) -> bool {
        let requested_at = self.facts.notification.cancel_requested_at;
        if let Some(at) = requested_at {
            self.add(Some(at), StepWord::CancelRequested, "canceled by request");
        }
        requested_at.is_some()
    }
}

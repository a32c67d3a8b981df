//! Builds an explanation from stored facts, as a pure function. A step has a time if the facts
//! prove it for that time. Steps without a time describe the current state.

#[cfg(test)]
mod tests;

use notify_core::{
    ExplainedOutcome, ExplainedStep, NotificationStatus, Pause, Platform, ProviderStatus, StepKind,
    Timestamp, find_language, offset_of_zone_at_local_time,
};

use crate::reasons;
use crate::store::{CanaryFacts, DeliveryFacts, DeliveryProgress, DeviceFacts, Outcome};

/// The current status of the provider of the device's platform.
pub(super) struct Channel {
    pub(super) is_configured: bool,
    pub(super) status: ProviderStatus,
    /// The push service that has this status; `None` means the provider as a whole.
    pub(super) service: Option<String>,
}

/// Returns the outcome and its steps in order. `named_under` is the platform under which the request lists
/// the device's id, if that is not the device's own platform.
pub(super) fn explain(
    facts: &DeliveryFacts,
    channel: &Channel,
    named_under: Option<Platform>,
) -> (ExplainedOutcome, Vec<ExplainedStep>) {
    let mut builder = ExplanationBuilder { facts, channel, named_under, steps: Vec::new() };
    let outcome = builder.build();
    (outcome, builder.steps)
}

struct ExplanationBuilder<'a> {
    facts: &'a DeliveryFacts,
    channel: &'a Channel,
    named_under: Option<Platform>,
    steps: Vec<ExplainedStep>,
}

impl ExplanationBuilder<'_> {
    fn build(&mut self) -> ExplainedOutcome {
        let notification = &self.facts.notification;
        if notification.status == NotificationStatus::Reported {
            let detail = "reported: the caller delivers it by other means, nothing is sent here";
            self.add(Some(notification.created_at), StepKind::Reported, detail);
            return ExplainedOutcome::Reported;
        }
        self.add(Some(notification.created_at), StepKind::Accepted, "accepted");
        self.add_schedule();
        let proven_at = self.proven_at();
        if !self.add_target(proven_at) {
            return ExplainedOutcome::NotTargeted;
        }
        let is_eligible = match proven_at {
            Some(at) => self.add_proven_state(at),
            None => self.add_current_state(),
        };
        self.add_canary();
        self.add_language();
        match &self.facts.progress {
            DeliveryProgress::None => self.add_not_started(is_eligible),
            DeliveryProgress::RegisteredLater => ExplainedOutcome::NotTargeted,
            DeliveryProgress::NotReached | DeliveryProgress::InOpenPage => {
                self.add_waiting(is_eligible)
            }
            DeliveryProgress::Skipped => {
                self.add(None, StepKind::PassedOver, self.skip_reasons());
                self.add_moved_address();
                ExplainedOutcome::NotTargeted
            }
            DeliveryProgress::Retrying { .. } => self.add_retrying(),
            DeliveryProgress::Settled { .. } => self.add_settled(),
        }
    }

    fn add(&mut self, at: Option<Timestamp>, what: StepKind, detail: impl Into<String>) {
        self.steps.push(ExplainedStep { at, what, detail: detail.into() });
    }

    /// Why the device may have been skipped: only what this notification requires.
    fn skip_reasons(&self) -> String {
        let notification = &self.facts.notification;
        let target = [
            (notification.tag.is_some(), "lacked the tag, "),
            (notification.has_condition, "did not meet the condition of the audience, "),
            (notification.names_users, "had another user, "),
        ];
        let target =
            target.into_iter().filter_map(|(is_required, reason)| is_required.then_some(reason));
        let target: String = target.collect();
        format!(
            "it was skipped at sending time: it {target}was disabled or had no address. That may have \
             changed since"
        )
    }

    fn add_schedule(&mut self) {
        match self.facts.notification.started_at {
            Some(at) => self.add_start(at),
            None => self.add_wait_for_start(),
        }
    }

    /// When the notification became due.
    fn add_start(&mut self, at: Timestamp) {
        let is_zone_by_zone = self.facts.notification.local_time.is_some();
        let detail = if is_zone_by_zone {
            "its first zone became due; in each zone, it goes to devices registered before that \
             zone's time"
        } else {
            "became due; it goes to devices registered before this time"
        };
        self.add(Some(at), StepKind::Started, detail);
        self.add_local_time();
    }

    /// Why a notification has not started: it is not due yet, or others are ahead of it.
    fn add_wait_for_start(&mut self) {
        let notification = &self.facts.notification;
        match notification.status {
            NotificationStatus::Canceled => {}
            NotificationStatus::Queued => {
                let detail = "due; it waits for its turn to start";
                self.add(notification.due_at, StepKind::Scheduled, detail);
            }
            NotificationStatus::Scheduled
            | NotificationStatus::Sending
            | NotificationStatus::Completed
            | NotificationStatus::Reported => {
                if let Some(due_at) = notification.due_at {
                    let detail =
                        format!("due at {}; the server chooses the recipients then", time(due_at));
                    self.add(Some(due_at), StepKind::Scheduled, detail);
                }
                self.add_local_time();
            }
        }
    }

    /// The device's own time, with `send_at_local`.
    fn add_local_time(&mut self) {
        let notification = &self.facts.notification;
        let is_turn_ahead =
            matches!(self.facts.progress, DeliveryProgress::None | DeliveryProgress::NotReached);
        let Some(local_time) = notification.local_time.filter(|_| is_turn_ahead) else { return };
        if notification.cancel_requested_at.is_some() {
            return;
        }
        let device = &self.facts.device;
        let then = device
            .timezone
            .as_deref()
            .and_then(|zone| offset_of_zone_at_local_time(zone, local_time));
        let when = if then.is_some() { "then" } else { "now" };
        let minutes = then.unwrap_or(device.utc_offset_minutes);
        // A time that had already passed means that the turn came at once.
        let turn_at = local_time.plus_ms(-i64::from(minutes) * 60_000).max(notification.created_at);
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        let detail = format!(
            "the device's turn comes at {}, by its offset from UTC {when} ({sign}{hours:02}:\
             {minutes:02})",
            time(turn_at)
        );
        self.add(Some(turn_at), StepKind::Scheduled, detail);
    }

    /// The time at which the device is known to have been eligible: the first attempt, or the
    /// outcome of a delivery without attempts. `None` if there is no proof.
    fn proven_at(&self) -> Option<Timestamp> {
        match self.facts.progress {
            DeliveryProgress::Retrying { first_attempt_at, .. } => Some(first_attempt_at),
            DeliveryProgress::Settled { first_attempt_at, at, .. } => {
                Some(first_attempt_at.unwrap_or(at))
            }
            DeliveryProgress::None
            | DeliveryProgress::RegisteredLater
            | DeliveryProgress::NotReached
            | DeliveryProgress::InOpenPage
            | DeliveryProgress::Skipped => None,
        }
    }

    /// Adds whether the target contains the device and whether the device had registered in time.
    /// Returns whether both are true.
    fn add_target(&mut self, proven_at: Option<Timestamp>) -> bool {
        let (notification, device) = (&self.facts.notification, &self.facts.device);
        let platform = device.platform;
        let is_targeted = if notification.names_devices {
            device.is_named
        } else {
            notification.platforms.contains(&platform)
        };
        // The server chooses the recipients at the start.
        let fixed_at = match self.facts.progress {
            DeliveryProgress::None => {
                notification.started_at.filter(|_| notification.names_devices)
            }
            DeliveryProgress::RegisteredLater => None,
            DeliveryProgress::NotReached
            | DeliveryProgress::InOpenPage
            | DeliveryProgress::Skipped
            | DeliveryProgress::Retrying { .. }
            | DeliveryProgress::Settled { .. } => notification.started_at,
        };
        if !is_targeted && proven_at.is_none() {
            let detail = if let Some(other) = self.named_under {
                format!(
                    "the notification names this device under {other}, but its platform is {platform}"
                )
            } else if notification.names_users && device.is_logged_in {
                "it names users, and the device belonged to none of them".to_owned()
            } else if notification.names_users {
                "it names users, and the device belonged to none of them; no user is logged in on it now"
                    .to_owned()
            } else if notification.names_devices {
                format!("it names devices, and this one is not among those on {platform}")
            } else {
                let platforms: Vec<&str> =
                    notification.platforms.iter().map(|platform| platform.as_str()).collect();
                format!("it goes to {}; the device is on {platform}", platforms.join(", "))
            };
            self.add(fixed_at, StepKind::NotTargeted, detail);
            return false;
        }
        let detail = if notification.names_users {
            "it names the user of the device".to_owned()
        } else if notification.names_devices && proven_at.is_none() {
            "the notification names this device. The next lines say whether it can receive"
                .to_owned()
        } else if notification.names_devices {
            "it names the device".to_owned()
        } else {
            format!("it goes to {platform}, the platform of the device")
        };
        self.add(fixed_at, StepKind::Targeted, detail);
        if self.facts.progress == DeliveryProgress::RegisteredLater {
            // A device that changed its platform keeps the time of its first registration.
            let registered_at = notification
                .started_at
                .and_then(|at| (device.created_at > at).then_some(device.created_at));
            let detail = "the device registered or changed its platform after the server had chosen the \
                recipients";
            self.add(registered_at, StepKind::RegisteredLater, detail);
            return false;
        }
        true
    }

    /// Adds what an attempt or outcome at `at` proves: the device was eligible. Returns true.
    fn add_proven_state(&mut self, at: Timestamp) -> bool {
        if let Some(tag) = &self.facts.notification.tag {
            self.add(Some(at), StepKind::HasTag, format!("had the tag `{tag}` when its turn came"));
        }
        self.add(Some(at), StepKind::Enabled, "was enabled when its turn came");
        self.add(Some(at), StepKind::HasAddress, "had an address when its turn came");
        self.add_token_problem();
        true
    }

    /// Adds the current state of the device. Returns whether the device is eligible.
    fn add_current_state(&mut self) -> bool {
        let device = &self.facts.device;
        let mut is_eligible = device.has_address && !device.push_disabled && device.dead.is_none();
        if let Some(tag) = &self.facts.notification.tag {
            if device.has_tag {
                self.add(None, StepKind::HasTag, format!("has the tag `{tag}` now"));
            } else {
                is_eligible = false;
                let detail = format!("does not have the tag `{tag}` set to true now");
                self.add(None, StepKind::LacksTag, detail);
            }
        }
        is_eligible &= !self.add_mismatches();
        if !self.add_disabled() {
            self.add(None, StepKind::Enabled, "is enabled now");
        }
        if device.has_address {
            self.add(None, StepKind::HasAddress, "has an address now");
            self.add_token_problem();
        } else {
            self.add_no_address();
        }
        is_eligible
    }

    /// Adds why the device does not belong to the audience now: its user changed, or it does not meet the
    /// condition. Returns whether there is such a reason.
    fn add_mismatches(&mut self) -> bool {
        let DeviceFacts { user_changed, unmet, .. } = &self.facts.device;
        if *user_changed {
            let detail = "is no longer logged in as the user that the notification names";
            self.add(None, StepKind::UserChanged, detail);
        }
        if let Some(unmet) = unmet {
            let detail = format!("does not meet `{unmet}` now");
            self.add(None, StepKind::FailsAudience, detail);
        }
        *user_changed || unmet.is_some()
    }

    /// Adds that the device is in the canary.
    fn add_canary(&mut self) {
        if self.facts.canary.as_ref().is_some_and(|canary| canary.has_device) {
            let detail = "is in the canary, which gets the notification first";
            self.add(None, StepKind::Canary, detail);
        }
    }

    /// Adds which texts the device gets, if the notification has translations.
    fn add_language(&mut self) {
        let (notification, device) = (&self.facts.notification, &self.facts.device);
        if notification.languages.is_empty() {
            return;
        }
        let detail = match &device.language {
            None => "gets the notification's own texts: it has no language now".to_owned(),
            Some(language) => match find_language(&notification.languages, language) {
                Some(found) => {
                    let found = &notification.languages[found];
                    format!("gets the texts of `{found}`: its language is `{language}` now")
                }
                None => format!(
                    "gets the notification's own texts: there is no translation for its language \
                     now, `{language}`"
                ),
            },
        };
        self.add(None, StepKind::Language, detail);
    }

    fn add_no_address(&mut self) {
        let detail = "has no address now: it registered without one, or another device registered \
            with its address since";
        self.add(None, StepKind::NoAddress, detail);
    }

    /// Adds that nothing is sent to the address of the device, because it cannot be a push token.
    fn add_token_problem(&mut self) {
        if let Some(problem) = self.facts.device.token_problem {
            let detail = format!(
                "its push_token {problem} now; nothing is sent to it. A new token fixes this"
            );
            self.add(None, StepKind::AddressUnusable, detail);
        }
    }

    /// Adds why the device is disabled, if it is disabled. Returns whether it is.
    fn add_disabled(&mut self) -> bool {
        let device = &self.facts.device;
        if device.push_disabled {
            self.add(None, StepKind::Disabled, "push is turned off by its user now");
        }
        self.add_dead_address();
        device.push_disabled || device.dead.is_some()
    }

    fn add_dead_address(&mut self) {
        if let Some((reason, at)) = &self.facts.device.dead {
            let other = match self.facts.device.platform {
                Platform::Ios => "another token, or another ios_env, enables it",
                Platform::Android => "another token enables it",
                Platform::Web => "another subscription enables it",
                Platform::FbMessenger | Platform::ChatApp => "a message of the person enables it",
            };
            let detail = if reason == reasons::ENDPOINT_REMOVED {
                format!("the browser has removed its subscription; {other}")
            } else {
                format!("the provider reported its address as dead ({reason}); {other}")
            };
            self.add(Some(*at), StepKind::AddressDead, detail);
        }
    }

    fn add_moved_address(&mut self) {
        let due_at = self.facts.notification.due_at;
        if let (Some(moved_at), Some(due_at)) = (self.facts.device.moved_at, due_at)
            && moved_at >= due_at
        {
            let detail =
                "another device had the address until then, and may have got the notification";
            self.add(Some(moved_at), StepKind::AddressMoved, detail);
        }
    }

    /// Adds the steps of a notification that has not started on the device's platform: it is
    /// scheduled or queued, or was canceled before it was due.
    fn add_not_started(&mut self, is_eligible: bool) -> ExplainedOutcome {
        let status = self.facts.notification.status;
        let is_canceled = self.add_cancel_request();
        match status {
            NotificationStatus::Canceled if is_eligible => ExplainedOutcome::Canceled,
            NotificationStatus::Scheduled | NotificationStatus::Queued
                if is_eligible && !is_canceled =>
            {
                self.add_channel();
                ExplainedOutcome::Pending
            }
            NotificationStatus::Scheduled
            | NotificationStatus::Queued
            | NotificationStatus::Sending
            | NotificationStatus::Completed
            | NotificationStatus::Canceled
            | NotificationStatus::Reported => ExplainedOutcome::NotTargeted,
        }
    }

    fn add_waiting(&mut self, is_eligible: bool) -> ExplainedOutcome {
        self.add_moved_address();
        let is_canceled = self.add_cancel_request();
        if !is_eligible {
            let detail = "the notification is still being sent; it will skip the device, as the device \
                is now";
            self.add(None, StepKind::PassedOver, detail);
            return ExplainedOutcome::NotTargeted;
        }
        let open_canary = self.facts.canary.as_ref();
        match open_canary.filter(|canary| !canary.has_device && !canary.is_judged) {
            Some(CanaryFacts { judge_at, .. }) => {
                let detail = match judge_at {
                    Some(at) => format!(
                        "is not in the canary, and waits until the canary is judged, at the \
                         earliest at {}",
                        time(*at)
                    ),
                    None => {
                        "is not in the canary, and waits until the canary has been sent and judged"
                            .to_owned()
                    }
                };
                self.add(None, StepKind::Canary, detail);
            }
            None => {
                let detail = "the device's turn has not come, or its attempt is under way";
                self.add(None, StepKind::Waiting, detail);
            }
        }
        if !is_canceled {
            self.add_channel();
        }
        ExplainedOutcome::Pending
    }
}

/// An instant in the format of RFC 3339.
fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms())
        .map_or_else(|_| at.to_string(), |at| at.to_string())
}

// The provider status.

impl ExplanationBuilder<'_> {
    /// Adds why the delivery waits: the notification is paused, or the state of the provider.
    fn add_channel(&mut self) {
        if let Some(Pause { at, reason }) = &self.facts.notification.paused {
            let detail = format!("the notification is paused ({reason}), and waits to be resumed");
            self.add(Some(*at), StepKind::Paused, detail);
        }
        let kind = self.facts.device.platform.provider();
        if !self.channel.is_configured {
            let detail = format!("{kind} is not configured now");
            return self.add(None, StepKind::ProviderNotConfigured, detail);
        }
        let (name, scope) = match &self.channel.service {
            Some(service) => (service.clone(), "everything for this push service"),
            None => (kind.to_string(), "everything"),
        };
        match &self.channel.status {
            ProviderStatus::Available => {}
            ProviderStatus::Throttled { until } => {
                let until = time(*until);
                let detail = format!("{name} asked to slow down: {scope} waits until {until}");
                self.add(None, StepKind::Paused, detail);
            }
            ProviderStatus::Unreachable { probe_at } => {
                let detail = format!(
                    "{name} cannot be reached, or fails every request: {scope} waits; \
                     next probe at {}",
                    time(*probe_at)
                );
                self.add(None, StepKind::Paused, detail);
            }
            ProviderStatus::AuthRejected { reason, probe_at } => {
                let cause = reasons::credentials_problem(&name, reason.as_deref());
                let probe_at = time(*probe_at);
                let detail = format!("{cause}: {scope} is held; next probe at {probe_at}");
                self.add(None, StepKind::CredentialsRefused, detail);
            }
            ProviderStatus::Tripped => {
                let detail = format!(
                    "so many addresses looked dead at once that everything is stopped until {kind} \
                     is released (`notify providers resume {kind}`) or configured again"
                );
                self.add(None, StepKind::Paused, detail);
            }
        }
    }

    /// When a retry is sent, with a description: when it is due, but not before the provider can be
    /// used. The time is `None` if it is unknown when the provider can be used.
    fn next_attempt(&self, due_at: Timestamp) -> (Option<Timestamp>, String) {
        let due = time(due_at);
        if self.facts.notification.paused.is_some() {
            return (None, format!("due at {due}, and not before the notification is resumed"));
        }
        match self.channel.status {
            ProviderStatus::Throttled { until } if self.channel.is_configured && until > due_at => {
                (Some(until), format!("due at {due}, and not before the pause ends"))
            }
            ProviderStatus::AuthRejected { probe_at, .. }
            | ProviderStatus::Unreachable { probe_at }
                if self.channel.is_configured && probe_at > due_at =>
            {
                (
                    Some(probe_at),
                    format!("due at {due}, and waits for the probe at {}", time(probe_at)),
                )
            }
            ProviderStatus::Tripped if self.channel.is_configured => {
                (None, format!("due at {due}, and waits until the provider is released"))
            }
            ProviderStatus::Available
            | ProviderStatus::Throttled { .. }
            | ProviderStatus::AuthRejected { .. }
            | ProviderStatus::Unreachable { .. }
            | ProviderStatus::Tripped => (Some(due_at), format!("due at {due}")),
        }
    }
}

// Attempts and outcomes.

/// Reasons that the server gives, as opposed to a provider's answers.
const OWN_REASONS: [&str; 10] = [
    reasons::PROVIDER_NOT_CONFIGURED,
    reasons::CREDENTIALS_REFUSED,
    reasons::OVERTAKEN,
    reasons::EXPIRED,
    reasons::CANCELED,
    reasons::USER_CHANGED,
    reasons::FAILS_AUDIENCE,
    reasons::NOT_AN_APNS_TOKEN,
    reasons::NOT_AN_FCM_TOKEN,
    reasons::ENDPOINT_REMOVED,
];

impl ExplanationBuilder<'_> {
    fn add_retrying(&mut self) -> ExplainedOutcome {
        let DeliveryProgress::Retrying { attempts, first_attempt_at, reason, due_at } =
            &self.facts.progress
        else {
            return ExplainedOutcome::Pending;
        };
        self.add_attempts(*attempts, Some(*first_attempt_at), reason.as_deref());
        let is_excluded = self.add_mismatches();
        let is_disabled = self.add_disabled();
        if !self.facts.device.has_address {
            self.add_no_address();
        }
        self.add_channel();
        let (at, mut detail) = self.next_attempt(*due_at);
        if is_excluded || is_disabled || !self.facts.device.has_address {
            detail.push_str("; it ends then, unless the device has changed");
        }
        self.add(at, StepKind::NextAttempt, detail);
        ExplainedOutcome::Pending
    }

    fn add_settled(&mut self) -> ExplainedOutcome {
        let DeliveryProgress::Settled { outcome, reason, attempts, first_attempt_at, at } =
            &self.facts.progress
        else {
            return ExplainedOutcome::Pending;
        };
        let (at, attempts, reason) = (*at, *attempts, reason.as_deref());
        self.add_attempts(attempts, first_attempt_at.or(Some(at)), reason);
        let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        match outcome {
            Outcome::Sent => {
                self.add(Some(at), StepKind::Sent, "the provider accepted it");
                ExplainedOutcome::Sent
            }
            Outcome::Failed => {
                if reason == Some(reasons::PROVIDER_NOT_CONFIGURED) {
                    let detail = "the platform's provider was not configured";
                    self.add(Some(at), StepKind::ProviderNotConfigured, detail);
                } else if reason == Some(reasons::USER_CHANGED) {
                    let detail = "was no longer logged in as the user that the notification names";
                    self.add(Some(at), StepKind::UserChanged, detail);
                } else if reason == Some(reasons::FAILS_AUDIENCE) {
                    let now = match &self.facts.device.unmet {
                        Some(unmet) => format!("; it does not meet `{unmet}` now"),
                        None => String::new(),
                    };
                    let detail = format!("no longer met the condition of the audience{now}");
                    self.add(Some(at), StepKind::FailsAudience, detail);
                }
                let hint = match reason {
                    Some("address_not_allowed") => {
                        " (the server runs without --allow-private-networks)"
                    }
                    Some(_) | None => "",
                };
                self.add(Some(at), StepKind::Failed, format!("failed{because}{hint}"));
                ExplainedOutcome::Failed
            }
            Outcome::Unregistered => {
                let detail = if reason == Some(reasons::ENDPOINT_REMOVED) {
                    "the browser has removed the subscription: its endpoint is below .invalid"
                        .to_owned()
                } else {
                    format!("the provider reported the address as dead{because}")
                };
                self.add(Some(at), StepKind::Unregistered, detail);
                self.add_dead_address();
                self.add_enabled_again();
                ExplainedOutcome::Unregistered
            }
            Outcome::Expired => {
                self.add_expired(at, attempts, reason);
                ExplainedOutcome::Expired
            }
            Outcome::Canceled => {
                self.add_cancel_request();
                let detail = if attempts == 0 {
                    "canceled before it was sent"
                } else {
                    "canceled before it was tried again"
                };
                self.add(Some(at), StepKind::Canceled, detail);
                ExplainedOutcome::Canceled
            }
        }
    }

    fn add_expired(&mut self, at: Timestamp, attempts: u16, reason: Option<&str>) {
        let detail = match reason {
            Some(reasons::CREDENTIALS_REFUSED) => {
                let refused = "the provider refused the server's credentials, or the server could not \
                               open them";
                self.add(Some(at), StepKind::CredentialsRefused, refused);
                "ttl_seconds is 0: its only attempt could not wait for valid credentials".into()
            }
            Some(reasons::OVERTAKEN) => {
                "a notification with the same collapse_key that became due later was sent to the device first".into()
            }
            Some(reasons::EXPIRED) | None => {
                if attempts == 0 {
                    // The provider may have been unavailable when the delivery expired. Earlier
                    // statuses are not stored, so the current status is shown.
                    self.add_channel();
                    "it expired (ttl_seconds) before it could be sent".into()
                } else {
                    "it expired (ttl_seconds) before the next attempt".into()
                }
            }
            Some(reason) => format!("it expired (ttl_seconds): {reason}"),
        };
        self.add(Some(at), StepKind::Expired, detail);
    }

    /// Adds that the device is enabled again, if this delivery had disabled it.
    fn add_enabled_again(&mut self) {
        let device = &self.facts.device;
        if device.dead.is_some() || device.push_disabled {
            return;
        }
        let detail = if self.channel.status == ProviderStatus::Tripped {
            "is enabled again: so many addresses looked dead at once that the server doubts that they \
             are"
        } else {
            "is enabled again now: it registered again, or the server doubted that so many \
             addresses were dead at once"
        };
        self.add(None, StepKind::Enabled, detail);
    }

    fn add_attempts(&mut self, attempts: u16, first: Option<Timestamp>, reason: Option<&str>) {
        if attempts == 0 {
            return;
        }
        let plural = if attempts == 1 { "" } else { "s" };
        let last_answer = reason
            .filter(|reason| !OWN_REASONS.contains(reason))
            .map_or_else(String::new, |reason| format!(", the last answer: {reason}"));
        self.add(first, StepKind::Attempted, format!("{attempts} attempt{plural}{last_answer}"));
    }

    /// Adds the request to cancel the notification, if there was one. Returns whether there was.
    fn add_cancel_request(&mut self) -> bool {
        let requested_at = self.facts.notification.cancel_requested_at;
        if let Some(at) = requested_at {
            self.add(Some(at), StepKind::CancelRequested, "canceled by request");
        }
        requested_at.is_some()
    }
}

//! From facts to an explanation, as a pure function. A step has a time when something kept proves
//! it of that time; what is only known to be so now has none (B38).

#[cfg(test)]
mod tests;

use notify_core::{
    ExplainedOutcome, ExplainedStep, NotificationStatus, Platform, StepKind, Timestamp,
};

use crate::channel::ChannelState;
use crate::reasons;
use crate::store::{DeliveryFacts, Progress, Settled};

/// How the provider of the device's platform stands now.
pub(super) struct Channel {
    pub(super) is_configured: bool,
    pub(super) state: ChannelState,
    /// The push service that the state is about; `None`: the provider as a whole.
    pub(super) service: Option<String>,
}

/// Explains, in order. `named_under` is the platform whose list has the id of a device of another one.
pub(super) fn explain(
    facts: &DeliveryFacts,
    channel: &Channel,
    named_under: Option<Platform>,
) -> (ExplainedOutcome, Vec<ExplainedStep>) {
    let mut telling = Telling { facts, channel, named_under, steps: Vec::new() };
    let outcome = telling.tell();
    (outcome, telling.steps)
}

struct Telling<'a> {
    facts: &'a DeliveryFacts,
    channel: &'a Channel,
    named_under: Option<Platform>,
    steps: Vec<ExplainedStep>,
}

impl Telling<'_> {
    fn tell(&mut self) -> ExplainedOutcome {
        let notification = &self.facts.notification;
        if notification.status == NotificationStatus::Reported {
            let detail = "reported: the caller delivers it by other means, nothing is sent here";
            self.add(Some(notification.created_at), StepKind::Reported, detail);
            return ExplainedOutcome::Reported;
        }
        self.add(Some(notification.created_at), StepKind::Accepted, "accepted");
        self.tell_schedule();
        let proved_at = self.proved_at();
        if !self.tell_target(proved_at) {
            return ExplainedOutcome::NotTargeted;
        }
        let may_be_sent_to = match proved_at {
            Some(at) => self.tell_proved(at),
            None => self.tell_now(),
        };
        match &self.facts.progress {
            Progress::None => self.tell_not_begun(may_be_sent_to),
            Progress::RegisteredLater => ExplainedOutcome::NotTargeted,
            Progress::Ahead | Progress::InOpenPage => self.tell_waiting(may_be_sent_to),
            Progress::PassedOver => {
                let detail = "it was skipped at sending time: it lacked the tag, was disabled or \
                    had no address. That may have changed since";
                self.add(None, StepKind::PassedOver, detail);
                self.tell_moved();
                ExplainedOutcome::NotTargeted
            }
            Progress::Retrying { .. } => self.tell_retrying(),
            Progress::Settled { .. } => self.tell_settled(),
        }
    }

    fn add(&mut self, at: Option<Timestamp>, what: StepKind, detail: impl Into<String>) {
        self.steps.push(ExplainedStep { at, what, detail: detail.into() });
    }

    fn tell_schedule(&mut self) {
        let notification = &self.facts.notification;
        if let Some(at) = notification.started_at {
            if notification.local_time.is_none() {
                let detail = "became due; it goes to devices registered before this time";
                return self.add(Some(at), StepKind::Started, detail);
            }
            let detail = "its first zone became due; the audience of each zone is who had \
                registered until its own time";
            self.add(Some(at), StepKind::Started, detail);
            return self.tell_turn();
        }
        match notification.status {
            NotificationStatus::Canceled => {}
            NotificationStatus::Queued => {
                let detail = "due; its turn to begin has not come";
                self.add(notification.due_at, StepKind::Scheduled, detail);
            }
            NotificationStatus::Scheduled
            | NotificationStatus::Sending
            | NotificationStatus::Completed
            | NotificationStatus::Reported => {
                if let Some(due_at) = notification.due_at {
                    let detail = format!("due at {}; its audience is fixed then", time(due_at));
                    self.add(Some(due_at), StepKind::Scheduled, detail);
                }
                self.tell_turn();
            }
        }
    }

    /// When the turn of the device comes, where each has its own (`send_at_local`, B19).
    fn tell_turn(&mut self) {
        let notification = &self.facts.notification;
        let is_to_come = matches!(self.facts.progress, Progress::None | Progress::Ahead);
        let Some(local_time) = notification.local_time.filter(|_| is_to_come) else { return };
        if notification.cancel_requested_at.is_some() {
            return;
        }
        let minutes = self.facts.device.utc_offset_minutes;
        // Where that time had passed already, at once.
        let turn_at = local_time.plus_ms(-i64::from(minutes) * 60_000).max(notification.created_at);
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        let detail = format!(
            "the device's turn comes at {}, by its offset from UTC now ({sign}{hours:02}:\
             {minutes:02})",
            time(turn_at)
        );
        self.add(Some(turn_at), StepKind::Scheduled, detail);
    }

    /// When the device was looked at and found to be one to send to.
    fn proved_at(&self) -> Option<Timestamp> {
        match self.facts.progress {
            Progress::Retrying { first_attempt_at, .. } => Some(first_attempt_at),
            Progress::Settled { first_attempt_at, at, .. } => Some(first_attempt_at.unwrap_or(at)),
            Progress::None
            | Progress::RegisteredLater
            | Progress::Ahead
            | Progress::InOpenPage
            | Progress::PassedOver => None,
        }
    }

    /// Whether the target names the device or its platform, and it was there in time.
    fn tell_target(&mut self, proved_at: Option<Timestamp>) -> bool {
        let (notification, device) = (&self.facts.notification, &self.facts.device);
        let platform = device.platform;
        let is_targeted = if notification.names_devices {
            device.is_named
        } else {
            notification.platforms.contains(&platform)
        };
        // Which device is named, and who had registered, is fixed at the start.
        let fixed_at = match self.facts.progress {
            Progress::None => notification.started_at.filter(|_| notification.names_devices),
            Progress::RegisteredLater => None,
            Progress::Ahead
            | Progress::InOpenPage
            | Progress::PassedOver
            | Progress::Retrying { .. }
            | Progress::Settled { .. } => notification.started_at,
        };
        if !is_targeted && proved_at.is_none() {
            let detail = if let Some(other) = self.named_under {
                format!(
                    "the notification names this device under {other}, but its platform is {platform}"
                )
            } else if notification.names_devices {
                format!("it names devices, and this one is not among those on {platform}")
            } else {
                let named: Vec<&str> =
                    notification.platforms.iter().map(|platform| platform.as_str()).collect();
                format!("it goes to {}; the device is on {platform}", named.join(", "))
            };
            self.add(fixed_at, StepKind::NotTargeted, detail);
            return false;
        }
        let detail = if notification.names_devices && proved_at.is_none() {
            "the notification names this device. The next lines say whether it can receive"
                .to_owned()
        } else if notification.names_devices {
            "it names the device".to_owned()
        } else {
            format!("it goes to {platform}, where the device is")
        };
        self.add(fixed_at, StepKind::Targeted, detail);
        if self.facts.progress == Progress::RegisteredLater {
            // A device that changed its platform keeps the time of its first registration.
            let registered_at = notification
                .started_at
                .and_then(|at| (device.created_at > at).then_some(device.created_at));
            let detail = "the device registered, or changed its platform, after the audience was \
                fixed";
            self.add(registered_at, StepKind::RegisteredLater, detail);
            return false;
        }
        true
    }

    /// What an attempt or an outcome proves: its turn came, and it was one to send to.
    fn tell_proved(&mut self, at: Timestamp) -> bool {
        if let Some(tag) = &self.facts.notification.tag {
            self.add(Some(at), StepKind::HasTag, format!("had the tag `{tag}` when its turn came"));
        }
        self.add(Some(at), StepKind::Enabled, "was enabled when its turn came");
        self.add(Some(at), StepKind::HasAddress, "had an address when its turn came");
        true
    }

    /// What can be told of the state now alone; whether the device is one to send to.
    fn tell_now(&mut self) -> bool {
        let device = &self.facts.device;
        let mut may_be_sent_to =
            device.has_address && !device.push_disabled && device.dead.is_none();
        if let Some(tag) = &self.facts.notification.tag {
            if device.has_tag {
                self.add(None, StepKind::HasTag, format!("has the tag `{tag}` now"));
            } else {
                may_be_sent_to = false;
                let detail = format!("does not have the tag `{tag}` set to true now");
                self.add(None, StepKind::LacksTag, detail);
            }
        }
        if !self.tell_disabled() {
            self.add(None, StepKind::Enabled, "is enabled now");
        }
        if device.has_address {
            self.add(None, StepKind::HasAddress, "has an address now");
        } else {
            self.tell_no_address();
        }
        may_be_sent_to
    }

    fn tell_no_address(&mut self) {
        let detail = "has no address now: it registered without one, or another device registered \
            with its address since";
        self.add(None, StepKind::NoAddress, detail);
    }

    /// Why the device is disabled now, if it is.
    fn tell_disabled(&mut self) -> bool {
        let device = &self.facts.device;
        if device.push_disabled {
            self.add(None, StepKind::Disabled, "push is turned off by its user now");
        }
        self.tell_dead();
        device.push_disabled || device.dead.is_some()
    }

    fn tell_dead(&mut self) {
        if let Some((reason, at)) = &self.facts.device.dead {
            let other = match self.facts.device.platform {
                Platform::Ios => "another token, or another ios_env, enables it",
                Platform::Android => "another token enables it",
                Platform::Web => "another subscription enables it",
                Platform::FbMessenger | Platform::ChatApp => "a message of the person enables it",
            };
            let detail = format!("the provider reported its address as dead ({reason}); {other}");
            self.add(Some(*at), StepKind::AddressDead, detail);
        }
    }

    fn tell_moved(&mut self) {
        let due_at = self.facts.notification.due_at;
        if let (Some(moved_at), Some(due_at)) = (self.facts.device.moved_at, due_at)
            && moved_at >= due_at
        {
            let detail = "the address was another device's until then, which may have got it";
            self.add(Some(moved_at), StepKind::AddressMoved, detail);
        }
    }

    /// Not begun on this platform: scheduled, queued, or canceled before it was due.
    fn tell_not_begun(&mut self, may_be_sent_to: bool) -> ExplainedOutcome {
        let status = self.facts.notification.status;
        let is_canceled = self.tell_cancel_request();
        match status {
            NotificationStatus::Canceled if may_be_sent_to => ExplainedOutcome::Canceled,
            NotificationStatus::Scheduled | NotificationStatus::Queued
                if may_be_sent_to && !is_canceled =>
            {
                self.tell_channel();
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

    fn tell_waiting(&mut self, may_be_sent_to: bool) -> ExplainedOutcome {
        self.tell_moved();
        let is_canceled = self.tell_cancel_request();
        if !may_be_sent_to {
            let detail = "its turn is not over; as the device is now it will be passed over";
            self.add(None, StepKind::PassedOver, detail);
            return ExplainedOutcome::NotTargeted;
        }
        self.add(None, StepKind::Waiting, "its turn has not come, or its attempt is under way");
        if !is_canceled {
            self.tell_channel();
        }
        ExplainedOutcome::Pending
    }
}

/// An instant as people read it, RFC 3339.
fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms())
        .map_or_else(|_| at.to_string(), |at| at.to_string())
}

// What holds everything of the application and provider back now.

impl Telling<'_> {
    fn tell_channel(&mut self) {
        let kind = self.facts.device.platform.provider();
        if !self.channel.is_configured {
            let detail = format!("{kind} is not configured now");
            return self.add(None, StepKind::ProviderNotConfigured, detail);
        }
        let (name, scope) = match &self.channel.service {
            Some(service) => (service.clone(), "everything for this push service"),
            None => (kind.to_string(), "everything"),
        };
        match &self.channel.state {
            ChannelState::Open => {}
            ChannelState::Throttled { until } => {
                let until = time(*until);
                let detail = format!("{name} asked to slow down: {scope} waits until {until}");
                self.add(None, StepKind::Paused, detail);
            }
            ChannelState::Unreachable { probe_at } => {
                let detail = format!(
                    "{name} cannot be reached, or fails every request: {scope} waits; \
                     next probe at {}",
                    time(*probe_at)
                );
                self.add(None, StepKind::Paused, detail);
            }
            ChannelState::Held { reason, probe_at } => {
                let reason =
                    reason.as_deref().map_or_else(String::new, |word| format!(" ({word})"));
                let detail = format!(
                    "{name} refuses the server's credentials{reason}: {scope} is held; next \
                     probe at {}",
                    time(*probe_at)
                );
                self.add(None, StepKind::CredentialsRefused, detail);
            }
            ChannelState::Stopped => {
                let detail = format!(
                    "so many addresses looked dead at once that everything is stopped until {kind} \
                     is released (`notify providers resume {kind}`) or configured anew"
                );
                self.add(None, StepKind::Paused, detail);
            }
        }
    }

    /// When a retry goes out: not before what holds everything back ends, whatever its own time.
    fn next_attempt(&self, due_at: Timestamp) -> (Option<Timestamp>, String) {
        let due = time(due_at);
        match self.channel.state {
            ChannelState::Throttled { until } if self.channel.is_configured && until > due_at => {
                (Some(until), format!("due at {due}, and not before the pause ends"))
            }
            ChannelState::Held { probe_at, .. } | ChannelState::Unreachable { probe_at }
                if self.channel.is_configured && probe_at > due_at =>
            {
                (
                    Some(probe_at),
                    format!("due at {due}, and waits for the probe at {}", time(probe_at)),
                )
            }
            ChannelState::Stopped if self.channel.is_configured => {
                (None, format!("due at {due}, and waits until the provider is released"))
            }
            ChannelState::Open
            | ChannelState::Throttled { .. }
            | ChannelState::Held { .. }
            | ChannelState::Unreachable { .. }
            | ChannelState::Stopped => (Some(due_at), format!("due at {due}")),
        }
    }
}

// What became of attempts, and how a delivery ended.

/// Reasons that are the server's own: no provider said them.
const OWN_REASONS: [&str; 5] = [
    reasons::PROVIDER_NOT_CONFIGURED,
    reasons::CREDENTIALS_REFUSED,
    reasons::OVERTAKEN,
    reasons::EXPIRED,
    reasons::CANCELED,
];

impl Telling<'_> {
    fn tell_retrying(&mut self) -> ExplainedOutcome {
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
        self.add(at, StepKind::NextAttempt, detail);
        ExplainedOutcome::Pending
    }

    fn tell_settled(&mut self) -> ExplainedOutcome {
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
                self.add(Some(at), StepKind::Sent, "the provider took it");
                ExplainedOutcome::Sent
            }
            Settled::Failed => {
                if reason == Some(reasons::PROVIDER_NOT_CONFIGURED) {
                    let detail = "the platform's provider was not configured";
                    self.add(Some(at), StepKind::ProviderNotConfigured, detail);
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
            Settled::Unregistered => {
                let detail = format!("the provider reported the address as dead{because}");
                self.add(Some(at), StepKind::Unregistered, detail);
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
                self.add(Some(at), StepKind::Canceled, detail);
                ExplainedOutcome::Canceled
            }
        }
    }

    fn tell_expired(&mut self, at: Timestamp, attempts: u16, reason: Option<&str>) {
        let detail = match reason {
            Some(reasons::CREDENTIALS_REFUSED) => {
                let refused = "the provider refused the server's credentials";
                self.add(Some(at), StepKind::CredentialsRefused, refused);
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
        self.add(Some(at), StepKind::Expired, detail);
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
        self.add(None, StepKind::Enabled, detail);
    }

    fn tell_attempts(&mut self, attempts: u16, first: Option<Timestamp>, reason: Option<&str>) {
        if attempts == 0 {
            return;
        }
        let plural = if attempts == 1 { "" } else { "s" };
        let said = reason
            .filter(|reason| !OWN_REASONS.contains(reason))
            .map_or_else(String::new, |said| format!(", the last answer: {said}"));
        self.add(first, StepKind::Attempted, format!("{attempts} attempt{plural}{said}"));
    }

    fn tell_cancel_request(&mut self) -> bool {
        let requested_at = self.facts.notification.cancel_requested_at;
        if let Some(at) = requested_at {
            self.add(Some(at), StepKind::CancelRequested, "canceled by request");
        }
        requested_at.is_some()
    }
}

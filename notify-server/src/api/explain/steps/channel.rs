//! What holds everything of the application and provider back now.

use notify_core::{StepWord, Timestamp};

use super::{Telling, time};
use crate::channel::ChannelState;

impl Telling<'_> {
    pub(super) fn tell_channel(&mut self) {
        let kind = self.facts.device.platform.provider();
        if !self.channel.is_configured {
            let detail = format!("{kind} is not configured now");
            return self.add(None, StepWord::ProviderNotConfigured, detail);
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
                self.add(None, StepWord::Paused, detail);
            }
            ChannelState::Unreachable { probe_at } => {
                let detail = format!(
                    "{name} cannot be reached, or fails every request: {scope} waits; \
                     next probe at {}",
                    time(*probe_at)
                );
                self.add(None, StepWord::Paused, detail);
            }
            ChannelState::Held { reason, probe_at } => {
                let reason =
                    reason.as_deref().map_or_else(String::new, |word| format!(" ({word})"));
                let detail = format!(
                    "{name} refuses the server's credentials{reason}: {scope} is held; next \
                     probe at {}",
                    time(*probe_at)
                );
                self.add(None, StepWord::CredentialsRefused, detail);
            }
            ChannelState::Stopped => {
                let detail = format!(
                    "so many addresses looked dead at once that everything is stopped until {kind} \
                     is released (`notify providers resume {kind}`) or configured anew"
                );
                self.add(None, StepWord::Paused, detail);
            }
        }
    }

    /// When a retry goes out: not before what holds everything back ends, whatever its own time.
    pub(super) fn next_attempt(&self, due_at: Timestamp) -> (Option<Timestamp>, String) {
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

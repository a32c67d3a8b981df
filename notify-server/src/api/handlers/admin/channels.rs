//! How deliveries through the providers of an application stand, for administrators.

use notify_core::{ChannelView, ChannelWord, Platform, ServiceView, Timestamp};

use crate::api::Api;
use crate::channel::{ChannelState, ServiceState};
use crate::store::{AppNo, StoreError};

/// Name of the services that are not told apart.
const OTHER_SERVICES: &str = "other";

/// How the deliveries of an application stand.
pub(super) struct Standings<'a> {
    pub(super) api: &'a Api,
    app: AppNo,
    /// What the guard stopped before the server started is known to the engine once it has
    /// something to deliver there, to the store at once.
    stopped: Vec<Platform>,
}

impl<'a> Standings<'a> {
    /// Reads what is stored of them.
    pub(super) async fn of(api: &'a Api, app: AppNo) -> Result<Self, StoreError> {
        Ok(Self { api, app, stopped: api.store.platforms_stopped(app).await? })
    }

    /// How they stand on a platform.
    pub(super) fn on(&self, platform: Platform) -> ChannelView {
        let state = match self.api.channels.state(self.app, platform) {
            ChannelState::Open if self.stopped.contains(&platform) => ChannelState::Stopped,
            state => state,
        };
        view(state, self.api.channels.closed_services(self.app, platform))
    }
}

fn view(state: ChannelState, services: Vec<ServiceState>) -> ChannelView {
    let (state, reason, until) = parts(state);
    let services = services.into_iter().map(service).collect();
    ChannelView { state, reason, until, services }
}

fn service(closed: ServiceState) -> ServiceView {
    let (state, reason, until) = parts(closed.state);
    let service = if closed.service.is_empty() { OTHER_SERVICES } else { &*closed.service };
    ServiceView { service: service.to_owned(), state, reason, until }
}

fn parts(state: ChannelState) -> (ChannelWord, Option<String>, Option<Timestamp>) {
    match state {
        ChannelState::Open => (ChannelWord::Open, None, None),
        ChannelState::Throttled { until } => (ChannelWord::Throttled, None, Some(until)),
        ChannelState::Unreachable { probe_at } => (ChannelWord::Unreachable, None, Some(probe_at)),
        ChannelState::Held { reason, probe_at } => (ChannelWord::Held, reason, Some(probe_at)),
        ChannelState::Stopped => (ChannelWord::Stopped, None, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_state_is_told_with_what_is_known_of_it() {
        let at = Timestamp(9_000);
        let held = |reason: Option<&str>| ChannelState::Held {
            reason: reason.map(str::to_owned),
            probe_at: at,
        };
        for (state, word, reason, until) in [
            (ChannelState::Open, "open", json!(null), json!(null)),
            (ChannelState::Throttled { until: at }, "throttled", json!(null), json!(9_000)),
            (ChannelState::Unreachable { probe_at: at }, "unreachable", json!(null), json!(9_000)),
            (held(Some("invalid_grant")), "held", json!("invalid_grant"), json!(9_000)),
            (held(None), "held", json!(null), json!(9_000)),
            (ChannelState::Stopped, "stopped", json!(null), json!(null)),
        ] {
            let told = serde_json::to_value(view(state, vec![])).unwrap();
            assert_eq!(told, json!({"state": word, "reason": reason, "until": until}));
        }
    }

    #[test]
    fn closed_services_are_listed_beside_an_open_channel() {
        let until = Timestamp(9_000);
        let held = ChannelState::Held { reason: Some("http_403".to_owned()), probe_at: until };
        let services = vec![
            ServiceState { service: "".into(), state: ChannelState::Throttled { until } },
            ServiceState { service: "https://a.example".into(), state: held },
        ];
        let shown = serde_json::to_value(view(ChannelState::Open, services)).unwrap();
        let expected = json!({"state": "open", "reason": null, "until": null, "services": [
            {"service": "other", "state": "throttled", "reason": null, "until": 9_000},
            {"service": "https://a.example", "state": "held", "reason": "http_403", "until": 9_000},
        ]});
        assert_eq!(shown, expected);
    }
}

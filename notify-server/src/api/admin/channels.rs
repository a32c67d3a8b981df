//! How deliveries through the providers of an application stand, for administrators.

use notify_core::{ChannelView, ChannelWord, Platform};

use crate::api::Api;
use crate::channel::ChannelState;
use crate::store::{AppNo, StoreError};

/// How deliveries of an application on a platform stand. What the guard stopped before the server
/// started is known to the engine once it has something to deliver there, to the store at once.
pub(super) async fn standing(
    api: &Api,
    app: AppNo,
    platform: Platform,
) -> Result<ChannelView, StoreError> {
    let state = match api.channels.state(app, platform) {
        ChannelState::Open if api.store.purge_stopped(app, platform).await? => {
            ChannelState::Stopped
        }
        state => state,
    };
    Ok(shown(state))
}

fn shown(state: ChannelState) -> ChannelView {
    let view = |state, reason, until| ChannelView { state, reason, until };
    match state {
        ChannelState::Open => view(ChannelWord::Open, None, None),
        ChannelState::Throttled { until } => view(ChannelWord::Throttled, None, Some(until)),
        ChannelState::Unreachable { probe_at } => {
            view(ChannelWord::Unreachable, None, Some(probe_at))
        }
        ChannelState::Held { reason, probe_at } => view(ChannelWord::Held, reason, Some(probe_at)),
        ChannelState::Stopped => view(ChannelWord::Stopped, None, None),
    }
}

#[cfg(test)]
mod tests {
    use notify_core::Timestamp;
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
            let told = serde_json::to_value(shown(state)).unwrap();
            assert_eq!(told, json!({"state": word, "reason": reason, "until": until}));
        }
    }
}

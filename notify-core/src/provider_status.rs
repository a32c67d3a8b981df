//! The status of deliveries through a provider: whether they go out, and why not.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::Timestamp;

/// Whether deliveries of an application through a provider, or through one push service of the provider,
/// go out now, and why not. The variants are ordered by severity: the first ones end without
/// intervention, and an administrator has to fix the last ones.
///
/// As JSON it is an object with the fields `state`, `reason` and `until`, of which the last two may
/// be null. The API and the metrics use other names than the variants:
///
/// | variant | `state` in the API | label `why` of the metric `channel_paused` |
/// |---|---|---|
/// | [`Available`](Self::Available) | `open` | none |
/// | [`Throttled`](Self::Throttled) | `throttled` | `throttled` |
/// | [`Unreachable`](Self::Unreachable) | `unreachable` | `unreachable` |
/// | [`AuthRejected`](Self::AuthRejected) | `held` | `credentials` |
/// | [`Tripped`](Self::Tripped) | `stopped` | `guard` |
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ProviderStatus {
    /// Deliveries go out.
    #[serde(rename = "open")]
    Available,
    /// Deliveries wait: the provider asked to slow down.
    Throttled {
        /// End of the wait.
        until: Timestamp,
    },
    /// Deliveries wait: the provider cannot be reached, or fails every request.
    Unreachable {
        /// When one delivery is sent as a probe, or when the probe in flight counts as lost.
        #[serde(rename = "until")]
        probe_at: Timestamp,
    },
    /// Deliveries are held: the provider rejects the server's credentials.
    #[serde(rename = "held")]
    AuthRejected {
        /// The provider's error code, or [`Self::CREDENTIALS_UNREADABLE`]; `None` while a probe is in flight.
        reason: Option<String>,
        /// When one delivery is sent as a probe, or when the probe in flight counts as lost.
        #[serde(rename = "until")]
        probe_at: Timestamp,
    },
    /// The server sends nothing until an administrator resumes deliveries. So many addresses looked dead
    /// at once that the configuration may be wrong.
    #[serde(rename = "stopped")]
    Tripped,
}

impl ProviderStatus {
    /// The values of the field `state`, in the order of the variants.
    pub const STATES: [&str; 5] = ["open", "throttled", "unreachable", "held", "stopped"];
    /// The words for readers, in the order of the variants. They are the values of `state`, except that `open`
    /// reads like the state of a circuit breaker that stops deliveries.
    pub const WORDS: [&str; 5] = ["delivering", "throttled", "unreachable", "held", "stopped"];
    /// The values of the label `why`, in the order of the variants that have one.
    pub const WAIT_REASONS: [&str; 4] = ["throttled", "unreachable", "credentials", "guard"];
    /// The `reason` of [`ProviderStatus::AuthRejected`] if a server cannot open the stored credentials, because it
    /// has another master key. The provider was not asked.
    pub const CREDENTIALS_UNREADABLE: &str = "credentials_cannot_be_opened";

    /// The value of the field `state`.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        Self::STATES[self.severity()]
    }

    /// The status in a word for readers.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        Self::WORDS[self.severity()]
    }

    /// The word for readers of a value of the field `state`; the value itself if it is unknown.
    #[must_use]
    pub fn word_of(state: &str) -> &str {
        let known = Self::STATES.iter().position(|known| *known == state);
        known.map_or(state, |index| Self::WORDS[index])
    }

    /// Why deliveries wait, as a metric label; `None` when they go out.
    #[must_use]
    pub const fn wait_reason(&self) -> Option<&'static str> {
        match self.severity() {
            0 => None,
            severity => Some(Self::WAIT_REASONS[severity - 1]),
        }
    }

    /// The provider's error code, if one is known.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::AuthRejected { reason, .. } => reason.as_deref(),
            Self::Available | Self::Throttled { .. } | Self::Unreachable { .. } | Self::Tripped => {
                None
            }
        }
    }

    /// When the wait ends or the next probe goes out, if that is known.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        match *self {
            Self::Throttled { until: at }
            | Self::Unreachable { probe_at: at }
            | Self::AuthRejected { probe_at: at, .. } => Some(at),
            Self::Available | Self::Tripped => None,
        }
    }

    const fn severity(&self) -> usize {
        match self {
            Self::Available => 0,
            Self::Throttled { .. } => 1,
            Self::Unreachable { .. } => 2,
            Self::AuthRejected { .. } => 3,
            Self::Tripped => 4,
        }
    }
}

impl Serialize for ProviderStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ProviderStatus", 3)?;
        fields.serialize_field("state", self.state())?;
        fields.serialize_field("reason", &self.reason())?;
        fields.serialize_field("until", &self.until())?;
        fields.end()
    }
}

/// The value of [`ServiceView::service`] that stands for all push services without a separate circuit
/// breaker. Only a limited number of push services has one.
pub const OTHER_SERVICES: &str = "other";

/// The status of a provider and of the push services behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChannelView {
    /// The status of the provider as a whole.
    #[serde(flatten)]
    pub status: ProviderStatus,
    /// Push services, or hosts of APNs, whose deliveries wait while the provider's other services are
    /// not affected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceView>,
}

/// The status of one push service, or of one host of APNs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceView {
    /// Origin of the push service, or environment of APNs; [`OTHER_SERVICES`] stands for all services
    /// without a separate circuit breaker.
    pub service: String,
    /// Why deliveries wait.
    #[serde(flatten)]
    pub status: ProviderStatus,
}

/// The schema of the three fields, for the API's description.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::{Object, RefOr, Schema, Type, schema::SchemaType};

    use super::ProviderStatus;

    impl utoipa::PartialSchema for ProviderStatus {
        fn schema() -> RefOr<Schema> {
            let nullable = |of| SchemaType::from_iter([of, Type::Null]);
            let state = Object::builder()
                .schema_type(Type::String)
                .enum_values(Some(Self::STATES))
                .description(Some("Whether deliveries go out, and why not."));
            let reason = Object::builder().schema_type(nullable(Type::String)).description(Some(
                "The provider's error code while `state` is `held`; null while a probe is in flight.",
            ));
            let until = Object::builder().schema_type(nullable(Type::Integer)).description(Some(
                "When the wait ends or the next probe goes out; null if that is not known.",
            ));
            Object::builder()
                .property("state", state)
                .property("reason", reason)
                .property("until", until)
                .required("state")
                .into()
        }
    }

    impl utoipa::ToSchema for ProviderStatus {}
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_an_object_of_three_fields() {
        let at = Timestamp(9_000);
        let rejected = |reason: Option<&str>| ProviderStatus::AuthRejected {
            reason: reason.map(str::to_owned),
            probe_at: at,
        };
        for (status, state, reason, until, wait_reason) in [
            (ProviderStatus::Available, "open", json!(null), json!(null), None),
            (
                ProviderStatus::Throttled { until: at },
                "throttled",
                json!(null),
                json!(9_000),
                Some("throttled"),
            ),
            (
                ProviderStatus::Unreachable { probe_at: at },
                "unreachable",
                json!(null),
                json!(9_000),
                Some("unreachable"),
            ),
            (
                rejected(Some("invalid_grant")),
                "held",
                json!("invalid_grant"),
                json!(9_000),
                Some("credentials"),
            ),
            (rejected(None), "held", json!(null), json!(9_000), Some("credentials")),
            (ProviderStatus::Tripped, "stopped", json!(null), json!(null), Some("guard")),
        ] {
            assert_eq!(status.wait_reason(), wait_reason, "{state}");
            let expected = json!({"state": state, "reason": reason, "until": until});
            let view = ChannelView { status, services: vec![] };
            assert_eq!(serde_json::to_value(&view).unwrap(), expected);
            assert_eq!(serde_json::from_value::<ChannelView>(expected).unwrap(), view);
        }
    }

    #[test]
    fn unavailable_services_are_listed_with_the_status_of_the_provider() {
        let until = Timestamp(9_000);
        let rejected =
            ProviderStatus::AuthRejected { reason: Some("http_403".to_owned()), probe_at: until };
        let view = ChannelView {
            status: ProviderStatus::Available,
            services: vec![
                ServiceView {
                    service: OTHER_SERVICES.to_owned(),
                    status: ProviderStatus::Throttled { until },
                },
                ServiceView { service: "https://a.example".to_owned(), status: rejected },
            ],
        };
        let expected = json!({"state": "open", "reason": null, "until": null, "services": [
            {"service": "other", "state": "throttled", "reason": null, "until": 9_000},
            {"service": "https://a.example", "state": "held", "reason": "http_403", "until": 9_000},
        ]});
        assert_eq!(serde_json::to_value(&view).unwrap(), expected);
        assert_eq!(serde_json::from_value::<ChannelView>(expected).unwrap(), view);
    }

    #[test]
    fn statuses_are_ordered_by_severity() {
        let (soon, late) = (Timestamp(1), Timestamp(2));
        let statuses = [
            ProviderStatus::Available,
            ProviderStatus::Throttled { until: late },
            ProviderStatus::Unreachable { probe_at: soon },
            ProviderStatus::AuthRejected { reason: None, probe_at: soon },
            ProviderStatus::Tripped,
        ];
        assert!(statuses.is_sorted());
    }
}

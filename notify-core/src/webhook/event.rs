//! What webhooks and the event stream tell: the same JSON on both ways (Standard Webhooks 1.0.0).

use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct,
};
use serde_json::Value;

use crate::{
    AnswerId, Counts, DeviceId, NotificationId, NotificationStatus, Platform, Timestamp, WebhookId,
};

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WebhookEventType {
    /// A notification ended: it reached somebody, there was nobody to reach, or it was canceled.
    #[serde(rename = "notification.completed")]
    NotificationCompleted,
    /// A notification ended that was for somebody, was not canceled, and that no provider took for
    /// anybody; or one that named devices, none of which there is.
    #[serde(rename = "notification.failed")]
    NotificationFailed,
    /// A device was disabled because its address is dead, or its person locked us out.
    #[serde(rename = "device.unregistered")]
    DeviceUnregistered,
    /// An answer of a poll counted: through the API, in a chat or on its page.
    #[serde(rename = "poll.answered")]
    PollAnswered,
    /// A device opened a notification, for the first time.
    #[serde(rename = "engagement.opened")]
    EngagementOpened,
    /// A device clicked in a notification, for the first time.
    #[serde(rename = "engagement.clicked")]
    EngagementClicked,
    /// Somebody tests a webhook. Sent to that webhook alone; nobody subscribes to it.
    #[serde(rename = "webhook.test")]
    WebhookTest,
}

impl WebhookEventType {
    /// Every type that a webhook or a stream may be limited to.
    pub const ALL: [Self; 6] = [
        Self::NotificationCompleted,
        Self::NotificationFailed,
        Self::DeviceUnregistered,
        Self::PollAnswered,
        Self::EngagementOpened,
        Self::EngagementClicked,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotificationCompleted => "notification.completed",
            Self::NotificationFailed => "notification.failed",
            Self::DeviceUnregistered => "device.unregistered",
            Self::PollAnswered => "poll.answered",
            Self::EngagementOpened => "engagement.opened",
            Self::EngagementClicked => "engagement.clicked",
            Self::WebhookTest => "webhook.test",
        }
    }

    /// The type of that word, if there is one to be limited to.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// One event, as the body of a webhook and the data of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// When it happened; on the wire ISO 8601.
    pub timestamp: Timestamp,
    /// What happened.
    pub data: WebhookData,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookData {
    /// See [`WebhookEventType::NotificationCompleted`].
    NotificationCompleted(NotificationEnded),
    /// See [`WebhookEventType::NotificationFailed`].
    NotificationFailed(NotificationEnded),
    /// See [`WebhookEventType::DeviceUnregistered`].
    DeviceUnregistered(DeviceUnregistered),
    /// See [`WebhookEventType::PollAnswered`].
    PollAnswered(PollAnswered),
    /// See [`WebhookEventType::EngagementOpened`].
    EngagementOpened(Engaged),
    /// See [`WebhookEventType::EngagementClicked`].
    EngagementClicked(Engaged),
    /// See [`WebhookEventType::WebhookTest`].
    WebhookTest(WebhookTested),
    /// A type that this version does not know.
    Other {
        /// Its word.
        kind: String,
        /// Its data.
        data: Value,
    },
}

/// Data of an event about a notification that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationEnded {
    /// The notification.
    pub notification_id: NotificationId,
    /// `completed` or `canceled`.
    pub status: NotificationStatus,
    /// What its deliveries came to.
    pub counts: Counts,
    /// Why it failed, where that says more than its counts: `no_such_device`, when every id that it
    /// names is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Data of an event about a device that was disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceUnregistered {
    /// The device.
    pub device_id: DeviceId,
    /// Its platform.
    pub platform: Platform,
    /// Why, as the device's `dead_reason` says it.
    pub reason: String,
}

/// Data of an event about an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PollAnswered {
    /// The poll, which has the id of its notification.
    pub poll_id: NotificationId,
    /// The answer.
    pub answer_id: AnswerId,
    /// Who answered; null where nobody was named, as on the poll's page.
    pub device_id: Option<DeviceId>,
}

/// Data of an event about what a device did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Engaged {
    /// The notification.
    pub notification_id: NotificationId,
    /// The device.
    pub device_id: DeviceId,
    /// When it happened as the device says, unix ms.
    pub at: Timestamp,
}

/// Data of the event that tests a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTested {
    /// The webhook.
    pub webhook_id: WebhookId,
}

impl WebhookData {
    /// The word of its type.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::NotificationCompleted(_) => WebhookEventType::NotificationCompleted.as_str(),
            Self::NotificationFailed(_) => WebhookEventType::NotificationFailed.as_str(),
            Self::DeviceUnregistered(_) => WebhookEventType::DeviceUnregistered.as_str(),
            Self::PollAnswered(_) => WebhookEventType::PollAnswered.as_str(),
            Self::EngagementOpened(_) => WebhookEventType::EngagementOpened.as_str(),
            Self::EngagementClicked(_) => WebhookEventType::EngagementClicked.as_str(),
            Self::WebhookTest(_) => WebhookEventType::WebhookTest.as_str(),
            Self::Other { kind, .. } => kind,
        }
    }

    fn read(kind: String, data: Value) -> Result<Self, serde_json::Error> {
        use serde_json::from_value as read;
        Ok(match kind.as_str() {
            "notification.completed" => Self::NotificationCompleted(read(data)?),
            "notification.failed" => Self::NotificationFailed(read(data)?),
            "device.unregistered" => Self::DeviceUnregistered(read(data)?),
            "poll.answered" => Self::PollAnswered(read(data)?),
            "engagement.opened" => Self::EngagementOpened(read(data)?),
            "engagement.clicked" => Self::EngagementClicked(read(data)?),
            "webhook.test" => Self::WebhookTest(read(data)?),
            _ => Self::Other { kind, data },
        })
    }
}

impl Serialize for WebhookEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("WebhookEvent", 3)?;
        body.serialize_field("type", self.data.kind())?;
        body.serialize_field("timestamp", &iso(self.timestamp))?;
        match &self.data {
            WebhookData::NotificationCompleted(data) | WebhookData::NotificationFailed(data) => {
                body.serialize_field("data", data)?;
            }
            WebhookData::DeviceUnregistered(data) => body.serialize_field("data", data)?,
            WebhookData::PollAnswered(data) => body.serialize_field("data", data)?,
            WebhookData::EngagementOpened(data) | WebhookData::EngagementClicked(data) => {
                body.serialize_field("data", data)?;
            }
            WebhookData::WebhookTest(data) => body.serialize_field("data", data)?,
            WebhookData::Other { data, .. } => body.serialize_field("data", data)?,
        }
        body.end()
    }
}

impl<'de> Deserialize<'de> for WebhookEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(rename = "type")]
            kind: String,
            timestamp: String,
            data: Value,
        }
        let Body { kind, timestamp, data } = Body::deserialize(deserializer)?;
        let timestamp: jiff::Timestamp = timestamp.parse().map_err(D::Error::custom)?;
        let data = WebhookData::read(kind, data).map_err(D::Error::custom)?;
        Ok(Self { timestamp: Timestamp(timestamp.as_millisecond()), data })
    }
}

/// ISO 8601 in UTC, to the millisecond.
fn iso(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_event_reads_back_as_it_was_written() {
        let id = NotificationId::new("n-1").unwrap();
        let ended = NotificationEnded {
            notification_id: id.clone(),
            status: NotificationStatus::Completed,
            counts: Counts { targeted: 2, sent: 2, ..Counts::default() },
            reason: None,
        };
        let nobody = NotificationEnded {
            counts: Counts { unknown: 1, ..Counts::default() },
            reason: Some("no_such_device".into()),
            ..ended.clone()
        };
        let device = DeviceId::new("phone").unwrap();
        let engaged =
            Engaged { notification_id: id.clone(), device_id: device.clone(), at: Timestamp(7) };
        let rows = [
            WebhookData::NotificationCompleted(ended.clone()),
            WebhookData::NotificationFailed(ended),
            WebhookData::NotificationFailed(nobody),
            WebhookData::DeviceUnregistered(DeviceUnregistered {
                device_id: device,
                platform: Platform::Ios,
                reason: "Unregistered".into(),
            }),
            WebhookData::PollAnswered(PollAnswered {
                poll_id: id,
                answer_id: AnswerId(Uuid::from_u128(3)),
                device_id: None,
            }),
            WebhookData::EngagementOpened(engaged.clone()),
            WebhookData::EngagementClicked(engaged),
            WebhookData::WebhookTest(WebhookTested { webhook_id: WebhookId(Uuid::from_u128(4)) }),
            WebhookData::Other { kind: "feed.fetched".into(), data: serde_json::json!({"n": 1}) },
        ];
        for data in rows {
            let event = WebhookEvent { timestamp: Timestamp(1_614_265_330_123), data };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<WebhookEvent>(&text).unwrap(), event, "{text}");
            assert!(text.contains(r#""timestamp":"2021-02-25T15:02:10.123Z""#), "{text}");
            let kind = format!(r#"{{"type":"{}","#, event.data.kind());
            assert!(text.starts_with(&kind), "{text}");
        }
    }

    #[test]
    fn every_type_has_a_word_of_its_own() {
        for kind in WebhookEventType::ALL {
            assert_eq!(WebhookEventType::from_word(kind.as_str()), Some(kind));
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.as_str());
        }
        assert_eq!(WebhookEventType::from_word("webhook.test"), None, "nobody subscribes to it");
    }
}

//! Events of webhooks and of the event stream, which have the same JSON (Standard Webhooks 1.0.0).

use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct,
};
use serde_json::Value;

use crate::wire_enum::wire_enum;
use crate::{
    AnswerId, Counts, DeviceId, NotificationId, NotificationStatus, Platform, Timestamp,
    UnknownName, UserCounts, UserId, WebhookId,
};

wire_enum! {
    /// Type of a webhook event.
    pub enum WebhookEventType {
        /// A notification ended: it was delivered to a device, had no recipients, or was canceled.
        NotificationCompleted = "notification.completed",
        /// A notification ended without being canceled, and no provider accepted it for any of its
        /// recipients; or none of the requested devices exists.
        NotificationFailed = "notification.failed",
        /// A notification was paused: nothing more of it is sent until it is resumed.
        NotificationPaused = "notification.paused",
        /// A device was disabled because its address is unregistered, or the person blocked the sender.
        DeviceUnregistered = "device.unregistered",
        /// An answer of a poll was counted: through the API, in a chat or on the poll's page.
        PollAnswered = "poll.answered",
        /// A device opened a notification for the first time.
        EngagementOpened = "engagement.opened",
        /// A device clicked a notification for the first time.
        EngagementClicked = "engagement.clicked",
        /// A test of a webhook; sent only to that webhook, which need not subscribe to it.
        WebhookTest = "webhook.test",
    }
}

impl WebhookEventType {
    /// The types that a webhook or a stream can subscribe to: all except `webhook.test`.
    pub const SUBSCRIBABLE: &'static [Self] = Self::ALL.split_last().expect("there are types").1;

    /// The names of [`Self::SUBSCRIBABLE`].
    pub const SUBSCRIBABLE_NAMES: &'static [&'static str] =
        Self::NAMES.split_last().expect("there are types").1;

    /// Parses the name of a [subscribable](Self::SUBSCRIBABLE) type.
    ///
    /// # Errors
    /// When the name is unknown, or its type is not subscribable.
    pub fn parse_subscribable(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { known: Self::SUBSCRIBABLE_NAMES };
        match name.parse() {
            Ok(Self::WebhookTest) | Err(_) => Err(unknown),
            Ok(kind) => Ok(kind),
        }
    }
}

/// An event: the body of a webhook message, and the data of a message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// When it happened; ISO 8601 in JSON.
    pub timestamp: Timestamp,
    /// Type and data.
    pub data: WebhookData,
}

/// Type and data of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookData {
    /// See [`WebhookEventType::NotificationCompleted`].
    NotificationCompleted(NotificationEnded),
    /// See [`WebhookEventType::NotificationFailed`].
    NotificationFailed(NotificationEnded),
    /// See [`WebhookEventType::NotificationPaused`].
    NotificationPaused(NotificationPaused),
    /// See [`WebhookEventType::DeviceUnregistered`].
    DeviceUnregistered(DeviceUnregistered),
    /// See [`WebhookEventType::PollAnswered`].
    PollAnswered(PollAnswered),
    /// See [`WebhookEventType::EngagementOpened`].
    EngagementOpened(DeviceEngaged),
    /// See [`WebhookEventType::EngagementClicked`].
    EngagementClicked(DeviceEngaged),
    /// See [`WebhookEventType::WebhookTest`].
    WebhookTest(WebhookTested),
    /// A type that this version of the library does not know.
    Other {
        /// Name of the type.
        kind: String,
        /// Data of the event.
        data: Value,
    },
}

/// Data of `notification.completed` and `notification.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationEnded {
    /// Id of the notification.
    pub notification_id: NotificationId,
    /// `completed` or `canceled`.
    pub status: NotificationStatus,
    /// Outcomes of its deliveries.
    pub counts: Counts,
    /// Numbers of users by state; absent if the notification names no users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UserCounts>,
    /// `no_such_device` when none of the requested devices exists; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Data of `notification.paused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationPaused {
    /// Id of the notification.
    pub notification_id: NotificationId,
    /// Why it was paused: `requested` if a request paused it.
    pub reason: String,
}

/// Data of `device.unregistered`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceUnregistered {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Id of its user at that time; null if no user was logged in.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// Platform of the device.
    pub platform: Platform,
    /// Why the address is unregistered.
    pub reason: String,
}

/// Data of `poll.answered`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PollAnswered {
    /// Id of the poll; also the id of its notification.
    pub poll_id: NotificationId,
    /// Id of the answer.
    pub answer_id: AnswerId,
    /// Id of the device that answered; null for an anonymous answer, such as on the poll's page.
    pub device_id: Option<DeviceId>,
    /// Id of the user of the device at that time; null if no user was logged in.
    #[serde(default)]
    pub user_id: Option<UserId>,
}

/// Data of `engagement.opened` and `engagement.clicked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceEngaged {
    /// Id of the notification.
    pub notification_id: NotificationId,
    /// Id of the device.
    pub device_id: DeviceId,
    /// Id of its user at that time; null if no user was logged in.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// When it happened according to the device, unix ms.
    pub at: Timestamp,
}

/// Data of `webhook.test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTested {
    /// Id of the webhook.
    pub webhook_id: WebhookId,
}

impl WebhookData {
    /// Name of the type.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::NotificationCompleted(_) => WebhookEventType::NotificationCompleted.as_str(),
            Self::NotificationFailed(_) => WebhookEventType::NotificationFailed.as_str(),
            Self::NotificationPaused(_) => WebhookEventType::NotificationPaused.as_str(),
            Self::DeviceUnregistered(_) => WebhookEventType::DeviceUnregistered.as_str(),
            Self::PollAnswered(_) => WebhookEventType::PollAnswered.as_str(),
            Self::EngagementOpened(_) => WebhookEventType::EngagementOpened.as_str(),
            Self::EngagementClicked(_) => WebhookEventType::EngagementClicked.as_str(),
            Self::WebhookTest(_) => WebhookEventType::WebhookTest.as_str(),
            Self::Other { kind, .. } => kind,
        }
    }

    fn parse(kind: String, data: Value) -> Result<Self, serde_json::Error> {
        use serde_json::from_value as parse;
        Ok(match kind.as_str() {
            "notification.completed" => Self::NotificationCompleted(parse(data)?),
            "notification.failed" => Self::NotificationFailed(parse(data)?),
            "notification.paused" => Self::NotificationPaused(parse(data)?),
            "device.unregistered" => Self::DeviceUnregistered(parse(data)?),
            "poll.answered" => Self::PollAnswered(parse(data)?),
            "engagement.opened" => Self::EngagementOpened(parse(data)?),
            "engagement.clicked" => Self::EngagementClicked(parse(data)?),
            "webhook.test" => Self::WebhookTest(parse(data)?),
            _ => Self::Other { kind, data },
        })
    }
}

impl Serialize for WebhookEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_struct("WebhookEvent", 3)?;
        body.serialize_field("type", self.data.kind())?;
        body.serialize_field("timestamp", &iso_8601(self.timestamp))?;
        match &self.data {
            WebhookData::NotificationCompleted(data) | WebhookData::NotificationFailed(data) => {
                body.serialize_field("data", data)?;
            }
            WebhookData::NotificationPaused(data) => body.serialize_field("data", data)?,
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
        let data = WebhookData::parse(kind, data).map_err(D::Error::custom)?;
        Ok(Self { timestamp: Timestamp(timestamp.as_millisecond()), data })
    }
}

/// ISO 8601 in UTC with milliseconds.
fn iso_8601(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_event_survives_a_round_trip() {
        let id = NotificationId::new("n-1").unwrap();
        let ended = NotificationEnded {
            notification_id: id.clone(),
            status: NotificationStatus::Completed,
            counts: Counts { targeted: 2, sent: 2, ..Counts::default() },
            users: Some(UserCounts { named: 1, reached: 1, ..UserCounts::default() }),
            reason: None,
        };
        let no_device = NotificationEnded {
            counts: Counts { unknown: 1, ..Counts::default() },
            users: None,
            reason: Some("no_such_device".into()),
            ..ended.clone()
        };
        let device = DeviceId::new("phone").unwrap();
        let engaged = DeviceEngaged {
            notification_id: id.clone(),
            device_id: device.clone(),
            user_id: Some(UserId::new("ada").unwrap()),
            at: Timestamp(7),
        };
        let rows = [
            WebhookData::NotificationCompleted(ended.clone()),
            WebhookData::NotificationFailed(ended),
            WebhookData::NotificationFailed(no_device),
            WebhookData::NotificationPaused(NotificationPaused {
                notification_id: id.clone(),
                reason: "requested".into(),
            }),
            WebhookData::DeviceUnregistered(DeviceUnregistered {
                device_id: device,
                user_id: None,
                platform: Platform::Ios,
                reason: "Unregistered".into(),
            }),
            WebhookData::PollAnswered(PollAnswered {
                poll_id: id,
                answer_id: AnswerId(Uuid::from_u128(3)),
                device_id: None,
                user_id: None,
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
    fn every_type_except_the_test_is_subscribable() {
        assert_eq!(WebhookEventType::SUBSCRIBABLE.len(), WebhookEventType::ALL.len() - 1);
        for (kind, name) in
            WebhookEventType::SUBSCRIBABLE.iter().zip(WebhookEventType::SUBSCRIBABLE_NAMES)
        {
            assert_eq!(WebhookEventType::parse_subscribable(name), Ok(*kind));
        }
        assert!(WebhookEventType::parse_subscribable("webhook.test").is_err());
    }
}

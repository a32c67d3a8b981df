//! An example of each type of event, made of the models that the server uses.

use notify_client::notify_core::{
    AnswerId, Counts, DeviceEngaged, DeviceId, DeviceUnregistered, NotificationEnded,
    NotificationId, NotificationPaused, NotificationStatus, Platform, PollAnswered, Timestamp,
    UserCounts, UserId, WebhookData, WebhookEventType, WebhookId, WebhookTested,
};
use uuid::Uuid;

/// The ids in an example.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    pub(super) notification: Option<NotificationId>,
    pub(super) device: Option<DeviceId>,
    pub(super) user: Option<UserId>,
}

/// An example of the data of a type.
pub(super) fn data(kind: WebhookEventType, subjects: &Subjects) -> WebhookData {
    let notification_id =
        subjects.notification.clone().unwrap_or_else(|| NotificationId::from(Uuid::now_v7()));
    let device_id = subjects
        .device
        .clone()
        .unwrap_or_else(|| "example-device".parse().expect("the example is an id"));
    let user_id = subjects.user.clone();
    let engaged = |notification_id, device_id, user_id| DeviceEngaged {
        notification_id,
        device_id,
        user_id,
        at: Timestamp::from_ms(jiff::Timestamp::now().as_millisecond()),
    };
    match kind {
        WebhookEventType::NotificationCompleted => {
            let counts = Counts { targeted: 1, sent: 1, ..Counts::default() };
            let users = UserCounts { named: 1, reached: 1, ..UserCounts::default() };
            WebhookData::NotificationCompleted(ended(notification_id, counts, user_id, users))
        }
        WebhookEventType::NotificationFailed => {
            let counts = Counts { targeted: 1, failed: 1, ..Counts::default() };
            let users = UserCounts { named: 1, unreached: 1, ..UserCounts::default() };
            WebhookData::NotificationFailed(ended(notification_id, counts, user_id, users))
        }
        WebhookEventType::NotificationPaused => {
            let reason = "requested".to_owned();
            WebhookData::NotificationPaused(NotificationPaused { notification_id, reason })
        }
        WebhookEventType::DeviceUnregistered => {
            WebhookData::DeviceUnregistered(DeviceUnregistered {
                device_id,
                user_id,
                platform: Platform::Android,
                reason: "UNREGISTERED".to_owned(),
            })
        }
        WebhookEventType::PollAnswered => WebhookData::PollAnswered(PollAnswered {
            poll_id: notification_id,
            answer_id: AnswerId(Uuid::now_v7()),
            device_id: Some(device_id),
            user_id,
        }),
        WebhookEventType::EngagementOpened => {
            WebhookData::EngagementOpened(engaged(notification_id, device_id, user_id))
        }
        WebhookEventType::EngagementClicked => {
            WebhookData::EngagementClicked(engaged(notification_id, device_id, user_id))
        }
        WebhookEventType::WebhookTest => {
            WebhookData::WebhookTest(WebhookTested { webhook_id: WebhookId(Uuid::now_v7()) })
        }
    }
}

/// The end of a notification, with the counts of users only if it names one.
fn ended(
    notification_id: NotificationId,
    counts: Counts,
    user: Option<UserId>,
    users: UserCounts,
) -> NotificationEnded {
    NotificationEnded {
        notification_id,
        status: NotificationStatus::Completed,
        counts,
        users: user.map(|_| users),
        reason: None,
    }
}

/// How a real event of the type comes about, with the sandbox and the command.
pub(super) fn how_to_make_it_happen(kind: WebhookEventType) -> &'static str {
    match kind {
        WebhookEventType::NotificationCompleted => {
            "notify send to a device, once every delivery has ended"
        }
        WebhookEventType::NotificationFailed => "notify send --text Hi --device no-such-device",
        WebhookEventType::NotificationPaused => {
            "notify notifications pause, while the notification is sent"
        }
        WebhookEventType::DeviceUnregistered => {
            "notify send to a device whose token ends with -unregistered (FCM in the sandbox)"
        }
        WebhookEventType::PollAnswered => "notify polls answer",
        WebhookEventType::EngagementOpened => "notify events report --type opened",
        WebhookEventType::EngagementClicked => "notify events report --type clicked",
        WebhookEventType::WebhookTest => "notify webhooks test, or notify trigger webhook.test",
    }
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::WebhookEvent;

    use super::*;

    #[test]
    fn each_type_has_an_example_with_the_given_ids() {
        let subjects = Subjects {
            notification: Some("n-1".parse().unwrap()),
            device: Some("phone".parse().unwrap()),
            user: Some("ada".parse().unwrap()),
        };
        for kind in WebhookEventType::ALL {
            let data = data(kind, &subjects);
            assert_eq!(data.kind(), kind.as_str());
            let event = WebhookEvent { timestamp: Timestamp::from_ms(1), data };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<WebhookEvent>(&text).unwrap(), event, "{text}");
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            for (field, id) in [
                ("notification_id", "n-1"),
                ("poll_id", "n-1"),
                ("device_id", "phone"),
                ("user_id", "ada"),
            ] {
                let shown = json["data"].get(field);
                assert!(shown.is_none_or(|shown| shown == id), "{field} in {text}");
            }
        }
    }
}

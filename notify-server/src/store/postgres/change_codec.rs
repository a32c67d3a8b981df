//! Encodes the changes of a commit as the payload of a `NOTIFY`. A server that cannot decode a
//! change, because the server is older, treats the change as a resync.

use crate::store::{AppNo, Change, DeliveryChange, EnrichmentChange, NotificationNo};

/// The longest payload, in bytes. PostgreSQL accepts less than 8,000 bytes. If the changes of a
/// commit do not fit, the server sends a resync instead.
const BYTES_MAX: usize = 7_000;
/// The code of a resync.
const RESYNC: &str = "*";

/// Encodes the changes of a server; `None` if no change concerns other servers.
pub(super) fn encode(server: u64, changes: &[Change]) -> Option<String> {
    let mut words: Vec<String> = changes.iter().filter_map(encode_one).collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        return None;
    }
    let text = format!("{server:x} {}", words.join(" "));
    Some(if text.len() > BYTES_MAX { format!("{server:x} {RESYNC}") } else { text })
}

/// Decodes the changes of a payload. Returns no changes if this server sent the payload.
pub(super) fn decode(server: u64, text: &str) -> Vec<Change> {
    let mut words = text.split(' ');
    if words.next() == Some(format!("{server:x}").as_str()) {
        return Vec::new();
    }
    words.map(|word| decode_one(word).unwrap_or(Change::Resync)).collect()
}

/// The code of a change: a letter and ids. Returns `None` for the change of a device, which is not
/// sent: every server reads an address again if it last read the address more than a second ago.
fn encode_one(change: &Change) -> Option<String> {
    Some(match change {
        Change::Delivery(DeliveryChange::Device(_)) => return None,
        Change::Delivery(DeliveryChange::NotificationDue) => "d".to_owned(),
        Change::Delivery(DeliveryChange::NotificationScheduled) => "s".to_owned(),
        Change::Delivery(DeliveryChange::NotificationCanceled(no)) => format!("c{}", no.0),
        Change::Delivery(DeliveryChange::NotificationPaused(no)) => format!("w{}", no.0),
        Change::Delivery(DeliveryChange::NotificationResumed(no)) => format!("r{}", no.0),
        Change::Delivery(DeliveryChange::Provider(app, provider)) => {
            format!("p{}:{}", app.0, provider.as_str())
        }
        Change::Delivery(DeliveryChange::GuardTripped(app, platform)) => {
            format!("g{}:{}", app.0, platform.as_str())
        }
        Change::Delivery(DeliveryChange::Breaker(app, platform)) => {
            format!("h{}:{}", app.0, platform.as_str())
        }
        Change::App(app) => format!("a{}", app.0),
        Change::Events(app) => format!("e{}", app.0),
        Change::Enrichment(EnrichmentChange::Campaign(app)) => format!("m{}", app.0),
        Change::Enrichment(EnrichmentChange::FeedDue) => "f".to_owned(),
        Change::Enrichment(EnrichmentChange::FeedItems(app)) => format!("i{}", app.0),
        Change::Keys => "k".to_owned(),
        Change::Resync => RESYNC.to_owned(),
    })
}

/// Decodes the code of a change; `None` if the code is unknown.
fn decode_one(word: &str) -> Option<Change> {
    let mut letters = word.chars();
    let kind = letters.next()?;
    let (number, name) = letters.as_str().split_once(':').unwrap_or((letters.as_str(), ""));
    let app = || number.parse().ok().map(AppNo);
    let notification = || number.parse().ok().map(NotificationNo);
    Some(match kind {
        'd' => DeliveryChange::NotificationDue.into(),
        's' => DeliveryChange::NotificationScheduled.into(),
        'c' => DeliveryChange::NotificationCanceled(notification()?).into(),
        'w' => DeliveryChange::NotificationPaused(notification()?).into(),
        'r' => DeliveryChange::NotificationResumed(notification()?).into(),
        'p' => DeliveryChange::Provider(app()?, name.parse().ok()?).into(),
        'g' => DeliveryChange::GuardTripped(app()?, name.parse().ok()?).into(),
        'h' => DeliveryChange::Breaker(app()?, name.parse().ok()?).into(),
        'a' => Change::App(app()?),
        'e' => Change::Events(app()?),
        'm' => EnrichmentChange::Campaign(app()?).into(),
        'f' => EnrichmentChange::FeedDue.into(),
        'i' => EnrichmentChange::FeedItems(app()?).into(),
        'k' => Change::Keys,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use notify_core::{Platform, ProviderKind};

    use super::*;
    use crate::store::DeviceKey;

    #[test]
    fn changes_for_other_servers_read_back() {
        let changes = [
            Change::Delivery(DeliveryChange::NotificationDue),
            Change::Delivery(DeliveryChange::NotificationScheduled),
            Change::Delivery(DeliveryChange::NotificationCanceled(NotificationNo(41))),
            Change::Delivery(DeliveryChange::NotificationPaused(NotificationNo(42))),
            Change::Delivery(DeliveryChange::NotificationResumed(NotificationNo(43))),
            Change::Delivery(DeliveryChange::Provider(AppNo(3), ProviderKind::WebPush)),
            Change::Delivery(DeliveryChange::GuardTripped(AppNo(3), Platform::FbMessenger)),
            Change::Delivery(DeliveryChange::Breaker(AppNo(3), Platform::Ios)),
            Change::App(AppNo(1_048_575)),
            Change::Events(AppNo(2)),
            Change::Enrichment(EnrichmentChange::Campaign(AppNo(4))),
            Change::Enrichment(EnrichmentChange::FeedDue),
            Change::Enrichment(EnrichmentChange::FeedItems(AppNo(5))),
            Change::Keys,
            Change::Resync,
        ];
        for change in changes {
            let text = encode(
                0xabc,
                &[change, Change::Delivery(DeliveryChange::Device(DeviceKey(9))), change],
            )
            .unwrap();
            assert_eq!(decode(1, &text), [change], "{text}");
            assert_eq!(decode(0xabc, &text), [], "its own");
        }
        assert_eq!(encode(1, &[Change::Delivery(DeliveryChange::Device(DeviceKey(9)))]), None);
    }

    #[test]
    fn undecodable_changes_are_a_resync() {
        let many: Vec<_> = (0..3_000).map(|no| Change::Events(AppNo(no))).collect();
        assert_eq!(decode(1, &encode(2, &many).unwrap()), [Change::Resync]);
        for unknown in ["2 z9", "2 a", "2 p1:pigeon", "2 ", ""] {
            let read = decode(1, unknown);
            assert!(read.iter().all(|change| *change == Change::Resync), "{unknown}: {read:?}");
        }
    }
}

//! What servers of one database tell each other of a commit: changes as one short text. What a server
//! cannot read, being older, it takes for everything.

use crate::store::{AppNo, Change, NotificationNo};

/// Longest text, in bytes; PostgreSQL takes less than 8,000. Of more changes everything is told.
const BYTES_MAX: usize = 7_000;
/// Anything may have changed.
const EVERYTHING: &str = "*";

/// The text of what a server committed; nothing where it concerns no other one.
pub(super) fn text(server: u64, changes: &[Change]) -> Option<String> {
    let mut words: Vec<String> = changes.iter().filter_map(word).collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        return None;
    }
    let text = format!("{server:x} {}", words.join(" "));
    Some(if text.len() > BYTES_MAX { format!("{server:x} {EVERYTHING}") } else { text })
}

/// What another server told; nothing of what this one did.
pub(super) fn read(server: u64, text: &str) -> Vec<Change> {
    let mut words = text.split(' ');
    if words.next() == Some(format!("{server:x}").as_str()) {
        return Vec::new();
    }
    words.map(|word| change(word).unwrap_or(Change::Everything)).collect()
}

/// A letter that says what, and of which. `None` for what concerns no other server: of a device each
/// reads the address again before it is a second old.
fn word(change: &Change) -> Option<String> {
    Some(match change {
        Change::DeviceChanged(_) => return None,
        Change::NotificationDue => "d".to_owned(),
        Change::NotificationScheduled => "s".to_owned(),
        Change::NotificationCanceled(no) => format!("c{}", no.0),
        Change::ProviderChanged(app, provider) => format!("p{}:{}", app.0, provider.as_str()),
        Change::PurgeStopped(app, platform) => format!("g{}:{}", app.0, platform.as_str()),
        Change::ChannelTold(app, platform) => format!("h{}:{}", app.0, platform.as_str()),
        Change::AppChanged(app) => format!("a{}", app.0),
        Change::EventsDue(app) => format!("e{}", app.0),
        Change::CampaignChanged(app) => format!("m{}", app.0),
        Change::FeedDue => "f".to_owned(),
        Change::FeedChanged(app) => format!("i{}", app.0),
        Change::KeyRevoked => "k".to_owned(),
        Change::Everything => EVERYTHING.to_owned(),
    })
}

fn change(word: &str) -> Option<Change> {
    let mut letters = word.chars();
    let what = letters.next()?;
    let (number, name) = letters.as_str().split_once(':').unwrap_or((letters.as_str(), ""));
    let app = || number.parse().ok().map(AppNo);
    Some(match what {
        'd' => Change::NotificationDue,
        's' => Change::NotificationScheduled,
        'c' => Change::NotificationCanceled(NotificationNo(number.parse().ok()?)),
        'p' => Change::ProviderChanged(app()?, name.parse().ok()?),
        'g' => Change::PurgeStopped(app()?, name.parse().ok()?),
        'h' => Change::ChannelTold(app()?, name.parse().ok()?),
        'a' => Change::AppChanged(app()?),
        'e' => Change::EventsDue(app()?),
        'm' => Change::CampaignChanged(app()?),
        'f' => Change::FeedDue,
        'i' => Change::FeedChanged(app()?),
        'k' => Change::KeyRevoked,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use notify_core::{Platform, ProviderKind};

    use super::*;
    use crate::store::DeviceKey;

    #[test]
    fn every_change_that_concerns_others_is_read_back() {
        let changes = [
            Change::NotificationDue,
            Change::NotificationScheduled,
            Change::NotificationCanceled(NotificationNo(41)),
            Change::ProviderChanged(AppNo(3), ProviderKind::WebPush),
            Change::PurgeStopped(AppNo(3), Platform::FbMessenger),
            Change::ChannelTold(AppNo(3), Platform::Ios),
            Change::AppChanged(AppNo(1_048_575)),
            Change::EventsDue(AppNo(2)),
            Change::CampaignChanged(AppNo(4)),
            Change::FeedDue,
            Change::FeedChanged(AppNo(5)),
            Change::KeyRevoked,
            Change::Everything,
        ];
        for change in changes {
            let text = text(0xabc, &[change, Change::DeviceChanged(DeviceKey(9)), change]).unwrap();
            assert_eq!(read(1, &text), [change], "{text}");
            assert_eq!(read(0xabc, &text), [], "its own");
        }
        assert_eq!(text(1, &[Change::DeviceChanged(DeviceKey(9))]), None);
    }

    #[test]
    fn what_cannot_be_told_or_read_is_everything() {
        let many: Vec<_> = (0..3_000).map(|no| Change::EventsDue(AppNo(no))).collect();
        assert_eq!(read(1, &text(2, &many).unwrap()), [Change::Everything]);
        for unknown in ["2 z9", "2 a", "2 p1:pigeon", "2 ", ""] {
            let read = read(1, unknown);
            assert!(read.iter().all(|change| *change == Change::Everything), "{unknown}: {read:?}");
        }
    }
}

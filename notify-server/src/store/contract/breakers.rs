//! What servers tell each other of their channels.

use std::sync::Arc;

use notify_core::{Platform, ProviderKind, Timestamp};

use super::apps::Heard;
use super::given::{self, EPOCH, NOW};
use super::is_unknown;
use crate::store::{
    AppNo, Change, ChannelPlace, ChannelTold, ChannelWord, Epoch, NewWord, ProviderRow, Store,
    StoreError,
};

const OTHER: Epoch = Epoch(12);

fn place(app: AppNo, service: &str) -> ChannelPlace {
    ChannelPlace { app, platform: Platform::Android, service: service.into() }
}

fn held() -> ChannelWord {
    ChannelWord::Held { reason: "PERMISSION_DENIED".into(), probe_at: NOW.plus_ms(60_000) }
}

fn word(app: AppNo, word: ChannelWord, known: i64) -> NewWord {
    NewWord { place: place(app, ""), word, by: EPOCH, known, at: NOW }
}

/// A word of a channel.
pub(super) async fn one_of_each(store: &Store, app: AppNo) {
    store.tell_channel(word(app, held(), 0)).await.unwrap();
}

async fn all(store: &Store) -> Vec<ChannelTold> {
    store.channels_told(None, 0, 100).await.unwrap()
}

pub async fn every_word_reads_back_as_it_was_told(store: &Store) {
    let app = given::app(store).await;
    let at = Timestamp(1_790_000_000_123);
    let mut known = 0;
    for told in [
        held(),
        ChannelWord::Paused { until: at },
        ChannelWord::Failing { probe_at: at },
        ChannelWord::Stopped,
        ChannelWord::Open,
    ] {
        let now = store.tell_channel(word(app, told.clone(), known)).await.unwrap();
        assert!(now.no > known, "a later word has a higher number");
        known = now.no;
        let expected =
            ChannelTold { no: known, place: place(app, ""), word: told, by: Some(EPOCH) };
        assert_eq!(now, expected);
        assert_eq!(all(store).await, [expected], "one word a channel");
    }
}

pub async fn who_does_not_know_the_latest_word_learns_it(store: &Store) {
    let app = given::app(store).await;
    let first = store.tell_channel(word(app, held(), 0)).await.unwrap();
    for known in [0, first.no - 1, first.no + 1] {
        let late = NewWord { by: OTHER, ..word(app, ChannelWord::Open, known) };
        assert_eq!(store.tell_channel(late).await.unwrap(), first, "{known}");
    }
    let next = NewWord { by: OTHER, ..word(app, ChannelWord::Open, first.no) };
    let next = store.tell_channel(next).await.unwrap();
    assert_eq!((next.word, next.by), (ChannelWord::Open, Some(OTHER)));
    let nobodys = word(AppNo(app.0 + 1), held(), 0);
    assert!(is_unknown(&store.tell_channel(nobodys).await));
}

pub async fn one_of_many_that_tell_at_once_is_heard(store: &Store) {
    let app = given::app(store).await;
    let told = (1..=8).map(|n| {
        let paused = ChannelWord::Paused { until: NOW.plus_ms(n) };
        store.tell_channel(NewWord { by: Epoch(n), ..word(app, paused, 0) })
    });
    let told = futures_util::future::join_all(told).await;
    let told: Vec<_> = told.into_iter().map(Result::unwrap).collect();
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
}

pub async fn words_are_read_in_order_after_the_last_one(store: &Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    let mut numbers = Vec::new();
    for (app, service) in [(app, ""), (other, ""), (app, "https://push.example")] {
        let new = NewWord { place: place(app, service), ..word(app, held(), 0) };
        numbers.push(store.tell_channel(new).await.unwrap().no);
    }
    let read = async |of, after, limit| -> Vec<i64> {
        let told = store.channels_told(of, after, limit).await.unwrap();
        told.into_iter().map(|told| told.no).collect()
    };
    assert_eq!(read(None, 0, 2).await, numbers[..2]);
    assert_eq!(read(None, numbers[1], 2).await, numbers[2..]);
    let lane = Some((app, Platform::Android));
    assert_eq!(read(lane, 0, 10).await, [numbers[0], numbers[2]]);
    assert_eq!(read(Some((app, Platform::Ios)), 0, 10).await, [0; 0]);
}

pub async fn an_administrator_opens_whatever_was_told(store: &Store) {
    let (id, app) = given::named_app(store, "Shop").await;
    let row = ProviderRow { provider: ProviderKind::Fcm, sealed: vec![1], updated_at: NOW };
    store.put_provider(id, row.clone()).await.unwrap();
    let heard = Arc::new(Heard::default());
    store.subscribe(heard.clone());
    let mut known = 0;
    for round in 0..3 {
        let told = store.tell_channel(word(app, held(), known)).await.unwrap();
        assert_eq!(heard.take(), [Change::ChannelTold(app, Platform::Android)]);
        let released: Result<(), StoreError> = match round {
            0 => store.release_provider(id, ProviderKind::Fcm).await,
            1 => store.put_provider(id, row.clone()).await,
            _ => store.delete_provider(id, ProviderKind::Fcm).await,
        };
        released.unwrap();
        assert!(heard.take().contains(&Change::ChannelTold(app, Platform::Android)));
        let [open] = &all(store).await[..] else { panic!("one word") };
        assert_eq!((&open.word, open.by), (&ChannelWord::Open, None));
        assert!(open.no > told.no);
        // A word from before that comes late is not heard.
        let late = store.tell_channel(word(app, held(), told.no)).await.unwrap();
        assert_eq!(late, *open);
        known = open.no;
    }
}

pub async fn words_go_with_their_application_and_with_time(store: &Store) {
    let (id, app) = given::named_app(store, "Shop").await;
    let old = NewWord { place: place(app, "old"), ..word(app, ChannelWord::Open, 0) };
    store.tell_channel(old).await.unwrap();
    let held_still = NewWord { place: place(app, "held"), ..word(app, held(), 0) };
    store.tell_channel(held_still).await.unwrap();
    let later = NewWord { at: NOW.plus_ms(86_400_001), ..word(app, held(), 0) };
    store.tell_channel(later).await.unwrap();
    let services: Vec<_> = all(store).await.into_iter().map(|told| told.place.service).collect();
    assert_eq!(services, ["held".into(), "".into()]);
    store.delete_app(id).await.unwrap();
    assert_eq!(all(store).await, []);
}

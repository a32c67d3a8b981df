//! Pairs of operations at the same time, on two stores of one database. Each statement waits a
//! random moment before it runs, so that the statements of both interleave differently in each
//! round. Afterwards the tables are checked.

use std::ops::Range;

use notify_core::{
    AttributeChanges, CampaignId, CampaignRef, Event, EventType, NotificationCreated,
    NotificationId, Platform, PollVote, Schedule, UserId,
};

use super::*;
use crate::store::contract::fixtures::{NOW, android, id};
use crate::store::contract::{campaigns, unregistered};
use crate::store::postgres::schema::{APP_LOCKS_OF_PUBLIC, INSTALLATION_LOCK_OF_PUBLIC};
use crate::store::{
    Checkpoint, DeadAddress, Dispatch, GUARD_THRESHOLD, Idempotent, NewNotification, OpenPage,
    Outcome, PollDraft, RetryOutcome, RetryResult, Visitor, with_deadline,
};

/// The number of rounds of each pair. `NOTIFY_PAIR_ROUNDS` sets another number.
const ROUNDS: usize = 1;
/// The most rounds that one after another use a database and its stores. A new store opens many connections,
/// which cost more than a round, and a round costs more with more rows.
const ROUNDS_PER_DATABASE: usize = 4;
/// The most databases at the same time. Operations mostly wait.
const DATABASES_AT_ONCE: usize = 6;

/// An operation of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Accept,
    AcceptWithKey,
    AcceptForCampaign,
    DeleteCampaign,
    CancelQueued,
    CancelStarted,
    StartDue,
    RegisterNew,
    RegisterChanged,
    RegisterSameToken,
    RegisterUnchanged,
    DeleteDevice,
    SetTags,
    LogIn,
    LogOut,
    RecordEvents,
    AnswerPoll,
    AnswerPublicPoll,
    OpenPage,
    Checkpoint,
    TripGuard,
    FinishPages,
    ClaimRetries,
    SettleRetries,
}

const ACTIONS: [Action; 24] = [
    Action::Accept,
    Action::AcceptWithKey,
    Action::AcceptForCampaign,
    Action::DeleteCampaign,
    Action::CancelQueued,
    Action::CancelStarted,
    Action::StartDue,
    Action::RegisterNew,
    Action::RegisterChanged,
    Action::RegisterSameToken,
    Action::RegisterUnchanged,
    Action::DeleteDevice,
    Action::SetTags,
    Action::LogIn,
    Action::LogOut,
    Action::RecordEvents,
    Action::AnswerPoll,
    Action::AnswerPublicPoll,
    Action::OpenPage,
    Action::Checkpoint,
    Action::TripGuard,
    Action::FinishPages,
    Action::ClaimRetries,
    Action::SettleRetries,
];

/// What an operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Effect {
    Executed,
    /// A repeat with the same idempotency key got the stored response.
    Replayed,
    /// A notification was accepted whose device had been erased before.
    AcceptedAfterErasure(NotificationId),
}

impl Effect {
    fn of_accept(accepted: Idempotent<NotificationCreated>) -> Self {
        match accepted {
            Idempotent::Replayed(_) => Self::Replayed,
            Idempotent::Executed(NotificationCreated { id, unknown: Some(_) }) => {
                Self::AcceptedAfterErasure(id)
            }
            Idempotent::Executed(_) => Self::Executed,
        }
    }
}

/// What the operations of a round are about.
struct Round {
    app: AppNo,
    name: String,
    /// A notification that is queued.
    queued: NewNotification,
    /// A notification without an open page.
    unread: Dispatch,
    /// A notification with an open page.
    started: Dispatch,
    page: OpenPage,
    /// A notification with a retry.
    retried: Dispatch,
    /// A notification that is due later, and its poll; `None` if no operation answers a poll.
    asked: Option<(NotificationId, PollDraft)>,
    /// `None` if no operation needs a campaign.
    campaign: Option<CampaignId>,
}

impl Round {
    /// Makes a device and the notifications that the operations of a round need, except the queued one.
    async fn new(store: &Store, app: AppNo, name: String, actions: &[Action]) -> Self {
        let device = format!("x-{name}");
        fixtures::registered(store, app, android(&device)).await;
        let direct = || fixtures::direct(&[&device], &[]);
        let [unread, started, retried] = Self::started(store, app, direct).await;
        let (_, page) = fixtures::whole_page(store, &started).await;
        let (keys, first) = fixtures::whole_page(store, &retried).await;
        let retries = keys.iter().map(|key| fixtures::retry(*key)).collect();
        let last =
            Checkpoint { retries, finished: true, ..fixtures::checkpoint(first, keys.len()) };
        store.checkpoint(last).await.unwrap();
        let queued = direct();
        let has = |kinds: [Action; 2]| actions.iter().any(|action| kinds.contains(action));
        let mut asked = None;
        if has([Action::AnswerPoll, Action::AnswerPublicPoll]) {
            let poll = fixtures::poll();
            let schedule = Schedule::At(NOW.plus_ms(1_000_000));
            let new = fixtures::at_schedule(schedule, direct());
            let new = NewNotification { poll: Some(poll.clone()), ..new };
            asked = Some((fixtures::accepted(store, app, new).await, poll));
        }
        let mut campaign = None;
        if has([Action::AcceptForCampaign, Action::DeleteCampaign]) {
            campaign = Some(campaigns::made(store, app, &name).await);
        }
        Self { app, name, queued, unread, started, page, retried, asked, campaign }
    }

    /// Accepts and starts three notifications, each with one dispatch.
    async fn started(
        store: &Store,
        app: AppNo,
        new: impl Fn() -> NewNotification,
    ) -> [Dispatch; 3] {
        let accepts = [(); 3].map(|()| fixtures::accepted(store, app, new()));
        futures_util::future::join_all(accepts).await;
        let (dispatches, more) = store.start_due(NOW, 10).await.unwrap();
        assert!(!more);
        let dispatches = dispatches.into_iter().map(|no| store.dispatch(no));
        let dispatches = futures_util::future::try_join_all(dispatches).await.unwrap();
        dispatches.try_into().expect("three dispatches")
    }

    /// Accepts the queued notification.
    async fn queue(&self, store: &Store) {
        fixtures::accepted(store, self.app, self.queued.clone()).await;
    }

    fn device(&self) -> String {
        format!("x-{}", self.name)
    }

    /// Runs an operation. Two operations of a round may make each other fail, but none may fail as a bug.
    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    async fn run(&self, store: &Store, action: Action, side: usize) -> Result<Effect, StoreError> {
        let Self { app, name, .. } = self;
        let app = *app;
        let executed = match action {
            Action::Accept => {
                let new = fixtures::direct(&[&self.device()], &[]);
                return store.accept_notification(app, new, None).await.map(Effect::of_accept);
            }
            Action::AcceptWithKey => {
                let new = fixtures::direct(&[&self.device()], &[]);
                let once = fixtures::once("/v1/notifications", name, 1);
                return store
                    .accept_notification(app, new, Some(once))
                    .await
                    .map(Effect::of_accept);
            }
            Action::AcceptForCampaign => {
                let campaign = self.campaign.expect("the round has a campaign");
                let new = fixtures::direct(&[&self.device()], &[]);
                let new = fixtures::with_campaign(CampaignRef::Id(campaign), new);
                return store.accept_notification(app, new, None).await.map(Effect::of_accept);
            }
            Action::DeleteCampaign => {
                let campaign = self.campaign.expect("the round has a campaign");
                store.delete_campaign(app, campaign).await
            }
            Action::CancelQueued => {
                store.cancel_notification(app, self.queued.id.clone(), NOW).await
            }
            Action::CancelStarted => {
                let id = self.started.notification_id.clone();
                store.cancel_notification(app, id, NOW).await
            }
            Action::StartDue => store.start_due(NOW, 10).await.map(drop),
            Action::RegisterNew => {
                let new = android(&format!("y-{name}"));
                store.register_device(app, new, NOW, None).await.map(drop)
            }
            Action::RegisterChanged => {
                let mut changed = android(&self.device());
                changed.details.app_version = Some(format!("{side}"));
                store.register_device(app, changed, NOW, None).await.map(drop)
            }
            Action::RegisterSameToken => {
                let token = Some(format!("shared-{name}"));
                let endpoint = notify_core::Endpoint::Android { push_token: token };
                let new = fixtures::registration(&format!("z-{name}-{side}"), endpoint);
                store.register_device(app, new, NOW, None).await.map(drop)
            }
            Action::RegisterUnchanged => {
                let later = NOW.plus_ms(7_200_000);
                store.register_device(app, android(&self.device()), later, None).await.map(drop)
            }
            Action::DeleteDevice => store.delete_device(app, id(&self.device()), NOW).await,
            Action::SetTags => {
                let tags = vec![fixtures::tag(&format!("t-{name}"), side == 0)];
                store.set_tags(app, id(&self.device()), tags, None).await.map(drop)
            }
            Action::LogIn => {
                let user = UserId::new(format!("u-{name}")).unwrap();
                let plan = [("plan".to_owned(), Some("pro".into()))].into_iter().collect();
                store.change_user(app, user.clone(), AttributeChanges(plan), NOW).await?;
                store.log_in(app, id(&self.device()), user, NOW).await.map(drop)
            }
            Action::LogOut => store.log_out(app, id(&self.device())).await.map(drop),
            Action::RecordEvents => {
                let event = |kind| Event {
                    kind,
                    notification_id: self.started.notification_id.clone(),
                    device_id: id(&self.device()),
                    at: None,
                };
                let events = vec![event(EventType::Opened), event(EventType::Clicked)];
                store.record_events(app, events, NOW, None).await.map(drop)
            }
            Action::AnswerPoll => {
                let vote = PollVote { device_id: Some(id(&self.device())) };
                let (asked, poll) = self.asked.clone().expect("the round has a poll");
                let answer = poll.answers[side];
                store.answer_poll(app, asked, answer, vote, NOW, None).await.map(drop)
            }
            Action::AnswerPublicPoll => {
                let (_, poll) = self.asked.as_ref().expect("the round has a poll");
                let (poll, answer) = (poll.public_id, poll.answers[side]);
                store.answer_public_poll(poll, answer, Visitor([7; 16]), NOW).await
            }
            Action::OpenPage => {
                let claim = fixtures::claim(&self.unread, self.unread.until, true);
                store.open_page(claim).await.map(drop)
            }
            Action::Checkpoint => store.checkpoint(self.last_checkpoint()).await.map(drop),
            Action::TripGuard => {
                let address = format!("token-{}", self.device());
                let dead = DeadAddress {
                    ambiguous: Some(0),
                    ..unregistered::report(self.page.to, &address, None)
                };
                let dead = vec![dead; GUARD_THRESHOLD + 1];
                let reported = Checkpoint { dead, ..fixtures::checkpoint(self.page, 1) };
                store.checkpoint(reported).await?;
                assert!(store.guard_tripped(app, Platform::Android).await?, "the guard trips");
                Ok(())
            }
            Action::FinishPages => {
                let finished = store.finish_pages(vec![self.last_checkpoint()]).await?;
                finished
                    .into_iter()
                    .all(|result| result.is_ok())
                    .then_some(())
                    .ok_or(StoreError::Fenced)
            }
            Action::ClaimRetries => {
                let claim = fixtures::retry_claim(app);
                store.claim_retries(claim).await.map(drop)
            }
            Action::SettleRetries => self.settle(store).await,
        };
        executed.map(|()| Effect::Executed)
    }

    /// The last checkpoint of the open page.
    fn last_checkpoint(&self) -> Checkpoint {
        let settled = vec![fixtures::sent(self.page.to)];
        Checkpoint { settled, finished: true, ..fixtures::checkpoint(self.page, 1) }
    }

    /// Claims the retry of the round and settles it.
    async fn settle(&self, store: &Store) -> Result<(), StoreError> {
        let claim = fixtures::retry_claim(self.app);
        let claimed = store.claim_retries(claim).await?;
        let outcomes: Vec<_> = claimed
            .into_iter()
            .filter(|retry| retry.dispatch == self.retried.no)
            .map(|retry| {
                RetryOutcome::of(
                    retry.no,
                    RetryResult::Final {
                        settled: Outcome::Sent,
                        reason: None,
                        attempts: 2,
                        message_id: None,
                    },
                )
            })
            .collect();
        store.settle_retries(fixtures::INSTANCE, outcomes, NOW.plus_ms(2_000)).await
    }
}

/// Queries that return a row for each broken rule.
const RULES: [(&str, &str); 18] = [
    (
        "an address belongs to one device",
        "select count(*) from devices where address is not null group by app_no, address
         having count(*) > 1",
    ),
    (
        "the counters of devices equal a recount",
        "select 1 from (
           select app_no, created_at / 3600000 as hour, key >> 40 & 7 as platform,
             case when push_disabled = 0 and dead_at is null then 1 else 0 end as enabled,
             count(*) as count from devices group by 1, 2, 3, 4) d
         full join (select * from device_counts where count > 0) c
           using (app_no, hour, platform, enabled)
         where d.count is distinct from c.count",
    ),
    (
        "the counters of offsets equal a recount",
        "select 1 from (
           select app_no, key >> 40 & 7 as platform, utc_offset_minutes, count(*) as devices
           from devices group by 1, 2, 3) d
         full join (select * from device_zones where devices > 0) z
           using (app_no, platform, utc_offset_minutes)
         where d.devices is distinct from z.devices",
    ),
    (
        "the numbers of events have no gaps",
        "select 1 from events group by app_no having count(*) <> max(no) or min(no) <> 1",
    ),
    (
        "nothing of an erased device is left",
        "select device_key from engagement where device_key not in (select key from devices)
         union all select device_key from device_tags where device_key not in (select key from devices)
         union all select key from device_fields where key not in (select key from devices)
         union all select device_key from device_attributes
           where device_key not in (select key from devices)
         union all select device_key from retries
           where outcome is null and device_key not in (select key from devices)",
    ),
    (
        "the fields of a device are those that it registered last",
        "select 1 from devices d left join device_fields f on f.key = d.key
         where f.app_version is distinct from d.details::json ->> 'app_version'
         or f.created_at <> d.created_at or f.key is null",
    ),
    (
        "a device has the attributes of its user and no others",
        "select 1 from (
           select f.key, u.attribute from device_fields f
           join user_attributes u on u.user_no = f.user_no) expected
         full join device_attributes a
           on a.device_key = expected.key and a.attribute = expected.attribute
         where a.value is null or expected.key is null",
    ),
    (
        "no request names an erased device",
        "select 1 from notifications n where n.names_devices = 1 and exists (
           select 1 from json_array_elements_text(n.request::json -> 'android_device_ids') e (named)
           where not exists (
             select 1 from devices d where d.app_no = n.app_no and d.device_id = e.named))",
    ),
    (
        "the campaign of a notification exists",
        "select 1 from notifications n where campaign_id is not null and not exists (
           select 1 from campaigns c where c.app_no = n.app_no and c.id = n.campaign_id)",
    ),
    (
        "an ended notification has no open dispatch",
        "select 1 from notifications n where status in ('completed', 'canceled')
         and (open_dispatches <> 0 or exists (
           select 1 from dispatches d where d.notification_no = n.no and d.completed_at is null))",
    ),
    (
        "a notification has ended once its dispatches have",
        "select 1 from notifications n where status = 'sending' and open_dispatches = 0",
    ),
    (
        "open pages and retries are counted",
        "select 1 from dispatches d where
           open_pages <> (select count(*) from pages p where p.dispatch_no = d.no and finished = 0)
           or open_retries <>
             (select count(*) from retries r where r.dispatch_no = d.no and outcome is null)",
    ),
    (
        "the counts of a completed dispatch are those of its pages",
        "select 1 from dispatches d where completed_at is not null
         and (targeted, sent, failed, canceled) <>
           (select coalesce(sum(p.targeted), 0), coalesce(sum(p.sent), 0),
              coalesce(sum(p.failed), 0), coalesce(sum(p.canceled), 0)
            from pages p where p.dispatch_no = d.no)",
    ),
    (
        "the deliveries of the days are those of the pages",
        "select 1 from (select coalesce(sum(sent), 0) as sent from pages) p,
           (select coalesce(sum(sent), 0) as sent from day_counts) d where p.sent <> d.sent",
    ),
    (
        "a notification ends once",
        "select 1 from events where type in (0, 1) group by notification_no having count(*) > 1",
    ),
    (
        "the holders of tags are counted",
        "select 1 from tags t where holders <>
           (select count(*) from device_tags d where d.tag_no = t.no)",
    ),
    (
        "the clicks of a poll equal its votes",
        "select 1 from polls p where
           (select sum(clicks) from poll_answers a where a.notification_no = p.notification_no)
           < (select count(*) from poll_votes v where v.notification_no = p.notification_no)
           + (select count(*) from poll_visitors v where v.notification_no = p.notification_no)",
    ),
    (
        "every counted event is stored or its device is erased",
        "select 1 from engagement e where not exists (
           select 1 from engagement_counts c where c.notification_no = e.notification_no
           and c.opened + c.clicked >= 1)",
    ),
];

/// Runs each operation once.
pub(super) async fn run_every_action(store: &Store, app: AppNo) {
    for action in ACTIONS {
        let round = Round::new(store, app, format!("{action:?}"), &[action]).await;
        round.queue(store).await;
        if let Err(error) = round.run(store, action, 0).await {
            panic!("{action:?}: {error:?}");
        }
        store.start_due(NOW, 100).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_of_operations_at_once_keep_the_rules_of_the_tables() {
    let rounds = std::env::var("NOTIFY_PAIR_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut running = tokio::task::JoinSet::new();
    for first in (0..rounds).step_by(ROUNDS_PER_DATABASE) {
        if running.len() == DATABASES_AT_ONCE {
            running.join_next().await.unwrap().unwrap();
        }
        running.spawn(run_every_pair(first..rounds.min(first + ROUNDS_PER_DATABASE)));
    }
    running.join_all().await;
}

/// Runs every pair of operations once in each round, on one database. Each pair runs on the same devices and
/// notifications. An eighth of the pairs also run on two applications.
async fn run_every_pair(rounds: Range<usize>) {
    let own = PostgresBackend::migrated(SetMode::On);
    let open = || {
        own.try_open(PostgresOptions { has_pauses: true, ..PostgresOptions::default() }).unwrap()
    };
    let calm = own.open();
    let stores = [open(), open()];
    let apps = [fixtures::app(&calm).await, fixtures::named_app(&calm, "Another").await.1];
    for app in apps {
        own.0.execute(&format!("insert into event_logs (app_no, wanted) values ({}, 127)", app.0));
    }
    let firsts = rounds.clone().flat_map(|round| {
        ACTIONS.into_iter().enumerate().map(move |(nth, first)| (round, nth, first))
    });
    for (round, nth, first) in firsts {
        for (second, is_other_app) in
            ACTIONS[nth..].iter().flat_map(|second| [(second, false), (second, true)])
        {
            // Few rules are about two applications, so an eighth of these pairs is enough for a round.
            if is_other_app && !(nth + *second as usize + round).is_multiple_of(8) {
                continue;
            }
            let name = format!("{round}-{first:?}-{second:?}-{is_other_app}");
            let actions = [first, *second];
            let about = Round::new(&calm, apps[0], name.clone(), &actions).await;
            let other = match is_other_app {
                true => Some(Round::new(&calm, apps[1], name.clone(), &actions).await),
                false => None,
            };
            for round in [&about].into_iter().chain(&other) {
                round.queue(&calm).await;
            }
            let other = other.as_ref().unwrap_or(&about);
            let [a, b] = &stores;
            let results = tokio::join!(about.run(a, first, 0), other.run(b, *second, 1));
            let results: [_; 2] = results.into();
            for result in &results {
                if let Err(StoreError::Backend(error)) = result {
                    panic!("{name}: {error:?}");
                }
            }
            if actions == [Action::AcceptWithKey; 2] && !is_other_app {
                let executed = results.iter().filter(|it| matches!(it, Ok(Effect::Executed)));
                assert_eq!(executed.count(), 1);
            }
            // A guard that has tripped counts nothing, so no later pair could trip it.
            if actions.contains(&Action::TripGuard) {
                own.0.execute("delete from purge_guards");
            }
            // The work that is left must not run in another round.
            calm.start_due(NOW, 100).await.unwrap();
            for result in results {
                // Only the request of a notification that was accepted later may name the device.
                if let Ok(Effect::AcceptedAfterErasure(id)) = result {
                    assert!(actions.contains(&Action::DeleteDevice) && !is_other_app, "{name}");
                    let id = id.as_str();
                    own.0.execute(&format!(
                        "update notifications set request = '{{}}' where id = '{id}'"
                    ));
                }
            }
            for app in apps {
                calm.claim_retries(fixtures::retry_claim(app)).await.unwrap();
            }
        }
    }
    for app in apps {
        while calm.remove_erased_ids(app).await.unwrap() {}
    }
    check_rules(&own, &format!("the rounds {rounds:?}"));
    for store in stores.into_iter().chain([calm]) {
        store.close().await;
    }
}

/// An application is erased while another server writes to it. Nothing of the application may be left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_is_erased_completely_during_any_operation() {
    let own = PostgresBackend::migrated(SetMode::On);
    let open = || {
        own.try_open(PostgresOptions { has_pauses: true, ..PostgresOptions::default() }).unwrap()
    };
    let (calm, stores) = (own.open(), [open(), open()]);
    let tables = own.0.texts(
        "select table_name || ' where ' || case column_name when 'app_no' then 'app_no'
           else column_name || ' >> 43' end from information_schema.columns
         where table_schema = current_schema()
         and column_name in ('app_no', 'notification_no', 'dispatch_no', 'page_no', 'device_key')",
    );
    assert!(tables.len() > 20, "{tables:?}");
    for action in ACTIONS {
        let (id, app) = fixtures::named_app(&calm, &format!("{action:?}")).await;
        let round = Round::new(&calm, app, "x".to_owned(), &[action]).await;
        round.queue(&calm).await;
        let [a, b] = &stores;
        let (erased, result) = tokio::join!(a.delete_app(id), round.run(b, action, 0));
        erased.unwrap();
        if let Err(StoreError::Backend(error)) = result {
            panic!("{action:?}: {error:?}");
        }
        for table in &tables {
            let left = own.0.numbers(&format!("select count(*) from {table} = {}", app.0));
            assert_eq!(left, [0], "{action:?}: {table}");
        }
        check_rules(&own, &format!("the application was erased during {action:?}"));
    }
    for store in stores.into_iter().chain([calm]) {
        store.close().await;
    }
}

/// A row-by-row write runs alone in its application, not in the installation.
#[tokio::test]
async fn a_write_to_one_application_does_not_wait_for_another() {
    const WAIT: Duration = Duration::from_millis(300);
    let own = PostgresBackend::migrated(SetMode::On);
    // A server has one thread for row-by-row writes, so each application has its own server here.
    let stores = [own.open(), own.open()];
    let another = fixtures::named_app(&stores[0], "Another").await.1;
    let apps = [fixtures::app(&stores[0]).await, another];
    let device = android("phone");
    for app in apps {
        fixtures::registered(&stores[0], app, device.clone()).await;
    }
    let tagged = async |nth: usize| {
        let tags = vec![fixtures::tag("vip", true)];
        let tagging = stores[nth].set_tags(apps[nth], device.device_id.clone(), tags, None);
        with_deadline(WAIT, tagging).await
    };
    let accepted = async |nth: usize| {
        let new = fixtures::direct(&["phone"], &[]);
        with_deadline(WAIT, stores[nth].accept_notification(apps[nth], new, None)).await
    };
    let held = own.0.hold(&format!(
        "select pg_advisory_xact_lock_shared({INSTALLATION_LOCK_OF_PUBLIC}),
                pg_advisory_xact_lock({APP_LOCKS_OF_PUBLIC} + {})",
        apps[0].0
    ));
    assert!(matches!(tagged(0).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(accepted(0).await, Err(StoreError::Unavailable(_))));
    tagged(1).await.unwrap();
    accepted(1).await.unwrap();
    drop(held);
    // Every write waits for a write to the whole installation.
    let held = own.0.hold(&format!("select pg_advisory_xact_lock({INSTALLATION_LOCK_OF_PUBLIC})"));
    for nth in [0, 1] {
        assert!(matches!(tagged(nth).await, Err(StoreError::Unavailable(_))));
        assert!(matches!(accepted(nth).await, Err(StoreError::Unavailable(_))));
    }
    drop(held);
    for store in stores {
        store.close().await;
    }
}

/// The pages of a dispatch, whose servers commit their last checkpoints at the same time.
const PAGES: usize = 6;

/// The last checkpoint of the last page ends the dispatch, whichever server commits it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_two_servers_finish_at_once_end_the_dispatch_once() {
    let own = PostgresBackend::migrated(SetMode::On);
    let open = || {
        own.try_open(PostgresOptions { has_pauses: true, ..PostgresOptions::default() }).unwrap()
    };
    let stores = [open(), open()];
    let app = fixtures::app(&stores[0]).await;
    fixtures::devices(&stores[0], app, PAGES).await;
    own.0.execute(&format!("insert into event_logs (app_no, wanted) values ({}, 127)", app.0));
    for round in 1..=5 {
        let mut dispatch = fixtures::android_dispatch(&stores[0], app).await;
        let mut pages = Vec::new();
        while !dispatch.scan_done {
            let batch = stores[0].read_batch(&dispatch, dispatch.cursor, 1).await.unwrap();
            let claim = fixtures::claim(&dispatch, batch.to, batch.end);
            let claim = crate::store::PageClaim { targeted: 1, ..claim };
            // One of the servers gets the page.
            let [a, b] = &stores;
            let opened = tokio::join!(a.open_page(claim), b.open_page(claim));
            let opened = [opened.0, opened.1];
            assert_eq!(opened.iter().filter(|result| result.is_ok()).count(), 1, "{opened:?}");
            pages.push((batch.devices[0].key, opened.into_iter().find_map(Result::ok).unwrap()));
            dispatch = a.dispatch(dispatch.no).await.unwrap();
        }
        assert_eq!(pages.len(), PAGES);
        let last = |(key, page)| Checkpoint {
            settled: vec![fixtures::sent(key)],
            finished: true,
            ..fixtures::checkpoint(page, 1)
        };
        let finished = pages.into_iter().zip(stores.iter().cycle());
        let finished = finished.map(|(page, store)| store.checkpoint(last(page)));
        for result in futures_util::future::join_all(finished).await {
            result.unwrap();
        }
        let record = stores[1].notification(app, dispatch.notification_id.clone()).await.unwrap();
        assert_eq!(record.status, notify_core::NotificationStatus::Completed);
        assert_eq!(record.counts.sent, PAGES as u64);
        assert_eq!(own.0.numbers("select count(*) from events"), [round]);
        check_rules(&own, "finished pages");
    }
    for store in stores {
        store.close().await;
    }
}

/// The check of the tables finds a wrong counter, and names its rule alone.
#[tokio::test]
async fn a_broken_rule_of_the_tables_is_found() {
    let own = PostgresBackend::migrated(SetMode::On);
    let store = own.open();
    let app = fixtures::app(&store).await;
    fixtures::registered(&store, app, android("phone")).await;
    check_rules(&own, "a registration");
    own.0.execute("update device_counts set count = count + 1");
    assert_eq!(broken_rules(&own), ["the counters of devices equal a recount"]);
    store.close().await;
}

/// The rules that the tables break. One query finds them, because each one would connect to the database.
fn broken_rules(own: &PostgresBackend) -> Vec<String> {
    let rule = |(name, query)| format!("select '{name}' where exists ({query})");
    own.0.texts(&RULES.map(rule).join(" union all "))
}

/// Checks the tables.
fn check_rules(own: &PostgresBackend, after: &str) {
    assert_eq!(broken_rules(own), [""; 0], "after {after}");
}

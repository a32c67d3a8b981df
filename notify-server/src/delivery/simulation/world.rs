//! Everything outside the engine and its store: push services, callers and the disk. What they know is
//! compared with what the engine does. One lock protects it, which is never held across an await.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::{AppId, IosEnv, Platform, ProviderKind, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock::SimulatedClock;
use super::conditions::Condition;
use super::defects::Defect;
use super::devices::Devices;
use super::keys::ExpectedKey;
use super::notifications::ExpectedNotification;
use super::trace::{START, Trace};
use crate::clock::Clock;
use crate::delivery::decision::supports_dedup;
use crate::providers::SendResult;
use crate::store::AppNo;

/// A push service as one application uses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service {
    pub(super) condition: Condition,
    /// Number of streams that the service accepts.
    pub(super) slots: usize,
    /// Permits that a task may have held when the limit was lowered.
    pub(super) held_permits: usize,
    pub(super) in_flight: usize,
    /// Requests in flight that change the provider.
    pub(super) changes: u32,
    /// The last event at which the provider may have changed.
    pub(super) changed: u64,
}

impl Service {
    pub(super) fn new(condition: Condition, slots: usize) -> Self {
        Self { condition, slots, held_permits: 0, in_flight: 0, changes: 0, changed: 0 }
    }

    /// Changes the number of streams that the service accepts.
    pub(super) fn set_slots(&mut self, slots: usize) {
        self.held_permits = self.held_permits.max(self.slots.saturating_sub(self.in_flight));
        self.slots = slots;
    }
}

/// One request to a push service.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) app: AppNo,
    pub(super) platform: Platform,
    pub(super) id: String,
    pub(super) token: String,
    pub(super) env: IosEnv,
}

/// A report by a push service that an address is dead, or its rejection of the address.
#[derive(Debug, Clone)]
pub(super) struct UnregisteredReport {
    /// The devices that had the address when the attempt was made.
    pub(super) names: Vec<String>,
    pub(super) token: String,
    pub(super) env: IosEnv,
    /// Whether no registration is known to follow the death.
    pub(super) counts: bool,
}

/// The condition of the disk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Disk {
    pub(super) is_slow: bool,
    /// Until when every commit fails.
    pub(super) full_until: Option<Timestamp>,
    /// Whether acknowledgements may be lost. This affects only commits without a caller's request: a caller
    /// would have to repeat the request to learn its result.
    pub(super) loses_answers: bool,
}

/// Everything outside the engine and its store.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) trace: Trace,
    pub(super) clock: Option<Arc<SimulatedClock>>,
    /// When the last process ended.
    pub(super) stopped_at: Timestamp,
    pub(super) event: u64,
    pub(super) apps: Vec<(AppNo, AppId)>,
    pub(super) keys: Vec<ExpectedKey>,
    /// The applications with `on_crash: skip`.
    pub(super) skips: BTreeSet<AppNo>,
    pub(super) services: BTreeMap<(AppNo, ProviderKind), Service>,
    /// Providers that were missing at some time.
    pub(super) was_missing: Vec<(AppNo, ProviderKind)>,
    pub(super) devices: Devices,
    pub(super) notifications: BTreeMap<String, ExpectedNotification>,
    /// The devices of the last attempts.
    pub(super) recent: VecDeque<(AppNo, String)>,
    /// Devices that were erased or changed their platform, with the last event at which that may
    /// have happened.
    pub(super) lost_devices: Vec<(AppNo, String, u64)>,
    pub(super) unregistered_reports: BTreeMap<(AppNo, Platform), Vec<UnregisteredReport>>,
    pub(super) disk: Disk,
    /// Whether the acknowledgement of a commit was ever lost.
    pub(super) has_lost_answers: bool,
    /// Whether a user was ever deleted.
    pub(super) has_deleted_users: bool,
    /// Requests of callers in flight.
    pub(super) requests: u32,
    pub(super) unacked_max: u64,
    /// The limit of messages whose platform cannot recognise a repeat, and how many are in flight.
    pub(super) without_dedup_max: u64,
    pub(super) in_flight_without_dedup: u64,
    pub(super) in_flight: u64,
    pub(super) delivered: u64,
    pub(super) recorded: u64,
    /// Accepted messages that may stay unrecorded.
    pub(super) may_stay_unrecorded: u64,
    pub(super) crashes: u32,
    /// After how many commits the process dies.
    pub(super) crash_after_commits: Option<u32>,
    pub(super) crash_signal: Arc<Notify>,
    /// Whether the process is dead. Tasks of it that still run have no effect.
    pub(super) is_dead: bool,
    pub(super) defect: Option<Defect>,
    /// Broken invariants.
    pub(super) violations: Vec<String>,
}

pub(super) type SharedWorld = Arc<Mutex<World>>;

/// Takes the lock.
pub(super) fn lock(world: &SharedWorld) -> MutexGuard<'_, World> {
    world.lock().expect("no holder of the world panics")
}

impl World {
    pub(super) fn new(seed: u64, lines_max: usize, defect: Option<Defect>) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            trace: Trace::new(lines_max),
            clock: None,
            stopped_at: START,
            event: 0,
            apps: Vec::new(),
            keys: Vec::new(),
            skips: BTreeSet::new(),
            services: BTreeMap::new(),
            was_missing: Vec::new(),
            devices: Devices::default(),
            notifications: BTreeMap::new(),
            recent: VecDeque::new(),
            lost_devices: Vec::new(),
            unregistered_reports: BTreeMap::new(),
            disk: Disk::default(),
            has_lost_answers: false,
            has_deleted_users: false,
            requests: 0,
            unacked_max: 0,
            without_dedup_max: 0,
            in_flight_without_dedup: 0,
            in_flight: 0,
            delivered: 0,
            recorded: 0,
            may_stay_unrecorded: 0,
            crashes: 0,
            crash_after_commits: None,
            crash_signal: Arc::default(),
            is_dead: false,
            defect,
            violations: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or(self.stopped_at, |clock| clock.now())
    }

    pub(super) fn disk_is_full(&self) -> bool {
        self.disk.full_until.is_some_and(|until| self.now() < until)
    }

    /// Whether the acknowledgement of the next commit is lost: one in four, where allowed.
    pub(super) fn loses_answer(&mut self) -> bool {
        let loses = self.disk.loses_answers && self.requests == 0 && self.rng.u8(0..4) == 0;
        self.has_lost_answers |= loses;
        loses
    }

    /// Ends the clock together with its process.
    pub(super) fn stop_clock(&mut self) {
        self.stopped_at = self.now();
        self.clock = None;
        self.is_dead = true;
    }

    /// Records an event. Returns its number.
    pub(super) fn record_event(&mut self, what: &str) -> u64 {
        self.event += 1;
        let now = self.now();
        self.trace.record(now, what);
        self.event
    }

    /// Records a broken invariant.
    pub(super) fn record_violation(&mut self, what: &str) {
        let line = format!("BROKEN: {what}");
        self.record_event(&line);
        self.violations.push(what.to_owned());
    }

    /// Records the answer to an attempt.
    pub(super) fn record_answer(
        &mut self,
        attempt: &Attempt,
        names: &[String],
        answer: &SendResult,
    ) {
        self.end_attempt(attempt);
        let Attempt { app, platform, id, token, env } = attempt;
        self.record_event(&format!("{} {platform} ← {token} of {id}: {answer:?}", app.0));
        let notification = self.notifications.get_mut(id);
        let mut unknown = ExpectedNotification::unknown(*app);
        let notification = notification.unwrap_or(&mut unknown);
        let reached = notification.by_address.entry((*platform, token.clone())).or_default();
        match answer {
            SendResult::Delivered { .. } => {
                reached.attempts += 1;
                reached.delivered += 1;
                reached.delivered_at = Some(Instant::now());
                notification.delivered += 1;
                self.delivered += 1;
            }
            SendResult::Unregistered { since, reason, .. } => {
                let service = &self.services[&(*app, platform.provider())];
                reached.looked_dead_before |=
                    service.changes > 0 || service.changed > reached.began;
                reached.attempts += 1;
                reached.dead = true;
                // The engine does not believe many such reports in a row while no message is delivered.
                if *platform == Platform::Web {
                    notification.reasons.insert(reason.to_string());
                }
                let spared = |name: &String| {
                    let entry = self.devices.entry(*app, name);
                    entry.is_some_and(|entry| {
                        entry.next.is_none()
                            && since.is_some_and(|since| {
                                entry.registered_at.is_some_and(|at| at > since)
                            })
                    })
                };
                let report = UnregisteredReport {
                    counts: !names.iter().all(spared),
                    names: names.to_vec(),
                    token: token.clone(),
                    env: *env,
                };
                self.unregistered_reports.entry((*app, *platform)).or_default().push(report);
            }
            SendResult::AddressChanged { to } => {
                for name in names {
                    let entry = self.devices.entries.get_mut(&(*app, name.clone()));
                    if let Some(now) = entry.and_then(|entry| entry.now.as_mut())
                        && now.is_at(*platform, token)
                    {
                        now.moved_to.insert(to.to_string());
                    }
                }
            }
            SendResult::ServiceRefused { reason } => {
                reached.refused = true;
                notification.reasons.insert(reason.to_string());
                let (names, token) = (names.to_vec(), token.clone());
                let death = UnregisteredReport { counts: true, names, token, env: *env };
                self.unregistered_reports.entry((*app, *platform)).or_default().push(death);
            }
            SendResult::Throttle { reason, .. } | SendResult::AuthRejected { reason } => {
                notification.reasons.insert(reason.to_string());
            }
            SendResult::Retry { reason, .. }
            | SendResult::InvalidMessage { reason }
            | SendResult::NotPermitted { reason }
            | SendResult::Unknown { reason } => {
                reached.attempts += 1;
                notification.reasons.insert(reason.to_string());
            }
        }
    }

    /// Records the end of an attempt, whatever its result.
    pub(super) fn end_attempt(&mut self, attempt: &Attempt) {
        self.in_flight -= 1;
        self.in_flight_without_dedup -= u64::from(!supports_dedup(attempt.platform));
        let service = self.services.get_mut(&(attempt.app, attempt.platform.provider()));
        service.expect("every application has all services").in_flight -= 1;
        if let Some(notification) = self.notifications.get_mut(&attempt.id) {
            notification.in_flight -= 1;
            let address = (attempt.platform, attempt.token.clone());
            if let Some(reached) = notification.by_address.get_mut(&address) {
                reached.in_flight -= 1;
            }
        }
    }

    /// Records that a commit succeeded or was rejected.
    pub(super) fn committed(&mut self, writes: usize, recorded: u64) {
        self.record_event(&format!("disk: {writes} writes, {recorded} sent"));
        self.recorded = recorded;
        self.check_unacked();
        if let Some(left) = &mut self.crash_after_commits {
            *left -= 1;
            if *left == 0 {
                self.crash_after_commits = None;
                self.crash_signal.notify_one();
            }
        }
    }

    /// Kills the process. Accepted messages that are not recorded may be repeated, up to the
    /// unacked limit.
    pub(super) fn crash(&mut self, recorded_of: impl Fn(&ExpectedNotification) -> u64) {
        let in_flight = self.in_flight;
        self.record_event(&format!("the process dies with {in_flight} in flight"));
        self.crashes += 1;
        let mut forgotten = 0;
        let World { notifications, rng, .. } = self;
        for notification in notifications.values_mut() {
            // A service may have accepted messages that are in flight.
            let also_delivered = rng.u64(0..=notification.in_flight);
            let recorded = recorded_of(notification);
            let lost = notification.unrecorded(recorded) + also_delivered;
            // An upper bound: it also counts messages that an earlier crash lost or a request waived.
            let may_repeat = notification.delivered.saturating_sub(recorded) + also_delivered;
            notification.repeats_max += may_repeat;
            notification.lost_outcomes += lost;
            notification.delivered += also_delivered;
            notification.in_flight = 0;
            notification.is_pausing = false;
            for reached in notification.by_address.values_mut() {
                reached.is_in_doubt |= reached.in_flight > 0 || reached.delivered > 0;
                reached.in_flight = 0;
            }
            forgotten += lost;
            self.delivered += also_delivered;
        }
        let changing: Vec<(AppNo, String)> = self
            .devices
            .entries
            .iter()
            .filter(|(_, entry)| entry.next.is_some())
            .map(|(device, _)| device.clone())
            .collect();
        changing.iter().for_each(|(app, name)| self.end_device_loss(*app, name));
        self.may_stay_unrecorded += forgotten;
        self.in_flight = 0;
        self.in_flight_without_dedup = 0;
        for service in self.services.values_mut() {
            (service.in_flight, service.held_permits) = (0, 0);
        }
        self.is_dead = true;
        if forgotten > self.unacked_max {
            let limit = self.unacked_max;
            self.record_violation(&format!(
                "a crash may repeat {forgotten}, with a limit of {limit}"
            ));
        }
    }

    /// A push service as an application uses it.
    pub(super) fn service(&mut self, app: AppNo, kind: ProviderKind) -> &mut Service {
        self.services.get_mut(&(app, kind)).expect("every application has all services")
    }

    /// Records that a device may be lost from now on.
    pub(super) fn begin_device_loss(&mut self, app: AppNo, name: &str) {
        self.lost_devices.push((app, name.to_owned(), self.event));
    }

    /// Records that a device is lost by now.
    pub(super) fn end_device_loss(&mut self, app: AppNo, name: &str) {
        let mut of_this = self.lost_devices.iter_mut().rev();
        if let Some(lost) = of_this.find(|(of, lost, _)| *of == app && lost == name) {
            lost.2 = self.event;
        }
    }

    /// Records that a user was deleted, by a request that was sent with the event `sent`. A later user with the
    /// same id is a different user, and earlier notifications do not reach that user.
    pub(super) fn forget_user(&mut self, app: AppNo, user: &str, sent: u64) {
        self.has_deleted_users = true;
        let is_earlier = |event: Option<u64>| event.is_some_and(|event| event < sent);
        for notification in self.notifications.values_mut() {
            if notification.app == app
                && is_earlier(notification.acknowledged_event)
                && let Some(users) = &mut notification.users
            {
                users.remove(user);
            }
        }
    }

    /// A request ended deliveries in flight, so their results need not be recorded.
    pub(super) fn waive(&mut self, id: &str, recorded: u64) {
        let Some(notification) = self.notifications.get_mut(id) else { return };
        let waived = notification.unrecorded(recorded) + notification.in_flight;
        notification.waived += waived;
        self.may_stay_unrecorded += waived;
    }
}

//! The random steps of a simulation, from a seed.

use std::time::Duration;

use notify_core::{Platform, ProviderKind};
use tokio::task::JoinSet;

use super::audiences::USERS;
use super::conditions::Condition;
use super::device_requests::{delete_user, erase, log_in, register, replace_user, tag};
use super::devices::State;
use super::keys::{KEYS_MAX, KeyChange, change_and_use_keys};
use super::requests::{Process, cancel, configure, notify, notify_then_cancel, pause};
use super::world::{World, lock};
use crate::store::AppNo;
use crate::store::sqlite::Fault;

/// Limits on streams that a push service may set.
const SLOTS: [usize; 8] = [1, 1, 2, 3, 5, 20, 100, 1_000];

/// Longest time for which the disk accepts no writes, in milliseconds. The engine retries five
/// times a second.
const FULL_MS_MAX: i64 = 20_000;

/// How a run of the server ends before the script does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptEnd {
    /// The process is stopped and started again.
    Restart,
    /// No steps are left.
    Finished,
}

/// The remaining steps.
pub(super) struct Script {
    pub(super) rng: fastrand::Rng,
    steps_left: u32,
    pub(super) tokens: u32,
}

impl Script {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let steps_left = rng.u32(6..60);
        Self { rng, steps_left, tokens: 0 }
    }

    /// Runs steps until a restart of the server, or to the end.
    pub(super) async fn play(&mut self, process: &Process, tasks: &mut JoinSet<()>) -> ScriptEnd {
        while self.steps_left > 0 {
            self.steps_left -= 1;
            if let Some(end) = self.step(process, tasks).await {
                return end;
            }
            while tasks.try_join_next().is_some() {}
            super::checks::check_invariants(process);
            if !lock(&process.world).violations.is_empty() {
                return ScriptEnd::Finished;
            }
            let pause_ms = match self.rng.u8(0..20) {
                0..7 => 0,
                7..13 => self.rng.u64(1..100),
                13..16 => self.rng.u64(1..2_000),
                16..19 => self.rng.u64(1..20_000),
                _ => self.rng.u64(1..600_000),
            };
            if pause_ms > 0 {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        ScriptEnd::Finished
    }

    async fn step(&mut self, process: &Process, tasks: &mut JoinSet<()>) -> Option<ScriptEnd> {
        let app = self.app(process);
        match self.rng.u8(0..108) {
            0..20 => drop(tasks.spawn(notify(process.clone(), app, self.draft(process, app)))),
            20..24 => {
                let (draft, after) = (self.draft(process, app), self.rng.u64(0..40));
                let after = Duration::from_millis(after);
                tasks.spawn(notify_then_cancel(process.clone(), app, draft, after));
            }
            24..52 => {
                let devices = if self.rng.u8(0..3) == 0 { self.rng.u8(2..8) } else { 1 };
                for _ in 0..devices {
                    self.touch_device(process, app, tasks);
                }
            }
            52..57 => {
                let ids: Vec<String> = lock(&process.world).notifications.keys().cloned().collect();
                if !ids.is_empty() {
                    let id = ids[self.rng.usize(0..ids.len())].clone();
                    tasks.spawn(cancel(process.clone(), id));
                }
            }
            57..62 => self.pause_or_resume(process, tasks),
            62..74 => self.change_condition(process, app),
            74..79 => {
                let kind = ProviderKind::ALL[self.rng.usize(0..ProviderKind::ALL.len())];
                let rate = match self.rng.u8(0..6) {
                    0..2 => None,
                    2 => Some(self.rng.u8(1..=255)),
                    _ => Some(0),
                };
                tasks.spawn(configure(process.clone(), app, kind, rate));
            }
            79..82 => process.store.fail(Fault::FailCommit(self.rng.u32(1..4))),
            82..86 => process.store.fail(Fault::RollBackAtWrite(self.rng.u32(1..8))),
            86..89 => {
                let mut world = lock(&process.world);
                world.disk.is_slow = self.rng.u8(0..3) == 0;
                world.disk.loses_answers = self.rng.u8(0..3) == 0;
                let full_ms = if self.rng.bool() { self.rng.i64(1..FULL_MS_MAX) } else { 0 };
                world.disk.full_until = Some(world.now().plus_ms(full_ms));
                let disk = format!("{:?}", world.disk);
                world.record_event(&disk);
            }
            89..91 => {
                lock(&process.world).record_event("the clock jumps");
                let by = Duration::from_millis(self.rng.u64(1_000..7_200_000));
                process.clock.jump(by);
            }
            91..93 => {
                lock(&process.world).record_event("the process is stopped for a while");
                tokio::time::advance(Duration::from_millis(self.rng.u64(1_000..300_000))).await;
            }
            93..97 => {
                let after = self.rng.u32(1..25);
                let mut world = lock(&process.world);
                world.record_event(&format!("the process will die after {after} commits"));
                world.crash_after_commits = Some(after);
            }
            97..99 => return Some(ScriptEnd::Restart),
            99..107 => self.touch_key(process, tasks),
            _ => lock(&process.world).crash_signal.notify_one(),
        }
        None
    }

    /// Uses all keys, and changes one.
    fn touch_key(&mut self, process: &Process, tasks: &mut JoinSet<()>) {
        let (apps, keys) = {
            let world = lock(&process.world);
            (world.apps.clone(), world.keys.len())
        };
        let (_, app) = apps[self.rng.usize(0..apps.len())];
        // Short lives, so that keys expire while they are in use.
        let ms = self.rng.i64(1..60_000);
        let change = match self.rng.u8(0..4) {
            0 if keys < KEYS_MAX => {
                Some(KeyChange::Add { app, lifetime_ms: self.rng.bool().then_some(ms) })
            }
            1 if (1..KEYS_MAX).contains(&keys) => {
                Some(KeyChange::Rotate { index: self.rng.usize(0..keys), overlap_ms: ms })
            }
            2 if keys > 0 => Some(KeyChange::Revoke { index: self.rng.usize(0..keys) }),
            _ => None,
        };
        tasks.spawn(change_and_use_keys(process.clone(), change));
    }

    /// Pauses or resumes a notification. Prefers the last one, because most of the others have ended.
    fn pause_or_resume(&mut self, process: &Process, tasks: &mut JoinSet<()>) {
        let ids: Vec<String> = lock(&process.world).notifications.keys().cloned().collect();
        if ids.is_empty() {
            return;
        }
        let place = if self.rng.bool() { ids.len() - 1 } else { self.rng.usize(0..ids.len()) };
        tasks.spawn(pause(process.clone(), ids[place].clone(), self.rng.u8(0..3) > 0));
    }

    fn app(&mut self, process: &Process) -> AppNo {
        let world = lock(&process.world);
        world.apps[self.rng.usize(0..world.apps.len())].0
    }

    fn change_condition(&mut self, process: &Process, app: AppNo) {
        let kind = ProviderKind::ALL[self.rng.usize(0..ProviderKind::ALL.len())];
        let mut world = lock(&process.world);
        let service = world.services.get_mut(&(app, kind)).expect("every application has all");
        if self.rng.u8(0..4) == 0 {
            service.set_slots(SLOTS[self.rng.usize(0..SLOTS.len())]);
        } else {
            service.condition = Condition::random(&mut self.rng);
        }
        let line = format!("{} {}: {service:?}", app.0, kind.as_str());
        world.record_event(&line);
    }

    /// The index in `known` of the device to change.
    fn choose(
        &mut self,
        process: &Process,
        app: AppNo,
        known: &[&String],
        recent: &[String],
    ) -> usize {
        let waiting = waiting(&lock(&process.world), app);
        let index = self.rng.usize(0..known.len());
        // Prefers devices of recent attempts, because changes during an attempt are the most dangerous.
        // Devices that wait for their turn come second.
        let preferred = match self.rng.u8(0..6) {
            0..3 => recent,
            3..5 => &waiting[..],
            _ => &[],
        };
        if preferred.is_empty() {
            return index;
        }
        let name = &preferred[self.rng.usize(0..preferred.len())];
        known.iter().position(|of| *of == name).unwrap_or(index)
    }

    /// Changes a device in a random way.
    fn touch_device(&mut self, process: &Process, app: AppNo, tasks: &mut JoinSet<()>) {
        let known: Vec<(String, Option<State>)> = {
            let world = lock(&process.world);
            let devices = world.devices.of(app);
            devices.map(|(name, entry)| (name.clone(), entry.now.clone())).collect()
        };
        let recent: Vec<String> = {
            let world = lock(&process.world);
            let recent = world.recent.iter().filter(|(of, _)| *of == app);
            recent.map(|(_, name)| name.clone()).collect()
        };
        let names = known.iter().map(|(name, _)| name);
        let place = self.choose(process, app, &names.collect::<Vec<_>>(), &recent);
        let (name, now) = known[place].clone();
        let process = process.clone();
        let Some(mut state) = now else {
            let new = self.new_state(Platform::Android);
            if name.starts_with("phone") {
                tasks.spawn(register(process, app, name, new));
            }
            return;
        };
        let is_phone = matches!(state.platform, Platform::Android | Platform::Ios);
        if !is_phone && state.token.is_none() {
            state.token = Some(self.new_token(state.platform));
        }
        match self.rng.u8(0..40) {
            0..4 => drop(tasks.spawn(register(process, app, name, state))),
            4..8 => {
                let token = Some(self.new_token(state.platform));
                tasks.spawn(register(process, app, name, State { token, ..state }));
            }
            8..14 => {
                let only_recent = self.rng.u8(0..4) > 0;
                let tokens: Vec<_> = known
                    .iter()
                    .filter(|(name, _)| !only_recent || recent.contains(name))
                    .filter_map(|(_, now)| now.as_ref())
                    .filter(|other| other.platform == state.platform)
                    .filter_map(|other| other.token.clone())
                    .collect();
                if !tokens.is_empty() {
                    let token = Some(tokens[self.rng.usize(0..tokens.len())].clone());
                    tasks.spawn(register(process, app, name, State { token, ..state }));
                }
            }
            14..17 if is_phone => {
                let disabled = !state.disabled;
                tasks.spawn(register(process, app, name, State { disabled, ..state }));
            }
            17..19 if is_phone => {
                let platform = match state.platform {
                    Platform::Android => Platform::Ios,
                    _ => Platform::Android,
                };
                tasks.spawn(register(process, app, name, State { platform, ..state }));
            }
            19..22 => drop(tasks.spawn(erase(process, app, name))),
            22..24 => drop(tasks.spawn(tag(process, app, name, None))),
            24 => {
                let platform = self.platform();
                let name = self.name(platform, 500 + self.tokens as usize);
                let new = self.new_state(platform);
                tasks.spawn(register(process, app, name, new));
            }
            25..29 => drop(tasks.spawn(tag(process, app, name, Some(self.rng.bool())))),
            _ => self.touch_user(process, app, name, state.user.as_deref(), tasks),
        }
    }

    /// Changes the user of a device, or deletes that user.
    fn touch_user(
        &mut self,
        process: Process,
        app: AppNo,
        name: String,
        current: Option<&str>,
        tasks: &mut JoinSet<()>,
    ) {
        let user = self.user();
        let current = USERS.into_iter().find(|user| current == Some(user)).unwrap_or(user);
        match self.rng.u8(0..11) {
            0..4 => drop(tasks.spawn(log_in(process, app, name, Some(user)))),
            4..7 => drop(tasks.spawn(log_in(process, app, name, None))),
            7 => drop(tasks.spawn(delete_user(process, app, current, self.rng.bool()))),
            _ => drop(tasks.spawn(replace_user(process, app, current))),
        }
    }
}

/// The devices to which the last notification has not been sent yet.
fn waiting(world: &World, app: AppNo) -> Vec<String> {
    let of_this = world.notifications.values().filter(|notification| notification.app == app);
    let Some(last) = of_this.max_by_key(|notification| notification.requested_event) else {
        return Vec::new();
    };
    let waits = |name: &str, state: &State| {
        let token = state.token.as_ref();
        last.targets(name, state)
            && token.is_some_and(|token| {
                !last.by_address.contains_key(&(state.platform, token.clone()))
            })
    };
    let devices = world.devices.of(app);
    let waiting =
        devices.filter(|(name, entry)| entry.now.as_ref().is_some_and(|state| waits(name, state)));
    waiting.map(|(name, _)| name.clone()).collect()
}

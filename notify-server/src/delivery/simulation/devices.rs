//! What callers know about their devices: the acknowledged state, and the state that a request in
//! flight may have caused already.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{IosEnv, Platform, Timestamp};

use crate::store::{AppNo, REGISTRATION_WRITTEN_EVERY_MS};

/// The state of a device, as its callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) platform: Platform,
    pub(super) token: Option<String>,
    pub(super) env: IosEnv,
    pub(super) disabled: bool,
    /// The one tag of the simulation.
    pub(super) tag: Option<bool>,
    /// The user that is logged in.
    pub(super) user: Option<String>,
    /// The event that created the device's key: it was registered, or moved to another platform.
    pub(super) born: u64,
    /// The new address that its provider reported.
    pub(super) moved_to: BTreeSet<String>,
}

impl State {
    /// Whether the device has that address.
    pub(super) fn is_at(&self, platform: Platform, token: &str) -> bool {
        self.platform == platform
            && (self.token.as_deref() == Some(token) || self.moved_to.contains(token))
    }

    /// Whether a read of the store may return this.
    pub(super) fn reads_as(&self, read: &Self) -> bool {
        let same_token = self.token == read.token
            || read.token.as_ref().is_some_and(|token| self.moved_to.contains(token));
        let same_env = self.platform != Platform::Ios || self.env == read.env;
        same_token
            && same_env
            && (self.platform, self.disabled) == (read.platform, read.disabled)
            && (self.tag, &self.user) == (read.tag, &read.user)
    }
}

/// A device and the requests about it.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) now: Option<State>,
    /// Its state if the request in flight succeeds.
    pub(super) next: Option<Option<State>>,
    /// The last event that may have changed it.
    pub(super) touched: u64,
    /// Its last registration that is stored: it changed something, or the one before was an hour ago.
    pub(super) registered_at: Option<Timestamp>,
}

impl Entry {
    /// Its possible states now.
    pub(super) fn possible(&self) -> impl Iterator<Item = &State> {
        self.now.iter().chain(self.next.iter().flatten())
    }

    /// Whether the device may be logged in as that user now.
    pub(super) fn may_be_of(&self, user: &str) -> bool {
        self.possible().any(|state| state.user.as_deref() == Some(user))
    }
}

/// The changes of devices by one request.
pub(super) struct DeviceChange {
    pub(super) app: AppNo,
    /// First the device in the request, then the devices that lose their address to it.
    pub(super) changes: Vec<(String, Option<State>)>,
    /// Time of the registration; `None` for other changes.
    pub(super) registers_at: Option<Timestamp>,
    /// The address that is new to the device.
    pub(super) claim: Option<AddressClaim>,
}

/// An address that is new to a device.
#[derive(Clone)]
pub(super) struct AddressClaim {
    platform: Platform,
    token: String,
    /// Whether no device of its platform had it before.
    is_free: bool,
}

/// Every device of every application.
#[derive(Default)]
pub(super) struct Devices {
    pub(super) entries: BTreeMap<(AppNo, String), Entry>,
    /// When addresses moved to other devices.
    claims: Vec<(AppNo, AddressClaim, u64)>,
    /// The users that are being deleted, with the event that sent the request.
    pub(super) deletions: BTreeMap<(AppNo, String), u64>,
}

impl Devices {
    pub(super) fn entry(&self, app: AppNo, name: &str) -> Option<&Entry> {
        self.entries.get(&(app, name.to_owned()))
    }

    pub(super) fn of(&self, app: AppNo) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries
            .iter()
            .filter(move |((of, _), _)| *of == app)
            .map(|((_, name), entry)| (name, entry))
    }

    /// The changes of a registration; `None` while another request about one of these devices is in
    /// flight.
    pub(super) fn registration(
        &self,
        app: AppNo,
        name: &str,
        wanted: State,
        at: Timestamp,
    ) -> Option<DeviceChange> {
        let before = self.entry(app, name).cloned().unwrap_or_default();
        if before.next.is_some() {
            return None;
        }
        let mut new = wanted;
        let mut had = None;
        if let Some(now) = before.now {
            new.tag = now.tag;
            // A registration without a user logs the device neither in nor out.
            new.user.clone_from(&now.user);
            if now.platform == new.platform {
                new.born = now.born;
                had.clone_from(&now.token);
                if now.token == new.token {
                    new.moved_to = now.moved_to;
                }
            }
        }
        let mut becomes = vec![(name.to_owned(), Some(new.clone()))];
        let mut takes = None;
        if let Some(token) = new.token.clone().filter(|token| had.as_ref() != Some(token)) {
            let mut from_same_platform = false;
            for (other, entry) in self.of(app).filter(|(other, _)| *other != name) {
                let holds = |state: &State| {
                    space(state.platform) == space(new.platform)
                        && (state.token.as_ref() == Some(&token) || state.moved_to.contains(&token))
                };
                if !entry.possible().any(holds) {
                    continue;
                }
                let now = entry.now.as_ref().filter(|now| now.moved_to.is_empty())?;
                if entry.next.is_some() {
                    return None;
                }
                from_same_platform |= now.platform == new.platform;
                becomes.push((other.clone(), Some(State { token: None, ..now.clone() })));
            }
            takes =
                Some(AddressClaim { platform: new.platform, token, is_free: !from_same_platform });
        }
        Some(DeviceChange { app, changes: becomes, registers_at: Some(at), claim: takes })
    }

    /// A change of one device; `None` if it does not exist or another request about it is in
    /// flight.
    pub(super) fn change(
        &self,
        app: AppNo,
        name: &str,
        change: impl FnOnce(State) -> Option<State>,
    ) -> Option<DeviceChange> {
        let entry = self.entry(app, name).filter(|entry| entry.next.is_none())?;
        let becomes = vec![(name.to_owned(), change(entry.now.clone()?))];
        Some(DeviceChange { app, changes: becomes, registers_at: None, claim: None })
    }

    /// The changes of a log-in, or of a log-out if `user` is `None`.
    pub(super) fn log_in(
        &self,
        app: AppNo,
        name: &str,
        user: Option<&str>,
    ) -> Option<DeviceChange> {
        let user = user.map(str::to_owned);
        if user.clone().is_some_and(|user| self.deletions.contains_key(&(app, user))) {
            return None;
        }
        self.change(app, name, |before| Some(State { user, ..before }))
    }

    /// The changes of the devices of a user who is deleted; `None` while another request about one of
    /// them is in flight.
    pub(super) fn user_deletion(
        &self,
        app: AppNo,
        user: &str,
        keeps_devices: bool,
    ) -> Option<DeviceChange> {
        if self.deletions.contains_key(&(app, user.to_owned())) {
            return None;
        }
        let mut changes = Vec::new();
        for (name, entry) in self.of(app).filter(|(_, entry)| entry.may_be_of(user)) {
            let now = entry.now.clone().filter(|_| entry.next.is_none())?;
            changes.push((name.clone(), keeps_devices.then_some(State { user: None, ..now })));
        }
        Some(DeviceChange { app, changes, registers_at: None, claim: None })
    }

    /// Records that the request was sent.
    pub(super) fn begin(&mut self, change: &DeviceChange, event: u64) {
        for (name, next) in &change.changes {
            let entry = self.entries.entry((change.app, name.clone())).or_default();
            entry.next = Some(next.clone());
            entry.touched = event;
        }
        if let Some(delivered) = &change.claim {
            self.claims.push((change.app, delivered.clone(), event));
        }
    }

    /// Records that the request was answered.
    pub(super) fn end(&mut self, change: &DeviceChange, done: bool, event: u64) {
        for (place, (name, _)) in change.changes.iter().enumerate() {
            let entry = self.entries.entry((change.app, name.clone())).or_default();
            let next = entry.next.take();
            entry.touched = event;
            if !done {
                continue;
            }
            let next = next.expect("the request was in flight");
            if let Some(at) = change.registers_at.filter(|_| place == 0) {
                let last = entry.registered_at;
                let is_recent =
                    last.is_some_and(|last| at.ms_since(last) < REGISTRATION_WRITTEN_EVERY_MS);
                if entry.now != next || !is_recent {
                    entry.registered_at = Some(at);
                }
            }
            entry.now = next;
        }
    }

    /// How often an address moved to another device since that event. `only_free` counts only the
    /// moves when no device of its platform had it.
    pub(super) fn claims_since(
        &self,
        (app, platform, token): (AppNo, Platform, &str),
        event: u64,
        only_free: bool,
    ) -> u64 {
        let of_this = self.claims.iter().filter(|(of, delivered, at)| {
            (*of, delivered.platform, delivered.token.as_str()) == (app, platform, token)
                && *at >= event
                && (delivered.is_free || !only_free)
        });
        of_this.count() as u64
    }
}

/// The platform within which an address belongs to one device.
fn space(platform: Platform) -> Platform {
    match platform {
        Platform::Android | Platform::Ios => Platform::Android,
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => platform,
    }
}

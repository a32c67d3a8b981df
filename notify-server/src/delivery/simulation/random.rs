//! Random devices and notifications for the script.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{Canary, CanaryThen, IosEnv, NotificationId, Platform};
use uuid::Uuid;

use super::audiences::{AudienceKind, UNKNOWN_USER, USERS};
use super::devices::State;
use super::requests::{NotificationDraft, Process};
use super::script::Script;
use super::world::lock;
use crate::store::AppNo;

impl Script {
    /// A token that no device had before.
    pub(super) fn new_token(&mut self, platform: Platform) -> String {
        self.tokens += 1;
        let number = self.tokens;
        match platform {
            Platform::Web => format!("https://push{}.example/{number}", number % 3),
            // A phone keeps its token when it changes its platform. Only hexadecimal digits can be a token of
            // APNs.
            Platform::Android | Platform::Ios => format!("{number:08x}"),
            Platform::FbMessenger | Platform::ChatApp => format!("t{number}"),
        }
    }

    pub(super) fn new_state(&mut self, platform: Platform) -> State {
        State {
            platform,
            token: Some(self.new_token(platform)),
            env: if self.rng.bool() { IosEnv::Production } else { IosEnv::Sandbox },
            disabled: false,
            tag: None,
            user: None,
            born: 0,
            moved_to: BTreeSet::new(),
        }
    }

    /// The platform for a name. Each name has a fixed platform, except for phones.
    pub(super) fn platform(&mut self) -> Platform {
        match self.rng.u8(0..10) {
            0..5 => Platform::Android,
            5..7 => Platform::Ios,
            7 => Platform::Web,
            8 => Platform::FbMessenger,
            _ => Platform::ChatApp,
        }
    }

    pub(super) fn name(&mut self, platform: Platform, number: usize) -> String {
        match platform {
            Platform::Android | Platform::Ios => format!("phone{number}"),
            Platform::Web => format!("web{number}"),
            Platform::FbMessenger => format!("person{number}"),
            Platform::ChatApp => format!("chat{number}"),
        }
    }

    pub(super) fn draft(&mut self, process: &Process, app: AppNo) -> NotificationDraft {
        let id = NotificationId::from(Uuid::from_u128(self.rng.u128(..)));
        let names = (self.rng.u8(0..4) == 0).then(|| self.names(process, app));
        let mut platforms: Vec<Platform> =
            Platform::ALL.into_iter().filter(|_| self.rng.u8(0..3) > 0).collect();
        if platforms.is_empty() {
            platforms.push(Platform::Android);
        }
        let names = names.filter(|names| !names.is_empty());
        let users = (names.is_none() && self.rng.u8(0..3) == 0).then(|| self.users());
        if users.is_some() && self.rng.bool() {
            platforms = Platform::ALL.to_vec();
        }
        NotificationDraft {
            id,
            platforms,
            names,
            users,
            audience: (self.rng.u8(0..4) == 0).then(|| AudienceKind::random(&mut self.rng)),
            tagged: self.rng.u8(0..5) == 0,
            ttl: match self.rng.u8(0..12) {
                0..2 => Some(0),
                2..4 => Some(self.rng.u32(1..30)),
                4 => Some(self.rng.u32(30..3_000)),
                _ => None,
            },
            collapse_key: (self.rng.u8(0..4) == 0).then(|| format!("key{}", self.rng.u8(0..2))),
            due_in_ms: (self.rng.u8(0..5) == 0).then(|| self.rng.i64(1..120_000)),
            per_minute: (self.rng.u8(0..6) == 0).then(|| self.rng.u32(4..24)),
            canary: (self.rng.u8(0..6) == 0).then(|| self.canary()),
        }
    }

    fn canary(&mut self) -> Canary {
        Canary {
            wait_seconds: Some(60),
            max_failed_percent: Some([0, 50, 100][self.rng.usize(0..3)]),
            then: (self.rng.u8(0..3) == 0).then(|| CanaryThen::Pause.to_string()),
            ..Canary::percent(self.rng.u32(10..=50))
        }
    }

    /// One of the users.
    pub(super) fn user(&mut self) -> &'static str {
        USERS[self.rng.usize(0..USERS.len())]
    }

    fn users(&mut self) -> Vec<&'static str> {
        let mut users: Vec<&str> = USERS.into_iter().filter(|_| self.rng.bool()).collect();
        if users.is_empty() || self.rng.u8(0..6) == 0 {
            users.push(UNKNOWN_USER);
        }
        users
    }

    fn names(&mut self, process: &Process, app: AppNo) -> BTreeMap<Platform, Vec<String>> {
        let world = lock(&process.world);
        let mut names = BTreeMap::<Platform, Vec<String>>::new();
        for (name, entry) in world.devices.of(app) {
            let Some(now) = &entry.now else { continue };
            if matches!(now.platform, Platform::Android | Platform::Ios) && self.rng.u8(0..4) == 0 {
                names.entry(now.platform).or_default().push(name.clone());
            }
        }
        names
    }
}

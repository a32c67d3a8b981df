//! The rate of a notification (`per_minute`). The store grants first attempts to a dispatch; a grant is
//! valid for a short time, and the next one has to wait until the attempts of this one would have been made
//! at an even pace. The number of platforms and servers therefore does not matter.
//!
//! A grant has the attempts of a twenty-fourth of a minute and is valid for that long. The attempts in any
//! minute therefore belong to the grants of a minute and a twenty-fourth, and to one more. Together these are
//! at most `per_minute` and a twelfth.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::Timestamp;

use crate::delivery::context::EngineContext;
use crate::store::{DeviceKey, Grant, GrantRequest, NotificationNo, StoreError};

const MINUTE_MS: i64 = 60_000;
/// How long a grant is valid, in milliseconds: a twenty-fourth of a minute.
const GRANT_MS: i64 = MINUTE_MS / 24;
/// Most open pages of a dispatch with a rate. Pages that wait for their provider must not take the place of
/// other notifications.
const PAGES_MAX: usize = 8;

/// First attempts that may start before a certain time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Allowance {
    attempts: u32,
    until: Timestamp,
}

impl Allowance {
    /// The number of attempts that may start now.
    pub(crate) fn attempts(&self, now: Timestamp) -> u32 {
        if now < self.until { self.attempts } else { 0 }
    }

    /// Uses one attempt.
    pub(crate) fn use_one(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
    }

    /// Splits at most `attempts` off.
    pub(crate) fn split_off(&mut self, attempts: u32) -> Self {
        let taken = self.attempts.min(attempts);
        self.attempts -= taken;
        Self { attempts: taken, until: self.until }
    }
}

/// The answer to a request for a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granted {
    /// These attempts may start.
    Now(Allowance),
    /// Nothing is granted before this time.
    NotBefore(Timestamp),
}

/// The rate of the notification of a dispatch.
#[derive(Debug)]
pub(crate) struct Pace {
    notification: NotificationNo,
    per_minute: NonZeroU32,
    state: Mutex<State>,
    /// Cloned for each open page.
    pages: Arc<()>,
}

#[derive(Debug, Default)]
struct State {
    /// What is left of the last grant of the dispatch.
    left: Allowance,
    /// Nothing is granted before this time.
    not_before: Timestamp,
    /// The cursor of the dispatch when its next page had to wait.
    waiting_at: Option<DeviceKey>,
}

/// Marks a page of a dispatch with a rate as open.
#[derive(Debug, Clone)]
pub(crate) struct OpenMark(#[expect(dead_code, reason = "its clones are counted")] Arc<()>);

impl Pace {
    pub(crate) fn new(notification: NotificationNo, per_minute: NonZeroU32) -> Self {
        Self { notification, per_minute, state: Mutex::default(), pages: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Whether another page may be opened.
    pub(crate) fn may_open_page(&self) -> bool {
        // One reference is `self.pages`.
        Arc::strong_count(&self.pages) <= PAGES_MAX
    }

    pub(crate) fn mark_page(&self) -> OpenMark {
        OpenMark(self.pages.clone())
    }

    /// Until when the page at this cursor has to wait, if it had to wait before.
    pub(crate) fn waits_until(&self, cursor: DeviceKey, now: Timestamp) -> Option<Timestamp> {
        let state = self.state();
        let waits = state.waiting_at == Some(cursor)
            && state.left.attempts(now) == 0
            && now < state.not_before;
        waits.then_some(state.not_before)
    }

    /// Records that the page at this cursor has to wait.
    pub(crate) fn wait_at(&self, cursor: DeviceKey) {
        self.state().waiting_at = Some(cursor);
    }

    /// Whether an attempt is left of the last grant.
    pub(crate) fn has_left(&self, now: Timestamp) -> bool {
        self.state().left.attempts(now) > 0
    }

    /// Uses an attempt of the last grant.
    pub(crate) fn use_left(&self) {
        self.state().left.use_one();
    }

    /// Takes what is left of the last grant.
    pub(crate) fn take_left(&self) -> Allowance {
        std::mem::take(&mut self.state().left)
    }

    /// Splits the attempts of a page with `targeted` devices off a grant, and keeps the rest.
    pub(crate) fn split(&self, mut grant: Allowance, targeted: usize) -> Allowance {
        let of_page = grant.split_off(u32::try_from(targeted).unwrap_or(u32::MAX));
        self.keep(grant);
        of_page
    }

    /// Keeps what was not used of a grant.
    pub(crate) fn keep(&self, allowance: Allowance) {
        let mut state = self.state();
        if state.left.until == allowance.until {
            state.left.attempts += allowance.attempts;
        } else {
            state.left = allowance;
        }
    }

    /// Requests attempts, at most `wanted`.
    ///
    /// # Errors
    /// `NotFound` when the notification was erased with its application.
    pub(crate) async fn request(
        &self,
        context: &EngineContext,
        wanted: usize,
    ) -> Result<Granted, StoreError> {
        let at = context.clock.now();
        let not_before = self.state().not_before;
        if at < not_before {
            return Ok(Granted::NotBefore(not_before));
        }
        let attempts = attempts_of_grant(self.per_minute, wanted);
        let interval_ms = interval_ms(self.per_minute, attempts);
        let request = GrantRequest { notification: self.notification, interval_ms, at };
        // If the acknowledgement is lost, the grant is not used.
        let grant = context.store.grant_attempts(request).await?;
        let next = match grant {
            Grant::Granted => at.plus_ms(interval_ms),
            Grant::NotBefore(until) => until,
        };
        // The clock may have been set back since the last grant.
        self.state().not_before = next.min(at.plus_ms(MINUTE_MS));
        Ok(match grant {
            Grant::Granted => Granted::Now(Allowance { attempts, until: at.plus_ms(GRANT_MS) }),
            Grant::NotBefore(until) => Granted::NotBefore(until),
        })
    }
}

/// The number of attempts of a grant: a twenty-fourth of `per_minute`, at least one, and at most `wanted`.
fn attempts_of_grant(per_minute: NonZeroU32, wanted: usize) -> u32 {
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    (per_minute.get() / 24).min(wanted).max(1)
}

/// How long `attempts` take at an even pace, in milliseconds, rounded up.
fn interval_ms(per_minute: NonZeroU32, attempts: u32) -> i64 {
    let per_minute = i64::from(per_minute.get());
    (i64::from(attempts) * MINUTE_MS + per_minute - 1) / per_minute
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_minute: u32) -> NonZeroU32 {
        NonZeroU32::new(per_minute).unwrap()
    }

    #[test]
    fn grants_are_a_twenty_fourth_of_a_minute() {
        for (per_minute, wanted, attempts, interval) in [
            (1, 1_000, 1, 60_000),
            (7, 1_000, 1, 8_572),
            (23, 1_000, 1, 2_609),
            (24, 1_000, 1, 2_500),
            (47, 1_000, 1, 1_277),
            (48, 1_000, 2, 2_500),
            (60_000, 10_000, 2_500, 2_500),
            (60_000, 10, 10, 10),
            (1_000_000, 4_000, 4_000, 240),
            (1_000_000, 1, 1, 1),
            // A page asks only if a device is left.
            (60, 0, 1, 1_000),
        ] {
            let granted = attempts_of_grant(rate(per_minute), wanted);
            assert_eq!(granted, attempts, "{per_minute} a minute, {wanted} wanted");
            assert_eq!(interval_ms(rate(per_minute), granted), interval, "{per_minute}");
        }
    }

    /// Every attempt is made at the worst time: at the end of its grant before a minute begins, and at the
    /// beginning after that.
    #[test]
    fn no_minute_has_more_than_the_rate_and_a_twelfth() {
        for per_minute in (1..200).chain([999, 1_000, 59_999, 1_000_000]) {
            let attempts = attempts_of_grant(rate(per_minute), usize::MAX);
            let interval = interval_ms(rate(per_minute), attempts);
            let in_minute = (0..)
                .map(|grant| grant * interval)
                .take_while(|granted_at| *granted_at < MINUTE_MS + GRANT_MS)
                .count() as i64
                * i64::from(attempts);
            let bound = i64::from(per_minute) + (i64::from(per_minute) + 11) / 12;
            assert!(in_minute <= bound, "{per_minute}: {in_minute} of {bound}");
        }
    }

    #[test]
    fn an_allowance_ends() {
        let mut allowance = Allowance { attempts: 3, until: Timestamp(100) };
        assert_eq!(allowance.attempts(Timestamp(99)), 3);
        assert_eq!(allowance.attempts(Timestamp(100)), 0);
        let part = allowance.split_off(2);
        assert_eq!((part.attempts, allowance.attempts), (2, 1));
        allowance.use_one();
        allowance.use_one();
        assert_eq!(allowance.attempts(Timestamp(0)), 0);
        assert_eq!(allowance.split_off(5).attempts, 0);
    }
}

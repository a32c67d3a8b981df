//! Whether an attempt may start: a pure function of what is known of the delivery, its notification and its lane
//! right before the attempt. What happens after an attempt is decided in [`crate::delivery::decision`].
//!
//! The rate of the notification, the permits and the admission of the lane come after this, because to ask for
//! them takes them.

use notify_core::Timestamp;

use crate::delivery::dispatch::{ActiveDispatch, DeliveryMode, Unsendable};
use crate::delivery::lane::Lane;
use crate::providers::Reason;
use crate::reasons;
use crate::store::{AudienceDevice, Outcome};

/// What is known of a delivery right before its attempt. Nothing is awaited between the collection of this and
/// the attempt, so that it includes every change that was acknowledged before (hazard 8 of docs/delivery.md).
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) is_paused: bool,
    /// Whether the device and the mode of its notification are those of now: they were read recently, and have
    /// not changed since.
    pub(crate) is_current: bool,
    /// How all deliveries of the notification end; `None` if it is sent.
    pub(crate) settled: Option<(Outcome, Reason)>,
    pub(crate) has_expired: bool,
    /// Why nothing can be sent to the address.
    pub(crate) unsendable: Option<Unsendable>,
    /// Why the device is no longer in the audience.
    pub(crate) left: Option<&'static str>,
    /// Whether the device got a later notification with the same `collapse_key`.
    pub(crate) is_overtaken: bool,
    /// Whether the credentials are refused, and the notification (`ttl_seconds` 0) does not wait for others.
    pub(crate) is_refused: bool,
    pub(crate) lease: Lease,
    /// When the chat accepts the next message, if it accepts none now.
    pub(crate) chat: Result<(), Timestamp>,
    /// When to ask the upstream again, if it accepts no delivery now; `None` if an event of the upstream ends the
    /// wait.
    pub(crate) upstream: Result<(), Option<Timestamp>>,
    /// Whether the lane has too many open retries for a further first attempt.
    pub(crate) is_backlog_full: bool,
}

/// Whether the delivery belongs to this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lease {
    Valid,
    /// The server missed its heartbeats, so other servers may consider it dead.
    ServerExpired,
    /// The lease of the page, or the claim of the retry, may have ended.
    Expired,
}

/// Whether an attempt may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Start,
    Wait(Wait),
    /// The delivery ends without an attempt.
    Settle {
        settled: Outcome,
        reason: Reason,
    },
    /// The device or the mode must be read again.
    Reread,
}

/// What an attempt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The notification is paused.
    Pause,
    /// The server must renew its lease.
    ServerLease,
    /// The lease of the page must be renewed, or the retry claimed again.
    Lease,
    /// The chat accepts the next message at this time.
    Chat(Timestamp),
    /// The upstream accepts no delivery, see [`Evidence::upstream`].
    Upstream(Option<Timestamp>),
    /// Some of the lane's retries must end.
    Backlog,
}

impl Evidence {
    /// What the notification, the lane and the device show. The caller adds what only its task knows: `left`,
    /// `is_overtaken`, `lease` and `is_backlog_full`.
    pub(crate) fn of(
        dispatch: &ActiveDispatch,
        lane: &Lane,
        mode: &DeliveryMode,
        device: &AudienceDevice,
        now: Timestamp,
    ) -> Self {
        let is_canceled = dispatch.is_canceled();
        let unsendable = dispatch.unsendable(device);
        let (settled, upstream) = match mode {
            DeliveryMode::Settle { settled, reason } => (Some((*settled, reason.clone())), Ok(())),
            // The endpoint may belong to no push service.
            DeliveryMode::Send(_) if unsendable.is_some() => (None, Ok(())),
            DeliveryMode::Send(mode) => {
                let capacity = dispatch.upstream_of(lane, device).map_or(Ok(()), |upstream| {
                    let candidate = dispatch.candidate(lane, &mode.provider, device);
                    upstream.capacity(candidate, now).map(drop)
                });
                (None, capacity)
            }
        };
        let knows_cancellation = matches!(settled, Some((Outcome::Canceled, _)));
        Self {
            is_current: !is_canceled || knows_cancellation,
            settled,
            has_expired: dispatch.has_expired(now),
            unsendable,
            left: None,
            is_overtaken: false,
            is_refused: dispatch.expires_at.is_none() && lane.breaker.is_held(now),
            is_paused: dispatch.is_paused(now),
            lease: Lease::Valid,
            chat: lane.check_chat(device.key, now),
            upstream,
            is_backlog_full: false,
        }
    }
}

impl Lane {
    /// [`may_start`], for an attempt in this lane.
    pub(crate) fn may_start(&self, evidence: Evidence) -> Verdict {
        #[cfg(test)]
        let evidence = evidence.without(self.context.config.overlooked);
        may_start(evidence)
    }
}

/// Decides whether an attempt may start. A delivery that has to end does so even if it would otherwise have to
/// wait, but not during a pause.
#[must_use]
fn may_start(evidence: Evidence) -> Verdict {
    let settle = |settled, reason: &'static str| Verdict::Settle { settled, reason: reason.into() };
    if evidence.is_paused {
        return Verdict::Wait(Wait::Pause);
    }
    if !evidence.is_current {
        return Verdict::Reread;
    }
    if let Some((settled, reason)) = evidence.settled {
        return Verdict::Settle { settled, reason };
    }
    if evidence.has_expired {
        return settle(Outcome::Expired, reasons::EXPIRED);
    }
    if let Some(Unsendable { settled, reason }) = evidence.unsendable {
        return settle(settled, reason);
    }
    if let Some(reason) = evidence.left {
        return settle(Outcome::Failed, reason);
    }
    if evidence.is_overtaken {
        return settle(Outcome::Expired, reasons::OVERTAKEN);
    }
    if evidence.is_refused {
        return settle(Outcome::Expired, reasons::CREDENTIALS_REFUSED);
    }
    match evidence.lease {
        Lease::ServerExpired => return Verdict::Wait(Wait::ServerLease),
        Lease::Expired => return Verdict::Wait(Wait::Lease),
        Lease::Valid => {}
    }
    if let Err(until) = evidence.chat {
        return Verdict::Wait(Wait::Chat(until));
    }
    if let Err(until) = evidence.upstream {
        return Verdict::Wait(Wait::Upstream(until));
    }
    if evidence.is_backlog_full {
        return Verdict::Wait(Wait::Backlog);
    }
    Verdict::Start
}

/// Evidence that an engine with a planted defect overlooks.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlooked {
    /// That the device or the mode has changed.
    Change,
    Expiry,
    /// That the device is no longer in the audience.
    Leaving,
    Overtaking,
    Pause,
}

#[cfg(test)]
impl Evidence {
    fn without(mut self, overlooked: Option<Overlooked>) -> Self {
        match overlooked {
            Some(Overlooked::Change) => self.is_current = true,
            Some(Overlooked::Expiry) => self.has_expired = false,
            Some(Overlooked::Leaving) => self.left = None,
            Some(Overlooked::Overtaking) => self.is_overtaken = false,
            Some(Overlooked::Pause) => self.is_paused = false,
            None => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delivery that nothing keeps from its attempt.
    fn ready() -> Evidence {
        Evidence {
            is_current: true,
            settled: None,
            has_expired: false,
            unsendable: None,
            left: None,
            is_overtaken: false,
            is_refused: false,
            is_paused: false,
            lease: Lease::Valid,
            chat: Ok(()),
            upstream: Ok(()),
            is_backlog_full: false,
        }
    }

    fn settled(settled: Outcome, reason: &'static str) -> Verdict {
        Verdict::Settle { settled, reason: reason.into() }
    }

    /// Each row is decided by the evidence that it adds, whatever the later rows add.
    #[test]
    fn the_first_evidence_against_an_attempt_decides() {
        type Add = fn(&mut Evidence);
        let rows: [(Add, Verdict); 13] = [
            (|evidence| evidence.is_paused = true, Verdict::Wait(Wait::Pause)),
            (|evidence| evidence.is_current = false, Verdict::Reread),
            (
                |evidence| evidence.settled = Some((Outcome::Canceled, reasons::CANCELED.into())),
                settled(Outcome::Canceled, reasons::CANCELED),
            ),
            (|evidence| evidence.has_expired = true, settled(Outcome::Expired, reasons::EXPIRED)),
            (
                |evidence| {
                    evidence.unsendable = Some(Unsendable {
                        settled: Outcome::Unregistered,
                        reason: reasons::ENDPOINT_REMOVED,
                    });
                },
                settled(Outcome::Unregistered, reasons::ENDPOINT_REMOVED),
            ),
            (
                |evidence| evidence.left = Some(reasons::USER_CHANGED),
                settled(Outcome::Failed, reasons::USER_CHANGED),
            ),
            (
                |evidence| evidence.is_overtaken = true,
                settled(Outcome::Expired, reasons::OVERTAKEN),
            ),
            (
                |evidence| evidence.is_refused = true,
                settled(Outcome::Expired, reasons::CREDENTIALS_REFUSED),
            ),
            (|evidence| evidence.lease = Lease::ServerExpired, Verdict::Wait(Wait::ServerLease)),
            (|evidence| evidence.chat = Err(Timestamp(7)), Verdict::Wait(Wait::Chat(Timestamp(7)))),
            (
                |evidence| evidence.upstream = Err(Some(Timestamp(8))),
                Verdict::Wait(Wait::Upstream(Some(Timestamp(8)))),
            ),
            (|evidence| evidence.is_backlog_full = true, Verdict::Wait(Wait::Backlog)),
            (|_| {}, Verdict::Start),
        ];
        for (nth, (add, verdict)) in rows.iter().enumerate() {
            let mut alone = ready();
            add(&mut alone);
            assert_eq!(may_start(alone), *verdict, "row {nth} alone");
            let mut with_later = ready();
            for (add, _) in &rows[nth..] {
                add(&mut with_later);
            }
            assert_eq!(may_start(with_later), *verdict, "row {nth} with all later ones");
        }
        let expired = Evidence { lease: Lease::Expired, ..ready() };
        assert_eq!(may_start(expired), Verdict::Wait(Wait::Lease));
        let busy = Evidence { upstream: Err(None), ..ready() };
        assert_eq!(may_start(busy), Verdict::Wait(Wait::Upstream(None)));
    }
}

//! One notification, device by device.

use std::collections::BTreeMap;

use notify_core::{DeliveryOutcome, NotificationStatus};
use notify_sandbox::Provider;

use super::{EndedProcess, Expected, Member, NotificationReport, Verdict};
use crate::received::Arrival;

/// What is known of the deliveries of one notification.
pub(super) struct Deliveries<'h> {
    pub(super) report: &'h NotificationReport,
    pub(super) members: &'h [Member],
    pub(super) arrived: &'h [&'h Arrival],
    pub(super) ended: &'h [EndedProcess],
}

impl Deliveries<'_> {
    /// Judges them.
    pub(super) fn judge(&self, verdict: &mut Verdict) {
        self.balance(verdict);
        let mut outcomes: BTreeMap<&str, Vec<DeliveryOutcome>> = BTreeMap::new();
        for (device, outcome) in &self.report.deliveries {
            outcomes.entry(device).or_default().push(*outcome);
        }
        let mut owner = BTreeMap::new();
        for (place, member) in self.members.iter().enumerate() {
            owner.extend(member.addresses.iter().map(|address| (address.as_str(), place)));
        }
        let mut arrived: BTreeMap<usize, Vec<&Arrival>> = BTreeMap::new();
        for arrival in self.arrived {
            match owner.get(arrival.address.as_str()) {
                Some(place) => arrived.entry(*place).or_default().push(arrival),
                None => verdict.unexpected.push(self.of(&arrival.address, "is no member")),
            }
            self.identity(verdict, arrival);
        }
        for (place, member) in self.members.iter().enumerate() {
            let arrived = arrived.remove(&place).unwrap_or_default();
            let outcomes = outcomes.remove(member.device.as_str()).unwrap_or_default();
            verdict.pairs += usize::from(!outcomes.is_empty());
            if outcomes.len() > 1 {
                verdict.wrong_state.push(self.of(&member.device, "has several outcomes"));
            }
            self.member(verdict, member, outcomes.first().copied(), &arrived);
            self.repeats(verdict, &arrived);
        }
        for device in outcomes.keys() {
            verdict.unexpected.push(self.of(device, "has an outcome, and is no member"));
        }
    }

    fn of(&self, who: &str, what: &str) -> String {
        format!("{} ({}) to {who}: {what}", self.report.key, self.report.id)
    }

    /// Every targeted device is in exactly one state, and the counts say so.
    fn balance(&self, verdict: &mut Verdict) {
        let report = self.report;
        if report.status != NotificationStatus::Completed {
            let status = report.status.as_str();
            verdict.wrong_state.push(format!("{} ({}): is {status}", report.key, report.id));
        }
        let counts = &report.counts;
        let listed = |outcome| report.deliveries.iter().filter(|(_, is)| *is == outcome).count();
        let states = [
            (counts.sent, DeliveryOutcome::Sent),
            (counts.failed, DeliveryOutcome::Failed),
            (counts.unregistered, DeliveryOutcome::Unregistered),
            (counts.expired, DeliveryOutcome::Expired),
            (counts.canceled, DeliveryOutcome::Canceled),
            (counts.pending, DeliveryOutcome::Pending),
        ];
        let sum: u64 = states.iter().map(|(count, _)| count).sum();
        let is_listed = states.iter().all(|(count, outcome)| *count == listed(*outcome) as u64);
        if counts.targeted != sum || !is_listed {
            verdict.unbalanced.push(format!("{} ({}): {counts:?}", report.key, report.id));
        }
    }

    /// A repeat must be recognisable as one: by the id of its notification, on Web Push by a hash
    /// that is one notification's own.
    fn identity(&self, verdict: &mut Verdict, arrival: &Arrival) {
        let identity = arrival.identity.as_deref();
        match arrival.provider {
            Provider::Apns | Provider::Fcm if identity == Some(&self.report.id) => {}
            Provider::WebPush if identity.is_some_and(|topic| !topic.is_empty()) => {
                verdict.note_topic(identity.unwrap_or_default(), &self.report.id);
            }
            Provider::Messenger | Provider::Telegram if identity.is_none() => {}
            _ => verdict.unrecognisable.push(self.of(&arrival.address, &format!("{identity:?}"))),
        }
    }

    fn member(
        &self,
        verdict: &mut Verdict,
        member: &Member,
        outcome: Option<DeliveryOutcome>,
        arrived: &[&Arrival],
    ) {
        let is_accepted = arrived.iter().any(|arrival| arrival.is_accepted());
        let is_refused = arrived.iter().any(|arrival| arrival.is_refused());
        let is_refused_last = arrived.last().is_some_and(|arrival| arrival.is_refused());
        let story = || {
            let statuses: Vec<u16> = arrived.iter().map(|arrival| arrival.status).collect();
            self.of(&member.device, &format!("{:?}, {outcome:?}, {statuses:?}", member.expected))
        };
        let fate = member.expected;
        match outcome {
            // Found dead by another notification after a crash took this one's outcome with it: the
            // page is read again, and it is not in it any more.
            None if fate == Expected::Unregistered && !is_accepted => {}
            None if !arrived.is_empty() => verdict.unexpected.push(story()),
            None if matches!(fate, Expected::Delivered | Expected::Rejected) => {
                verdict.lost.push(story())
            }
            None => {}
            Some(DeliveryOutcome::Pending) => verdict.lost.push(story()),
            Some(DeliveryOutcome::Sent) if !is_accepted => verdict.lost.push(story()),
            Some(DeliveryOutcome::Sent)
                if matches!(fate, Expected::Unregistered | Expected::Rejected) =>
            {
                verdict.wrong_state.push(story());
            }
            Some(DeliveryOutcome::Sent) => {}
            Some(_) if is_accepted => verdict.wrong_state.push(story()),
            Some(_) if fate == Expected::Delivered => verdict.lost.push(story()),
            Some(DeliveryOutcome::Failed) if fate == Expected::Rejected && is_refused => {}
            Some(DeliveryOutcome::Unregistered) if fate == Expected::Unregistered && is_refused => {
            }
            // Another notification had found out before it was tried again. That it was refused and
            // is known as failed nevertheless would be wrong.
            Some(DeliveryOutcome::Failed) if fate == Expected::Unregistered && !is_refused_last => {
            }
            Some(DeliveryOutcome::Canceled) if fate == Expected::Any => {}
            Some(_) => verdict.wrong_state.push(story()),
        }
    }

    /// Attributes each repeat after a final response to the process that got that response: it
    /// was not on disk yet.
    fn repeats(&self, verdict: &mut Verdict, arrived: &[&Arrival]) {
        let Some((_, before)) = arrived.split_last() else { return };
        for earlier in before.iter().filter(|arrival| arrival.is_accepted() || arrival.is_refused())
        {
            let process = self.ended.partition_point(|e| e.last_connection < earlier.connection);
            verdict.repeat(process, self.of(&earlier.address, "repeated"));
        }
    }
}

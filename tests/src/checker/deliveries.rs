//! Checks the deliveries of one notification, device by device.

use std::collections::BTreeMap;

use notify_core::{DeliveryOutcome, NotificationStatus};
use notify_sandbox::Provider;

use super::{EndedProcess, Expected, Member, NotificationReport, Verdict};
use crate::received::Arrival;

/// The deliveries of one notification: the server's report, the audience, the arrivals and the ended
/// processes.
pub(super) struct Deliveries<'h> {
    pub(super) report: &'h NotificationReport,
    pub(super) members: &'h [Member],
    pub(super) arrived: &'h [&'h Arrival],
    pub(super) ended: &'h [EndedProcess],
}

impl Deliveries<'_> {
    /// Adds the findings about these deliveries to `verdict`.
    pub(super) fn judge(&self, verdict: &mut Verdict) {
        self.check_counts(verdict);
        let mut outcomes: BTreeMap<&str, Vec<DeliveryOutcome>> = BTreeMap::new();
        for (device, outcome) in &self.report.deliveries {
            outcomes.entry(device).or_default().push(*outcome);
        }
        let mut owner = BTreeMap::new();
        for (position, member) in self.members.iter().enumerate() {
            owner.extend(member.addresses.iter().map(|address| (address.as_str(), position)));
        }
        let mut arrived: BTreeMap<usize, Vec<&Arrival>> = BTreeMap::new();
        for arrival in self.arrived {
            match owner.get(arrival.address.as_str()) {
                Some(position) => arrived.entry(*position).or_default().push(arrival),
                None => verdict.unexpected.push(self.finding(&arrival.address, "is not a member")),
            }
            self.check_identity(verdict, arrival);
        }
        for (position, member) in self.members.iter().enumerate() {
            let arrived = arrived.remove(&position).unwrap_or_default();
            let outcomes = outcomes.remove(member.device.as_str()).unwrap_or_default();
            verdict.pairs += usize::from(!outcomes.is_empty());
            if outcomes.len() > 1 {
                verdict.wrong_state.push(self.finding(&member.device, "has several outcomes"));
            }
            self.check_member(verdict, member, outcomes.first().copied(), &arrived);
            self.count_repeats(verdict, &arrived);
        }
        for device in outcomes.keys() {
            verdict.unexpected.push(self.finding(device, "has an outcome, but is not a member"));
        }
    }

    /// The text of a finding about one device or address.
    fn finding(&self, recipient: &str, what: &str) -> String {
        format!("{} ({}) to {recipient}: {what}", self.report.key, self.report.id)
    }

    /// Checks that the notification is completed and that its counts match the listed outcomes. Each targeted
    /// device must have exactly one outcome.
    fn check_counts(&self, verdict: &mut Verdict) {
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

    /// Checks the value by which a device recognises a repeat. On APNs and FCM it is the id of the
    /// notification; on Web Push, a hash that differs between notifications.
    fn check_identity(&self, verdict: &mut Verdict, arrival: &Arrival) {
        let identity = arrival.identity.as_deref();
        match arrival.provider {
            Provider::Apns | Provider::Fcm if identity == Some(&self.report.id) => {}
            Provider::WebPush if identity.is_some_and(|topic| !topic.is_empty()) => {
                verdict.note_topic(identity.unwrap_or_default(), &self.report.id);
            }
            Provider::Messenger | Provider::Telegram if identity.is_none() => {}
            _ => verdict
                .unrecognisable
                .push(self.finding(&arrival.address, &format!("{identity:?}"))),
        }
    }

    /// Checks that the outcome of a member matches its arrivals and the expected result.
    fn check_member(
        &self,
        verdict: &mut Verdict,
        member: &Member,
        outcome: Option<DeliveryOutcome>,
        arrived: &[&Arrival],
    ) {
        let is_accepted = arrived.iter().any(|arrival| arrival.is_accepted());
        let is_refused = arrived.iter().any(|arrival| arrival.is_refused());
        let is_refused_last = arrived.last().is_some_and(|arrival| arrival.is_refused());
        let finding = || {
            let statuses: Vec<u16> = arrived.iter().map(|arrival| arrival.status).collect();
            self.finding(
                &member.device,
                &format!("{:?}, {outcome:?}, {statuses:?}", member.expected),
            )
        };
        let expected = member.expected;
        match outcome {
            // The device was unregistered for this notification, but a crash lost the outcome. Then another
            // notification disabled the device. When the page was read again, it no longer had the device.
            None if expected == Expected::Unregistered && !is_accepted => {}
            None if expected == Expected::Removed => self.count_lost_outcomes(verdict, arrived),
            None if !arrived.is_empty() => verdict.unexpected.push(finding()),
            None if matches!(expected, Expected::Delivered | Expected::Rejected) => {
                verdict.lost.push(finding())
            }
            None => {}
            Some(DeliveryOutcome::Pending) => verdict.lost.push(finding()),
            Some(DeliveryOutcome::Sent) if !is_accepted => verdict.lost.push(finding()),
            Some(DeliveryOutcome::Sent)
                if matches!(expected, Expected::Unregistered | Expected::Rejected) =>
            {
                verdict.wrong_state.push(finding());
            }
            Some(DeliveryOutcome::Sent) => {}
            Some(_) if is_accepted => verdict.wrong_state.push(finding()),
            Some(_) if expected == Expected::Delivered => verdict.lost.push(finding()),
            Some(DeliveryOutcome::Failed) if expected == Expected::Rejected && is_refused => {}
            Some(DeliveryOutcome::Unregistered)
                if expected == Expected::Unregistered && is_refused => {}
            // Another notification disabled the device between two attempts of this one, so "failed" is
            // right. If the last attempt of this notification was refused, a crash must have lost its outcome.
            Some(DeliveryOutcome::Failed)
                if expected == Expected::Unregistered && !is_refused_last => {}
            Some(DeliveryOutcome::Failed)
                if expected == Expected::Unregistered && self.is_of_ended_process(arrived) =>
            {
                self.count_lost_outcomes(verdict, arrived);
            }
            Some(DeliveryOutcome::Canceled) if expected == Expected::Any => {}
            // It left between two attempts.
            Some(DeliveryOutcome::Failed) if expected == Expected::Removed => {}
            Some(_) => verdict.wrong_state.push(finding()),
        }
    }

    /// Counts each message after a final response as a repeat. The repeat is attributed to the process that got
    /// the response, because this process ended before the response was on disk.
    fn count_repeats(&self, verdict: &mut Verdict, arrived: &[&Arrival]) {
        let Some((_, before)) = arrived.split_last() else { return };
        for earlier in before.iter().filter(|arrival| arrival.is_accepted() || arrival.is_refused())
        {
            self.attribute_loss(verdict, earlier, "repeated");
        }
    }

    /// Counts a message without an outcome as a repeat: a crash lost its outcome too, and the same limit
    /// applies.
    fn count_lost_outcomes(&self, verdict: &mut Verdict, arrived: &[&Arrival]) {
        if let Some(last) = arrived.last() {
            self.attribute_loss(verdict, last, "has no outcome");
        }
    }

    /// Attributes the loss of an outcome to the process that got the response.
    fn attribute_loss(&self, verdict: &mut Verdict, arrival: &Arrival, what: &str) {
        verdict.repeat(self.process_of(arrival), self.finding(&arrival.address, what));
    }

    /// Whether the process that got the last response has ended.
    fn is_of_ended_process(&self, arrived: &[&Arrival]) -> bool {
        arrived.last().is_some_and(|arrival| self.process_of(arrival) < self.ended.len())
    }

    /// The position of the process that got a response. The process that still runs comes after all that ended.
    fn process_of(&self, arrival: &Arrival) -> usize {
        self.ended.partition_point(|ended| ended.last_connection < arrival.connection)
    }
}

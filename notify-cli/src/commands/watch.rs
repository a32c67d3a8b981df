//! `notify watch`: how a notification comes along, until every delivery has its outcome. A bar on a
//! terminal, lines elsewhere, both on stderr; the result is the notification as it ended.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use notify_client::{
    Client, Error,
    notify_core::{
        Counts, DeliveryOutcome, DeviceId, ExplainedOutcome, ListDeliveries, NotificationId,
        NotificationRecord, NotificationStatus, StepKind,
    },
};
use tokio::time::Instant;

use super::explain::last_answer;
use crate::{
    failure::Failure,
    output::{talk, time, view},
    session::{Session, own_id},
};

/// Columns of the bar.
const BAR_COLUMNS: u64 = 30;
/// Time between two looks, unless another is given.
pub(super) const EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// Least time between two looks, in seconds.
const EVERY_MIN: f64 = 0.05;
/// Most time between two looks, in seconds.
const EVERY_MAX: f64 = 3_600.0;

/// Arguments of `notify watch`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 0 when every delivery was sent or its address was unregistered, and with \
    1 when a delivery failed, expired or was canceled."
)]
pub(crate) struct Watch {
    /// Id of the notification.
    notification: String,
    /// Time between two requests.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = every)]
    every: Duration,
}

/// Watches.
pub(crate) async fn run(args: Watch, session: &mut Session) -> Result<(), Failure> {
    let id = own_id("notification", &args.notification, NotificationId::new)?;
    follow(&id, args.every, session).await
}

/// Watches a notification to its end, and shows it as it ended.
pub(super) async fn follow(
    id: &NotificationId,
    every: Duration,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.notify()?;
    let mut progress = Progress::new();
    let mut hold = None;
    let record = loop {
        let record = notify.notifications().get(id).await;
        let record = record.map_err(Failure::of_id("notification", id))?;
        if is_over(record.status) {
            break record;
        }
        if hold.is_some() || progress.is_stuck(&record) {
            // Watching goes on without an answer, and with the last one.
            let now = Hold::find(&notify, id, hold.as_ref()).await;
            hold = now.unwrap_or(hold);
        }
        progress.show(&record, hold.as_ref());
        tokio::time::sleep(every).await;
    };
    progress.end(&record);
    if let Some(why) = why_none(&record) {
        talk(&format!("warning: no device matched: {why}"));
    }
    session.out.show(&record, &view::NOTIFICATION)?;
    let Counts { failed, expired, canceled, .. } = record.counts;
    if failed + expired + canceled > 0 {
        session.out.flush()?;
        return Err(Failure::NotAllSent { failed, expired, canceled });
    }
    // One that was canceled before it was due never had a device, and nothing to count.
    if record.status == NotificationStatus::Canceled {
        session.out.flush()?;
        return Err(Failure::CanceledBefore);
    }
    Ok(())
}

/// What keeps deliveries from going out, as one of those that wait shows it.
struct Hold {
    device: DeviceId,
    detail: String,
}

impl Hold {
    /// The hold now: that of the same device as before where it lasts, since another one that waits may
    /// be of another provider.
    async fn find(
        notify: &Client,
        id: &NotificationId,
        before: Option<&Self>,
    ) -> Result<Option<Self>, Error> {
        if let Some(before) = before
            && let Some(hold) = Self::of(notify, id, &before.device).await?
        {
            return Ok(Some(hold));
        }
        let outcome = Some(DeliveryOutcome::Pending);
        let one = ListDeliveries { limit: Some(1), cursor: None, outcome };
        let waiting = notify.notifications().deliveries(id, &one).await?;
        match waiting.deliveries.first().and_then(|delivery| delivery.device_id.as_ref()) {
            Some(device) => Self::of(notify, id, device).await,
            None => Ok(None),
        }
    }

    async fn of(
        notify: &Client,
        id: &NotificationId,
        device: &DeviceId,
    ) -> Result<Option<Self>, Error> {
        let explained = notify.notifications().explain(id, device).await?;
        // What ended may have been held before.
        if explained.outcome != ExplainedOutcome::Pending {
            return Ok(None);
        }
        let holds =
            [StepKind::CredentialsRefused, StepKind::Paused, StepKind::ProviderNotConfigured];
        let step = explained.steps.iter().find(|step| holds.contains(&step.what));
        // Where nothing is held, what the provider said last is why a delivery is tried again.
        let detail = step.map(|step| &*step.detail).or_else(|| last_answer(&explained));
        Ok(detail.map(|detail| Self { device: device.clone(), detail: detail.to_owned() }))
    }

    /// The detail without digits: each probe changes its time.
    fn reason(&self) -> String {
        self.detail.chars().filter(|character| !character.is_ascii_digit()).collect()
    }
}

fn is_over(status: NotificationStatus) -> bool {
    match status {
        NotificationStatus::Completed
        | NotificationStatus::Canceled
        | NotificationStatus::Reported => true,
        NotificationStatus::Scheduled
        | NotificationStatus::Queued
        | NotificationStatus::Sending => false,
    }
}

/// What a person sees while it runs.
struct Progress {
    line: ProgressBar,
    began: Instant,
    /// The line said last, and how many deliveries were settled when.
    said: String,
    before: Option<(u64, Instant)>,
    /// The reason of the hold said last, while it lasts.
    held: Option<String>,
}

impl Progress {
    fn new() -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        line.set_style(ProgressStyle::with_template("{msg}").expect("the template is well-formed"));
        Self { line, began: Instant::now(), said: String::new(), before: None, held: None }
    }

    /// Whether deliveries wait, and none has been settled since the last look.
    fn is_stuck(&self, record: &NotificationRecord) -> bool {
        let before = self.before.map(|(before, _)| before);
        record.counts.pending > 0 && before == Some(settled(record))
    }

    /// Says when deliveries begin to wait, and when they go on.
    fn report_hold(&mut self, hold: Option<&Hold>) {
        let reason = hold.map(Hold::reason);
        if reason == self.held {
            return;
        }
        let line = match hold {
            Some(hold) => format!("waiting: {}", hold.detail),
            None => "deliveries go out again".to_owned(),
        };
        self.line.suspend(|| talk(&line));
        self.held = reason;
    }

    fn show(&mut self, record: &NotificationRecord, hold: Option<&Hold>) {
        self.report_hold(hold);
        let settled = settled(record);
        let now = Instant::now();
        let rate = self.before.replace((settled, now)).map(|(before, at)| {
            let seconds = now.duration_since(at).as_secs_f64().max(f64::EPSILON);
            settled.saturating_sub(before) as f64 / seconds
        });
        let line = state(record);
        if !self.line.is_hidden() {
            // One text, drawn at once: a bar that is drawn ahead of its words contradicts them.
            let seconds = self.began.elapsed().as_secs();
            let bar = bar(settled, record.counts.targeted);
            let rate = rate.map_or_else(String::new, |rate| format!("{rate:.0}/s, "));
            self.line.set_message(format!("{bar} {line} ({rate}{seconds} s)"));
            return;
        }
        // What stands still is said once.
        if line != self.said {
            talk(&match rate {
                Some(rate) => format!("{line} ({rate:.0}/s)"),
                None => line.clone(),
            });
            self.said = line;
        }
    }

    fn end(&self, record: &NotificationRecord) {
        self.line.finish_and_clear();
        talk(&state(record));
    }
}

/// Deliveries that have their outcome.
fn settled(record: &NotificationRecord) -> u64 {
    record.counts.targeted.saturating_sub(record.counts.pending)
}

/// The part that is settled, as a bar and in percent; it is full when all is.
fn bar(settled: u64, targeted: u64) -> String {
    let part = |of: u64| match targeted {
        0 => 0,
        _ => {
            u64::try_from(u128::from(settled) * u128::from(of) / u128::from(targeted)).unwrap_or(of)
        }
    };
    let filled = part(BAR_COLUMNS);
    let columns = |count: u64| usize::try_from(count).unwrap_or_default();
    let (done, left) = (columns(filled), columns(BAR_COLUMNS - filled));
    format!("{}{} {}%", "█".repeat(done), "░".repeat(left), part(100))
}

/// Where a notification stands, in one line: `sending: 118 of 400 sent, 2 failed`.
fn state(record: &NotificationRecord) -> String {
    let Counts { targeted, sent, failed, unregistered, expired, canceled, pending, .. } =
        record.counts;
    let mut line = match (record.status, record.send_at) {
        (NotificationStatus::Scheduled, Some(at)) => format!("scheduled for {}", time(at)),
        // Who gets it is not known yet.
        (status @ (NotificationStatus::Queued | NotificationStatus::Sending), _)
            if targeted == 0 =>
        {
            status.as_str().to_owned()
        }
        // Canceled before it was due: there is nobody to count.
        (NotificationStatus::Canceled, _) if targeted == 0 => "canceled".to_owned(),
        (status, _) => format!("{}: {sent} of {targeted} sent", status.as_str()),
    };
    for (count, word) in [
        (failed, "failed"),
        (unregistered, "unregistered"),
        (expired, "expired"),
        (canceled, "canceled"),
        (pending, "pending"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {word}"));
        }
    }
    if let Some(worst) = record.failures.first() {
        line.push_str(&format!(" (most often {} on {})", worst.reason, worst.platform));
    }
    line
}

/// Why a notification reached no device, when it did not.
fn why_none(record: &NotificationRecord) -> Option<String> {
    if record.status != NotificationStatus::Completed || record.counts.targeted > 0 {
        return None;
    }
    let request = serde_json::to_value(&record.request).unwrap_or_default();
    let words = |name: &str| {
        let list = request[name].as_array().into_iter().flatten();
        list.filter_map(|word| word.as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let Counts { unknown, excluded, .. } = record.counts;
    let tags = words("tags").into_iter().map(|tag| format!("`{tag}`")).collect::<Vec<_>>();
    let with_tag = match tags.as_slice() {
        [] => String::new(),
        tags => format!(" with the tag {}", tags.join(", ")),
    };
    let mut reasons = Vec::new();
    if unknown > 0 {
        reasons.push(no_such_ids(unknown));
    }
    if excluded > 0 {
        let lack = match (tags.is_empty(), excluded) {
            (true, _) => "",
            (false, 1) => ", or lacks the tag",
            (false, _) => ", or lack the tag",
        };
        reasons.push(format!(
            "{} disabled, or {} no address{lack}",
            if excluded == 1 {
                "1 named device is".to_owned()
            } else {
                format!("{excluded} named devices are")
            },
            if excluded == 1 { "has" } else { "have" },
        ));
    }
    if reasons.is_empty() {
        let platforms = words("platforms");
        let on = if platforms.is_empty() {
            String::new()
        } else {
            format!(" on {}", platforms.join(", "))
        };
        reasons.push(format!("there is no enabled device{on}{with_tag}"));
    }
    Some(reasons.join("; "))
}

/// That none of the ids named has a device.
pub(super) fn no_such_ids(unknown: u64) -> String {
    match unknown {
        1 => "no device has the named id".to_owned(),
        unknown => format!("no device has one of the {unknown} named ids"),
    }
}

fn every(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (EVERY_MIN..=EVERY_MAX).contains(seconds));
    let wrong = || format!("must be a number of seconds from {EVERY_MIN} to {EVERY_MAX}");
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_when_all_is_settled() {
        for (settled, targeted, filled, percent) in [
            (0, 0, 0, "0%"),
            (0, 2_998, 0, "0%"),
            (1_499, 2_998, 15, "50%"),
            (2_997, 2_998, 29, "99%"),
            (2_998, 2_998, 30, "100%"),
            (u64::MAX, u64::MAX, 30, "100%"),
        ] {
            let expected = format!("{}{} {percent}", "█".repeat(filled), "░".repeat(30 - filled));
            assert_eq!(bar(settled, targeted), expected);
        }
    }
}

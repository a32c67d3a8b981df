//! `notify watch`: how a notification comes along, until every delivery has its outcome. A bar on a
//! terminal, lines elsewhere, both on stderr; the result is the notification as it ended.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use notify_client::notify_core::{
    Counts, NotificationId, NotificationRecord, NotificationStatus, Timestamp,
};
use tokio::time::Instant;

use crate::{
    failure::Failure,
    output::{talk, view},
    session::{Session, own_id},
};

const BAR: &str = "{bar:30} {percent}% {msg} ({per_sec}, {elapsed})";
/// Least time between two looks, in seconds.
const EVERY_MIN: f64 = 0.05;
/// Most time between two looks, in seconds.
const EVERY_MAX: f64 = 3_600.0;

/// Arguments of `notify watch`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 when every delivery was sent or its address found dead, with 1 \
    when some failed, expired or were canceled."
)]
pub(crate) struct Watch {
    /// Id of the notification.
    notification: String,
    /// Time between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = every)]
    every: Duration,
}

/// Watches.
pub(crate) async fn run(args: Watch, session: &mut Session) -> Result<(), Failure> {
    let id = own_id("notification", &args.notification, NotificationId::new)?;
    let notify = session.notify()?;
    let mut progress = Progress::new();
    let record = loop {
        let record = notify.notifications().get(&id).await?;
        if is_over(record.status) {
            break record;
        }
        progress.show(&record);
        tokio::time::sleep(args.every).await;
    };
    progress.end(&record);
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
    bar: ProgressBar,
    /// The line said last, and how many deliveries were settled when.
    said: String,
    before: Option<(u64, Instant)>,
}

impl Progress {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(BAR).expect("the template is well-formed"));
        Self { bar, said: String::new(), before: None }
    }

    fn show(&mut self, record: &NotificationRecord) {
        let settled = record.counts.targeted - record.counts.pending.min(record.counts.targeted);
        if !self.bar.is_hidden() {
            self.bar.set_length(record.counts.targeted);
            self.bar.set_position(settled);
            self.bar.set_message(state(record));
            return;
        }
        let now = Instant::now();
        let rate = self.before.replace((settled, now)).map(|(before, at)| {
            let seconds = now.duration_since(at).as_secs_f64().max(f64::EPSILON);
            settled.saturating_sub(before) as f64 / seconds
        });
        let line = state(record);
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
        self.bar.finish_and_clear();
        talk(&state(record));
    }
}

/// Where a notification stands, in one line: `sending: 118 of 400 sent, 2 failed`.
fn state(record: &NotificationRecord) -> String {
    let Counts { targeted, sent, failed, unregistered, expired, canceled, pending, .. } =
        record.counts;
    let mut line = match (record.status, record.send_at) {
        (NotificationStatus::Scheduled, Some(at)) => format!("scheduled for {}", time(at)),
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

fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms())
        .map_or_else(|_| at.to_string(), |at| format!("{at:.0}"))
}

fn every(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (EVERY_MIN..=EVERY_MAX).contains(seconds));
    let wrong = || format!("must be a number of seconds from {EVERY_MIN} to {EVERY_MAX}");
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

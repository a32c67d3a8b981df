//! `notify watch`: shows the progress of a notification until every delivery has an outcome. The progress
//! is printed to stderr, as a bar on a terminal and as lines elsewhere. The result on stdout is the final
//! state of the notification.

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

use crate::{
    failure::Failure,
    input,
    output::{print_message, view},
    session::{Session, parse_caller_id},
};

/// The width of the bar, in columns.
const BAR_COLUMNS: u64 = 30;
/// Default time between two requests.
pub(super) const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
/// Minimum time between two requests, in seconds.
const INTERVAL_MIN: f64 = 0.05;
/// Maximum time between two requests, in seconds.
const INTERVAL_MAX: f64 = 3_600.0;

/// Arguments of `notify watch`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 if every delivery was sent or its address was unregistered, 1 if a \
    delivery failed, expired or was canceled, or if the canary failed. A notification that is paused for \
    another reason is watched until it is resumed or canceled."
)]
pub(crate) struct Watch {
    /// Id of the notification.
    notification: String,
    /// Time between two requests.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    every: Duration,
    #[command(flatten)]
    limit: WaitArgs,
}

/// How long a notification is followed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Stop watching after this time, such as `60s` or `5m`, with exit status 1 if deliveries are still pending.
    /// The notification is sent all the same.
    #[arg(long = "wait", value_name = "SPAN", value_parser = input::span_seconds)]
    seconds: Option<u32>,
}

impl WaitArgs {
    /// Whether there is a limit.
    pub(crate) fn is_given(self) -> bool {
        self.seconds.is_some()
    }
}

/// Runs the command.
pub(crate) async fn run(args: Watch, session: &mut Session) -> Result<(), Failure> {
    let id = parse_caller_id("notification", &args.notification, NotificationId::new)?;
    follow(&id, args.every, args.limit, session).await
}

/// Follows a notification to its end and prints it.
pub(super) async fn follow(
    id: &NotificationId,
    every: Duration,
    limit: WaitArgs,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.client()?;
    let end = limit.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    let mut progress = Progress::new();
    let mut blocker = None;
    let record = loop {
        let record = notify.notifications().get(id).await;
        let record = record.map_err(Failure::unknown_id("notification", id))?;
        if has_ended(record.status) || has_failed_canary(&record) {
            break record;
        }
        if blocker.is_some() || progress.is_stuck(&record) {
            // If the request fails, the last blocker remains.
            let current = Blocker::find(&notify, id, blocker.as_ref()).await;
            blocker = current.unwrap_or(blocker);
        }
        progress.show(&record, blocker.as_ref());
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            // A notification that waits from the start has shown no blocker yet.
            let blocker = match blocker {
                None if record.counts.pending > 0 => {
                    Blocker::find(&notify, id, None).await.unwrap_or_default()
                }
                blocker => blocker,
            };
            progress.end(&record);
            session.out.show(&record, &view::NOTIFICATION)?;
            session.out.flush()?;
            return Err(still_waiting(id, &record, blocker.as_ref()));
        }
        let next = now + every;
        tokio::time::sleep_until(end.map_or(next, |end| end.min(next))).await;
    };
    progress.end(&record);
    if let Some(why) = no_device_reason(&record) {
        print_message(&format!("warning: no device matched: {why}"));
    }
    session.out.show(&record, &view::NOTIFICATION)?;
    if has_failed_canary(&record) {
        session.out.flush()?;
        return Err(Failure::CanaryFailed(id.to_string()));
    }
    let Counts { failed, expired, canceled, .. } = record.counts;
    if failed + expired + canceled > 0 {
        session.out.flush()?;
        return Err(Failure::NotAllSent { failed, expired, canceled });
    }
    // A notification that was canceled before it was due has no deliveries.
    if record.status == NotificationStatus::Canceled {
        session.out.flush()?;
        return Err(Failure::CanceledUnsent);
    }
    Ok(())
}

/// The failure of a wait that was too short: what the notification waits for.
fn still_waiting(
    id: &NotificationId,
    record: &NotificationRecord,
    blocker: Option<&Blocker>,
) -> Failure {
    let why = blocker.map_or_else(String::new, |blocker| format!(": {}", blocker.detail));
    Failure::StillWaiting { state: state_line(record), why, id: id.to_string() }
}

/// Why deliveries wait, according to the explanation of one of them.
struct Blocker {
    device: DeviceId,
    detail: String,
}

impl Blocker {
    /// Finds the current blocker. While the device of the previous blocker has one, the function returns
    /// that one, because another device may wait for another provider.
    async fn find(
        notify: &Client,
        id: &NotificationId,
        previous: Option<&Self>,
    ) -> Result<Option<Self>, Error> {
        if let Some(previous) = previous
            && let Some(blocker) = Self::of_device(notify, id, &previous.device).await?
        {
            return Ok(Some(blocker));
        }
        let outcome = Some(DeliveryOutcome::Pending);
        let query = ListDeliveries { limit: Some(1), outcome, ..ListDeliveries::default() };
        let waiting = notify.notifications().deliveries(id, &query).await?;
        match waiting.deliveries.first().and_then(|delivery| delivery.device_id.as_ref()) {
            Some(device) => Self::of_device(notify, id, device).await,
            None => Ok(None),
        }
    }

    /// The blocker of the delivery to this device, if it is pending and has one.
    async fn of_device(
        notify: &Client,
        id: &NotificationId,
        device: &DeviceId,
    ) -> Result<Option<Self>, Error> {
        let explained = notify.notifications().explain(id, device).await?;
        // The steps of a delivery that has ended may contain a blocker of the past.
        if explained.outcome != ExplainedOutcome::Pending {
            return Ok(None);
        }
        let blocking =
            [StepKind::CredentialsRefused, StepKind::Paused, StepKind::ProviderNotConfigured];
        let step = explained.steps.iter().find(|step| blocking.contains(&step.what));
        // Without such a step, the delivery waits for a retry, and the last response is the reason.
        let reason = step.map(|step| &*step.detail).or_else(|| explained.last_response());
        let next = explained.steps.iter().find(|step| step.what == StepKind::NextAttempt);
        let next =
            next.map_or_else(String::new, |next| format!("; the next attempt is {}", next.detail));
        let detail = reason.map(|reason| format!("{reason}{next}"));
        Ok(detail.map(|detail| Self { device: device.clone(), detail }))
    }

    /// The detail without digits. The detail contains the times of the next probe and the next attempt, and
    /// the reason stays the same when these times change.
    fn reason(&self) -> String {
        self.detail.chars().filter(|character| !character.is_ascii_digit()).collect()
    }
}

fn has_ended(status: NotificationStatus) -> bool {
    match status {
        NotificationStatus::Completed
        | NotificationStatus::Canceled
        | NotificationStatus::Reported => true,
        NotificationStatus::Scheduled
        | NotificationStatus::Queued
        | NotificationStatus::Sending => false,
    }
}

/// Whether the rest of the notification waits for a decision, because its canary failed.
fn has_failed_canary(record: &NotificationRecord) -> bool {
    record.paused.as_ref().is_some_and(|pause| pause.reason == "canary_failed")
}

/// The progress display.
struct Progress {
    line: ProgressBar,
    started: Instant,
    /// The last printed line.
    last_line: String,
    /// The number of finished deliveries at the last request, and the time of that request.
    previous: Option<(u64, Instant)>,
    /// The reason of the last printed blocker, while it persists.
    blocked_by: Option<String>,
}

impl Progress {
    fn new() -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        line.set_style(ProgressStyle::with_template("{msg}").expect("the template is well-formed"));
        Self {
            line,
            started: Instant::now(),
            last_line: String::new(),
            previous: None,
            blocked_by: None,
        }
    }

    /// Whether deliveries are pending and none of them has finished since the last request.
    fn is_stuck(&self, record: &NotificationRecord) -> bool {
        let previous = self.previous.map(|(finished, _)| finished);
        record.counts.pending > 0 && previous == Some(finished(record))
    }

    /// Prints a line when deliveries begin to wait, and when they resume.
    fn show_blocker(&mut self, blocker: Option<&Blocker>) {
        let reason = blocker.map(Blocker::reason);
        if reason == self.blocked_by {
            return;
        }
        let line = match blocker {
            Some(blocker) => format!("waiting: {}", blocker.detail),
            None => "deliveries resumed".to_owned(),
        };
        self.line.suspend(|| print_message(&line));
        self.blocked_by = reason;
    }

    fn show(&mut self, record: &NotificationRecord, blocker: Option<&Blocker>) {
        self.show_blocker(blocker);
        let finished = finished(record);
        let now = Instant::now();
        let rate = self.previous.replace((finished, now)).map(|(previous, at)| {
            let seconds = now.duration_since(at).as_secs_f64().max(f64::EPSILON);
            finished.saturating_sub(previous) as f64 / seconds
        });
        let line = state_line(record);
        if !self.line.is_hidden() {
            // The bar is part of the text, so that both are drawn at once and agree.
            let seconds = self.started.elapsed().as_secs();
            // Without the number of all devices, there is no share.
            let bar = if waits_for_devices(record) {
                String::new()
            } else {
                bar(finished, record.counts.targeted) + " "
            };
            let rate = rate.map_or_else(String::new, |rate| format!("{rate:.0}/s, "));
            self.line.set_message(format!("{bar}{line} ({rate}{seconds} s)"));
            return;
        }
        // A repeated line is printed once.
        if line != self.last_line {
            print_message(&match rate {
                Some(rate) => format!("{line} ({rate:.0}/s)"),
                None => line.clone(),
            });
            self.last_line = line;
        }
    }

    fn end(&self, record: &NotificationRecord) {
        self.line.finish_and_clear();
        print_message(&state_line(record));
    }
}

/// The number of deliveries with an outcome.
fn finished(record: &NotificationRecord) -> u64 {
    record.counts.targeted.saturating_sub(record.counts.pending)
}

/// The share of finished deliveries, as a bar and in percent.
fn bar(finished: u64, targeted: u64) -> String {
    let share_of = |whole: u64| match targeted {
        0 => 0,
        _ => u64::try_from(u128::from(finished) * u128::from(whole) / u128::from(targeted))
            .unwrap_or(whole),
    };
    let filled = share_of(BAR_COLUMNS);
    let columns = |count: u64| usize::try_from(count).unwrap_or_default();
    let (done, left) = (columns(filled), columns(BAR_COLUMNS - filled));
    format!("{}{} {}%", "█".repeat(done), "░".repeat(left), share_of(100))
}

/// Whether the counts leave devices out that get their turn later: the notification is paused, or it has a rate
/// or a canary.
fn waits_for_devices(record: &NotificationRecord) -> bool {
    let request = serde_json::to_value(&record.request).unwrap_or_default();
    let has = |field: &str| request.get(field).is_some_and(|value| !value.is_null());
    let is_slow = record.paused.is_some() || has("per_minute") || has("canary");
    record.status == NotificationStatus::Sending && is_slow
}

/// The state of a notification in one line: `sending: 118 of 400 sent, 2 failed`.
fn state_line(record: &NotificationRecord) -> String {
    let Counts { targeted, sent, failed, unregistered, expired, canceled, pending, .. } =
        record.counts;
    let mut line = match (record.status, record.send_at) {
        (NotificationStatus::Scheduled, Some(at)) => format!("scheduled for {}", at.to_rfc3339()),
        // The server has not selected the devices yet.
        (status @ (NotificationStatus::Queued | NotificationStatus::Sending), _)
            if targeted == 0 =>
        {
            status.as_str().to_owned()
        }
        // Canceled before it was due: there are no deliveries.
        (NotificationStatus::Canceled, _) if targeted == 0 => "canceled".to_owned(),
        (status, _) => format!("{}: {sent} of {targeted} sent", status.as_str()),
    };
    if waits_for_devices(record) && targeted > 0 {
        line.push_str(" so far");
    }
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
    match &record.paused {
        Some(pause) => line.push_str(&format!(" (paused: {})", pause.reason)),
        None => line.push_str(&pace_of(record)),
    }
    if let Some(worst) = record.failures.first() {
        line.push_str(&format!(" (most often {} on {})", worst.reason, worst.platform));
    }
    line
}

/// How a notification is sent, if not at once: ` (with a canary of 10 %, at most 60 a minute)`.
fn pace_of(record: &NotificationRecord) -> String {
    if record.status != NotificationStatus::Sending {
        return String::new();
    }
    let request = serde_json::to_value(&record.request).unwrap_or_default();
    let canary = request["canary"]["percent"].as_u64();
    let per_minute = request["per_minute"].as_u64();
    let canary = canary.map(|percent| format!("with a canary of {percent} %"));
    let pace = per_minute.map(|count| format!("at most {count} a minute"));
    let pace: Vec<String> = canary.into_iter().chain(pace).collect();
    if pace.is_empty() { String::new() } else { format!(" ({})", pace.join(", ")) }
}

/// Why a completed notification has no deliveries; `None` if it has some.
fn no_device_reason(record: &NotificationRecord) -> Option<String> {
    if record.status != NotificationStatus::Completed || record.counts.targeted > 0 {
        return None;
    }
    let request = serde_json::to_value(&record.request).unwrap_or_default();
    let texts_of = |name: &str| {
        let list = request[name].as_array().into_iter().flatten();
        list.filter_map(|text| text.as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let Counts { unknown, excluded, .. } = record.counts;
    let tags = texts_of("tags").into_iter().map(|tag| format!("`{tag}`")).collect::<Vec<_>>();
    let with_tag = match tags.as_slice() {
        [] => String::new(),
        tags => format!(" with the tag {}", tags.join(", ")),
    };
    let names_users = record.users.is_some();
    let mut reasons = Vec::new();
    if unknown > 0 {
        reasons.push(no_such_ids(if names_users { "user" } else { "device" }, unknown));
    }
    if excluded > 0 {
        let (devices, are, have, lack, do_not) = if excluded == 1 {
            ("device", "is", "has", "lacks", "does not")
        } else {
            ("devices", "are", "have", "lack", "do not")
        };
        let devices = if names_users {
            format!("{devices} of the users")
        } else {
            format!("given {devices}")
        };
        let mut reason = format!("{excluded} {devices} {are} disabled, or {have} no address");
        if !tags.is_empty() {
            reason.push_str(&format!(", or {lack} the tag"));
        }
        if record.audience.is_some() {
            reason.push_str(&format!(", or {do_not} meet the condition of the audience"));
        }
        if names_users {
            reason.push_str(&format!(", or {are} no longer logged in"));
        }
        reasons.push(reason);
    }
    if reasons.is_empty() {
        let platforms = texts_of("platforms");
        let on = if platforms.is_empty() {
            String::new()
        } else {
            format!(" on {}", platforms.join(", "))
        };
        let of_users = if names_users { " of the users" } else { "" };
        let in_audience = match record.audience {
            Some(_) => " that meets the condition of the audience",
            None => "",
        };
        reasons.push(format!("there is no enabled device{of_users}{on}{with_tag}{in_audience}"));
    }
    Some(reasons.join("; "))
}

/// A message that the given ids of devices or users are unknown.
pub(super) fn no_such_ids(what: &str, unknown: u64) -> String {
    match unknown {
        1 => format!("no {what} has the given id"),
        unknown => format!("no {what} has one of the {unknown} given ids"),
    }
}

/// Parses the value of `--every`.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds =
        text.parse().ok().filter(|seconds| (INTERVAL_MIN..=INTERVAL_MAX).contains(seconds));
    let rule = || format!("must be a number of seconds from {INTERVAL_MIN} to {INTERVAL_MAX}");
    seconds.map(Duration::from_secs_f64).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_names_a_pause_and_says_that_devices_follow() {
        let counts = serde_json::json!({
            "targeted": 300, "sent": 10, "failed": 0, "unregistered": 0, "expired": 0,
            "canceled": 0, "pending": 290, "unknown": 0, "excluded": 0,
        });
        let pause = serde_json::json!({"at": 2, "reason": "requested"});
        let none = serde_json::Value::Null;
        for (request, paused, line) in [
            (r#"{"per_minute":null}"#, &none, "sending: 10 of 300 sent, 290 pending"),
            (
                r#"{"per_minute":6}"#,
                &none,
                "sending: 10 of 300 sent so far, 290 pending (at most 6 a minute)",
            ),
            (
                r#"{"canary":{"percent":5},"per_minute":6}"#,
                &none,
                "sending: 10 of 300 sent so far, 290 pending (with a canary of 5 %, at most 6 a minute)",
            ),
            ("{}", &pause, "sending: 10 of 300 sent so far, 290 pending (paused: requested)"),
        ] {
            let request: serde_json::Value = serde_json::from_str(request).unwrap();
            let record = serde_json::json!({
                "id": "n", "status": "sending", "origin": "created", "created_at": 1, "send_at": 1,
                "started_at": 1, "completed_at": null, "request": request, "counts": counts,
                "paused": paused, "by_platform": [], "failures": [],
                "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0},
            });
            let record: NotificationRecord = serde_json::from_value(record).unwrap();
            assert_eq!(state_line(&record), line);
        }
    }

    #[test]
    fn a_bar_is_full_when_all_deliveries_have_finished() {
        for (finished, targeted, filled, percent) in [
            (0, 0, 0, "0%"),
            (0, 2_998, 0, "0%"),
            (1_499, 2_998, 15, "50%"),
            (2_997, 2_998, 29, "99%"),
            (2_998, 2_998, 30, "100%"),
            (u64::MAX, u64::MAX, 30, "100%"),
        ] {
            let expected = format!("{}{} {percent}", "█".repeat(filled), "░".repeat(30 - filled));
            assert_eq!(bar(finished, targeted), expected);
        }
    }
}

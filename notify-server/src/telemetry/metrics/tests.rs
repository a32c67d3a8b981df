//! Names, labels and bounds of the metrics.

use notify_core::{AppId, Platform, ProviderKind, ProviderStatus, Timestamp};
use uuid::Uuid;

use super::*;
use crate::store::{AppNo, DeviceKey, DeviceOutcome, Outcome, RetryNo, RetryOutcome, RetryResult};
use crate::telemetry::delivery::LABELS_MAX;
use crate::telemetry::sample::QueueSample;
use crate::telemetry::{AppQueueSample, METRICS_APPS_MAX};

/// Most series of a server (bounded memory here and in who collects them).
const SERIES_MAX: usize = 3_500;

fn queue(provider: ProviderKind) -> QueueSample {
    QueueSample {
        provider,
        sending: 5,
        retry_due: 2,
        retry_waiting: 3,
        oldest_due_age_seconds: 1.5,
    }
}

fn sample() -> Sample {
    let throttled = ProviderStatus::Throttled { until: Timestamp(1) };
    Sample {
        queues: Some(ProviderKind::ALL.map(queue).to_vec()),
        app_queues: None,
        process: None,
        started_at: Timestamp(1_795_219_200_000),
        lane_statuses: vec![(ProviderKind::Fcm, throttled.clone()), (ProviderKind::Fcm, throttled)],
        connections: vec![(ProviderKind::Apns, [1, 2])],
        token_ages: vec![(ProviderKind::Apns, 61.5)],
        busy: 3,
        commits: 7,
        servers: 2,
        clock_leap_seconds: 90_000.5,
        certificate_not_after: Some(Timestamp(1_795_219_200_000)),
    }
}

fn outcome(settled: Outcome, reason: Option<&'static str>) -> DeviceOutcome {
    let key = DeviceKey::new(AppNo(1), Platform::Ios, 1);
    DeviceOutcome { key, settled, reason: reason.map(Into::into), attempts: 1, message_id: None }
}

#[test]
fn metrics_have_their_documented_names() {
    let metrics = Metrics::new(0);
    metrics.count_response("POST", "/v1/devices", 200, Duration::from_millis(3));
    metrics.count_notification(AppNo(1));
    let delivery = metrics.delivery();
    delivery.attempted(ProviderKind::Apns, Duration::from_millis(30));
    let dead = "BadDeviceToken";
    let settled = [
        outcome(Outcome::Sent, None),
        outcome(Outcome::Sent, None),
        outcome(Outcome::Unregistered, Some(dead)),
        outcome(Outcome::Failed, Some("http_418 nonsense")),
        outcome(Outcome::Sent, None),
    ];
    delivery.settled(&settled, &[]);
    let step = RetryResult::Final {
        settled: Outcome::Expired,
        reason: Some("expired".into()),
        attempts: 2,
        message_id: None,
    };
    delivery.retried(
        ProviderKind::Fcm,
        &[RetryOutcome { no: RetryNo(1), result: step, dead: None, moved: None, verified: None }],
    );
    metrics.encode(&sample(), MetricsFormat::Prometheus);
    let text = metrics.encode(&sample(), MetricsFormat::Prometheus);
    for line in [
        "# TYPE notify_http_requests_total counter",
        "notify_http_requests_total{route=\"/v1/devices\",code=\"200\",method=\"POST\"} 1",
        "# TYPE notify_http_request_duration_seconds histogram",
        "notify_http_request_duration_seconds_count{route=\"/v1/devices\"} 1",
        "notify_notifications_accepted_total 1",
        "notify_deliveries_total{channel=\"apns\",outcome=\"sent\",reason=\"\"} 3",
        "notify_deliveries_total{channel=\"apns\",outcome=\"unregistered\",reason=\"BadDeviceToken\"} 1",
        "notify_deliveries_total{channel=\"apns\",outcome=\"failed\",reason=\"other\"} 1",
        "notify_deliveries_total{channel=\"fcm\",outcome=\"expired\",reason=\"expired\"} 1",
        "notify_delivery_attempts_total{channel=\"apns\"} 1",
        "notify_delivery_attempts_total{channel=\"webpush\"} 0",
        "notify_provider_request_duration_seconds_count{channel=\"apns\"} 1",
        "notify_queue_depth{channel=\"fcm\",state=\"sending\"} 5",
        "notify_queue_depth{channel=\"fcm\",state=\"retry_due\"} 2",
        "notify_queue_depth{channel=\"fcm\",state=\"retry_waiting\"} 3",
        "notify_oldest_due_age_seconds{channel=\"fcm\"} 1.5",
        "notify_provider_connections{channel=\"apns\",state=\"busy\"} 1",
        "notify_provider_connections{channel=\"apns\",state=\"idle\"} 2",
        "notify_channel_paused{channel=\"fcm\",why=\"throttled\"} 2",
        "notify_channel_paused{channel=\"apns\",why=\"credentials\"} 0",
        "notify_provider_token_age_seconds{channel=\"apns\"} 61.5",
        "notify_tokens_disabled_total{channel=\"fcm\",reason=\"other\"} 0",
        "notify_db_busy_total 3",
        "notify_db_commits_total 7",
        "notify_db_up 1",
        "notify_servers 2",
        "notify_tls_certificate_not_after_seconds{} 1795219200.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(text.contains("notify_build_info{version="));
    let open_metrics = metrics.encode(&sample(), MetricsFormat::OpenMetrics);
    assert!(open_metrics.ends_with("# EOF\n"));
}

#[test]
fn no_certificate_expiry_without_tls() {
    let metrics = Metrics::new(0);
    metrics.encode(&sample(), MetricsFormat::Prometheus);
    let without = Sample { certificate_not_after: None, ..sample() };
    let text = metrics.encode(&without, MetricsFormat::Prometheus);
    assert!(!text.contains("\nnotify_tls_certificate_not_after_seconds"), "{text}");
}

#[test]
fn no_queue_metrics_without_storage() {
    let metrics = Metrics::new(0);
    metrics.encode(&sample(), MetricsFormat::Prometheus);
    let text = metrics.encode(&Sample { queues: None, ..sample() }, MetricsFormat::Prometheus);
    assert!(
        !text.contains("notify_queue_depth{") && !text.contains("notify_oldest_due_age_seconds{")
    );
}

/// Every route with every status, every reason on every channel: the worst that can come together.
#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::new(0);
    let document: serde_json::Value = serde_json::from_str(&crate::openapi_json()).unwrap();
    let routes = document["paths"].as_object().unwrap();
    assert!(routes.len() > 30);
    let shared = |word: &str| -> &'static str { String::leak(word.to_owned()) };
    for (route, methods) in routes {
        let route = shared(route);
        for method in methods.as_object().unwrap().keys() {
            for code in [200, 304, 400, 401, 404, 409, 413, 429, 500, 503] {
                metrics.count_response(shared(method), route, code, Duration::ZERO);
            }
        }
        for code in [401, 405, 429, 500, 503] {
            metrics.count_response("other", route, code, Duration::ZERO);
        }
    }
    for code in [401, 404, 405, 429, 500, 503] {
        metrics.count_response("other", "unknown", code, Duration::ZERO);
    }
    let delivery = metrics.delivery();
    for number in 0..1_000 {
        let reason = String::leak(format!("http_{number} word{number}"));
        for provider in ProviderKind::ALL {
            delivery.ended(provider, Outcome::Failed, Some(reason), 1);
            delivery.attempted(provider, Duration::ZERO);
        }
    }
    let text = metrics.encode(&sample(), MetricsFormat::Prometheus);
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    // Each word as `failed` and as `unregistered` on each channel, though no provider has them all.
    let reasons = ProviderKind::ALL.len() * 2 * LABELS_MAX;
    assert!(series + reasons <= SERIES_MAX, "{series} and {reasons}");
}

/// The id of an application with this number.
fn app_id(number: i64) -> AppId {
    AppId(Uuid::from_u128(u128::from(number.unsigned_abs())))
}

/// The values of a metric by its label `app`.
fn by_app(text: &str, metric: &str) -> Vec<(String, String)> {
    let prefix = format!("{metric}{{app=\"");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "));
    let mut found: Vec<_> = lines.map(|(app, value)| (app.to_owned(), value.to_owned())).collect();
    found.sort();
    found
}

#[test]
fn applications_beyond_the_bound_share_one_series() {
    const APPS: i64 = 3;
    let metrics = Metrics::new(2);
    metrics.apps().reserve([(AppNo(1), app_id(1))]);
    // Application 3 is counted after application 2, so no slot is left for it.
    for app in 1..=APPS {
        for _ in 0..app {
            metrics.count_notification(AppNo(app));
        }
        let key = DeviceKey::new(AppNo(app), Platform::Ios, 1);
        metrics.delivery().settled(&[DeviceOutcome { key, ..outcome(Outcome::Sent, None) }], &[]);
    }
    // A retry that an earlier version stored has no application in its id.
    let failed = RetryResult::Final {
        settled: Outcome::Failed,
        reason: None,
        attempts: 2,
        message_id: None,
    };
    for no in [AppNo(2).key_prefix() | 7, 7] {
        let result = failed.clone();
        let (no, dead) = (RetryNo(no), None);
        let retry = RetryOutcome { no, result, dead, moved: None, verified: None };
        metrics.delivery().retried(ProviderKind::Apns, &[retry]);
    }
    for app in [1, 3, 3] {
        metrics.count_refused_call(AppNo(app), RefusedBy::Address);
    }
    let queue = |app, open| {
        let oldest_due_age_seconds = [0.0, 1.5][usize::from(open > 3)];
        AppQueueSample { app: AppNo(app), open, oldest_due_age_seconds }
    };
    let queues = vec![queue(2, 3), queue(3, 4), queue(9, 5)];
    let sample = Sample { app_queues: Some(queues), ..sample() };
    let text = metrics.encode(&sample, MetricsFormat::Prometheus);
    assert_eq!(by_app(&text, "notify_app_notifications_accepted_total").len(), 2, "{text}");
    assert_eq!(metrics.apps().unnamed(), [AppNo(2)]);
    metrics.apps().name(vec![(AppNo(2), Some(app_id(2)))]);
    // Encoding twice changes nothing.
    metrics.encode(&sample, MetricsFormat::Prometheus);
    let text = metrics.encode(&sample, MetricsFormat::Prometheus);
    let (one, two) = (app_id(1).to_string(), app_id(2).to_string());
    let table = |values: [&str; 3]| {
        let apps = [one.clone(), two.clone(), "other".to_owned()];
        apps.into_iter().zip(values.map(str::to_owned)).collect::<Vec<_>>()
    };
    for (metric, values) in [
        ("notify_app_notifications_accepted_total", ["1", "2", "3"]),
        ("notify_app_device_calls_refused_total", ["1", "0", "2"]),
        ("notify_app_queue_depth", ["0", "3", "9"]),
        ("notify_app_oldest_due_age_seconds", ["0.0", "0.0", "1.5"]),
    ] {
        assert_eq!(by_app(&text, metric), table(values), "{metric} in\n{text}");
    }
    for (app, outcome, count) in [
        (&*one, "sent", 1),
        (&*two, "sent", 1),
        ("other", "sent", 1),
        (&*one, "failed", 0),
        (&*two, "failed", 1),
        ("other", "failed", 1),
    ] {
        let line =
            format!("notify_app_deliveries_total{{app=\"{app}\",outcome=\"{outcome}\"}} {count}");
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn a_deleted_application_gives_its_slot_and_its_counts_away() {
    let metrics = Metrics::new(1);
    metrics.count_notification(AppNo(1));
    metrics.count_notification(AppNo(2));
    metrics.apps().name(vec![(AppNo(1), None)]);
    metrics.count_notification(AppNo(3));
    metrics.apps().name(vec![(AppNo(3), Some(app_id(3)))]);
    let text = metrics.encode(&sample(), MetricsFormat::Prometheus);
    let expected = [(app_id(3).to_string(), "1".to_owned()), ("other".to_owned(), "2".to_owned())];
    assert_eq!(by_app(&text, "notify_app_notifications_accepted_total"), expected, "{text}");
    assert!(by_app(&text, "notify_app_queue_depth").is_empty(), "the store did not answer");
}

#[test]
fn the_number_of_series_by_application_is_bounded() {
    const SERIES_OF_APP: usize = 9;
    let text_of = |apps_max: usize| {
        let metrics = Metrics::new(apps_max);
        for app in 1..=2_000 {
            metrics.count_notification(AppNo(app));
        }
        let ids = metrics.apps().unnamed().into_iter().map(|app| (app, Some(app_id(app.0))));
        metrics.apps().name(ids.collect());
        let sample = Sample { app_queues: Some(Vec::new()), ..sample() };
        metrics.encode(&sample, MetricsFormat::Prometheus)
    };
    for apps_max in [1, METRICS_APPS_MAX] {
        let series = text_of(apps_max).lines().filter(|line| line.contains("{app=\"")).count();
        assert_eq!(series, (apps_max + 1) * SERIES_OF_APP, "{apps_max}");
    }
    assert!(!text_of(0).contains("notify_app_"), "no metrics by application unless asked for");
}

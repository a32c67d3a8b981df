//! Queries: each parameter at most once, no unknown ones, and the rules of each.

use std::fmt::Debug;

use notify_core::{
    CampaignFilter, CampaignPage, Day, DayPeriod, DeleteUser, DeliveryOutcome, DeviceState,
    DeviceStatisticsQuery, EnrichmentQuery, ExplainedOutcome, ListAudit, ListCampaigns,
    ListDeliveries, ListDevices, ListNotificationUsers, ListNotifications, NoQuery,
    NotificationStatisticsQuery, NotificationStatus, OpenApiQuery, PageQuery, Parameter,
    PreviewQuery, Query, StepKind, StreamQuery, Timestamp, UserState,
};

use crate::support::NOW;

fn parse<Q: Query>(query: &str) -> Result<Q::Valid, Vec<String>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    });
    Q::parse(&pairs.collect::<Vec<_>>(), NOW).map_err(|errors| errors.into_vec())
}

fn check<Q: Query>(rows: &[(&str, &[&str])]) {
    for (query, expected) in rows {
        let errors = parse::<Q>(query).err().unwrap_or_default();
        assert_eq!(errors, *expected, "{query}");
    }
}

#[test]
fn pages_are_checked() {
    const LIMIT: &[&str] = &["limit: must be a whole number from 1 to 1000"];
    check::<PageQuery>(&[
        ("", &[]),
        ("limit=1", &[]),
        ("limit=1000&cursor=x", &[]),
        ("limit=", &[]),
        ("limit=0", LIMIT),
        ("limit=1001", LIMIT),
        ("limit=-1", LIMIT),
        ("limit=%2B1", LIMIT),
        ("limit=1e2", LIMIT),
        ("limit=99999999999999999999999", LIMIT),
        ("limit=1&limit=1", &["limit: is given twice"]),
        ("limits=1", &["limits: unknown parameter, did you mean `limit`?"]),
        ("page=1", &["page: unknown parameter"]),
        ("cursor=a\0", &["cursor: must not contain U+0000"]),
    ]);
    check::<NoQuery>(&[("", &[]), ("x=1", &["x: unknown parameter"])]);
}

#[test]
fn device_listings_are_checked() {
    check::<ListDevices>(&[
        ("platform=fb-messenger&tag=vip&limit=2", &[]),
        ("platform=tv", &["platform: must be one of android, ios, web, fb-messenger, chatapp"]),
        ("platform=web&tag=vip&state=enabled&push_token=https%3A%2F%2Fa", &[]),
        ("state=dead", &["state: must be one of enabled, disabled, unregistered"]),
        ("push_token=a&push_token=a", &["push_token: is given twice"]),
        ("segment=fans&user_id=u", &[]),
        (&format!("segment={}", "n".repeat(256)), &["segment: must be at most 255 characters"]),
        (&format!("user_id={}", "n".repeat(256)), &["user_id: must be at most 255 characters"]),
        ("push_tokens=a", &["push_tokens: unknown parameter, did you mean `push_token`?"]),
    ]);
    for state in DeviceState::ALL {
        let query = parse::<ListDevices>(&format!("state={state}")).unwrap();
        assert_eq!(query, ListDevices { state: Some(state), ..ListDevices::default() });
    }
}

/// An empty filter selects nothing that a caller can have meant: a script whose variable is empty must not
/// read or erase everything. The position in a list and the name of a campaign may be empty.
#[test]
fn an_empty_filter_is_refused() {
    fn check_filters<Q>(may_be_empty: &[&str])
    where
        Q: Query<Valid: Debug + PartialEq>,
    {
        for Parameter { name, .. } in Q::PARAMETERS {
            let parsed = Q::parse(&[((*name).to_owned(), String::new())], Timestamp(0));
            if may_be_empty.contains(name) {
                assert_eq!(parsed, Q::parse(&[], Timestamp(0)), "{name}");
            } else {
                let violations = parsed.unwrap_err();
                assert_eq!(violations.as_slice(), [format!("{name}: must not be empty")]);
            }
        }
    }
    let page = ["limit", "cursor"];
    check_filters::<PageQuery>(&page);
    check_filters::<ListDevices>(&page);
    check_filters::<ListNotifications>(&page);
    check_filters::<ListNotificationUsers>(&page);
    check_filters::<ListDeliveries>(&page);
    check_filters::<ListAudit>(&page);
    check_filters::<ListCampaigns>(&["offset", "limit", "name"]);
    check_filters::<StreamQuery>(&["cursor"]);
    check_filters::<DeleteUser>(&[]);
    check_filters::<OpenApiQuery>(&[]);
    check_filters::<EnrichmentQuery>(&[]);
    check_filters::<PreviewQuery>(&[]);
    check_filters::<DeviceStatisticsQuery>(&["date_from", "date_to"]);
    check_filters::<NotificationStatisticsQuery>(&["date_from", "date_to"]);
    for types in [",", "poll.answered,", ",poll.answered"] {
        assert!(parse::<StreamQuery>(&format!("types={types}")).is_err(), "{types}");
    }
}

#[test]
fn notification_listings_are_checked() {
    const STATUSES: &str = "scheduled, queued, sending, completed, canceled, reported";
    check::<ListNotifications>(&[
        ("status=queued&limit=1000&cursor=x", &[]),
        ("status=done", &[&format!("status: must be one of {STATUSES}")]),
        ("limit=1001", &["limit: must be a whole number from 1 to 1000"]),
        ("statuses=sent", &["statuses: unknown parameter, did you mean `status`?"]),
    ]);
    for status in NotificationStatus::ALL {
        let query = parse::<ListNotifications>(&format!("status={status}")).unwrap();
        assert_eq!(query.status, Some(status));
    }
}

#[test]
fn user_listings_are_checked() {
    const STATES: &str = "reached, unreached, pending, unknown";
    check::<ListNotificationUsers>(&[
        ("state=pending&limit=1000&cursor=x", &[]),
        ("state=lost", &[&format!("state: must be one of {STATES}")]),
        ("limit=1001", &["limit: must be a whole number from 1 to 1000"]),
        ("states=pending", &["states: unknown parameter, did you mean `state`?"]),
    ]);
    for state in UserState::ALL {
        let query = parse::<ListNotificationUsers>(&format!("state={state}")).unwrap();
        assert_eq!(query.state, Some(state));
    }
}

#[test]
fn delivery_listings_are_checked() {
    const OUTCOMES: &str = "sent, failed, unregistered, expired, canceled, pending";
    check::<ListDeliveries>(&[
        ("outcome=pending&limit=1000&cursor=x", &[]),
        ("reason=BadDeviceToken", &[]),
        (&format!("reason={}", "x".repeat(256)), &["reason: must be at most 255 characters"]),
        ("outcome=lost", &[&format!("outcome: must be one of {OUTCOMES}")]),
        ("limit=1001", &["limit: must be a whole number from 1 to 1000"]),
        ("outcomes=sent", &["outcomes: unknown parameter, did you mean `outcome`?"]),
    ]);
    for outcome in DeliveryOutcome::ALL {
        let query = parse::<ListDeliveries>(&format!("outcome={outcome}")).unwrap();
        assert_eq!(query.outcome, Some(outcome));
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
    }
}

/// Programs compare these names. The enums have all of them.
#[test]
fn explanations_serialize_to_the_names_of_their_enums() {
    for kind in StepKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    for outcome in ExplainedOutcome::ALL {
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
    }
}

#[test]
fn campaign_listings_are_checked() {
    check::<ListCampaigns>(&[
        (
            "offset=-1&limit=0&status=x",
            &[
                "offset: must be a whole number from 0 to 9223372036854775807",
                "limit: must be a whole number from 1 to 1000",
                "status: must be one of active, disabled, all",
            ],
        ),
        ("cursor=x", &["cursor: unknown parameter"]),
    ]);
    let page = CampaignPage { offset: 0, limit: 50, name: None, status: CampaignFilter::Active };
    assert_eq!(parse::<ListCampaigns>(""), Ok(page));
    let page = CampaignPage {
        offset: 7,
        limit: 3,
        name: Some("50%_".to_owned()),
        status: CampaignFilter::All,
    };
    assert_eq!(parse::<ListCampaigns>("offset=7&limit=3&name=50%_&status=all"), Ok(page));
}

#[test]
fn statistics_periods_are_checked() {
    const WHOLE: &str = "must be a whole number from 0 to 253402300799999";
    check::<DeviceStatisticsQuery>(&[
        ("date_from=5&date_to=5", &[]),
        ("date_from=6&date_to=5", &["date_from: must not be after date_to"]),
        ("date_from=1767225600000", &[]),
        ("date_from=1767225600001&date_to=now", &["date_from: must not be after date_to"]),
        ("date_from=now", &[&format!("date_from: {WHOLE}")]),
        ("date_to=1.5", &[&format!("date_to: {WHOLE}")]),
        ("date_to=253402300800000", &[&format!("date_to: {WHOLE}")]),
    ]);
    let query = parse::<DeviceStatisticsQuery>("date_from=1&date_to=now").unwrap();
    assert_eq!(query, DeviceStatisticsQuery { date_from: Some(Timestamp(1)), date_to: None });
}

#[test]
fn enrichment_queries_accept_ids_of_any_form() {
    check::<EnrichmentQuery>(&[
        ("notification_id=..&device_id=d", &[]),
        ("device_id=", &["device_id: must not be empty"]),
        ("device=d", &["device: unknown parameter"]),
    ]);
}

/// A period has whole UTC days, including those of its first and last instant, and at most 366.
#[test]
fn notification_statistics_have_whole_days() {
    const DAY_MS: i64 = 86_400_000;
    let now = Day::of(NOW);
    let from = |days: i64| format!("date_from={}", now.start().as_ms() + days * DAY_MS);
    const LONG: &str = "date_from: must leave at most 366 days to date_to";
    check::<NotificationStatisticsQuery>(&[
        ("", &[]),
        ("date_to=now", &[]),
        (&from(-365), &[]),
        (&from(-366), &[LONG]),
        ("date_from=0", &[LONG]),
        ("date_from=0&date_to=31622399999", &[]),
        ("date_from=0&date_to=31622400000", &[LONG]),
        ("date_from=2&date_to=1", &["date_from: must not be after date_to"]),
        ("date_from=now", &["date_from: must be a whole number from 0 to 253402300799999"]),
        ("date_to=1.5", &["date_to: must be a whole number from 0 to 253402300799999"]),
        ("from=1", &["from: unknown parameter"]),
    ]);
    for (query, first, last) in [
        ("", None, now),
        ("date_to=0", None, Day(0)),
        ("date_from=86399999&date_to=86400000", Some(Day(0)), Day(1)),
        ("date_from=86400000&date_to=172799999", Some(Day(1)), Day(1)),
    ] {
        let period = parse::<NotificationStatisticsQuery>(query);
        assert_eq!(period, Ok(DayPeriod { first, last }), "{query}");
    }
}

//! Queries as names and values.

use notify_core::{
    DeviceStatisticsQuery, EnrichmentQuery, ListCampaigns, ListDeliveries, ListDevices,
    NotificationStatisticsQuery, PageQuery,
};

type Parameters = Vec<(&'static str, String)>;

fn present<const N: usize>(parameters: [(&'static str, Option<String>); N]) -> Parameters {
    parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

pub(crate) fn page(query: &PageQuery) -> Parameters {
    present([
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("cursor", query.cursor.clone()),
    ])
}

pub(crate) fn deliveries(query: &ListDeliveries) -> Parameters {
    present([
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("cursor", query.cursor.clone()),
        ("outcome", query.outcome.map(|outcome| outcome.to_string())),
    ])
}

pub(crate) fn devices(query: &ListDevices) -> Parameters {
    present([
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("cursor", query.cursor.clone()),
        ("platform", query.platform.map(|platform| platform.to_string())),
        ("tag", query.tag.clone()),
    ])
}

pub(crate) fn campaigns(query: &ListCampaigns) -> Parameters {
    present([
        ("offset", query.offset.map(|offset| offset.to_string())),
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("name", query.name.clone()),
        ("status", query.status.clone()),
    ])
}

pub(crate) fn device_statistics(query: &DeviceStatisticsQuery) -> Parameters {
    present([
        ("date_from", query.date_from.map(|instant| instant.to_string())),
        ("date_to", query.date_to.map(|instant| instant.to_string())),
    ])
}

pub(crate) fn notification_statistics(query: &NotificationStatisticsQuery) -> Parameters {
    present([
        ("date_from", query.date_from.map(|instant| instant.to_string())),
        ("date_to", query.date_to.map(|instant| instant.to_string())),
    ])
}

pub(crate) fn enrichment(query: &EnrichmentQuery) -> Parameters {
    present([
        ("notification_id", query.notification_id.clone()),
        ("device_id", query.device_id.clone()),
    ])
}

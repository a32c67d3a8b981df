//! Converts queries to names and values.

use notify_core::{
    DeleteUser, DeviceStatisticsQuery, EnrichmentQuery, ListAudit, ListCampaigns, ListDeliveries,
    ListDevices, ListNotificationUsers, ListNotifications, NotificationStatisticsQuery, PageQuery,
    PreviewQuery, Query, StreamQuery,
};

type Parameters = Vec<(&'static str, String)>;

/// A query that a call can carry.
pub(crate) trait ToQuery: Query {
    /// The parameters that are set, not percent-encoded.
    fn to_query(&self) -> Parameters;
}

macro_rules! to_query {
    ($($query:ident { $($field:ident),* })*) => {$(
        impl ToQuery for $query {
            fn to_query(&self) -> Parameters {
                let fields = [$((stringify!($field), self.$field.as_ref().map(ToString::to_string))),*];
                fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
            }
        }
    )*};
}

to_query! {
    PageQuery { limit, cursor }
    ListAudit { limit, cursor, app_id }
    ListDeliveries { limit, cursor, outcome, reason }
    ListDevices { limit, cursor, platform, tag, state, push_token, segment, user_id }
    ListNotificationUsers { limit, cursor, state }
    ListNotifications { limit, cursor, status }
    ListCampaigns { offset, limit, name, status }
    DeviceStatisticsQuery { date_from, date_to }
    NotificationStatisticsQuery { date_from, date_to }
    EnrichmentQuery { notification_id, device_id }
    PreviewQuery { device_id }
}

impl ToQuery for DeleteUser {
    fn to_query(&self) -> Parameters {
        let keep = self.keep_devices.then(|| ("devices", "keep".to_owned()));
        keep.into_iter().collect()
    }
}

impl ToQuery for StreamQuery {
    fn to_query(&self) -> Parameters {
        let types: Vec<&str> = self.types.iter().map(|kind| kind.as_str()).collect();
        let types = (!types.is_empty()).then(|| ("types", types.join(",")));
        types.into_iter().chain(self.cursor.clone().map(|cursor| ("cursor", cursor))).collect()
    }
}

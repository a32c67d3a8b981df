//! The ids of devices and users in the body of a request.

use std::collections::BTreeSet;

use notify_core::json::JsonObject;
use serde::Deserialize;

use crate::store::StoreError;

/// The fields of a request that contain device ids.
const LISTS: [&str; 3] = ["android_device_ids", "ios_device_ids", "device_ids"];
/// The field of a request that contains user ids.
const USER_LIST: &str = "user_ids";

/// The part of a request that contains ids of devices and users.
#[derive(Deserialize)]
pub(crate) struct NamedIds {
    #[serde(default)]
    pub(crate) android_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) ios_device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) device_ids: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) user_ids: Option<Vec<String>>,
}

impl NamedIds {
    /// The lists without duplicates. An id that is in `device_ids` is removed from the other two
    /// lists.
    pub(crate) fn lists(self) -> IdLists {
        let ids = |list: Option<Vec<String>>| list.into_iter().flatten().collect::<BTreeSet<_>>();
        let any = ids(self.device_ids);
        let mut lists =
            IdLists { android: ids(self.android_device_ids), ios: ids(self.ios_device_ids), any };
        lists.android.retain(|id| !lists.any.contains(id));
        lists.ios.retain(|id| !lists.any.contains(id));
        lists
    }

    /// The ids of devices in all lists.
    pub(in crate::store) fn devices(&self) -> impl Iterator<Item = &String> {
        let lists = [&self.android_device_ids, &self.ios_device_ids, &self.device_ids];
        lists.into_iter().flatten().flatten()
    }

    /// The ids of users.
    pub(in crate::store) fn users(&self) -> impl Iterator<Item = &String> {
        self.user_ids.iter().flatten()
    }
}

/// The device ids of a request, without duplicates.
pub(crate) struct IdLists {
    pub(crate) android: BTreeSet<String>,
    pub(crate) ios: BTreeSet<String>,
    /// Ids of devices of any platform.
    pub(crate) any: BTreeSet<String>,
}

/// Removes ids of devices and users from the lists of a request and returns the request. Everything else
/// stays as it was.
pub(in crate::store) fn without_ids(
    request: &str,
    devices: &BTreeSet<String>,
    users: &BTreeSet<String>,
) -> Result<String, StoreError> {
    let mut text = String::from("{");
    for (name, value) in JsonObject::new(request)?.members() {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(&name)?);
        text.push(':');
        let removed = match name.as_str() {
            USER_LIST => Some(users),
            name if LISTS.contains(&name) => Some(devices),
            _ => None,
        };
        let list: Option<Vec<String>> =
            if removed.is_some() { serde_json::from_str(value.get())? } else { None };
        match (list, removed) {
            (Some(mut ids), Some(removed)) => {
                ids.retain(|id| !removed.contains(id));
                text.push_str(&serde_json::to_string(&ids)?);
            }
            _ => text.push_str(value.get()),
        }
    }
    text.push('}');
    Ok(text)
}

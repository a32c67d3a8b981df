//! Who gets a notification: ids or platforms, and a tag.

use std::collections::HashSet;

use super::{DEVICE_IDS_MAX, TAGS_MAX, Target};
use crate::violations::{Findings, Path, path};
use crate::{DeviceId, Platform, TAG_NAME_CHARS_MAX};

const ANDROID_IDS: &str = "android_device_ids";
const IOS_IDS: &str = "ios_device_ids";
const ANY_IDS: &str = "device_ids";

/// What a request says of its target.
pub(super) struct Asked<'r> {
    pub(super) platforms: Option<&'r [String]>,
    pub(super) android: Option<&'r [String]>,
    pub(super) ios: Option<&'r [String]>,
    pub(super) any: Option<&'r [String]>,
}

pub(super) fn check_target(asked: &Asked<'_>, findings: &mut Findings) -> Option<Target> {
    let platforms = asked.platforms;
    let lists = [(ANDROID_IDS, asked.android), (IOS_IDS, asked.ios), (ANY_IDS, asked.any)];
    if lists.iter().any(|(_, ids)| ids.is_some_and(|ids| !ids.is_empty())) {
        let [mut android, mut ios, any] =
            lists.map(|(name, ids)| check_ids(&path(name), ids.unwrap_or_default(), findings));
        // An id that stands in `device_ids` too counts there, whatever its platform.
        let counted: HashSet<&DeviceId> = any.iter().collect();
        android.retain(|id| !counted.contains(id));
        ios.retain(|id| !counted.contains(id));
        return Some(Target::Devices { android, ios, any });
    }
    let empty = lists.iter().filter(|(_, ids)| ids.is_some());
    let mut is_meant_for_devices = false;
    for (name, _) in empty {
        // A list that came out empty must not reach everyone by accident (B12).
        is_meant_for_devices = true;
        findings.broken(&path(name), "must hold at least 1 id when it is given");
    }
    if is_meant_for_devices && platforms.is_none_or(<[String]>::is_empty) {
        return None;
    }
    Some(Target::Platforms(check_platforms(platforms, findings)))
}

fn check_ids(at: &Path<'_>, ids: &[String], findings: &mut Findings) -> Vec<DeviceId> {
    findings.at_most(at, ids.len(), DEVICE_IDS_MAX, "ids");
    let mut seen = HashSet::with_capacity(ids.len());
    let mut kept = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        let id = findings.optional_id(&at.index(place), Some(id.as_str()), DeviceId::new);
        kept.extend(id.filter(|id| seen.insert(id.clone())));
    }
    kept
}

pub(super) fn check_platforms(
    platforms: Option<&[String]>,
    findings: &mut Findings,
) -> Vec<Platform> {
    let at = path("platforms");
    let words = Platform::ALL.map(Platform::as_str).join(", ");
    let platforms = platforms.unwrap_or_default();
    if platforms.is_empty() {
        findings.broken(&at, format_args!("must contain at least one of {words}"));
    }
    let mut kept = Vec::new();
    for (place, word) in platforms.iter().enumerate() {
        match Platform::from_word(word) {
            Some(platform) if kept.contains(&platform) => {}
            Some(platform) => kept.push(platform),
            None => findings.broken(&at.index(place), format_args!("must be one of {words}")),
        }
    }
    kept
}

pub(super) fn check_tags(tags: Option<&[String]>, findings: &mut Findings) -> Option<String> {
    let tags = tags?;
    let at = path("tags");
    findings.at_most(&at, tags.len(), TAGS_MAX, "tag");
    for (place, tag) in tags.iter().enumerate() {
        if tag.is_empty() {
            findings.broken(&at.index(place), "must not be empty");
        }
        findings.text_up_to(&at.index(place), Some(tag.clone()), TAG_NAME_CHARS_MAX);
    }
    tags.first().cloned()
}

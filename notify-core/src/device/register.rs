//! Reads and checks `POST /v1/devices`, and the query of `GET /v1/devices`.

use super::{
    DEVICE_TEXT_CHARS_MAX, DeviceDetails, Endpoint, ListDevices, PUSH_TOKEN_CHARS_MAX,
    RegisterDevice, Registration, subscribe,
};
use crate::device::{self, Elsewhere, check_platform};
use crate::json::{Body, Object};
use crate::query::Parameters;
use crate::request::request;
use crate::violations::{Findings, path};
use crate::{
    CURSOR, DeviceId, IosEnv, LIMIT, PageQuery, Parameter, ParameterForm, Platform, Query,
    TAG_NAME_CHARS_MAX, Timestamp, Violations,
};

request!(RegisterDevice => Registration, Body::Required, read, check);

/// Platforms that register themselves; the others come in through subscriptions.
pub(super) const PLATFORMS: [Platform; 2] = [Platform::Android, Platform::Ios];
const SUBSCRIBE: Elsewhere =
    Elsewhere { route: "POST /v1/subscriptions", platforms: &subscribe::PLATFORMS };
const IOS_ENVS: [IosEnv; 2] = [IosEnv::Production, IosEnv::Sandbox];

fn read(object: &mut Object<'_, '_>) -> RegisterDevice {
    RegisterDevice {
        device_id: object.required_string("device_id"),
        platform: object.required_string("platform"),
        sdk_type: object.required_string("sdk_type"),
        android_id: object.string("android_id"),
        push_token: object.string("push_token"),
        push_disabled: object.flag("push_disabled"),
        ad_id: object.string("ad_id"),
        imei: object.string("imei"),
        sdk_version: object.string("sdk_version"),
        app_version: object.string("app_version"),
        os_version: object.string("os_version"),
        store_identifier: object.string("store_identifier"),
        timezone: object.string("timezone"),
        country: object.string("country"),
        utc_offset: object.string("utc_offset"),
        language: object.string("language"),
        device_description: object.string("device_description"),
        ios_env: object.string("ios_env"),
    }
}

fn check(
    request: RegisterDevice,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<Registration> {
    let device_id = findings.id(&path("device_id"), &request.device_id, DeviceId::new);
    let platform = check_platform(&request.platform, &PLATFORMS, SUBSCRIBE, findings);
    check_sdk_type(&request.sdk_type, platform, findings);
    let push_token =
        findings.text_up_to(&path("push_token"), request.push_token, PUSH_TOKEN_CHARS_MAX);
    let env = check_ios_env(request.ios_env.as_deref(), platform, findings);
    let mut detail = |name: &'static str, text: Option<String>| {
        findings.text_up_to(&path(name), text, DEVICE_TEXT_CHARS_MAX)
    };
    let details = DeviceDetails {
        android_id: detail("android_id", request.android_id),
        ad_id: detail("ad_id", request.ad_id),
        imei: detail("imei", request.imei),
        sdk_version: detail("sdk_version", request.sdk_version),
        app_version: detail("app_version", request.app_version),
        os_version: detail("os_version", request.os_version),
        store_identifier: detail("store_identifier", request.store_identifier),
        timezone: request.timezone.filter(|text| !text.is_empty()),
        country: detail("country", request.country),
        utc_offset: request.utc_offset.filter(|text| !text.is_empty()),
        language: detail("language", request.language),
        device_description: detail("device_description", request.device_description),
    };
    let utc_offset_minutes =
        device::minutes(details.timezone.as_deref(), details.utc_offset.as_deref(), findings);
    let endpoint = match platform? {
        Platform::Android => Endpoint::Android { push_token },
        Platform::Ios => Endpoint::Ios { push_token, env },
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => return None,
    };
    Some(Registration {
        device_id: device_id?,
        endpoint,
        push_disabled: request.push_disabled.unwrap_or(false),
        utc_offset_minutes,
        details,
    })
}

fn sdk_type(platform: Platform) -> &'static str {
    match platform {
        Platform::Ios => "ios_push",
        Platform::Android | Platform::Web | Platform::FbMessenger | Platform::ChatApp => {
            "android_push"
        }
    }
}

fn check_sdk_type(word: &str, platform: Option<Platform>, findings: &mut Findings) {
    let named = findings.word(&path("sdk_type"), word, &PLATFORMS, sdk_type);
    if let (Some(platform), Some(named)) = (platform, named)
        && platform != named
    {
        let what = format_args!("must be {} for platform {platform}", sdk_type(platform));
        findings.broken(&path("sdk_type"), what);
    }
}

fn check_ios_env(
    word: Option<&str>,
    platform: Option<Platform>,
    findings: &mut Findings,
) -> Option<IosEnv> {
    let word = word.filter(|word| !word.is_empty())?;
    if platform == Some(Platform::Android) {
        findings.broken(&path("ios_env"), "must be absent or empty for platform android");
        return None;
    }
    findings.word(&path("ios_env"), word, &IOS_ENVS, IosEnv::as_str)
}

impl Query for ListDevices {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "platform",
            ParameterForm::Word(|| Platform::ALL.map(Platform::as_str).into()),
            "Only this platform",
        ),
        Parameter::new("tag", ParameterForm::Text, "Only devices that have this tag set to true"),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let word = parameters.text("platform");
        let findings = &mut parameters.findings;
        let platform =
            findings.optional_word(&path("platform"), word, &Platform::ALL, Platform::as_str);
        let tag = parameters.text("tag").map(str::to_owned);
        let tag = parameters.findings.text_up_to(&path("tag"), tag, TAG_NAME_CHARS_MAX);
        parameters.finish(Some(Self { limit, cursor, platform, tag }))
    }
}

//! The devices of the playground, and how its fake providers answer messages to them.

use notify_core::{
    DeviceId, Platform, PlaygroundAnswer, PlaygroundDevice, RegisterDevice, Registration, Request,
    Subscribe, Subscription, Timestamp,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse, apns_token, fcm_token, telegram_chat};

/// How long a slow provider waits before it answers, in milliseconds.
const SLOW_MS: u64 = 3_000;
/// `Retry-After` of a provider that fails, in seconds, so that a retry comes at once.
const RETRY_SECONDS: u64 = 1;
/// The attempts of one message that fail, and the attempt after them, which succeeds.
const ATTEMPTS: u32 = 3;

/// How the provider of a device answers every message.
enum Behaviour {
    Accepts,
    IsUnregistered,
    /// Fails twice, then accepts, and begins again.
    FailsTwice,
    IsSlow,
}

/// A device with which the playground starts.
pub(super) struct Template {
    id: &'static str,
    /// The number that makes its address.
    seed: u64,
    platform: Platform,
    behaviour: Behaviour,
    description: &'static str,
}

const fn template(
    seed: u64,
    id: &'static str,
    platform: Platform,
    behaviour: Behaviour,
    description: &'static str,
) -> Template {
    Template { id, seed, platform, behaviour, description }
}

/// The devices with which the playground starts.
pub(super) const DEVICES: [Template; 6] = [
    template(
        1,
        "android-works",
        Platform::Android,
        Behaviour::Accepts,
        "Android phone: FCM accepts every message",
    ),
    template(
        2,
        "iphone-works",
        Platform::Ios,
        Behaviour::Accepts,
        "iPhone: APNs accepts every message",
    ),
    template(
        3,
        "android-unregistered",
        Platform::Android,
        Behaviour::IsUnregistered,
        "Android phone without the app: FCM answers that the address is unregistered, and the \
         server disables the device",
    ),
    template(
        4,
        "android-fails-twice",
        Platform::Android,
        Behaviour::FailsTwice,
        "Android phone: FCM fails twice with 503, the server retries, and FCM accepts the message",
    ),
    template(
        5,
        "iphone-slow",
        Platform::Ios,
        Behaviour::IsSlow,
        "iPhone: APNs accepts every message after three seconds",
    ),
    template(
        6,
        "telegram-chat",
        Platform::ChatApp,
        Behaviour::Accepts,
        "Telegram chat: Telegram accepts every message",
    ),
];

/// What creates a device.
pub(super) enum Creation {
    Registration(Registration),
    Subscription(Subscription),
}

impl Template {
    pub(super) fn view(&self) -> PlaygroundDevice {
        PlaygroundDevice {
            device_id: DeviceId::new(self.id).expect("the ids of templates are valid"),
            platform: self.platform,
            description: self.description.to_owned(),
        }
    }

    fn address(&self) -> String {
        let ok = ScriptedResponse::ok();
        match self.platform {
            Platform::Ios => apns_token(self.seed, &ok),
            Platform::Android => fcm_token(self.seed, &ok),
            Platform::ChatApp => telegram_chat(self.seed, &ok),
            Platform::Web | Platform::FbMessenger => unreachable!("no template has this platform"),
        }
    }

    pub(super) fn creation(&self, now: Timestamp) -> Creation {
        let address = self.address();
        let registration = match self.platform {
            Platform::Ios => RegisterDevice::ios(self.id, address),
            Platform::Android => RegisterDevice::android(self.id, address),
            Platform::Web | Platform::FbMessenger | Platform::ChatApp => {
                let device_id = Some(self.id.to_owned());
                let subscription = Subscribe { device_id, ..Subscribe::chat(address) };
                return Creation::Subscription(
                    subscription.validate(now).expect("the subscriptions of templates are valid"),
                );
            }
        };
        let description = Some(self.description.to_owned());
        let registration = RegisterDevice { device_description: description, ..registration };
        Creation::Registration(
            registration.validate(now).expect("the registrations of templates are valid"),
        )
    }

    /// The rules that make the fake provider behave as the template describes.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let provider = provider_of(self.platform);
        let rule = |response| Rule::on(provider, response).token(&self.address());
        match self.behaviour {
            Behaviour::Accepts => Vec::new(),
            Behaviour::IsUnregistered => vec![rule(unregistered(provider))],
            // A request that the first rule answers does not reach the second one: the first fails
            // every third request, and the second fails every second one of the others.
            Behaviour::FailsTwice => {
                vec![rule(unavailable()).every(ATTEMPTS), rule(unavailable()).every(ATTEMPTS - 1)]
            }
            Behaviour::IsSlow => vec![rule(ScriptedResponse::ok()).delay_ms(SLOW_MS)],
        }
    }
}

/// The rule that gives `answer` to the next message to an address.
pub(super) fn next_answer(provider: Provider, address: &str, answer: PlaygroundAnswer) -> Rule {
    let (response, delay_ms) = match answer {
        PlaygroundAnswer::Ok => (ScriptedResponse::ok(), 0),
        PlaygroundAnswer::Unregistered => (unregistered(provider), 0),
        PlaygroundAnswer::Unavailable => (unavailable(), 0),
        PlaygroundAnswer::Slow => (ScriptedResponse::ok(), SLOW_MS),
    };
    Rule::on(provider, response.first(1)).token(address).delay_ms(delay_ms)
}

/// The answer for an address that is not registered any more.
pub(crate) fn unregistered(provider: Provider) -> ScriptedResponse {
    match provider {
        Provider::Apns => ScriptedResponse::reason("Unregistered"),
        Provider::Fcm | Provider::Oauth => ScriptedResponse::reason("UNREGISTERED"),
        Provider::WebPush => ScriptedResponse::status(410),
        Provider::Messenger => ScriptedResponse::reason("nouser"),
        Provider::Telegram => ScriptedResponse::reason("blocked"),
    }
}

fn unavailable() -> ScriptedResponse {
    ScriptedResponse::status(503).retry_after(RETRY_SECONDS)
}

/// The fake provider of a platform.
pub(crate) fn provider_of(platform: Platform) -> Provider {
    match platform {
        Platform::Ios => Provider::Apns,
        Platform::Android => Provider::Fcm,
        Platform::Web => Provider::WebPush,
        Platform::FbMessenger => Provider::Messenger,
        Platform::ChatApp => Provider::Telegram,
    }
}

/// The platform of a fake provider.
pub(crate) fn platform_of(provider: Provider) -> Platform {
    match provider {
        Provider::Apns => Platform::Ios,
        Provider::Fcm | Provider::Oauth => Platform::Android,
        Provider::WebPush => Platform::Web,
        Provider::Messenger => Platform::FbMessenger,
        Provider::Telegram => Platform::ChatApp,
    }
}

//! Users: log-ins and responses.

use serde::{Deserialize, Serialize};

use crate::field::{Id, Integer, Model, ModelFields, Text};
use crate::json::BodyPresence;
use crate::request::{Parameters, model, request};
use crate::violations::{Path, Validator};
use crate::{
    Attributes, DeviceId, Parameter, ParameterForm, Platform, Query, Timestamp, UserId, Violations,
};

/// Most devices of a user.
pub const USERS_DEVICES_MAX: usize = 100;
/// Most user ids in one list, duplicates included.
pub const USER_IDS_MAX: usize = 1_000;

/// A user in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct User {
    /// Id of the user.
    pub user_id: UserId,
    /// Attributes of the user.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::AttributeValue>))]
    pub attributes: Attributes,
    /// Devices on which the user is logged in; at most 100.
    pub devices: Vec<UserDevice>,
    /// Time of the first write that named the user, unix ms.
    pub created_at: Timestamp,
    /// Time of the last change, unix ms.
    pub updated_at: Timestamp,
}

/// A device of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserDevice {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Platform.
    pub platform: Platform,
    /// Whether notifications are sent to the device, provided that it has an address.
    pub enabled: bool,
}

/// Answer of `GET /v1/users`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserList {
    /// One page.
    pub users: Vec<User>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

model! {
    /// Body of `PUT /v1/devices/:device_id/user`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct LogIn with LogInFields {
        /// Id of the user, chosen by the caller.
        pub user_id: String as Id<UserId>,
    }
}

request!(LogIn => UserId, BodyPresence::Required);

impl Model for LogIn {
    type Valid = UserId;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<UserId> {
        Some(self.check_fields(at, validator)?.user_id)
    }
}

impl LogIn {
    /// A request that logs this user in.
    ///
    /// ```
    /// use notify_core::{LogIn, Request, Timestamp};
    ///
    /// assert!(LogIn::new("user-7").validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn new(user_id: impl Into<String>) -> Self {
        Self { user_id: user_id.into() }
    }
}

/// Shortest life of a user token, in seconds.
pub const USER_TOKEN_SECONDS_MIN: u32 = 60;
/// Longest life of a user token, in seconds: one day.
pub const USER_TOKEN_SECONDS_MAX: u32 = 86_400;
/// Life of a user token by default, in seconds: one hour.
pub const USER_TOKEN_SECONDS_DEFAULT: u32 = 3_600;
/// Longest text that is accepted as a user token, in characters; those of the server are shorter.
pub const USER_TOKEN_CHARS_MAX: usize = 255;

model! {
    /// Body of `POST /v1/users/:user_id/tokens`; may be empty.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct CreateUserToken with CreateUserTokenFields {
        /// How long the token is valid, in seconds: 60 to 86,400; 3,600 when absent.
        pub ttl_seconds: Option<u32> as Integer<USER_TOKEN_SECONDS_MIN, USER_TOKEN_SECONDS_MAX>,
    }
}

/// The validated form of [`CreateUserToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserTokenLife {
    /// How long the token is valid, in milliseconds.
    pub ttl_ms: i64,
}

request!(CreateUserToken => UserTokenLife, BodyPresence::Optional);

impl Model for CreateUserToken {
    type Valid = UserTokenLife;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<UserTokenLife> {
        let seconds = self.check_fields(at, validator)?.ttl_seconds;
        let seconds = seconds.unwrap_or(USER_TOKEN_SECONDS_DEFAULT);
        Some(UserTokenLife { ttl_ms: i64::from(seconds) * 1_000 })
    }
}

/// Answer of `POST /v1/users/:user_id/tokens`. The token is shown only here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserToken {
    /// The token, with which an app or a page logs its device in.
    pub user_token: String,
    /// From when on the token is invalid, unix ms.
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for UserToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

model! {
    /// Body of `PUT /device/v1/devices/:device_id/user` and
    /// `PUT /web/v1/:app_id/devices/:device_id/user`.
    // No `Debug`, because of the token.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct LogInWithToken with LogInWithTokenFields {
        /// A token of the user, from `POST /v1/users/:user_id/tokens`.
        pub user_token: String as Text<USER_TOKEN_CHARS_MAX>,
    }
}

/// The validated form of [`LogInWithToken`]: a text of the length of a token. The server checks the
/// signature.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedUserToken(pub String);

request!(LogInWithToken => PresentedUserToken, BodyPresence::Required);

impl Model for LogInWithToken {
    type Valid = PresentedUserToken;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<PresentedUserToken> {
        Some(PresentedUserToken(self.check_fields(at, validator)?.user_token))
    }
}

/// The value of `devices` that keeps the devices of a deleted user.
const KEEP: [&str; 1] = ["keep"];

/// Query of `DELETE /v1/users/:user_id`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteUser {
    /// Whether the devices of the user are logged out. Otherwise, they are erased with the user.
    pub keep_devices: bool,
}

impl Query for DeleteUser {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "devices",
        ParameterForm::OneOf(&KEEP),
        "`keep` logs the devices of the user out; they are erased with the user when absent",
    )];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let devices = parameters.name("devices");
        parameters.finish(Some(Self { keep_devices: devices.is_some() }))
    }
}

//! Users: log-ins and responses.

use serde::{Deserialize, Serialize};

use crate::json::BodyPresence;
use crate::request::{Parameters, model, request};
use crate::violations::{Validator, path};
use crate::{
    Attributes, DeviceId, Parameter, ParameterForm, Platform, Query, Timestamp, UnknownName,
    UserId, Violations,
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
    pub struct LogIn {
        /// Id of the user, chosen by the caller.
        pub user_id: String,
    }
}

request!(LogIn => UserId, BodyPresence::Required);

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

    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<UserId> {
        validator.id(&path("user_id"), &self.user_id, UserId::new)
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
        let devices = parameters.text("devices");
        if devices.is_some_and(|name| !KEEP.contains(&name)) {
            parameters.validator.violation(&path("devices"), UnknownName { known: &KEEP });
        }
        parameters.finish(Some(Self { keep_devices: devices.is_some() }))
    }
}

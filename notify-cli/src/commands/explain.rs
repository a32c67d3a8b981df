//! `notify explain` (B38).

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{DeviceId, NotificationId},
};

use crate::{
    failure::Failure,
    output::view,
    session::{Session, own_id},
};

/// Arguments of `notify explain`.
#[derive(Debug, Args)]
#[command(after_help = "A step without a time is told of the state now.")]
pub(crate) struct Explain {
    /// Id of the notification.
    notification: String,
    /// Id of the device.
    device: String,
}

/// Explains.
pub(crate) async fn run(args: Explain, session: &mut Session) -> Result<(), Failure> {
    let id = own_id("notification", &args.notification, NotificationId::new)?;
    let device = own_id("device", &args.device, DeviceId::new)?;
    let notify = session.notify()?;
    let told = match notify.notifications().explain(&id, &device).await {
        Err(error @ Error::NotFound { .. }) => {
            return Err(unknown(&notify, &id, &device, error).await);
        }
        told => told?,
    };
    session.out.heading(&format!("{device}: {}", told.outcome.as_str()))?;
    session.out.show(&told, &view::EXPLANATION)
}

/// Which of the two names nothing: the server says of both that one of them does.
async fn unknown(notify: &Client, id: &NotificationId, device: &DeviceId, error: Error) -> Failure {
    match notify.notifications().get(id).await {
        Ok(_) => {
            Failure::NotFound(format!("no device has the id {device}: it is unknown or erased"))
        }
        Err(Error::NotFound { .. }) => {
            Failure::NotFound(format!("no notification has the id {id}, or it is kept no more"))
        }
        Err(_) => error.into(),
    }
}

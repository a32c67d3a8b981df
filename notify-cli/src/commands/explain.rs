//! `notify explain` (B38).

use clap::Args;
use notify_client::notify_core::{DeviceId, NotificationId};

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
    let told = session.notify()?.notifications().explain(&id, &device).await?;
    session.out.heading(&format!("{device}: {}", told.outcome.as_str()))?;
    session.out.show(&told, &view::EXPLANATION)
}

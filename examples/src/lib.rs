//! A small shop, for the example of a backend whose tests run a Notify server (`tests/shop.rs`).

use std::time::Duration;

use notify_client::notify_core::{CreateNotification, DeviceId, Timestamp, UserId};
use notify_client::{Client, Error};

/// How long before a delivery the customer is reminded.
const REMINDED_BEFORE: Duration = Duration::from_secs(2 * 3_600);

/// The notifications of a shop.
#[derive(Debug, Clone)]
pub struct Shop {
    notify: Client,
}

impl Shop {
    /// A shop that sends with this client.
    #[must_use]
    pub fn new(notify: Client) -> Self {
        Self { notify }
    }

    /// A customer signed in to the app on a phone.
    ///
    /// # Errors
    /// When Notify refuses the request or cannot be reached.
    pub async fn signed_in(&self, customer: &UserId, phone: &DeviceId) -> Result<(), Error> {
        self.notify.devices().log_in(phone, customer).await?;
        Ok(())
    }

    /// A customer signed out on a phone.
    ///
    /// # Errors
    /// When Notify refuses the request or cannot be reached.
    pub async fn signed_out(&self, phone: &DeviceId) -> Result<(), Error> {
        self.notify.devices().log_out(phone).await?;
        Ok(())
    }

    /// An order left the warehouse and arrives at `arrives_at`: tells the customer on all phones, and again
    /// before it arrives.
    ///
    /// # Errors
    /// When Notify refuses a request or cannot be reached. The customer may have been told then.
    pub async fn shipped(
        &self,
        customer: &UserId,
        order: u32,
        arrives_at: Timestamp,
    ) -> Result<(), Error> {
        let to_customer = |text: String| {
            let notification = CreateNotification::to_users([customer.as_str()], text)
                .expect("one user is at least one");
            notification.title("Shop").url(format!("https://shop.example.com/orders/{order}"))
        };
        let shipped = to_customer(format!("Order {order} has shipped"));
        self.notify.notifications().create(&shipped).await?;
        let before_ms = i64::try_from(REMINDED_BEFORE.as_millis()).expect("a few hours");
        let reminder = to_customer(format!("Order {order} arrives in two hours"))
            .send_at(arrives_at.plus_ms(-before_ms));
        self.notify.notifications().create(&reminder).await?;
        Ok(())
    }
}

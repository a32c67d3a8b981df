//! What a test expects to be delivered, and the report when it was not.

use std::fmt::Write;

use notify_server::test_server::Message;

/// What a message must be like. A field that is `None` may be anything. [`assert_delivered!`] makes it.
///
/// [`assert_delivered!`]: crate::assert_delivered
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The text.
    pub text: Option<String>,
    /// The title.
    pub title: Option<String>,
    /// The url that a tap opens.
    pub url: Option<String>,
}

impl Expectation {
    /// Whether a message is like this.
    #[must_use]
    pub fn matches(&self, message: &Message) -> bool {
        self.fields(message).iter().all(|(_, wanted, found)| wanted.is_none() || wanted == found)
    }

    fn fields<'a>(
        &'a self,
        message: &'a Message,
    ) -> [(&'static str, Option<&'a str>, Option<&'a str>); 3] {
        [
            ("text", self.text.as_deref(), message.text.as_deref()),
            ("title", self.title.as_deref(), message.title.as_deref()),
            ("url", self.url.as_deref(), message.url.as_deref()),
        ]
    }

    /// The expected fields for a reader, such as ` with text "Hello"`.
    fn describe(&self) -> String {
        let mut words = String::new();
        for (name, wanted) in [("text", &self.text), ("title", &self.title), ("url", &self.url)] {
            if let Some(wanted) = wanted {
                let joint = if words.is_empty() { " with" } else { " and" };
                let _ = write!(words, "{joint} {name} {wanted:?}");
            }
        }
        words
    }
}

/// Why the messages of a device do not match an expectation. Its text is the message of the panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeliveryMismatch(String);

impl DeliveryMismatch {
    /// Reports that no message was as expected. `explanation` says why the device did not get the last
    /// notification.
    pub(crate) fn missing(
        device: &str,
        expected: &Expectation,
        delivered: &[Message],
        explanation: Option<&str>,
    ) -> Self {
        let mut report = format!("{device} got no message{}", expected.describe());
        write_messages(&mut report, "it got", delivered);
        if let Some(explanation) = explanation {
            let _ = write!(report, "\n{explanation}");
        }
        Self(report)
    }

    /// Reports messages that must not be there.
    pub(crate) fn unexpected(device: &str, expected: &Expectation, found: &[Message]) -> Self {
        let mut report = format!("{device} must not get a message{}", expected.describe());
        write_messages(&mut report, "it got", found);
        Self(report)
    }
}

fn write_messages(report: &mut String, intro: &str, messages: &[Message]) {
    if messages.is_empty() {
        let _ = write!(report, "; {intro} nothing");
        return;
    }
    let _ = write!(report, "; {intro}:");
    for message in messages {
        let silent = if message.is_silent { ", silent" } else { "" };
        let _ = write!(report, "\n  {:?}", message.text.as_deref().unwrap_or_default());
        for (name, value) in [("title", &message.title), ("url", &message.url)] {
            if let Some(value) = value {
                let _ = write!(report, ", {name} {value:?}");
            }
        }
        report.push_str(silent);
    }
}

/// Asserts that a device got a message, and returns the first that is as expected. Waits until the server has
/// sent everything that is due. `text`, `title` and `url` are optional.
///
/// ```
/// # use notify_core::CreateNotification;
/// # use notify_testing::{TestServer, assert_delivered};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), notify_client::Error> {
/// # let notify = TestServer::start().await;
/// # notify.register_android("phone-1").await;
/// # let hello = CreateNotification::to_any_devices(["phone-1"], "Your order has shipped").unwrap();
/// # notify.client().notifications().create(&hello.title("Shop")).await?;
/// assert_delivered!(notify, to: "phone-1");
/// let message = assert_delivered!(notify, to: "phone-1", text: "Your order has shipped", title: "Shop");
/// assert!(!message.is_silent);
/// # notify.stop().await;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! assert_delivered {
    ($notify:expr, to: $device:expr $(, $field:ident: $value:expr)* $(,)?) => {{
        #[allow(clippy::needless_update)] // All fields may be given.
        let expected = $crate::Expectation {
            $($field: Some(::std::string::String::from($value)),)*
            ..::std::default::Default::default()
        };
        match $notify.check_delivered(::std::convert::AsRef::<str>::as_ref(&$device), &expected).await {
            Ok(message) => message,
            Err(mismatch) => panic!("{mismatch}"),
        }
    }};
}

/// Asserts that a device got no message, or none with this `text`, `title` or `url`. Waits until the server has
/// sent everything that is due.
#[macro_export]
macro_rules! assert_not_delivered {
    ($notify:expr, to: $device:expr $(, $field:ident: $value:expr)* $(,)?) => {{
        #[allow(clippy::needless_update)] // All fields may be given.
        let expected = $crate::Expectation {
            $($field: Some(::std::string::String::from($value)),)*
            ..::std::default::Default::default()
        };
        let device = ::std::convert::AsRef::<str>::as_ref(&$device);
        if let Err(mismatch) = $notify.check_not_delivered(device, &expected).await {
            panic!("{mismatch}");
        }
    }};
}

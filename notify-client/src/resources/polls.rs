//! Polls.

use notify_core::{AnswerId, AnswerPoll, NotificationId, Poll};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Polls. A poll has the id of its notification.
    Polls from polls;

    /// Reads a poll with the counts of its answers: `GET /v1/polls/:id`.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`] with status 400 if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// for answer in notify.polls().get(&id).await?.answers {
    ///     println!("{}: {} %", answer.text, answer.percentage);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: &NotificationId) -> Poll = Ok(Call::v1(Method::GET, &["polls", id.as_str()]));

    /// Records a chosen answer: `POST /v1/polls/:id/answers/:answer_id`. Each device counts once,
    /// whichever answers it chooses.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if an id is unknown; [`crate::Error::Rejected`] if the
    /// device is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AnswerPoll, Poll};
    /// # async fn example(notify: notify_client::Client, poll: Poll)
    /// # -> Result<(), notify_client::Error> {
    /// let by = AnswerPoll { device_id: Some("pixel-7".into()) };
    /// notify.polls().answer(&poll.id, poll.answers[0].id, &by).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn answer(poll: &NotificationId, answer: AnswerId, by: &AnswerPoll) -> () =
        Call::v1(Method::POST, &["polls", poll.as_str(), "answers", &answer.to_string()])
            .discard_response()
            .body(by);
}

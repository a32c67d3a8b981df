//! `notify polls` (spec 4.6, B32).

use clap::Subcommand;
use notify_client::notify_core::{AnswerPoll, NotificationId};

use crate::{
    failure::Failure,
    output::view,
    session::{Session, known, own_id},
};

/// `notify polls`.
#[derive(Debug, Subcommand)]
pub(crate) enum Polls {
    /// Show a poll's answers with their counts.
    Get {
        /// Its id, that of its notification.
        id: String,
    },
    /// Record that an answer was chosen.
    Answer {
        /// Id of the poll.
        poll: String,
        /// Id of the answer.
        answer: String,
        /// Who chose it; a device counts once.
        #[arg(long, value_name = "DEVICE_ID")]
        device: Option<String>,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Polls, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Polls::Get { id } => {
            let poll = notify.polls().get(&own_id("id", &id, NotificationId::new)?).await;
            let poll = poll.map_err(Failure::of_id("poll", &id))?;
            session.out.show(&poll, &view::POLL_ANSWERS)
        }
        Polls::Answer { poll, answer, device } => {
            let poll = own_id("poll", &poll, NotificationId::new)?;
            let answer = known("answer", &answer)?;
            let by = AnswerPoll { device_id: device };
            let answered = notify.polls().answer(&poll, answer, &by).await;
            let unknown = format!("no poll `{poll}` has an answer with the id `{answer}`");
            answered.map_err(Failure::when_not_found(unknown))?;
            session.out.done()
        }
    }
}

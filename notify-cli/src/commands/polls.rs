//! `notify polls`.

use clap::Subcommand;
use notify_client::notify_core::{AnswerPoll, NotificationId};

use crate::{
    failure::Failure,
    output::view,
    session::{Session, parse_caller_id, parse_id},
};

/// `notify polls`.
#[derive(Debug, Subcommand)]
pub(crate) enum Polls {
    /// Show a poll's answers with their counts.
    Get {
        /// Its id, which is the id of its notification.
        id: String,
    },
    /// Record a chosen answer.
    Answer {
        /// Id of the poll.
        poll: String,
        /// Id of the answer.
        answer: String,
        /// Device that chose it; each device counts once.
        #[arg(long, value_name = "DEVICE_ID")]
        device: Option<String>,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Polls, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Polls::Get { id } => {
            let poll = notify.polls().get(&parse_caller_id("id", &id, NotificationId::new)?).await;
            let poll = poll.map_err(Failure::unknown_id("poll", &id))?;
            session.out.show(&poll, &view::POLL_ANSWERS)
        }
        Polls::Answer { poll, answer, device } => {
            let poll = parse_caller_id("poll", &poll, NotificationId::new)?;
            let answer = parse_id("answer", &answer)?;
            let by = AnswerPoll { device_id: device };
            let answered = notify.polls().answer(&poll, answer, &by).await;
            let unknown = format!("no poll `{poll}` has an answer with the id `{answer}`");
            answered.map_err(Failure::not_found(unknown))?;
            session.out.done()
        }
    }
}

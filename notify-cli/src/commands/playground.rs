//! `notify playground` (admin API).

use clap::Subcommand;
use notify_client::notify_core::{DeviceId, Playground as State, PlaygroundAnswer};

use crate::{
    failure::Failure,
    output::{self, view},
    session::{Session, parse_caller_id},
};

/// `notify playground`.
#[derive(Debug, Subcommand)]
pub(crate) enum Playground {
    /// Start the playground, or show the running one, with the API key of its application.
    Start,
    /// Show the application and the first devices of the running playground.
    Show,
    /// List the last 200 messages that the fake providers received, newest first.
    Messages,
    /// Set how the provider answers the next message to a device.
    Answer {
        /// Id of the device.
        device: String,
        /// The answer.
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(PlaygroundAnswer::NAMES))]
        answer: String,
    },
    /// Stop the playground and delete its application with all its data.
    Stop,
}

/// Runs the command.
pub(crate) async fn run(command: Playground, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let admin = notify.admin();
    match command {
        Playground::Start => {
            let started = admin.start_playground().await.map_err(Failure::not_found(
                "this server was built without the sandbox, and has no playground".to_owned(),
            ))?;
            show(&started, session)?;
            if session.out.is_human_readable() {
                session.out.flush()?;
                output::print_message(
                    "set NOTIFY_API_KEY to the api_key; then `notify send --platform android \
                     --platform ios --platform chatapp --text Hello` sends to its devices",
                );
            }
            Ok(())
        }
        Playground::Show => {
            let running = admin.get_playground().await.map_err(not_running())?;
            show(&running, session)
        }
        Playground::Messages => {
            let messages = admin.list_playground_messages().await.map_err(not_running())?;
            session.out.show(&messages, &view::PLAYGROUND_MESSAGES)
        }
        Playground::Answer { device, answer } => {
            let id = parse_caller_id("device", &device, DeviceId::new)?;
            let answer: PlaygroundAnswer =
                answer.parse().map_err(|unknown| Failure::Usage(format!("answer: {unknown}")))?;
            admin.set_playground_answer(&id, answer).await.map_err(Failure::not_found(format!(
                "the playground does not run, or has no device with the id `{device}`"
            )))?;
            session.out.done()
        }
        Playground::Stop => {
            admin.stop_playground().await.map_err(not_running())?;
            session.out.done()
        }
    }
}

fn show(playground: &State, session: &mut Session) -> Result<(), Failure> {
    session.out.show(playground, &view::PLAYGROUND)?;
    match session.out.is_human_readable() {
        true => session.out.show(playground, &view::PLAYGROUND_DEVICES),
        false => Ok(()),
    }
}

fn not_running<E: Into<Failure>>() -> impl FnOnce(E) -> Failure {
    Failure::not_found("the playground does not run: `notify playground start` starts it".into())
}

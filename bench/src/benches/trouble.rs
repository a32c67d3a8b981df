//! A fan-out on APNs with errors and broken connections, compared with a fan-out without them. No message may
//! be lost or accepted twice. This is possible because the sandbox responds to every request that it counts,
//! or refuses it in a way that shows that it was not processed.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::paths::Paths;
use crate::proc::{Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, notification};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, spread};

/// The stream limit falls to one at every fifth poll of the status. The next poll restores it.
const POLLS_PER_LIMIT_CHANGE: usize = 5;
/// The usual stream limit.
const STREAMS: u32 = 1_000;

/// The result of one fan-out.
#[derive(Debug, Default)]
struct Outcome {
    sent: u64,
    unregistered: u64,
    /// The number of devices without an outcome or with a wrong outcome.
    lost: u64,
    /// The number of messages that were accepted a second time.
    repeats: u64,
    /// The number of faults and of responses other than success.
    troubles: u64,
    /// The number of times that the stream limit fell to one.
    limits: u64,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.send_devices * 2).await?;
    let mut section = Section::default();
    let (mut happy, mut troubled) = (Costs::default(), Costs::default());
    let mut outcomes = Vec::new();
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        let smooth = fan_out(scale, paths, (&seed, false), &mut happy).await?;
        ensure!(smooth.sent == scale.send_devices && smooth.repeats == 0, "{smooth:?}");
        outcomes.push(fan_out(scale, paths, (&seed, true), &mut troubled).await?);
        section.other_load.push(other_load.share()?);
    }
    section.lines = lines(scale, (&troubled, &happy), &outcomes);
    let spread_of = |part: fn(&Outcome) -> u64| {
        spread(&outcomes.iter().map(|outcome| part(outcome) as f64).collect::<Vec<_>>(), "", 0)
    };
    section.notes.push(format!(
        "trouble, a round: sent {}, unregistered {}, other responses and faults {}, the stream limit fell \
         to 1 {} times",
        spread_of(|outcome| outcome.sent),
        spread_of(|outcome| outcome.unregistered),
        spread_of(|outcome| outcome.troubles),
        spread_of(|outcome| outcome.limits),
    ));
    Ok(section)
}

/// The rules of the fake APNs. Of the first requests, one for each device, 10 % are unregistered, 2.5 % fail
/// and 2.5 % are throttled. The later requests, which are retries, succeed: `times` ends the rules. A rule
/// counts only the requests that no rule before it took. So the second rule sees 90 % of the requests
/// (0.9 / 36 = 1/40) and the third 87.5 % (0.875 / 35 = 1/40). A `GOAWAY` follows every `goaway_every` requests
/// in addition.
fn rules(scale: &Scale) -> Value {
    let (devices, goaway) = (scale.send_devices, scale.goaway_every);
    json!([
        { "provider": "apns", "action": "goaway", "after": goaway, "every": goaway,
          "times": devices / goaway },
        { "provider": "apns", "reason": "Unregistered", "every": 10, "times": devices / 10 },
        { "provider": "apns", "status": 503, "every": 36, "times": devices / 40 },
        { "provider": "apns", "reason": "TooManyRequests", "retry_after": 1, "every": 35,
          "times": devices / 40 },
    ])
}

/// Measures one fan-out. Each fan-out needs a fresh server, because it disables the unregistered devices.
async fn fan_out(
    scale: &Scale,
    paths: &Paths,
    (seed, in_trouble): (&Seed, bool),
    costs: &mut Costs,
) -> anyhow::Result<Outcome> {
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let sandbox = Sandbox::start(0)?;
    let caller = Caller { address: server.address, keys: seed.keys.clone() };
    caller.configure_providers(&sandbox, &["apns"]).await?;
    if in_trouble {
        sandbox.configure("/sandbox/rules", &rules(scale)).await?;
    }
    let mut outcome = Outcome::default();
    let mut record = Value::Null;
    let sent = async {
        let path = caller.post(&notification(&["ios"], None)).await?;
        for polls in 1.. {
            if let Some(completed) = caller.poll_completed(&path).await? {
                record = completed;
                break;
            }
            if in_trouble && polls % POLLS_PER_LIMIT_CHANGE < 2 {
                let falls = polls % POLLS_PER_LIMIT_CHANGE == 0;
                let streams = if falls { 1 } else { STREAMS };
                sandbox
                    .configure("/sandbox/settings", &json!({ "max_concurrent_streams": streams }))
                    .await?;
                outcome.limits += u64::from(falls);
            }
        }
        Ok(())
    };
    costs.0.push(server.measure(scale.send_devices, sent).await?);
    outcome.count(scale, &record["counts"], &sandbox.counts().await?)?;
    server.stop()?;
    Ok(outcome)
}

impl Outcome {
    /// Compares the server's counts with the sandbox's.
    fn count(&mut self, scale: &Scale, reported: &Value, observed: &Value) -> anyhow::Result<()> {
        let number = |value: &Value| value.as_u64().context("a count");
        let accepted = number(&observed["accepted"])?;
        let tokens = number(&observed["accepted_tokens"])?;
        let answers = observed["answers"].as_array().context("a list of answers")?;
        let with = |status: u64| {
            let matching = answers.iter().filter(|answer| answer["status"] == status);
            matching.filter_map(|answer| answer["count"].as_u64()).sum::<u64>()
        };
        (self.sent, self.unregistered) =
            (number(&reported["sent"])?, number(&reported["unregistered"])?);
        // Devices that are recorded as sent or unregistered although the sandbox did not respond so.
        let untrue = self.sent.saturating_sub(tokens) + self.unregistered.saturating_sub(with(410));
        let recorded = self.sent + self.unregistered;
        self.lost = scale.send_devices.saturating_sub(recorded) + untrue;
        self.repeats = accepted - tokens;
        self.troubles = [0, 410, 429, 503].map(with).iter().sum();
        Ok(())
    }
}

fn lines(scale: &Scale, (troubled, happy): (&Costs, &Costs), outcomes: &[Outcome]) -> Vec<Line> {
    let devices = grouped(scale.send_devices as f64);
    let most =
        |part: fn(&Outcome) -> u64| outcomes.iter().map(part).max().unwrap_or_default() as f64;
    let counted = |what: &str, count: f64| Line {
        row: "trouble",
        what: what.to_owned(),
        figure: format!("{count:.0}, the most of a round"),
        baseline: format!("{devices} devices"),
        ratio: count,
        goal: Goal::CountAtMost(0.0),
    };
    let times: Vec<f64> = troubled.0.iter().map(|cost| cost.wall.as_secs_f64()).collect();
    vec![
        Line {
            row: "trouble",
            what: format!(
                "{devices} devices on apns: 10 % 410, 5 % 503 and 429, GOAWAY every {}, streams down \
                 to 1 and back",
                grouped(scale.goaway_every as f64)
            ),
            figure: format!("{}, {:.1} s", troubled.text(), median(&times)),
            baseline: format!("without trouble: {}", happy.text()),
            ratio: troubled.cpu_ratio(happy),
            goal: Goal::AtMost(1.3),
        },
        counted("lost", most(|outcome| outcome.lost)),
        counted(
            "repeats; every request was answered or certainly not processed",
            most(|outcome| outcome.repeats),
        ),
    ]
}

//! Deterministic simulation of the engine: store, push services, callers, faults and time run on
//! one thread from a seed, so that every failure can be reproduced.
//!
//! ```text
//! Script ──requests──▶ store (inline) ◀──── EngineTask ───▶ SimulatedProvider
//!    │                    ▲ disk: when, together, or not at all      │
//!    └──▶ conditions, crashes, clock             World ◀── checks ───┘
//! ```
//!
//! `NOTIFY_SIMULATION_SEEDS=n` runs that many seeds, `NOTIFY_SIMULATION_SEED=n` that one, with its
//! whole trace if it fails (`docs/delivery.md`).

mod attempt_checks;
mod audiences;
mod checks;
mod clock;
mod conditions;
mod defects;
mod device_requests;
mod devices;
mod disk;
mod drain;
mod keys;
mod notifications;
mod outcomes;
mod panics;
mod provider;
mod random;
mod requests;
mod run;
mod script;
mod setup;
mod trace;
mod world;

use std::sync::Mutex;

use self::defects::Defect;
use self::run::run;

/// Number of seeds in a run of the whole suite.
const SEEDS: u64 = 500;
/// Number of trace lines shown for a failing seed.
const LINES_SHOWN: usize = 40;
/// Number of seeds within which an added defect has to be found.
const SEEDS_PER_DEFECT: u64 = 160;
/// Most failing seeds that are reported.
const FAILURES_MAX: usize = 5;

fn number_from_env(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a number of seeds, or a seed"))
}

/// The broken invariants of a seed, and how to reproduce them.
fn failure(seed: u64, lines_max: usize) -> Option<String> {
    let report = run(seed, lines_max, None);
    if report.violations.is_empty() {
        return None;
    }
    Some(format!(
        "seed {seed} (trace {:016x}, {} events) broke:\n  {}\nits last events:\n  {}\nagain: \
         NOTIFY_SIMULATION_SEED={seed} cargo test -p notify-push-server simulation::nothing_is_lost",
        report.hash,
        report.events,
        report.violations.join("\n  "),
        report.trace.join("\n  "),
    ))
}

#[test]
fn nothing_is_lost_or_repeated_and_everything_ends() {
    if let Some(seed) = number_from_env("NOTIFY_SIMULATION_SEED") {
        assert_eq!(failure(seed, usize::MAX), None);
        return;
    }
    let last = number_from_env("NOTIFY_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let failures = on_all_cores(1..=last, |seed| failure(seed, LINES_SHOWN));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The failures of jobs that run in parallel, each on one thread. Stops after [`FAILURES_MAX`].
fn on_all_cores<T: Send>(
    jobs: impl Iterator<Item = T> + Send,
    failure_of: impl Fn(T) -> Option<String> + Sync,
) -> Vec<String> {
    let (jobs, failures) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let next = || {
        let failed = failures.lock().expect("no holder panics").len();
        if failed < FAILURES_MAX { jobs.lock().expect("no holder panics").next() } else { None }
    };
    let work = || {
        while let Some(job) = next() {
            if let Some(failure) = failure_of(job) {
                failures.lock().expect("no holder panics").push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    failures.into_inner().expect("no holder panicked")
}

#[test]
fn a_seed_replays_event_by_event() {
    for seed in 1..=12 {
        let (first, second) = (run(seed, 0, None), run(seed, 0, None));
        assert!(first.events > 20, "seed {seed} does nothing");
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
    assert_ne!(run(1, 0, None).hash, run(2, 0, None).hash);
}

#[test]
fn a_planted_defect_is_found() {
    let not_found = on_all_cores(Defect::ALL.into_iter(), |defect| {
        let is_found = |seed| !run(seed, 0, Some(defect)).violations.is_empty();
        let is_missed = !(1..=SEEDS_PER_DEFECT).any(is_found);
        is_missed.then(|| format!("{defect:?} is not found within {SEEDS_PER_DEFECT} seeds"))
    });
    assert!(not_found.is_empty(), "{}", not_found.join("\n"));
}

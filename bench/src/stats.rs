//! The costs of one kind of work over the rounds.

use crate::proc::Cost;
use crate::table::{grouped, median, median_ratio};

/// One cost per round.
#[derive(Debug, Default)]
pub(crate) struct Costs(pub(crate) Vec<Cost>);

impl Costs {
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.0.iter().map(Cost::per_second).collect()
    }

    pub(crate) fn cpu(&self) -> Vec<f64> {
        self.0.iter().map(Cost::cpu_us_each).collect()
    }

    /// CPU of one operation, and the rate.
    pub(crate) fn text(&self) -> String {
        let (cpu, rate) = (median(&self.cpu()), grouped(median(&self.rates())));
        format!("CPU {cpu:.2} µs each, {rate}/s")
    }

    /// The same of a peer, or why it is missing.
    pub(crate) fn text_or(&self, peer: &str, missing: &str) -> String {
        if self.0.is_empty() {
            return format!("{peer}: missing ({missing})");
        }
        format!("{peer}: {}", self.text())
    }

    /// The CPU relative to the baseline's.
    pub(crate) fn cpu_ratio(&self, baseline: &Self) -> f64 {
        median_ratio(&self.cpu(), &baseline.cpu())
    }
}

/// The sum of costs of the same round, as if one followed the other.
pub(crate) fn sum(parts: &[Cost], count: u64) -> Cost {
    let wall = parts.iter().map(|part| part.wall).sum();
    Cost { count, wall, cpu_us: parts.iter().map(|part| part.cpu_us).sum() }
}

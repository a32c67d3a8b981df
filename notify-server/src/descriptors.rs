//! Divides the file descriptors of the process: client connections must leave enough descriptors
//! for deliveries, the database and files.

/// Most descriptors that are reserved for other uses than client connections.
const RESERVE_MAX: usize = 1_024;
/// The limit of open files divided by this number is reserved, within `RESERVE_MIN` and `RESERVE_MAX`.
const RESERVE_DIVISOR: usize = 4;
/// Fewest reserved descriptors.
const RESERVE_MIN: usize = 64;

/// How many client connections the limit of open files allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Most connections.
    pub(crate) connections_max: usize,
    /// The limit of open files, if it allows fewer connections than `--max-connections`.
    pub(crate) too_low_limit: Option<usize>,
}

/// Raises the soft limit of the process to its hard limit.
pub(crate) fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        if limit.current == limit.maximum {
            return;
        }
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files cannot be raised");
        }
    }
}

/// The soft limit of open files of the process; `None` if there is no limit.
pub(crate) fn limit() -> Option<usize> {
    #[cfg(unix)]
    {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    None
}

/// The effective value of `--max-connections` (`wanted`) under a limit of open files.
pub(crate) fn share(wanted: usize, limit: Option<usize>) -> Share {
    let Some(limit) = limit else {
        return Share { connections_max: wanted, too_low_limit: None };
    };
    let reserve = (limit / RESERVE_DIVISOR).clamp(RESERVE_MIN, RESERVE_MAX);
    let left = limit.saturating_sub(reserve).max(1);
    let too_low_limit = (left < wanted).then_some(limit);
    Share { connections_max: wanted.min(left), too_low_limit }
}

/// The limit of open files that allows this number of connections.
pub(crate) fn needed_limit(connections: usize) -> usize {
    connections.saturating_add(RESERVE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_share_leaves_a_reserve() {
        for (wanted, limit, connections_max, is_short) in [
            (16_384, None, 16_384, false),
            (16_384, Some(65_536), 16_384, false),
            (16_384, Some(17_408), 16_384, false),
            (16_384, Some(17_407), 16_383, true),
            (16_384, Some(1_024), 768, true),
            (16_384, Some(256), 192, true),
            (16_384, Some(100), 36, true),
            (16_384, Some(10), 1, true),
            (100, Some(256), 100, false),
        ] {
            let share = share(wanted, limit);
            assert_eq!(share.connections_max, connections_max, "{wanted} below {limit:?}");
            assert_eq!(share.too_low_limit, limit.filter(|_| is_short), "{wanted} below {limit:?}");
        }
        assert_eq!(needed_limit(16_384), 17_408);
    }

    #[test]
    fn descriptor_limit_is_raised_to_the_hard_limit() {
        raise_limit();
        let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(limits.current, limits.maximum);
    }
}

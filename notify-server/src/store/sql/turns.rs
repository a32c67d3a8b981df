//! The order in which waiting reads and writes run: requesters take turns.
//!
//! Each requester has a queue of its own, and the queues are served in rotation, so a thousand jobs
//! of one application delay a job of another application by one job. Jobs that look at many rows are
//! *long*. They have a rotation of their own, and only some of the threads run them at the same time,
//! so short jobs never wait for all long ones. A long job is a slice of bounded size: whatever needs
//! more returns to the end of its queue between two slices.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::store::deadline::Requester;

/// How much a job looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Length {
    /// A few rows.
    Short,
    /// Many rows: a page of a list, or a slice of a scan.
    Long,
}

/// Why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store) enum Refused<J> {
    /// The requester has too many waiting jobs.
    Full(J),
    /// The queues are closed.
    Closed(J),
}

/// How often a thread looks for a job before it sleeps: first after a few cycles, then after twice as many
/// each time, and then after letting other threads run. Under load a job usually arrives in the
/// meantime, and waking a thread costs more than a short read.
const LOOKS_BEFORE_SLEEP: u32 = 11;
/// The looks after which a thread lets others run.
const SPINNING_LOOKS: u32 = 7;

/// The waiting jobs.
pub(in crate::store) struct Turns<J> {
    state: Mutex<State<J>>,
    /// Notified when there may be a job to take, and when the queues are closed.
    changed: Condvar,
    /// The most long jobs that run at the same time.
    long_max: usize,
    /// The most jobs of one requester that may wait.
    waiting_max: usize,
}

struct State<J> {
    short: Rotation<J>,
    long: Rotation<J>,
    long_running: usize,
    /// How many threads sleep until there may be a job to take.
    sleeping: usize,
    /// Whether a long job is next when jobs of both kinds wait.
    is_long_next: bool,
    is_closed: bool,
}

/// The queues of the requesters, in the order of their turns.
struct Rotation<J> {
    queues: HashMap<Requester, VecDeque<J>>,
    /// The requesters with waiting jobs.
    turns: VecDeque<Requester>,
}

impl<J> Rotation<J> {
    fn new() -> Self {
        Self { queues: HashMap::new(), turns: VecDeque::new() }
    }

    fn push(&mut self, requester: Requester, job: J, waiting_max: usize) -> Result<(), J> {
        let queue = self.queues.entry(requester).or_default();
        if queue.len() >= waiting_max {
            return Err(job);
        }
        if queue.is_empty() {
            self.turns.push_back(requester);
        }
        queue.push_back(job);
        Ok(())
    }

    /// Makes a job the next one.
    fn put_back(&mut self, requester: Requester, job: J) {
        self.turns.retain(|other| *other != requester);
        self.turns.push_front(requester);
        self.queues.entry(requester).or_default().push_front(job);
    }

    fn pop(&mut self) -> Option<J> {
        let requester = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&requester)?;
        let job = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&requester);
        } else {
            self.turns.push_back(requester);
        }
        job
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl<J> State<J> {
    fn pop(&mut self, long_max: usize) -> Option<(J, Length)> {
        let may_take_long = self.long_running < long_max && !self.long.is_empty();
        if may_take_long && (self.is_long_next || self.short.is_empty()) {
            self.is_long_next = false;
            let job = self.long.pop()?;
            self.long_running += 1;
            return Some((job, Length::Long));
        }
        self.is_long_next = true;
        Some((self.short.pop()?, Length::Short))
    }
}

impl<J> Turns<J> {
    /// At most `long_max` long jobs run at the same time, and at most `waiting_max` jobs of one
    /// requester may wait.
    pub(in crate::store) fn new(long_max: usize, waiting_max: usize) -> Self {
        let state = State {
            short: Rotation::new(),
            long: Rotation::new(),
            long_running: 0,
            sleeping: 0,
            is_long_next: false,
            is_closed: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), long_max, waiting_max }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job to the queue of its requester.
    ///
    /// # Errors
    /// When the queues are closed, or the requester has too many waiting jobs.
    pub(in crate::store) fn push(
        &self,
        requester: Requester,
        length: Length,
        job: J,
    ) -> Result<(), Refused<J>> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed(job));
        }
        let rotation = match length {
            Length::Short => &mut state.short,
            Length::Long => &mut state.long,
        };
        rotation.push(requester, job, self.waiting_max).map_err(Refused::Full)?;
        self.wake_one(state);
        Ok(())
    }

    /// Makes short jobs that were taken the next ones again, in their order.
    pub(in crate::store) fn put_back(&self, jobs: Vec<(Requester, J)>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.lock();
        for (requester, job) in jobs.into_iter().rev() {
            state.short.put_back(requester, job);
        }
        self.wake_one(state);
    }

    /// Wakes a thread if one sleeps. Waking costs a system call even if none does.
    fn wake_one(&self, state: MutexGuard<'_, State<J>>) {
        let is_needed = state.sleeping > 0;
        drop(state);
        if is_needed {
            self.changed.notify_one();
        }
    }

    /// Waits for the next job. Returns `None` when the queues are closed and empty. The caller passes
    /// the length to [`Turns::ended`] after the job.
    pub(in crate::store) fn next(&self) -> Option<(J, Length)> {
        let mut looks = 0;
        let mut state = self.lock();
        loop {
            if let Some(taken) = state.pop(self.long_max) {
                return Some(taken);
            }
            // A long job that waits for its turn is run by a thread that runs one now.
            if state.is_closed {
                return None;
            }
            if looks < LOOKS_BEFORE_SLEEP {
                drop(state);
                if looks < SPINNING_LOOKS {
                    (0..1 << looks).for_each(|_| std::hint::spin_loop());
                } else {
                    std::thread::yield_now();
                }
                looks += 1;
                state = self.lock();
            } else {
                state.sleeping += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.sleeping -= 1;
            }
        }
    }

    /// As [`Turns::next`], but does not wait.
    pub(in crate::store) fn try_next(&self) -> Option<(J, Length)> {
        self.lock().pop(self.long_max)
    }

    /// Records that a job ended.
    pub(in crate::store) fn ended(&self, length: Length) {
        if length == Length::Short {
            return;
        }
        let mut state = self.lock();
        state.long_running -= 1;
        if !state.long.is_empty() {
            self.wake_one(state);
        }
    }

    /// Takes no further jobs. The waiting ones still run.
    pub(in crate::store) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::AppNo;

    const A: Requester = Requester::App(AppNo(1));
    const B: Requester = Requester::App(AppNo(2));
    const WAITING_MAX: usize = 4;

    fn turns(long_max: usize, jobs: &[(Requester, Length, &'static str)]) -> Turns<&'static str> {
        let turns = Turns::new(long_max, WAITING_MAX);
        for (requester, length, job) in jobs {
            turns.push(*requester, *length, *job).expect("there is room");
        }
        turns
    }

    /// The jobs in the order in which they run, if each ends before the next one begins.
    fn order(turns: &Turns<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| {
            let (job, length) = turns.try_next()?;
            turns.ended(length);
            Some(job)
        })
        .collect()
    }

    #[test]
    fn requesters_take_turns() {
        let short = Length::Short;
        let waiting = [
            (A, short, "a1"),
            (A, short, "a2"),
            (A, short, "a3"),
            (B, short, "b1"),
            (Requester::Server, short, "s1"),
            (B, short, "b2"),
        ];
        assert_eq!(order(&turns(1, &waiting)), ["a1", "b1", "s1", "a2", "b2", "a3"]);
    }

    #[test]
    fn one_thread_runs_short_and_long_jobs_alternately() {
        let waiting = [
            (A, Length::Long, "a1"),
            (A, Length::Long, "a2"),
            (A, Length::Long, "a3"),
            (B, Length::Long, "b1"),
            (B, Length::Short, "b2"),
            (B, Length::Short, "b3"),
        ];
        assert_eq!(order(&turns(1, &waiting)), ["b2", "a1", "b3", "b1", "a2", "a3"]);
    }

    #[test]
    fn long_jobs_leave_threads_to_short_ones() {
        let turns = turns(2, &[(A, Length::Long, "a1"), (A, Length::Long, "a2")]);
        turns.push(B, Length::Long, "b1").expect("there is room");
        let running = [turns.try_next(), turns.try_next()];
        assert_eq!(running, [Some(("a1", Length::Long)), Some(("b1", Length::Long))]);
        assert_eq!(turns.try_next(), None, "two long jobs run");
        turns.push(B, Length::Short, "b2").expect("there is room");
        assert_eq!(turns.try_next(), Some(("b2", Length::Short)));
        turns.ended(Length::Long);
        assert_eq!(turns.try_next(), Some(("a2", Length::Long)));
    }

    #[test]
    fn a_full_queue_refuses_jobs_of_its_requester_alone() {
        let turns = turns(1, &[(A, Length::Short, "a"); WAITING_MAX]);
        assert_eq!(turns.push(A, Length::Short, "a5"), Err(Refused::Full("a5")));
        assert_eq!(turns.push(B, Length::Short, "b"), Ok(()));
    }

    #[test]
    fn jobs_that_are_put_back_are_next() {
        let short = Length::Short;
        let waiting = [(A, short, "a1"), (A, short, "a2"), (B, short, "b1"), (B, short, "b2")];
        let turns = turns(1, &waiting);
        let taken: Vec<_> = std::iter::from_fn(|| turns.try_next().map(|(job, _)| job)).collect();
        assert_eq!(taken, ["a1", "b1", "a2", "b2"]);
        turns.put_back(vec![(B, "b1"), (A, "a2"), (B, "b2")]);
        assert_eq!(order(&turns), ["b1", "a2", "b2"]);
    }

    #[test]
    fn closed_queues_run_what_waits() {
        let turns = turns(1, &[(A, Length::Long, "a1"), (B, Length::Short, "b1")]);
        turns.close();
        assert_eq!(turns.push(A, Length::Short, "a2"), Err(Refused::Closed("a2")));
        assert_eq!(order(&turns), ["b1", "a1"]);
        assert_eq!(turns.next(), None);
    }

    #[test]
    fn sleeping_threads_are_woken_for_each_job() {
        const JOBS: usize = 1_000;
        let turns = Turns::new(1, JOBS);
        let taken = std::thread::scope(|scope| {
            let take = || {
                let mut count = 0;
                while let Some((_, length)) = turns.next() {
                    turns.ended(length);
                    count += 1;
                }
                count
            };
            let takers = [scope.spawn(take), scope.spawn(take)];
            for (requester, length) in [(A, Length::Short), (B, Length::Long)] {
                for _ in 0..JOBS {
                    turns.push(requester, length, ()).expect("there is room");
                    // Some jobs arrive while the threads sleep.
                    std::thread::yield_now();
                }
            }
            turns.close();
            takers.map(|taker| taker.join().expect("no job panics")).iter().sum::<usize>()
        });
        assert_eq!(taken, 2 * JOBS);
    }
}

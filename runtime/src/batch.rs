//! Which waiting requests share a run. Pure: sizes and times in, a decision out.

use std::time::{Duration, Instant};

/// What the batcher knows of a waiting request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// Rows (first dimension) it brings.
    pub rows: usize,
    /// Equal for requests that may share a run: same shapes behind the first dimension, same types.
    pub shape: u64,
    /// When it came.
    pub since: Instant,
}

/// What to do now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Nothing waits.
    Idle,
    /// Run these positions of the queue together, first come first.
    Run(Vec<usize>),
    /// Company may come: look again at this time.
    Wait(Instant),
}

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_rows: usize,
    pub max_delay: Duration,
}

/// Decides over the queue in order of arrival. The oldest request is always in the batch: nothing starves.
pub fn decide<'a>(queue: impl IntoIterator<Item = &'a Waiting>, limits: Limits, now: Instant) -> Decision {
    let mut queue = queue.into_iter().enumerate();
    let Some((_, oldest)) = queue.next() else { return Decision::Idle };
    let mut chosen = vec![0];
    let mut rows = oldest.rows;
    let mut full = rows >= limits.max_rows;
    for (position, waiting) in queue {
        if full {
            break;
        }
        if waiting.shape != oldest.shape {
            continue;
        }
        if rows + waiting.rows > limits.max_rows {
            full = true;
        } else {
            rows += waiting.rows;
            chosen.push(position);
            full = rows >= limits.max_rows;
        }
    }
    let due = oldest.since + limits.max_delay;
    if full || now >= due { Decision::Run(chosen) } else { Decision::Wait(due) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { max_rows: 4, max_delay: Duration::from_millis(2) };

    fn waiting(rows: usize, shape: u64, since: Instant) -> Waiting {
        Waiting { rows, shape, since }
    }

    #[test]
    fn nothing_waits_nothing_runs() {
        assert_eq!(decide(&[], LIMITS, Instant::now()), Decision::Idle);
    }

    #[test]
    fn a_lone_request_waits_for_company_until_the_delay_is_over() {
        let start = Instant::now();
        let queue = [waiting(1, 0, start)];
        assert_eq!(decide(&queue, LIMITS, start), Decision::Wait(start + LIMITS.max_delay));
        assert_eq!(decide(&queue, LIMITS, start + LIMITS.max_delay), Decision::Run(vec![0]));
    }

    #[test]
    fn a_full_batch_runs_at_once() {
        let start = Instant::now();
        let queue = vec![waiting(1, 0, start); 6];
        assert_eq!(decide(&queue, LIMITS, start), Decision::Run(vec![0, 1, 2, 3]));
    }

    #[test]
    fn other_shapes_stay_behind_in_order() {
        let start = Instant::now();
        let queue = [waiting(2, 0, start), waiting(1, 7, start), waiting(2, 0, start)];
        assert_eq!(decide(&queue, LIMITS, start), Decision::Run(vec![0, 2]));
    }

    #[test]
    fn a_request_above_the_limit_runs_alone() {
        let start = Instant::now();
        let queue = [waiting(9, 0, start), waiting(1, 0, start)];
        assert_eq!(decide(&queue, LIMITS, start), Decision::Run(vec![0]));
    }

    #[test]
    fn no_delay_means_no_wait() {
        let start = Instant::now();
        let limits = Limits { max_delay: Duration::ZERO, ..LIMITS };
        assert_eq!(decide(&[waiting(1, 0, start)], limits, start), Decision::Run(vec![0]));
    }
}

//! Bounded queue between HTTP tasks and model threads.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tract_onnx::prelude::Tensor;

use crate::batch::{Decision, Limits, Waiting, decide};
use crate::engine::InferError;

/// One request on its way through the model.
pub struct Job {
    pub inputs: Vec<Tensor>,
    pub waiting: Waiting,
    pub reply: oneshot::Sender<Result<Vec<Tensor>, InferError>>,
}

/// First come, first served; closed once.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

struct State {
    jobs: VecDeque<Job>,
    open: bool,
}

impl Queue {
    /// An empty queue for at most `capacity` waiting jobs.
    pub fn new(capacity: usize) -> Self {
        Self { state: Mutex::new(State { jobs: VecDeque::new(), open: true }), changed: Condvar::new(), capacity }
    }

    /// Adds a job, or gives it back when the queue is full or closed.
    pub fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        if !state.open || state.jobs.len() >= self.capacity {
            return Err(job);
        }
        state.jobs.push_back(job);
        self.changed.notify_one();
        Ok(())
    }

    /// Blocks until a batch is due; `None` once the queue is closed and empty.
    pub fn next_batch(&self, limits: Limits) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        loop {
            // A client that went away has dropped its receiver: do not compute for nobody.
            state.jobs.retain(|job| !job.reply.is_closed());
            match decide(state.jobs.iter().map(|job| &job.waiting), limits, Instant::now()) {
                Decision::Run(positions) => {
                    let batch = take(&mut state.jobs, &positions);
                    if !state.jobs.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(batch);
                }
                Decision::Wait(due) if state.open => {
                    self.changed.wait_until(&mut state, due);
                }
                Decision::Wait(_) => return Some(state.jobs.drain(..1).collect()),
                Decision::Idle if state.open => self.changed.wait(&mut state),
                Decision::Idle => return None,
            }
        }
    }

    /// No job gets in any more; those inside are still run.
    pub fn close(&self) {
        self.state.lock().open = false;
        self.changed.notify_all();
    }
}

/// Removes ascending `positions`, keeping the order of the rest.
fn take(jobs: &mut VecDeque<Job>, positions: &[usize]) -> Vec<Job> {
    let mut taken: Vec<Job> = positions.iter().rev().filter_map(|position| jobs.remove(*position)).collect();
    taken.reverse();
    taken
}

//! One run: threads are started, watched, and added up.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::answers::Reading;
use super::worker::{Share, Shared, Work, Worker};
use crate::load::constraint::Constraint;
use crate::load::http::RequestPlan;
use crate::load::outcome::Expectation;
use crate::load::schedule::{End, Schedule, Source};
use crate::load::statistics::{Blocks, Measured, Second, Tally, add_misses, merge};
use crate::load::units::{nanos, seconds};
use crate::load::{LoadError, Target};

/// Seconds that may wait for the view (of all threads).
const SECONDS_QUEUE: usize = 4_096;
/// How often the observer is asked at least.
const LOOK: Duration = Duration::from_millis(100);
/// How long a server may take to accept the first connection.
const FIRST_CONNECT: Duration = Duration::from_secs(5);

/// Everything that describes a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    pub plan: Arc<RequestPlan>,
    pub expectation: Expectation,
    /// Whether answers have tokens.
    pub tokens: bool,
    pub source: Source,
    pub seed: u64,
    /// Requests due in this time are sent and not measured.
    pub warm_up: Duration,
    /// After the warm-up.
    pub duration: Option<Duration>,
    /// Requests in all, with those of the warm-up.
    pub requests: Option<u64>,
    pub timeout: Duration,
    /// None: as many as it takes.
    pub max_connections: Option<NonZeroUsize>,
    pub threads: NonZeroUsize,
    pub constraints: Vec<Constraint>,
}

/// A second that has just passed.
#[derive(Clone, Debug)]
pub struct Live {
    pub second: Second,
    /// Since the first request was due.
    pub elapsed: Duration,
}

/// What the observer wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Control {
    Continue,
    /// Send nothing more, and do not wait for answers.
    Stop,
}

/// A run that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    pub measured: Measured,
    pub work: Work,
    pub blocks: Blocks,
    /// Seconds that the measured part was to take, or took when it was stopped.
    pub window: f64,
    /// Seconds until the last measured request was taken up, if that is longer.
    pub dispatch_window: f64,
    /// The observer stopped it.
    pub stopped: bool,
}

/// Runs it. `observe` is called for each second, and without one ten times a second.
pub fn run(options: &Options, observe: &mut dyn FnMut(Option<&Live>) -> Control) -> Result<Finished, LoadError> {
    let ends = options.duration.is_some() || options.requests.is_some();
    let trace = matches!(options.source, Source::Open(crate::load::Pattern::Trace { .. }));
    if !ends && !trace {
        return Err(LoadError::Input("a run needs an end: a duration or a number of requests".to_owned()));
    }
    let address = first_that_answers(&options.target)?;
    let horizon = options.duration.map(|duration| nanos(options.warm_up.saturating_add(duration)));
    let shared = Arc::new(Shared {
        address,
        plan: Arc::clone(&options.plan),
        expectation: options.expectation.clone(),
        reading: reading(options),
        timeout: nanos(options.timeout),
        horizon,
        epoch: Instant::now(),
        stop: AtomicBool::new(false),
    });
    let (sender, receiver) = sync_channel(SECONDS_QUEUE);
    let (results, blocks) = std::thread::scope(|scope| {
        let handles = shares(options, horizon).into_iter().enumerate().map(|(number, share)| {
            let (sender, shared): (SyncSender<Second>, _) = (sender.clone(), Arc::clone(&shared));
            let thread = std::thread::Builder::new().name(format!("load-{number}"));
            thread.spawn_scoped(scope, move || Worker::new(shared, share)?.run(&sender))
        });
        let handles: Vec<_> = handles.collect();
        drop(sender);
        if handles.iter().any(Result::is_err) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let blocks = watch(&receiver, options.threads.get(), &shared, observe);
        let results: Vec<_> = handles.into_iter().map(|handle| handle.and_then(joined)).collect();
        (results, blocks)
    });
    let (mut measured, mut work) = (Measured::new(options.constraints.len()), Work::default());
    for result in results {
        let (one, its_work) = result.map_err(LoadError::machine("run its threads"))?;
        measured.add(&one);
        work.add(&its_work);
    }
    Ok(finished(options, &shared, measured, work, blocks))
}

fn finished(options: &Options, shared: &Shared, measured: Measured, work: Work, blocks: Blocks) -> Finished {
    let stopped = shared.stop.load(Ordering::Relaxed);
    let from = nanos(options.warm_up);
    let last = match options.source {
        Source::Open(_) => measured.last_dispatch,
        Source::Closed { .. } => measured.last_finish,
    };
    let end = if stopped {
        nanos(shared.epoch.elapsed())
    } else {
        shared.horizon.filter(|_| options.requests.is_none()).unwrap_or(last)
    };
    let window = seconds(end.saturating_sub(from));
    let dispatch_window = seconds(measured.last_dispatch.saturating_sub(from)).max(window);
    Finished { measured, work, blocks, window, dispatch_window, stopped }
}

fn shares(options: &Options, horizon: Option<u64>) -> Vec<Share> {
    let threads = options.threads.get();
    let end = End { horizon, requests: options.requests };
    let constraints: Arc<[Constraint]> = options.constraints.clone().into();
    (0..threads)
        .map(|thread| {
            let schedule = Schedule::new(&options.source, options.seed, end, thread as u64, threads as u64);
            let tally = Tally::new(Arc::clone(&constraints), nanos(options.warm_up));
            // The connections are shared out; each thread needs one.
            let most =
                options.max_connections.map(|most| most.get() / threads + usize::from(thread < most.get() % threads));
            let max_connections = most.map(|most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
            Share { schedule, tally, max_connections }
        })
        .collect()
}

fn reading(options: &Options) -> Reading {
    if options.tokens {
        Reading::Tokens
    } else if options.expectation.reads_bodies() {
        Reading::Text
    } else {
        Reading::Length
    }
}

type Outcome = std::io::Result<(Measured, Work)>;

fn joined(handle: ScopedJoinHandle<'_, Outcome>) -> Outcome {
    handle.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread ended by a fault of the generator")))
}

/// Puts the seconds of all threads together until all have ended.
fn watch(
    receiver: &Receiver<Second>,
    threads: usize,
    shared: &Shared,
    observe: &mut dyn FnMut(Option<&Live>) -> Control,
) -> Blocks {
    let (mut blocks, mut open) = (Blocks::default(), BTreeMap::<i64, (usize, Second)>::new());
    let mut heed = |live: Option<&Live>| {
        if observe(live) == Control::Stop {
            shared.stop.store(true, Ordering::Relaxed);
        }
    };
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(second) => {
                let index = second.index;
                let entry = open.entry(index).or_default();
                entry.0 += 1;
                join(&mut entry.1, second);
                if entry.0 == threads {
                    let (_, second) = open.remove(&index).unwrap_or_default();
                    heed(Some(&told(second, &mut blocks, shared)));
                }
            }
            Err(RecvTimeoutError::Timeout) => heed(None),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Threads end at different seconds.
    for (_, second) in open.into_values() {
        heed(Some(&told(second, &mut blocks, shared)));
    }
    blocks
}

fn told(second: Second, blocks: &mut Blocks, shared: &Shared) -> Live {
    if second.index >= 0 {
        blocks.push(second.latency.clone());
    }
    Live { second, elapsed: shared.epoch.elapsed() }
}

fn join(sum: &mut Second, other: Second) {
    sum.index = other.index;
    sum.started += other.started;
    sum.ok += other.ok;
    sum.failed += other.failed;
    sum.in_flight += other.in_flight;
    sum.waiting += other.waiting;
    sum.latency = merge(&sum.latency, &other.latency);
    if sum.misses.is_empty() {
        sum.misses = other.misses;
    } else {
        add_misses(&mut sum.misses, &other.misses);
    }
}

/// The first address of the target that takes a connection.
fn first_that_answers(target: &Target) -> Result<SocketAddr, LoadError> {
    let mut problem = String::new();
    for address in target.addresses()? {
        match TcpStream::connect_timeout(&address, FIRST_CONNECT) {
            Ok(_) => return Ok(address),
            Err(error) => problem = error.to_string(),
        }
    }
    Err(LoadError::Unreachable { target: target.to_string(), problem })
}

/// Lets this process open as many sockets as the system allows it to; for programs that generate load and little else.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Fails when the limit cannot be raised: then the generator says so when it runs out.
    let _as_before = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

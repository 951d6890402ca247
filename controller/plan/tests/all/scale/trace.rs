//! Loads over time, and what is around them: the pods at the start, how long a pod takes to start, what happens to
//! the routers.

use modelway_api::inference::AutoScale;

/// One load and its surroundings.
pub struct Trace {
    pub name: &'static str,
    pub seconds: u32,
    /// Pods at the start, all ready.
    pub pods: u32,
    /// Seconds until a pod is ready; a pod of a broken model never is.
    pub startup: Option<f64>,
    pub spec: AutoScale,
    /// Requests that want to be answered at once, at that second.
    pub level: fn(f64) -> u64,
    pub routers: usize,
    pub faults: &'static [Fault],
}

/// What happens to the router of an index.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Another process takes its place: totals from zero, another boot id.
    Restart { router: usize, at: u32 },
    /// Its stream is cut, from one second to another.
    Cut { router: usize, from: u32, to: u32 },
}

const QUIET: Trace = Trace {
    name: "",
    seconds: 0,
    pods: 1,
    startup: Some(5.0),
    spec: AutoScale {
        min_replicas: None,
        max_replicas: None,
        auto_scaler: None,
        metric: None,
        target: None,
        utilization: None,
        window: None,
        panic_window: None,
        scale_down_delay: None,
        scale_to_zero_grace: None,
        max_scale_up_rate: None,
    },
    level: |_| 0,
    routers: 1,
    faults: &[],
};

/// One in flight, then fifty.
pub fn step() -> Trace {
    Trace { name: "step", seconds: 430, level: |at| if at < 120.0 { 1 } else { 50 }, ..QUIET }
}

/// Ten minutes up to a hundred, two minutes there, ten minutes down.
pub fn ramp() -> Trace {
    let level = |at: f64| whole((at / 6.0).min(100.0).min((1_320.0 - at) / 6.0));
    Trace { name: "ramp", seconds: 1_440, level, ..QUIET }
}

/// Ten seconds of twenty times the load.
pub fn spike() -> Trace {
    let level = |at: f64| if (120.0..130.0).contains(&at) { 100 } else { 5 };
    Trace { name: "spike", seconds: 300, level, ..QUIET }
}

/// A day: quiet at night, its peak in the afternoon, with the noise of many users.
pub fn day() -> Trace {
    let level = |at: f64| {
        let at = at.floor();
        let hour = at / 3_600.0;
        let height = (0.5 - 0.5 * ((hour - 3.0) / 24.0 * std::f64::consts::TAU).cos()).powi(2);
        let steady = 4.0 + 116.0 * height;
        whole(steady + steady.sqrt() * noise(at))
    };
    Trace { name: "day", seconds: 86_400, pods: 2, startup: Some(30.0), level, ..QUIET }
}

/// Twenty seconds each of two loads, in turns.
pub fn flapping() -> Trace {
    Trace { name: "flapping", seconds: 600, pods: 4, level: |at| if at % 40.0 < 20.0 { 20 } else { 40 }, ..QUIET }
}

/// A load that needs seven pods and a little more or less, with noise: seven pods or eight would do.
pub fn edge() -> Trace {
    Trace { name: "edge", seconds: 900, pods: 7, level: |at| whole(49.0 + 7.0 * noise(at)), ..QUIET }
}

/// One pod answers slowly for three minutes, and twenty requests more pile up on it.
pub fn slow_pod() -> Trace {
    let level = |at: f64| if (120.0..300.0).contains(&at) { 33 } else { 12 };
    Trace { name: "slow-pod", seconds: 480, pods: 2, level, ..QUIET }
}

/// A steady load whose router starts again.
pub fn router_restart() -> Trace {
    let faults = &[Fault::Restart { router: 0, at: 200 }];
    Trace { name: "router-restart", seconds: 400, pods: 5, level: |_| 30, faults, ..QUIET }
}

/// The load falls while one of two routers is not heard, and later none.
pub fn missing_data() -> Trace {
    let faults = &[
        Fault::Cut { router: 1, from: 120, to: 240 },
        Fault::Cut { router: 0, from: 360, to: 440 },
        Fault::Cut { router: 1, from: 360, to: 440 },
    ];
    let level = |at: f64| match at {
        at if at < 130.0 => 40,
        at if at < 370.0 => 19,
        _ => 4,
    };
    Trace { name: "missing-data", seconds: 560, pods: 6, routers: 2, level, faults, ..QUIET }
}

/// A load ends, the predictor sleeps, and a burst wakes it.
pub fn sleep_and_wake() -> Trace {
    let level = |at: f64| match at {
        at if at < 60.0 => 5,
        at if at < 220.5 => 0,
        _ => 30,
    };
    let spec = AutoScale { min_replicas: Some(0), ..QUIET.spec };
    Trace { name: "sleep-and-wake", seconds: 400, startup: Some(8.0), spec, level, ..QUIET }
}

/// A sleeping predictor of a broken model: requests wait, and more of them come.
pub fn never_ready() -> Trace {
    let spec = AutoScale { min_replicas: Some(0), ..QUIET.spec };
    let level = |at: f64| if at < 10.0 { 0 } else { whole(at * 5.0).min(1_000) };
    Trace { name: "never-ready", seconds: 400, pods: 0, startup: None, spec, level, ..QUIET }
}

/// A controller starts and finds ten pods where five would do.
pub fn controller_start() -> Trace {
    Trace { name: "controller-start", seconds: 200, pods: 10, level: |_| 18, ..QUIET }
}

/// Pods with GPUs, which are added in doubles.
pub fn doubling() -> Trace {
    let spec = AutoScale { max_scale_up_rate: Some(2.0), max_replicas: Some(12), ..QUIET.spec };
    let level = |at: f64| if at < 60.0 { 1 } else { 100 };
    Trace { name: "doubling", seconds: 240, startup: Some(10.0), spec, level, ..QUIET }
}

/// A burst every three minutes, with a delay before pods go.
pub fn delayed() -> Trace {
    let spec = AutoScale { scale_down_delay: Some(String::from("5m")), ..QUIET.spec };
    let level = |at: f64| if at % 180.0 < 60.0 { 40 } else { 10 };
    Trace { name: "delayed", seconds: 1_200, spec, level, ..QUIET }
}

/// Every trace.
pub fn all() -> Vec<Trace> {
    vec![
        step(),
        ramp(),
        spike(),
        day(),
        flapping(),
        edge(),
        slow_pod(),
        router_restart(),
        missing_data(),
        sleep_and_wake(),
        never_ready(),
        controller_start(),
        doubling(),
        delayed(),
    ]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and not negative")]
fn whole(level: f64) -> u64 {
    level.round().max(0.0) as u64
}

/// Nearly normal numbers, another one each second, the same in each run.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and not negative")]
fn noise(at: f64) -> f64 {
    let mut state = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut sum = 0.0;
    for _ in 0..12 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += (state >> 11) as f64 / (1_u64 << 53) as f64;
    }
    sum - 6.0
}

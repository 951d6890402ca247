//! Invented services: a roofline with soft corners, an out-of-memory region, knobs that matter little.
//!
//! Used to choose the priors, so that nothing is fitted to the measured tables.

use std::collections::BTreeMap;

use modelway_tune::history::{Failure, Trial};
use modelway_tune::space::{Parameter, Scale, Space};
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, Transform};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::task::{Task, Truth};

/// Bandwidth, compute, memory, price of four invented machines: price grows a little slower or faster than speed.
type Machine = [f64; 4];

/// What makes one service different from another.
struct Service {
    machines: Vec<Machine>,
    weights: f64,
    per_item: f64,
    step_cost: f64,
    overhead: f64,
    scaling: f64,
    corner: f64,
    limit: f64,
    grid: f64,
}

/// `count` services from a seed; those without any good candidate are left out.
pub fn tasks(count: u64, seed: u64) -> anyhow::Result<Vec<Task>> {
    let each = (0..count).map(|index| task(&format!("synthetic-{index}"), seed.wrapping_mul(7919).wrapping_add(index)));
    let tasks = each.collect::<anyhow::Result<Vec<Task>>>()?;
    Ok(tasks.into_iter().filter(|task| task.optimum().is_some()).collect())
}

fn service(generator: &mut ChaCha8Rng) -> Service {
    let machines = (0..4)
        .map(|index| {
            let speed = 2f64.powf(f64::from(index) * generator.random_range(0.5..1.0));
            [
                speed * generator.random_range(0.7..1.4),
                speed * generator.random_range(0.6..1.6),
                generator.random_range(1.0..6.0),
                speed.powf(generator.random_range(0.6..1.3)),
            ]
        })
        .collect();
    Service {
        machines,
        weights: generator.random_range(0.3..3.5),
        per_item: 2f64.powf(generator.random_range(-8.0..-4.0)),
        step_cost: 2f64.powf(generator.random_range(-3.0..3.0)),
        overhead: 2f64.powf(generator.random_range(-3.0..1.0)),
        scaling: generator.random_range(0.7..1.0),
        corner: generator.random_range(2.0..8.0),
        limit: generator.random_range(6.0..60.0),
        grid: if generator.random_bool(0.5) { 2f64.powf(1.0 / 12.0) } else { 1.0 },
    }
}

fn task(name: &str, seed: u64) -> anyhow::Result<Task> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let service = service(&mut generator);
    let descriptor = service.machines.iter().map(|machine| machine[..3].to_vec()).collect();
    let names = ["m0", "m1", "m2", "m3"];
    let space = Space::product(
        vec![
            Parameter::categorical("machine", names)?.with_scale(Scale::Descriptor(descriptor))?,
            Parameter::discrete("count", &[1.0, 2.0, 4.0])?.with_scale(Scale::Log2)?.as_resource(),
            Parameter::discrete("batch", &[4.0, 8.0, 16.0, 32.0, 64.0, 128.0])?,
            Parameter::discrete("chunk", &[1.0, 2.0, 4.0, 8.0, 16.0])?,
            Parameter::discrete("share", &[0.6, 0.9])?,
            Parameter::categorical("flag", ["on", "off"])?,
        ],
        0,
    )?;
    let mut truth = Vec::new();
    let mut cost = Vec::new();
    for candidate in 0..space.len() {
        let levels = space.indices(candidate);
        let machine = service.machines[levels[0]];
        let numbers: Vec<f64> = space.levels(candidate).iter().map(|level| level.number.unwrap_or(0.0)).collect();
        cost.push(machine[3] * numbers[1]);
        truth.push(run(&service, machine, &numbers, levels[5] == 0));
    }
    let constraint =
        Constraint { metric: "latency".to_owned(), bound: Bound::AtMost(service.limit), transform: Transform::LOG };
    let metric = "rate".to_owned();
    let objective = Objective::Metric { metric, goal: Goal::Maximize, transform: Transform::LOG, per_cost: true };
    let spec =
        Spec { space, objective, constraints: vec![constraint], cost: Some(cost), baseline: None, sources: Vec::new() };
    Ok(Task { name: name.to_owned(), spec, truth })
}

fn run(service: &Service, machine: Machine, numbers: &[f64], flag: bool) -> Truth {
    let [bandwidth, compute, memory, _] = machine;
    let (count, batch, chunk, share) = (numbers[1], numbers[2], numbers[3], numbers[4]);
    let total = memory * count * share - service.weights;
    if total <= service.per_item * 4.0 {
        return Truth::Fails(Failure::OutOfMemory);
    }
    let scaled = count.powf(service.scaling);
    let fits = batch.min(total / service.per_item);
    let read = fits * bandwidth * scaled / service.weights;
    let work = 40.0 * compute * scaled / service.step_cost;
    let chunked = 30.0 * chunk.powf(0.7) * compute.sqrt() / service.overhead;
    let sum: f64 = [read, work, chunked].iter().map(|rate| rate.powf(-service.corner)).sum();
    let rate = sum.powf(-1.0 / service.corner) * if flag { 1.0 } else { 0.97 };
    let latency = fits / rate * 40.0 + chunk * service.overhead / compute.sqrt();
    let rate = if service.grid > 1.0 { service.grid.powf((rate.ln() / service.grid.ln()).floor()) } else { rate };
    Truth::Runs(BTreeMap::from([("rate".to_owned(), rate), ("latency".to_owned(), latency)]))
}

/// A question over 10,000 candidates with three constraints, and results.
pub fn large(results: usize) -> anyhow::Result<(Spec, Vec<Trial>)> {
    let parameters = (0..8).map(|index| Parameter::integer(&format!("p{index}"), 1, 8, 1)).collect::<Result<_, _>>()?;
    let space = Space::product(parameters, 1)?;
    let limit =
        |metric: &str| Constraint { metric: metric.to_owned(), bound: Bound::AtMost(40.0), transform: Transform::LOG };
    let metric = "rate".to_owned();
    let objective = Objective::Metric { metric, goal: Goal::Maximize, transform: Transform::LOG, per_cost: false };
    let constraints = vec![limit("latency"), limit("first"), limit("next")];
    let trials = (0..results)
        .map(|index| {
            let candidate = index * 131 % space.len();
            let levels: Vec<f64> = space.levels(candidate).iter().map(|level| level.number.unwrap_or(1.0)).collect();
            let rate = levels[0] * levels[1].sqrt() + levels[2];
            let metrics = [
                ("rate", rate),
                ("latency", 5.0 * levels[3]),
                ("first", 9.0 * levels[4]),
                ("next", levels[5] + levels[6]),
            ];
            Trial::measured(candidate, metrics)
        })
        .collect();
    Ok((Spec { space, objective, constraints, cost: None, baseline: None, sources: Vec::new() }, trials))
}

//! Experiments: woken by themselves, their trials, and the Inference that they tune; their report is made here.

use std::collections::HashSet;

use modelway_plan::{Action, Context, Key, Kind, Plan, World, json as read, profiling::experiment};
use serde_json::Value;

use super::{all, controller_of, kind_of, namespace_of};
use crate::tuning_report;

/// Plans one experiment; the report of one that ends is stored before its status says so.
pub fn plan(cx: &Context, key: &Key) -> Plan {
    let mut turn = experiment::turn(cx, key);
    if let Some(findings) = &turn.report {
        turn.plan.actions.insert(0, Action::Create(tuning_report::config_map(findings)));
    }
    turn.plan
}

/// Adds the experiments whose plan may depend on the object.
pub fn woken_by(world: &World, object: &Value, keys: &mut HashSet<Key>) {
    let namespace = namespace_of(object);
    let tunes = |name: &str| {
        let name = name.to_owned();
        let all = world.list(Kind::ProfilingExperiment, namespace);
        all.filter(move |experiment| read::text(experiment, "/spec/inferenceRef/name") == name).filter_map(Key::of)
    };
    match kind_of(object) {
        Some(Kind::ProfilingExperiment) => {
            keys.extend(Key::of(object));
            let inference = read::text(object, "/spec/inferenceRef/name");
            if !inference.is_empty() {
                keys.extend(all(world, Kind::ProfilingExperiment, namespace));
            }
        }
        Some(Kind::Trial) => {
            let experiment = controller_of(object, Kind::ProfilingExperiment);
            keys.extend(experiment.map(|name| Key::new(Kind::ProfilingExperiment, namespace, name)));
        }
        Some(Kind::Inference) => keys.extend(tunes(read::name(object))),
        Some(Kind::Deployment) => {
            keys.extend(controller_of(object, Kind::Inference).into_iter().flat_map(tunes));
        }
        _ => {}
    }
}

//! What an experiment asks, as the search understands it.

use std::cmp::Ordering;

use modelway_api::{
    duration,
    load::Load,
    objective::{Objective, ObjectiveType},
    profiling_experiment::{AlgorithmName, ProfilingExperimentSpec},
    trial::{Category, ParameterAssignment},
};
use modelway_tune::{
    experiment::{Algorithm, Confirm, Question},
    space::Space,
    spec::{Bound, Constraint, Goal, Objective as Wanted, Spec},
    stop::Limits,
    warm::Source,
};
use serde_json::Value;

use super::{
    cost,
    error::QuestionError,
    load, metrics,
    room::{self, NodeSize},
    space, template, values,
};

/// Resources of which there is all that the node has, without a limit.
const UNLIMITED: [&str; 2] = ["cpu", "memory"];
/// Trials where nobody says how many.
const MAX_TRIALS: usize = 20;
/// Candidates measured again where nobody says how many, by Modelway's own load generator.
const CONFIRM_TOP: usize = 3;

/// What is asked, and how many candidates are no part of it: no node has room for them.
#[derive(Clone, Debug)]
pub struct Asked {
    pub question: Question,
    pub left_out: usize,
}

/// The question of an experiment over the pods of that template, where nodes are of these sizes.
pub fn question(
    spec: &ProfilingExperimentSpec,
    pods: &Value,
    sources: Vec<Source>,
    sizes: &[NodeSize],
) -> Result<Asked, QuestionError> {
    let seed = seed(spec)?;
    let whole = space::space(spec, seed)?;
    let all = whole.len();
    let asked = room::possible(spec, pods, whole, sizes)?;
    let left_out = all - asked.len();
    let running = running(spec, pods, &asked);
    // A client of one's own, told to list candidates, lists those and no others.
    let joins = spec.client_template.is_none() || algorithm(spec) == Algorithm::Bayesian;
    let space =
        Some(&asked).filter(|_| joins).and_then(|asked| space::with_running(spec, asked, &running)).unwrap_or(asked);
    let objective = spec.objective.clone().unwrap_or_default();
    let is_own_client = spec.client_template.is_some();
    let cost = objective.cost.as_ref().map(|cost| cost::costs(spec, &space, pods, cost)).transpose()?;
    let question = Question {
        algorithm: algorithm(spec),
        limits: limits(spec)?,
        parallelism: count(spec.parallelism).unwrap_or(1),
        confirm: confirm(spec)?,
        seed,
        ..Question::new(Spec {
            objective: wanted(&objective),
            constraints: constraints(&objective, spec.load.as_ref(), is_own_client)?,
            baseline: space::candidate(spec, &space, &running),
            sources,
            cost,
            space,
        })
    };
    if !is_own_client {
        load::plan(spec.load.as_ref(), spec.objective.as_ref(), spec.request_template.as_deref())?;
    }
    question.check()?;
    Ok(Asked { question, left_out })
}

fn count(number: Option<i32>) -> Option<usize> {
    number.and_then(|number| usize::try_from(number).ok())
}

fn seed(spec: &ProfilingExperimentSpec) -> Result<u64, QuestionError> {
    let mut settings = spec.algorithm.iter().flat_map(|algorithm| &algorithm.algorithm_settings);
    let Some(setting) = settings.find(|setting| setting.name == "seed" || setting.name == "random_state") else {
        return Ok(0);
    };
    let number = setting.value.trim().parse();
    number.map_err(|_| {
        QuestionError::field(
            format!("algorithm.algorithmSettings: {}", setting.name),
            &setting.value,
            "use a whole number from 0",
        )
    })
}

fn algorithm(spec: &ProfilingExperimentSpec) -> Algorithm {
    match spec.algorithm.as_ref().and_then(|algorithm| algorithm.algorithm_name).unwrap_or_default() {
        AlgorithmName::BayesianOpt | AlgorithmName::Bayesian | AlgorithmName::Bo => Algorithm::Bayesian,
        AlgorithmName::Random => Algorithm::Random,
        AlgorithmName::Grid => Algorithm::Grid,
        AlgorithmName::Sobol => Algorithm::Sobol,
    }
}

fn limits(spec: &ProfilingExperimentSpec) -> Result<Limits, QuestionError> {
    let budget = spec.budget.clone().unwrap_or_default();
    let seconds = budget.duration.as_ref().map(|text| {
        let time = duration::parse(text).ok().filter(|time| !time.is_zero());
        time.map(|time| time.as_secs_f64())
            .ok_or_else(|| QuestionError::field("budget.duration", text, "write a time such as 2h"))
    });
    let money = budget.cost.as_ref().map(|text| {
        let money = values::number(text).filter(|money| *money > 0.0);
        money.ok_or_else(|| QuestionError::field("budget.cost", text, "write a number above 0"))
    });
    let usual = Limits::default();
    Ok(Limits {
        max_trials: count(spec.max_num_trials).unwrap_or(MAX_TRIALS),
        max_failed: count(spec.max_failed_trials),
        expected_improvement: spec
            .stop
            .as_ref()
            .and_then(|stop| stop.expected_improvement)
            .unwrap_or(usual.expected_improvement),
        seconds: seconds.transpose()?,
        money: money.transpose()?,
        ..usual
    })
}

/// A client of one's own, and a search that lists candidates, do what they are told and no more.
fn confirm(spec: &ProfilingExperimentSpec) -> Result<Confirm, QuestionError> {
    let is_plain = spec.client_template.is_some() || algorithm(spec) != Algorithm::Bayesian;
    let usual = if is_plain && spec.confirm.is_none() { 0 } else { CONFIRM_TOP };
    let top = count(spec.confirm.as_ref().and_then(|confirm| confirm.top)).unwrap_or(usual);
    let window = |text: &str, field| {
        let time = duration::parse(text).ok().filter(|time| !time.is_zero());
        time.map(|time| time.as_secs_f64()).ok_or_else(|| QuestionError::field(field, text, "write a time such as 60s"))
    };
    let Some(longer) = spec.confirm.as_ref().and_then(|confirm| confirm.window.as_ref()) else {
        return Ok(Confirm { top, ..Confirm::default() });
    };
    let searched = spec.load.as_ref().and_then(|load| load.window.as_deref()).unwrap_or("60s");
    let stretch = window(longer, "confirm.window")? / window(searched, "load.window")?;
    Ok(Confirm { top, stretch })
}

fn wanted(objective: &Objective) -> Wanted {
    let metric = load::objective_metric(Some(objective)).to_owned();
    let goal = match objective.type_.unwrap_or_default() {
        ObjectiveType::Minimize => Goal::Minimize,
        ObjectiveType::Maximize => Goal::Maximize,
    };
    if metric == load::COST && goal == Goal::Minimize {
        return Wanted::Cost;
    }
    Wanted::Metric { transform: metrics::transform(&metric), metric, goal, per_cost: objective.cost.is_some() }
}

/// What is left to learn: a search for the highest rate sees to the limits that it is told.
fn constraints(
    objective: &Objective,
    load: Option<&Load>,
    is_own_client: bool,
) -> Result<Vec<Constraint>, QuestionError> {
    let searches = !is_own_client && load::searches(&load.cloned().unwrap_or_default());
    let percentile = load.and_then(|load| load.percentile.as_deref());
    let mut constraints = Vec::new();
    for constraint in &objective.constraints {
        let (is_upper, limit) = load::limit(constraint)?;
        if searches && load::is_kept_by_search(constraint) {
            continue;
        }
        let metric =
            if is_own_client { constraint.metric.clone() } else { metrics::own_name(&constraint.metric, percentile) };
        let bound = if is_upper { Bound::AtMost(limit) } else { Bound::AtLeast(limit) };
        constraints.push(Constraint { transform: metrics::transform(&metric), metric, bound });
    }
    Ok(constraints)
}

/// The values that run now: those that the template says, and the most of a resource that it does not limit.
fn running(spec: &ProfilingExperimentSpec, pods: &Value, space: &Space) -> Vec<ParameterAssignment> {
    let values = space::parameters(spec).filter_map(|(category, parameter)| {
        let said = template::current(pods, category, &parameter.name);
        let value = said.or_else(|| unlimited(space, category, &parameter.name))?;
        Some(ParameterAssignment { name: parameter.name.clone(), value, category })
    });
    values.collect()
}

/// A process whose CPU or memory is not limited has what the node has: the largest candidate is nearest to that.
fn unlimited(space: &Space, category: Category, name: &str) -> Option<String> {
    let is_shared = category == Category::Resource && UNLIMITED.contains(&name);
    let known = space.parameters().iter().find(|known| is_shared && known.name == name)?;
    let sized = known.levels.iter().filter(|level| level.number.is_some());
    let most = sized.max_by(|left, right| left.number.partial_cmp(&right.number).unwrap_or(Ordering::Equal));
    most.map(|most| most.text.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(spec: Value) -> Result<Question, QuestionError> {
        let spec: ProfilingExperimentSpec = serde_json::from_value(spec).unwrap();
        let pods = spec.service_pod_template.clone().unwrap_or_default()["template"].clone();
        question(&spec, &pods, Vec::new(), &[]).map(|asked| asked.question)
    }

    fn base() -> Value {
        json!({
            "tunableParameters": [{"category": "resource", "parameters": [
                {"name": "cpu", "parameterType": "discrete", "feasibleSpace": {"list": ["500m", "1", "2"]}},
                {"name": "memory", "parameterType": "discrete", "feasibleSpace": {"list": ["1Gi", "2Gi"]}}]}],
            "servicePodTemplate": {"template": {"spec": {"containers": [
                {"name": "s", "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}}},
                {"name": "side", "resources": {"requests": {"cpu": "500m"}}}]}}},
            "objective": {"constraints": [{"metric": "p95", "max": "50ms"}, {"metric": "accuracy", "min": "0.9"}],
                "cost": {"perHour": {"cpu": "0.04", "memory": "0.01"}}},
        })
    }

    #[test]
    fn the_running_spec_is_the_baseline_and_all_that_is_priced_costs() {
        let question = asked(base()).unwrap();
        let spec = &question.spec;
        assert_eq!(spec.space.settings(spec.baseline.unwrap()), [("cpu", "1"), ("memory", "1Gi")]);
        assert!((spec.cost_of(0) - (0.04 * 1.0 + 0.01)).abs() < 1e-12);
        assert!((spec.cost_of(5) - (0.04 * 2.5 + 0.02)).abs() < 1e-12);
        let names: Vec<&str> = spec.constraints.iter().map(|constraint| constraint.metric.as_str()).collect();
        assert_eq!(names, ["accuracy"], "the search itself keeps the limit on times");
        assert!(matches!(&spec.objective, Wanted::Metric { metric, per_cost: true, .. } if metric == "rate"));
        assert_eq!((question.limits.max_trials, question.parallelism, question.confirm.top), (20, 1, 3));
    }

    #[test]
    fn a_running_spec_that_is_no_candidate_becomes_one() {
        let mut spec = base();
        spec["servicePodTemplate"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] =
            "1536Mi".into();
        let question = asked(spec).unwrap();
        assert_eq!(question.spec.space.len(), 7);
        assert_eq!(question.spec.space.settings(question.spec.baseline.unwrap()), [("cpu", "1"), ("memory", "1536Mi")]);
    }

    #[test]
    fn what_is_not_limited_runs_with_the_most() {
        let mut spec = base();
        spec["servicePodTemplate"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        let question = asked(spec.clone()).unwrap();
        assert_eq!(question.spec.space.settings(question.spec.baseline.unwrap()), [("cpu", "2"), ("memory", "2Gi")]);
        // A device that is not asked for is not there.
        spec["tunableParameters"][0]["parameters"][0]["name"] = "nvidia.com/gpu".into();
        spec["objective"]["cost"]["perHour"] = json!({"nvidia.com/gpu": "2"});
        assert_eq!(asked(spec).unwrap().spec.baseline, None);
    }

    #[test]
    fn a_morphling_experiment_does_what_it_says_and_no_more() {
        let mut spec = base();
        spec["clientTemplate"] = json!({"spec": {}});
        spec["algorithm"] = json!({"algorithmName": "grid"});
        spec["objective"] = json!({"type": "maximize", "objectiveMetricName": "qps"});
        let question = asked(spec).unwrap();
        assert_eq!((question.algorithm, question.confirm.top), (Algorithm::Grid, 0));
        assert!(question.spec.cost.is_none());
    }

    #[test]
    fn with_a_given_load_every_constraint_is_learned() {
        let mut spec = base();
        spec["load"] = json!({"rate": 50.0, "percentile": "p99"});
        spec["objective"]["constraints"][0]["metric"] = "latency".into();
        let question = asked(spec).unwrap();
        let names: Vec<&str> = question.spec.constraints.iter().map(|constraint| constraint.metric.as_str()).collect();
        assert_eq!(names, ["latency.p99", "accuracy"]);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let with = |pointer: &str, value: Value| {
            let mut spec = base();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            spec.pointer_mut(parent).unwrap()[field] = value;
            asked(spec).unwrap_err().to_string()
        };
        for (pointer, value, expected) in [
            ("/tunableParameters", json!([{"category": "env", "parameters": []}]), "no parameter to tune"),
            ("/objective/cost/perHour/cpu", json!("dear"), "perHour: cpu is \"dear\""),
            ("/objective/cost/perHour", json!({}), "objective.cost.perHour is missing"),
            ("/objective/cost/perHour", json!({"nvidia.com/gpu": "1"}), "costs 0"),
            ("/objective/constraints", json!([]), "objective.constraints is missing"),
            ("/budget", json!({"duration": "soon"}), "budget.duration is \"soon\""),
            ("/budget", json!({"cost": "-1"}), "budget.cost is \"-1\""),
            ("/algorithm", json!({"algorithmSettings": [{"name": "seed", "value": "x"}]}), "seed is \"x\""),
            ("/confirm", json!({"window": "long"}), "confirm.window is \"long\""),
            ("/objective/constraints/1", json!({"metric": "p95", "max": "1"}), ""),
        ] {
            if expected.is_empty() {
                continue;
            }
            let message = with(pointer, value);
            assert!(message.contains(expected), "{pointer}: {message}");
        }
    }
}

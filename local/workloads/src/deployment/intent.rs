//! A Deployment's spec with every default applied and every percentage turned into pods.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    RollingUpdate,
    Recreate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) replicas: i32,
    pub(crate) strategy: Strategy,
    /// Pods above `replicas` while rolling.
    pub(crate) max_surge: i32,
    /// Pods below `replicas` while rolling.
    pub(crate) max_unavailable: i32,
    pub(crate) paused: bool,
    /// `None` = no deadline.
    pub(crate) progress_deadline_seconds: Option<i32>,
    pub(crate) revision_history_limit: i32,
}

impl Intent {
    pub(crate) fn of(spec: &DeploymentSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let strategy = spec.strategy.clone().unwrap_or_default();
        let recreate = strategy.type_.as_deref() == Some("Recreate");
        let rolling = strategy.rolling_update.unwrap_or_default();
        let (max_surge, max_unavailable) = if recreate {
            (0, replicas)
        } else {
            fenceposts(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), replicas)
        };
        Self {
            replicas,
            strategy: if recreate { Strategy::Recreate } else { Strategy::RollingUpdate },
            max_surge,
            max_unavailable,
            paused: spec.paused.unwrap_or(false),
            progress_deadline_seconds: Some(spec.progress_deadline_seconds.unwrap_or(600)).filter(|s| *s != i32::MAX),
            revision_history_limit: spec.revision_history_limit.unwrap_or(10),
        }
    }

    /// Pods that may exist at once.
    pub(crate) fn max_total(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge)
    }

    /// Pods that must be available at any time.
    pub(crate) fn min_available(&self) -> i32 {
        self.replicas.saturating_sub(self.max_unavailable)
    }
}

/// Surge rounds up, unavailability rounds down; if both came out 0 nothing could ever move, so one pod may be missing.
fn fenceposts(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, replicas: i32) -> (i32, i32) {
    let surge = scaled(surge, replicas, true);
    let unavailable = scaled(unavailable, replicas, false).min(replicas);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

fn scaled(value: Option<&IntOrString>, replicas: i32, up: bool) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(count)) => return (*count).max(0),
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse::<u16>().unwrap_or(25),
        None => 25,
    };
    let hundredths = i64::from(replicas) * i64::from(percent);
    let pods = if up { (hundredths + 99) / 100 } else { hundredths / 100 };
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_in_kubernetes() {
        let percent = |p: &str| Some(IntOrString::String(p.to_owned()));
        let cases = [
            (None, None, 1, (1, 0)),
            (None, None, 4, (1, 1)),
            (None, None, 5, (2, 1)),
            (percent("0%"), percent("0%"), 3, (0, 1)),
            (Some(IntOrString::Int(0)), percent("10%"), 3, (0, 1)),
            (percent("100%"), Some(IntOrString::Int(0)), 3, (3, 0)),
            (Some(IntOrString::Int(2)), Some(IntOrString::Int(9)), 3, (2, 3)),
        ];
        for (surge, unavailable, replicas, expected) in cases {
            assert_eq!(fenceposts(surge.as_ref(), unavailable.as_ref(), replicas), expected);
        }
    }
}

//! What a pod's specification asks of the node, reduced to what decisions need.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::probe;

/// When containers start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// The part a container plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on running beside the main ones.
    Sidecar,
    Main,
}

/// The rules of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRules {
    pub name: String,
    pub role: Role,
    pub restart: RestartPolicy,
    pub has_startup_probe: bool,
    pub has_readiness_probe: bool,
}

impl ContainerRules {
    /// Whether it starts again after it ended with `exit_code`.
    pub fn restarts_after(&self, exit_code: i32) -> bool {
        match (self.role, self.restart) {
            (Role::Sidecar, _) | (Role::Main, RestartPolicy::Always) => true,
            (_, RestartPolicy::Never) => false,
            (Role::Init, _) | (Role::Main, RestartPolicy::OnFailure) => exit_code != 0,
        }
    }
}

/// The rules of one pod; init containers first, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRules {
    pub containers: Vec<ContainerRules>,
    pub restart: RestartPolicy,
    pub grace: Duration,
    pub deadline: Option<Duration>,
    pub owned_by_job: bool,
}

impl PodRules {
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let restart = match spec.and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let seconds = |value: i64| Duration::from_secs(u64::try_from(value).unwrap_or(0));
        let owners = pod.metadata.owner_references.iter().flatten();
        Self {
            containers: containers(pod).map(|(role, container)| container_rules(role, container, restart)).collect(),
            restart,
            grace: seconds(spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)),
            deadline: spec.and_then(|spec| spec.active_deadline_seconds).map(seconds),
            owned_by_job: owners.into_iter().any(|owner| owner.kind == "Job" && owner.controller == Some(true)),
        }
    }
}

fn container_rules(role: Role, container: &Container, restart: RestartPolicy) -> ContainerRules {
    ContainerRules {
        name: container.name.clone(),
        role,
        restart,
        has_startup_probe: container.startup_probe.is_some(),
        has_readiness_probe: container.readiness_probe.is_some()
            && probe::rule(container, probe::ProbeKind::Readiness).is_some(),
    }
}

/// All containers of a pod with their roles, in the order of [`PodRules::containers`].
pub fn containers(pod: &Pod) -> impl Iterator<Item = (Role, &Container)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let main = spec.map(|spec| &spec.containers).into_iter().flatten();
    init.map(|container| match container.restart_policy.as_deref() {
        Some("Always") => (Role::Sidecar, container),
        _ => (Role::Init, container),
    })
    .chain(main.map(|container| (Role::Main, container)))
}

//! What a container may use and what it asks for.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pod::downward::milli;
use crate::pod::rules::{Role, containers};

/// A limit in the unit of its resource, and in the words of whoever declared it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub declared: String,
    pub value: u64,
}

/// Limits and requests of one container, or of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu: Option<Limit>,
    /// Bytes.
    pub memory: Option<Limit>,
    /// Thousandths of a core; a limit without a request is one, as in Kubernetes.
    pub cpu_request: u64,
}

impl Resources {
    pub fn of(container: &Container) -> Self {
        let limit = |name: &str, unit: i128| {
            let declared = &container.resources.as_ref()?.limits.as_ref()?.get(name)?.0;
            let value = amount(declared, unit)?;
            (value > 0).then(|| Limit { declared: declared.clone(), value })
        };
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let request = requests.and_then(|requests| amount(&requests.get("cpu")?.0, 1));
        let cpu = limit("cpu", 1);
        let cpu_request = request.or(cpu.as_ref().map(|limit| limit.value)).unwrap_or(0);
        Self { memory: limit("memory", 1000), cpu, cpu_request }
    }

    /// What all containers of a pod ask for: the sum of those that run side by side, or the largest that runs before them.
    pub fn of_pod(pod: &Pod) -> Self {
        let requests = |init: bool| {
            containers(pod)
                .filter(move |(role, _)| (*role == Role::Init) == init)
                .map(|(_, container)| Self::of(container).cpu_request)
        };
        let side_by_side = requests(false).fold(0, u64::saturating_add);
        Self { cpu_request: side_by_side.max(requests(true).max().unwrap_or(0)), ..Self::default() }
    }
}

/// `quantity` in units of `unit` thousandths, rounded up; none when it is no amount.
fn amount(quantity: &str, unit: i128) -> Option<u64> {
    let thousandths = milli(quantity).filter(|amount| *amount >= 0)?;
    u64::try_from((thousandths + unit - 1) / unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn of(resources: &Value) -> Resources {
        Resources::of(&from_value(json!({"name": "a", "resources": resources})).unwrap())
    }

    #[test]
    fn reads_thousandths_of_cores_and_bytes() {
        let found = of(&json!({"limits": {"cpu": "1.5", "memory": "64Mi"}, "requests": {"cpu": "250m"}}));
        assert_eq!(found.cpu, Some(Limit { declared: "1.5".to_owned(), value: 1500 }));
        assert_eq!(found.memory.unwrap().value, 64 << 20);
        assert_eq!(found.cpu_request, 250);
        assert_eq!(of(&json!({"limits": {"cpu": "2"}})).cpu_request, 2000);
    }

    #[test]
    fn nothing_and_nonsense_limit_nothing() {
        for quantity in ["0", "-1", "x", "1e99"] {
            let found = of(&json!({"limits": {"cpu": quantity, "memory": quantity}}));
            assert_eq!((found.cpu, found.memory), (None, None), "{quantity}");
        }
        assert_eq!(of(&json!({})), Resources::default());
    }

    #[test]
    fn a_pod_asks_for_the_sum_or_for_its_largest_first_step() {
        let one = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let asks = |init: &str| {
            let spec = json!({"initContainers": [one("i", init)], "containers": [one("a", "1"), one("b", "500m")]});
            Resources::of_pod(&from_value(json!({"spec": spec})).unwrap()).cpu_request
        };
        assert_eq!((asks("1"), asks("4")), (1500, 4000));
    }
}

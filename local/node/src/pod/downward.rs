//! The downward API: what a pod may know about itself.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

/// What is known of the place where the pod runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub node: &'a str,
    pub address: Ipv4Addr,
    pub cores: u64,
    pub memory_bytes: u64,
}

/// The value of `path`, as `fieldRef` names it; `None` when this path is not supported.
pub fn field(pod: &Pod, place: &Place<'_>, path: &str) -> Option<String> {
    let metadata = &pod.metadata;
    Some(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(metadata.labels.as_ref()),
        "metadata.annotations" => lines(metadata.annotations.as_ref()),
        "spec.nodeName" => place.node.to_owned(),
        "spec.serviceAccountName" => {
            pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
        }
        "status.hostIP" | "status.hostIPs" => "127.0.0.1".to_owned(),
        "status.podIP" | "status.podIPs" => place.address.to_string(),
        _ => {
            let (map, key) = path.strip_suffix("']")?.split_once("['")?;
            let map = match map {
                "metadata.labels" => metadata.labels.as_ref(),
                "metadata.annotations" => metadata.annotations.as_ref(),
                _ => return None,
            };
            map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
        }
    })
}

fn lines(map: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}\n")).collect();
    lines.concat()
}

/// The value of a `resourceFieldRef`; a limit that is not set is what the node has.
pub fn resource(container: &Container, place: &Place<'_>, selector: &ResourceFieldSelector) -> Option<String> {
    let (kind, name) = selector.resource.split_once('.')?;
    let resources = container.resources.as_ref();
    let declared = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return None,
    }
    .and_then(|quantities| quantities.get(name));
    let of_node = match (kind, name) {
        ("limits", "cpu") => i128::from(place.cores) * MILLI,
        ("limits", "memory") => i128::from(place.memory_bytes) * MILLI,
        _ => 0,
    };
    let value = declared.map_or(Some(of_node), |quantity| milli(&quantity.0))?;
    let divisor = match selector.divisor.as_ref().map(|divisor| divisor.0.as_str()) {
        None | Some("" | "0") => MILLI,
        Some(divisor) => milli(divisor)?.max(1),
    };
    Some(((value + divisor - 1) / divisor).to_string())
}

const MILLI: i128 = 1000;

/// A quantity such as `500m`, `1.5Gi` or `2e3` in thousandths, rounded up.
pub fn milli(quantity: &str) -> Option<i128> {
    let end =
        quantity.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-' && c != '+').unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => {
            10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok().filter(|power: &i32| power.abs() <= 18)?)
        }
    };
    whole((number * factor * 1000.0).ceil())
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be far inside the range of i128")]
fn whole(value: f64) -> Option<i128> {
    (value.is_finite() && value.abs() < 1e30).then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLACE: Place<'_> =
        Place { node: "local", address: Ipv4Addr::new(127, 8, 0, 1), cores: 4, memory_bytes: 1 << 30 };

    #[test]
    fn knows_the_fields_of_kubernetes() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {
            "name": "p", "namespace": "n", "uid": "u", "labels": {"app.io/x": "1", "b": "say \"hi\""}
        }}))
        .unwrap();
        for (path, expected) in [
            ("metadata.name", Some("p")),
            ("metadata.labels['app.io/x']", Some("1")),
            ("metadata.annotations['none']", Some("")),
            ("metadata.labels", Some("app.io/x=\"1\"\nb=\"say \\\"hi\\\"\"\n")),
            ("status.podIP", Some("127.8.0.1")),
            ("spec.serviceAccountName", Some("default")),
            ("status.phase", None),
            ("metadata.labels['x", None),
        ] {
            assert_eq!(field(&pod, &PLACE, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn reads_quantities() {
        for (text, expected) in [
            ("500m", Some(500)),
            ("1.5", Some(1500)),
            ("1Ki", Some(1_024_000)),
            ("2e3", Some(2_000_000)),
            ("1n", Some(1)),
            ("x", None),
            ("", None),
            ("1Zi", None),
        ] {
            assert_eq!(milli(text), expected, "{text}");
        }
    }

    #[test]
    fn falls_back_to_what_the_node_has() {
        let container: Container =
            serde_json::from_value(json!({"name": "c", "resources": {"limits": {"cpu": "1500m"}}})).unwrap();
        let ask = |resource_name: &str, divisor: Option<&str>| {
            let selector = serde_json::from_value(json!({"resource": resource_name, "divisor": divisor})).unwrap();
            resource(&container, &PLACE, &selector)
        };
        assert_eq!(ask("limits.cpu", None).as_deref(), Some("2"));
        assert_eq!(ask("limits.cpu", Some("1m")).as_deref(), Some("1500"));
        assert_eq!(ask("limits.memory", Some("1Mi")).as_deref(), Some("1024"));
        assert_eq!(ask("requests.memory", None).as_deref(), Some("0"));
        assert_eq!(ask("nonsense", None), None);
    }
}

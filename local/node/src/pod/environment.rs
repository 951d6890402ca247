//! The environment of a container, in the order and with the rules of Kubernetes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, Pod, Secret, Service};

use super::downward::{self, Place};
use super::expand::expand;
use super::record::Reason;

/// `ConfigMaps` and `Secrets` by name; what does not exist is absent.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    pub config_maps: BTreeMap<String, ConfigMap>,
    pub secrets: BTreeMap<String, Secret>,
}

/// Names that a container's environment reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub config_maps: Vec<String>,
    pub secrets: Vec<String>,
}

/// Which objects the environment of `container` reads.
pub fn names(container: &Container) -> Names {
    let mut names = Names::default();
    for source in container.env_from.iter().flatten() {
        names.config_maps.extend(source.config_map_ref.as_ref().map(|reference| reference.name.clone()));
        names.secrets.extend(source.secret_ref.as_ref().map(|reference| reference.name.clone()));
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        names.config_maps.extend(source.config_map_key_ref.as_ref().map(|reference| reference.name.clone()));
        names.secrets.extend(source.secret_key_ref.as_ref().map(|reference| reference.name.clone()));
    }
    names
}

/// Variables in order of appearance; a later one replaces the value of an earlier one.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Environment {
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        if self.values.insert(name.clone(), value.into()).is_none() {
            self.order.push(name);
        }
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned()
    }

    pub fn into_pairs(mut self) -> Vec<(String, String)> {
        self.order.into_iter().filter_map(|name| self.values.remove(&name).map(|value| (name, value))).collect()
    }
}

/// Services first, then `envFrom`, then `env` with references expanded.
pub fn environment(
    pod: &Pod,
    container: &Container,
    place: &Place<'_>,
    objects: &Objects,
    services: &[Service],
    base: Environment,
) -> Result<Environment, Reason> {
    let mut environment = base;
    if pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true) {
        for service in services {
            add_service(&mut environment, service);
        }
    }
    add_env_from(&mut environment, container, objects)?;
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, container, place, objects, &environment, variable)? {
            environment.set(&variable.name, value);
        }
    }
    Ok(environment)
}

fn add_service(environment: &mut Environment, service: &Service) {
    let Some((name, spec)) = service.metadata.name.as_ref().zip(service.spec.as_ref()) else { return };
    let host = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None");
    let (Some(host), Some(first)) = (host, spec.ports.iter().flatten().next()) else { return };
    let prefix = variable_name(name);
    environment.set(format!("{prefix}_SERVICE_HOST"), host);
    environment.set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    environment.set(format!("{prefix}_PORT"), format!("tcp://{host}:{}", first.port));
    for port in spec.ports.iter().flatten() {
        if let Some(name) = &port.name {
            environment.set(format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string());
        }
    }
}

fn variable_name(name: &str) -> String {
    name.to_ascii_uppercase().replace(['-', '.'], "_")
}

fn add_env_from(environment: &mut Environment, container: &Container, objects: &Objects) -> Result<(), Reason> {
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let (found, optional, what) = if let Some(reference) = &source.config_map_ref {
            let data = objects.config_maps.get(&reference.name).map(|map| map.data.clone().unwrap_or_default());
            (data, reference.optional, format!("configmap {:?}", reference.name))
        } else if let Some(reference) = &source.secret_ref {
            let data = objects.secrets.get(&reference.name).map(text_of_secret);
            (data, reference.optional, format!("secret {:?}", reference.name))
        } else {
            continue;
        };
        match found {
            Some(data) => data.into_iter().for_each(|(key, value)| environment.set(format!("{prefix}{key}"), value)),
            None if optional == Some(true) => {}
            None => return Err(config_error(format!("{what} not found"))),
        }
    }
    Ok(())
}

fn text_of_secret(secret: &Secret) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))).collect()
}

fn value(
    pod: &Pod,
    container: &Container,
    place: &Place<'_>,
    objects: &Objects,
    so_far: &Environment,
    variable: &EnvVar,
) -> Result<Option<String>, Reason> {
    let Some(source) = &variable.value_from else {
        return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), |name| so_far.get(name))));
    };
    if let Some(reference) = &source.field_ref {
        return downward::field(pod, place, &reference.field_path).map(Some).ok_or_else(|| {
            config_error(format!("variable {}: fieldPath {:?} is not supported", variable.name, reference.field_path))
        });
    }
    if let Some(selector) = &source.resource_field_ref {
        let of = match &selector.container_name {
            Some(name) => super::rules::containers(pod).map(|(_, c)| c).find(|c| &c.name == name).unwrap_or(container),
            None => container,
        };
        return downward::resource(of, place, selector).map(Some).ok_or_else(|| {
            config_error(format!("variable {}: resource {:?} is not supported", variable.name, selector.resource))
        });
    }
    let (found, optional, what) = if let Some(reference) = &source.config_map_key_ref {
        let map = objects.config_maps.get(&reference.name).and_then(|map| map.data.as_ref());
        let value = map.and_then(|data| data.get(&reference.key)).cloned();
        (value, reference.optional, format!("key {:?} of configmap {:?}", reference.key, reference.name))
    } else if let Some(reference) = &source.secret_key_ref {
        let value =
            objects.secrets.get(&reference.name).and_then(|secret| text_of_secret(secret).remove(&reference.key));
        (value, reference.optional, format!("key {:?} of secret {:?}", reference.key, reference.name))
    } else {
        return Err(config_error(format!("variable {} has a valueFrom of an unknown kind", variable.name)));
    };
    match found {
        None if optional != Some(true) => Err(config_error(format!("variable {}: {what} not found", variable.name))),
        found => Ok(found),
    }
}

fn config_error(message: String) -> Reason {
    Reason::new("CreateContainerConfigError", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const PLACE: Place<'_> =
        Place { node: "local", address: std::net::Ipv4Addr::new(127, 8, 0, 1), cores: 4, memory_bytes: 1 << 30 };

    fn objects() -> Objects {
        let map =
            serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"k": "v", "x": "from-map"}})).unwrap();
        let secret = serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"p": "c2VjcmV0"}})).unwrap();
        Objects { config_maps: [("m".to_owned(), map)].into(), secrets: [("s".to_owned(), secret)].into() }
    }

    fn build(container: Value) -> Result<BTreeMap<String, String>, Reason> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        let container: Container = serde_json::from_value(container).unwrap();
        let service = serde_json::from_value(json!({"metadata": {"name": "my-svc"}, "spec": {
            "clusterIP": "127.8.128.1", "ports": [{"name": "http", "port": 80}]
        }}))
        .unwrap();
        environment(&pod, &container, &PLACE, &objects(), &[service], Environment::default())
            .map(|environment| environment.into_pairs().into_iter().collect())
    }

    #[test]
    fn later_sources_win_and_references_see_earlier_values() {
        let found = build(json!({"name": "c",
        "envFrom": [{"configMapRef": {"name": "m"}}, {"prefix": "S_", "secretRef": {"name": "s"}},
                    {"configMapRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "x", "value": "own"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "URL", "value": "http://$(POD_IP):$(MY_SVC_SERVICE_PORT_HTTP)/$(later)"},
            {"name": "later", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "absent", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": true}}}
        ]}))
        .unwrap();
        assert_eq!(found["x"], "own");
        assert_eq!(found["S_p"], "secret");
        assert_eq!(found["URL"], "http://127.8.0.1:80/$(later)");
        assert_eq!(found["MY_SVC_SERVICE_HOST"], "127.8.128.1");
        assert!(!found.contains_key("absent"));
    }

    #[test]
    fn names_what_is_missing() {
        for (source, expected) in [
            (json!({"configMapKeyRef": {"name": "m", "key": "no"}}), "configmap"),
            (json!({"secretKeyRef": {"name": "none", "key": "k"}}), "none"),
            (json!({"fieldRef": {"fieldPath": "spec.what"}}), "spec.what"),
        ] {
            let error = build(json!({"name": "c", "env": [{"name": "X", "valueFrom": source}]})).unwrap_err();
            assert_eq!(error.reason, "CreateContainerConfigError");
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }

    #[test]
    fn lists_the_objects_it_reads() {
        let container: Container = serde_json::from_value(json!({"name": "c",
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}))
        .unwrap();
        assert_eq!(names(&container), Names { config_maps: vec!["m".into()], secrets: vec!["s".into()] });
    }
}

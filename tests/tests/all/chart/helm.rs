//! Helm 4, built from its Go module.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// Where this is set, what is missing is a failure.
const REQUIRE: &str = "MODELWAY_REQUIRE_PEERS";
/// A Helm to use instead.
const HELM: &str = "MODELWAY_HELM";
/// Release and namespace of what tests render.
pub const RELEASE: &str = "mw";
pub const NAMESPACE: &str = "modelway-system";
/// The one value that an installation needs.
pub const MINIMAL: &str = "defaultRegistry=registry.example.com/models";

/// The chart's folder.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/modelway")
}

/// Helm; where it cannot be had, says why the test is skipped.
pub fn helm() -> Option<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(find) {
        Ok(path) => Some(path),
        Err(why) => {
            assert!(std::env::var_os(REQUIRE).is_none(), "{why}");
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(HELM) {
        return Ok(path.into());
    }
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster/build.sh");
    let output = Command::new(build).arg("helm").output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("no Helm: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("helm"))
}

/// What `helm template` makes of these values, or why it refuses them.
pub fn render(helm: &Path, values: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = Command::new(helm);
    command.args(["template", RELEASE]).arg(chart()).args(["--namespace", NAMESPACE]);
    // A Helm 3 that was built without its release's stamp takes the cluster for 1.20.
    command.args(["--kube-version", "1.37.0"]);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.output().unwrap();
    if !output.status.success() {
        return Err(words(&output));
    }
    let text = String::from_utf8(output.stdout).unwrap();
    Ok(serde_saphyr::from_multiple::<Value>(&text).unwrap().into_iter().filter(|object| !object.is_null()).collect())
}

/// What a program said.
pub fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Sets of values that together use every part of the chart.
pub const VARIANTS: [&[&str]; 4] = [
    &[MINIMAL],
    &[MINIMAL, "watchNamespaces={team-a,team-b}", "plainHttpRegistries={registry.example.com:80}"],
    &["registry.enabled=true", "replicas=1", "imagePullSecrets={pull}", "releaseHook.enabled=false"],
    &[
        MINIMAL,
        "crds.enabled=false",
        "registry.enabled=true",
        "metrics.serviceMonitor.enabled=true",
        "metrics.rules.enabled=true",
        "metrics.dashboards.enabled=true",
        "networkPolicy.enabled=true",
        "allowedHostPaths={/data/models}",
        "serviceAccount.annotations.example\\.com/role=reader",
        "controller.podAnnotations.example\\.com/note=text",
        "controller.priorityClassName=system-cluster-critical",
        "registry.storage.className=fast",
    ],
];

/// Every variant, rendered.
pub fn variants(helm: &Path) -> Vec<Vec<Value>> {
    VARIANTS.iter().map(|values| render(helm, values).unwrap()).collect()
}

/// `kind/name` for messages.
pub fn named(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// Elements of a list, none when it is absent.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

//! Probes: when to look, and what a row of results means.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which question a probe answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

impl ProbeKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// How a probe looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeAction {
    Http {
        host: Option<String>,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
        tls: bool,
    },
    Tcp {
        host: Option<String>,
        port: u16,
    },
    Exec {
        command: Vec<String>,
    },
    /// Nothing to ask: only the listeners of the declared ports are watched.
    Listeners {
        ports: Vec<u16>,
    },
    /// Kinds that this node cannot run; the probe fails with the reason.
    Unsupported {
        why: String,
    },
}

/// One probe of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRule {
    pub kind: ProbeKind,
    pub action: ProbeAction,
    pub initial_delay: Duration,
    pub period: Duration,
    pub timeout: Duration,
    pub failure_threshold: u32,
    pub success_threshold: u32,
}

/// The probe `kind` of a container, if it has one.
pub fn rule(container: &Container, kind: ProbeKind) -> Option<ProbeRule> {
    let probe = match kind {
        ProbeKind::Startup => container.startup_probe.as_ref(),
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
    }?;
    let seconds = |value: Option<i32>, least: u64, default: u64| {
        Duration::from_secs(value.map_or(default, |value| u64::try_from(value).unwrap_or(0)).max(least))
    };
    let count = |value: Option<i32>, default: u32| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default).max(1);
    Some(ProbeRule {
        kind,
        action: action(container, probe),
        initial_delay: seconds(probe.initial_delay_seconds, 0, 0),
        period: seconds(probe.period_seconds, 1, 10),
        timeout: seconds(probe.timeout_seconds, 1, 1),
        failure_threshold: count(probe.failure_threshold, 3),
        success_threshold: if kind == ProbeKind::Readiness { count(probe.success_threshold, 1) } else { 1 },
    })
}

fn action(container: &Container, probe: &Probe) -> ProbeAction {
    let unknown = |port: &IntOrString| ProbeAction::Unsupported {
        why: format!("port {} is neither a number from 1 to 65535 nor the name of a declared port", display(port)),
    };
    if let Some(http) = &probe.http_get {
        let Some(port) = port(container, &http.port) else { return unknown(&http.port) };
        let headers = http.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect();
        let path = http.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        let tls = http.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        return ProbeAction::Http { host: http.host.clone().filter(|h| !h.is_empty()), port, path, headers, tls };
    }
    if let Some(tcp) = &probe.tcp_socket {
        let Some(port) = port(container, &tcp.port) else { return unknown(&tcp.port) };
        return ProbeAction::Tcp { host: tcp.host.clone().filter(|h| !h.is_empty()), port };
    }
    if let Some(exec) = &probe.exec {
        return ProbeAction::Exec { command: exec.command.clone().unwrap_or_default() };
    }
    ProbeAction::Unsupported { why: "this node runs httpGet, tcpSocket and exec probes, not grpc".to_owned() }
}

fn display(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => format!("{name:?}"),
    }
}

fn port(container: &Container, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|declared| declared.name.as_deref() == Some(name))
            .map(|declared| declared.container_port)
            .or_else(|| name.parse().ok()),
    }?;
    u16::try_from(number).ok().filter(|number| *number > 0)
}

/// TCP ports that a container declares.
pub fn declared_ports(container: &Container) -> Vec<u16> {
    container
        .ports
        .iter()
        .flatten()
        .filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"))
        .filter_map(|port| u16::try_from(port.container_port).ok())
        .collect()
}

/// What a row of results has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Unknown,
    Passing,
    Failing,
}

/// Counts results in a row against the thresholds.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    successes: u32,
    failures: u32,
    verdict: Verdict,
}

impl Default for Tally {
    fn default() -> Self {
        Self { successes: 0, failures: 0, verdict: Verdict::Unknown }
    }
}

impl Tally {
    /// Takes a result in; returns the verdict after it.
    pub fn add(&mut self, rule: &ProbeRule, success: bool) -> Verdict {
        if success {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
        }
        if self.successes >= rule.success_threshold {
            self.verdict = Verdict::Passing;
        } else if self.failures >= rule.failure_threshold {
            self.verdict = Verdict::Failing;
        }
        self.verdict
    }

    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// Looks that cost nothing are tried this often right after the start, so that a ready server is seen at once.
pub const QUICK_PERIOD: Duration = Duration::from_millis(100);
/// How long the quick looks go on.
pub const QUICK_TIME: Duration = Duration::from_secs(10);

/// When the next look is due, and whether its failure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub after: Duration,
    pub counts: bool,
}

/// The next look of a probe: `ran` is how long the container runs, `counted` when the last counted look was.
/// Until the first success, readiness and startup look quickly in between; only looks at the probe's own period count as failures.
pub fn next_look(rule: &ProbeRule, verdict: Verdict, ran: Duration, looked: bool, counted: Option<Duration>) -> Look {
    let quick = rule.kind != ProbeKind::Liveness
        && verdict != Verdict::Passing
        && !matches!(rule.action, ProbeAction::Exec { .. } | ProbeAction::Unsupported { .. })
        && ran < rule.initial_delay + QUICK_TIME;
    let first = if quick { rule.initial_delay + rule.period } else { rule.initial_delay };
    let after = counted.map_or(first, |last| last + rule.period).saturating_sub(ran);
    let soon = if looked { QUICK_PERIOD } else { rule.initial_delay.saturating_sub(ran) };
    if quick && after > soon {
        return Look { after: soon, counts: false };
    }
    Look { after, counts: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Failing, Passing, Unknown};
    use serde_json::json;

    fn container() -> Container {
        serde_json::from_value(json!({
            "name": "c", "ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
            "readinessProbe": {"httpGet": {"port": "web", "path": "ready"}, "failureThreshold": 2, "successThreshold": 2},
            "livenessProbe": {"tcpSocket": {"port": 99999}, "successThreshold": 1},
            "startupProbe": {"grpc": {"port": 1}}
        }))
        .unwrap()
    }

    #[test]
    fn reads_rules_with_the_defaults_of_kubernetes() {
        let readiness = rule(&container(), ProbeKind::Readiness).unwrap();
        assert_eq!((readiness.period, readiness.timeout), (Duration::from_secs(10), Duration::from_secs(1)));
        assert!(matches!(readiness.action, ProbeAction::Http { port: 8080, ref path, .. } if path == "/ready"));
        let liveness = rule(&container(), ProbeKind::Liveness).unwrap();
        assert!(matches!(liveness.action, ProbeAction::Unsupported { .. }));
        assert_eq!(liveness.failure_threshold, 3);
        assert!(matches!(rule(&container(), ProbeKind::Startup).unwrap().action, ProbeAction::Unsupported { .. }));
        assert_eq!(declared_ports(&container()), [8080]);
    }

    #[test]
    fn changes_its_verdict_only_at_the_thresholds() {
        let rule = rule(&container(), ProbeKind::Readiness).unwrap();
        let mut tally = Tally::default();
        let results = [true, true, false, true, false, false, true, true];
        let verdicts: Vec<Verdict> = results.iter().map(|result| tally.add(&rule, *result)).collect();
        assert_eq!(verdicts, [Unknown, Passing, Passing, Passing, Passing, Failing, Failing, Passing]);
    }

    #[test]
    fn looks_quickly_until_ready_without_counting_failures() {
        let rule = rule(&container(), ProbeKind::Readiness).unwrap();
        let ms = Duration::from_millis;
        let next = |verdict, ran, looked, counted| next_look(&rule, verdict, ran, looked, counted);
        assert_eq!(next(Verdict::Unknown, ms(0), false, None), Look { after: ms(0), counts: false });
        assert_eq!(next(Verdict::Unknown, ms(5), true, None), Look { after: ms(100), counts: false });
        assert_eq!(next(Verdict::Unknown, ms(9_950), true, None), Look { after: ms(50), counts: true });
        assert_eq!(next(Verdict::Passing, ms(5), true, Some(ms(0))), Look { after: ms(9_995), counts: true });
        assert_eq!(next(Verdict::Unknown, ms(60_000), true, Some(ms(55_000))).after, ms(5_000));
    }

    #[test]
    fn waits_for_the_initial_delay() {
        let mut rule = rule(&container(), ProbeKind::Readiness).unwrap();
        rule.initial_delay = Duration::from_secs(5);
        let look = next_look(&rule, Verdict::Unknown, Duration::ZERO, false, None);
        assert_eq!(look, Look { after: Duration::from_secs(5), counts: false });
    }
}

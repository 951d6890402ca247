//! Why an API server refuses an object: quota, limits, Pod Security, permissions tell themselves apart by their words.

use modelway_api::Reason;

/// The reason behind a refusal, from its message.
///
/// The words are those of Kubernetes' admission plugins `ResourceQuota`, `LimitRanger` and `PodSecurity`, and of its
/// authoriser; a server has no field for them.
pub fn reason(message: &str) -> Reason {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["exceeded quota", "failed quota"]) {
        Reason::QuotaExceeded
    } else if says(&["violates PodSecurity"]) {
        Reason::PodSecurityViolated
    } else if says(&[
        " usage per Container is ",
        " usage per Pod is ",
        " ratio per Container is ",
        " ratio per Pod is ",
    ]) {
        Reason::LimitRangeViolated
    } else if message.contains(" cannot ") && message.contains(" resource ") {
        Reason::AccessDenied
    } else {
        Reason::ChildRejected
    }
}

/// What helps, where that is the same for every refusal of the kind.
pub fn advice(reason: Reason) -> &'static str {
    match reason {
        Reason::QuotaExceeded => "; raise the ResourceQuota, or ask for fewer or smaller pods",
        Reason::LimitRangeViolated => "; set resources within the LimitRange",
        Reason::PodSecurityViolated => "; set the securityContext that the namespace's level asks for",
        Reason::AccessDenied => "; grant it to the controller's ServiceAccount (see the chart's roles)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_server_tell_the_reason() {
        for (message, expected) in [
            (
                "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
                Reason::QuotaExceeded,
            ),
            ("pods \"a\" is forbidden: failed quota: q: must specify limits.cpu for: s", Reason::QuotaExceeded),
            (
                "pods \"a\" is forbidden: maximum cpu usage per Container is 500m, but limit is 1",
                Reason::LimitRangeViolated,
            ),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
                Reason::PodSecurityViolated,
            ),
            (
                "services is forbidden: User \"system:serviceaccount:m:c\" cannot create resource \"services\" in API group \"\" in the namespace \"t\"",
                Reason::AccessDenied,
            ),
            ("Deployment.apps \"a\" is invalid: spec: Required value", Reason::ChildRejected),
        ] {
            assert_eq!(reason(message), expected, "{message}");
        }
    }
}

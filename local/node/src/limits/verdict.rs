//! What is enforced for the containers of a pod, and how its status says so.

use crate::pod::record::Reason;

use super::files::Version;
use super::resources::Limit;

/// Type of the condition that pods with limits carry.
pub const LIMITS_ENFORCED: &str = "modelway.io/LimitsEnforced";

/// By what a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    CgroupV2,
    CgroupV1,
    /// Whole cores.
    Affinity,
    /// The private memory of each process.
    Rlimit,
    None,
}

impl From<Version> for Means {
    fn from(version: Version) -> Self {
        match version {
            Version::V1 => Self::CgroupV1,
            Version::V2 => Self::CgroupV2,
        }
    }
}

/// One limit of a container: by what it holds, in a word and in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub means: Means,
    pub text: String,
}

impl Verdict {
    pub fn group(version: Version, resource: &str, limit: &Limit) -> Self {
        let number = match version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        Self { means: version.into(), text: format!("{resource} {} by cgroup v{number}", limit.declared) }
    }

    pub fn affinity(limit: &Limit, cores: &[usize]) -> Self {
        let text = format!("cpu {} as {} whole {} ({})", limit.declared, cores.len(), noun(cores), list(cores));
        Self { means: Means::Affinity, text }
    }

    /// Cores that another pod does not have.
    pub fn share(word: &str, cores: &[usize]) -> Self {
        Self { means: Means::Affinity, text: format!("on {} {} ({word})", noun(cores), list(cores)) }
    }

    pub fn no_share(word: &str) -> Self {
        Self { means: Means::None, text: format!("cores {word} not enforced") }
    }

    pub fn rlimit(limit: &Limit) -> Self {
        Self { means: Means::Rlimit, text: format!("memory {} for each process by RLIMIT_DATA", limit.declared) }
    }

    pub fn none(resource: &str, limit: &Limit) -> Self {
        Self { means: Means::None, text: format!("{resource} {} not enforced", limit.declared) }
    }
}

fn noun(cores: &[usize]) -> &'static str {
    if cores.len() == 1 { "core" } else { "cores" }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What holds for one container; none where nothing is limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enforced {
    pub cpu: Option<Verdict>,
    pub memory: Option<Verdict>,
    /// The cores that the pod asked to have for itself.
    pub share: Option<Verdict>,
}

impl Enforced {
    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.cpu.iter().chain(&self.memory).chain(&self.share)
    }

    /// Those that give the condition its word: cores alone do where nothing is limited.
    fn means(&self) -> Vec<Means> {
        let limits: Vec<Means> = self.cpu.iter().chain(&self.memory).map(|verdict| verdict.means).collect();
        if limits.is_empty() { self.share.iter().map(|verdict| verdict.means).collect() } else { limits }
    }

    /// What to say of a container that failed while each of its processes had a memory limit of its own.
    pub fn hint(&self) -> Option<String> {
        let verdict = self.memory.as_ref().filter(|verdict| verdict.means == Means::Rlimit)?;
        Some(format!("hint: a limit was in force ({}): an allocation beyond it fails", verdict.text))
    }
}

/// Whether every limit of the pod is enforced, and by what; none where it has no limits.
pub fn condition<'a>(containers: impl IntoIterator<Item = (&'a str, &'a Enforced)>) -> Option<(bool, Reason)> {
    let limited: Vec<(&str, &Enforced)> =
        containers.into_iter().filter(|(_, enforced)| enforced.verdicts().next().is_some()).collect();
    let means: Vec<Means> = limited.iter().flat_map(|(_, enforced)| enforced.means()).collect();
    let holds = limited.iter().all(|(_, enforced)| enforced.verdicts().all(|one| one.means != Means::None));
    let message: Vec<String> = limited
        .iter()
        .map(|(name, enforced)| {
            let texts: Vec<&str> = enforced.verdicts().map(|verdict| verdict.text.as_str()).collect();
            format!("{name}: {}", texts.join(", "))
        })
        .collect();
    Some((holds, Reason::new(word(&means)?, message.join("; "))))
}

/// One word for all of them; none for none.
fn word(means: &[Means]) -> Option<&'static str> {
    let only = |allowed: &[Means]| means.iter().all(|one| allowed.contains(one));
    Some(match means.first()? {
        Means::CgroupV2 if only(&[Means::CgroupV2]) => "CgroupV2",
        Means::CgroupV1 if only(&[Means::CgroupV1]) => "CgroupV1",
        Means::Rlimit if only(&[Means::Rlimit]) => "Rlimit",
        Means::Affinity | Means::Rlimit if only(&[Means::Affinity, Means::Rlimit]) => "Affinity",
        Means::None if only(&[Means::None]) => "None",
        _ => "Mixed",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(declared: &str) -> Limit {
        Limit { declared: declared.to_owned(), value: 1 }
    }

    #[test]
    fn says_by_what_each_limit_holds() {
        let a = Enforced {
            cpu: Some(Verdict::affinity(&limit("200m"), &[1])),
            memory: Some(Verdict::rlimit(&limit("64Mi"))),
            share: None,
        };
        let (holds, why) = condition([("a", &a), ("free", &Enforced::default())]).unwrap();
        assert_eq!((holds, why.reason.as_str()), (true, "Affinity"));
        assert_eq!(why.message, "a: cpu 200m as 1 whole core (1), memory 64Mi for each process by RLIMIT_DATA");
        let b = Enforced { cpu: Some(Verdict::group(Version::V1, "cpu", &limit("2"))), ..Enforced::default() };
        let (_, why) = condition([("b", &b)]).unwrap();
        assert_eq!((why.reason.as_str(), why.message.as_str()), ("CgroupV1", "b: cpu 2 by cgroup v1"));
        assert_eq!(condition([("a", &a), ("b", &b)]).unwrap().1.reason, "Mixed");
    }

    #[test]
    fn what_is_not_enforced_is_said() {
        let none = Enforced { cpu: Some(Verdict::none("cpu", &limit("2"))), ..Enforced::default() };
        let (holds, why) = condition([("a", &none)]).unwrap();
        assert_eq!((holds, why.reason.as_str(), why.message.as_str()), (false, "None", "a: cpu 2 not enforced"));
        let half = Enforced { memory: Some(Verdict::rlimit(&limit("1Gi"))), ..none };
        assert_eq!(
            condition([("a", &half)]).map(|(holds, why)| (holds, why.reason)),
            Some((false, "Mixed".to_owned()))
        );
        assert_eq!(condition([("a", &Enforced::default())]), None);
    }

    #[test]
    fn cores_that_were_asked_for_are_said_beside_the_limits() {
        let alone = Enforced { share: Some(Verdict::share("last", &[3])), ..Enforced::default() };
        let (holds, why) = condition([("a", &alone)]).unwrap();
        assert_eq!((holds, why.reason.as_str(), why.message.as_str()), (true, "Affinity", "a: on core 3 (last)"));
        let limited = Enforced { memory: Some(Verdict::group(Version::V2, "memory", &limit("1Gi"))), ..alone };
        let (_, why) = condition([("a", &limited)]).unwrap();
        assert_eq!(why.reason, "CgroupV2");
        assert_eq!(why.message, "a: memory 1Gi by cgroup v2, on core 3 (last)");
        let refused = Enforced { share: Some(Verdict::no_share("last")), ..Enforced::default() };
        assert_eq!(condition([("a", &refused)]).map(|(holds, _)| holds), Some(false));
    }
}

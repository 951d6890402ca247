//! Pods of an earlier life of the platform: what their files still tell.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

use super::outcome::Outcome;
use super::record::{ContainerRecord, ContainerState, PodRecord, Reason, Termination};
use super::rules::{ContainerRules, PodRules, RestartPolicy, Role};
use crate::layout::{EXIT_FILE, Layout};
use crate::shim::ExitRecord;

/// What is known of the latest run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    pub number: u32,
    pub termination: Termination,
    /// It did not end by itself.
    pub lost: bool,
}

/// Reads the latest runs of all containers, in the order of the rules. A run without a record of its end gets one.
pub fn last_runs(layout: &Layout, uid: &str, rules: &PodRules, now: Timestamp) -> Vec<Option<LastRun>> {
    rules.containers.iter().map(|rules| last_run(layout, uid, &rules.name, now)).collect()
}

fn last_run(layout: &Layout, uid: &str, container: &str, now: Timestamp) -> Option<LastRun> {
    let runs = std::fs::read_dir(layout.runs(uid, container)).ok()?;
    let number: u32 = runs.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max()?;
    let folder = layout.run(uid, container, number);
    let exit_file = folder.join(EXIT_FILE);
    let record = ExitRecord::read(&exit_file).unwrap_or_else(|_| {
        let lost = ExitRecord::lost(now, now);
        let _ = lost.write(&exit_file);
        lost
    });
    let lost = record.platform_lost;
    let message = if lost { Some("the platform ended while the container ran".to_owned()) } else { None };
    let reason = if lost { "PlatformEnded" } else { reason_of(&record) };
    let termination = Termination { reason: reason.to_owned(), message, ..termination(&record, now) };
    Some(LastRun { number, termination, lost })
}

/// A record as it is shown, without a message.
pub fn termination(record: &ExitRecord, now: Timestamp) -> Termination {
    let finished_at = record.finished().unwrap_or(now);
    Termination {
        exit_code: record.exit_code,
        signal: record.signal,
        reason: reason_of(record).to_owned(),
        message: None,
        started_at: record.started().unwrap_or(finished_at),
        finished_at,
    }
}

fn reason_of(record: &ExitRecord) -> &'static str {
    match record {
        record if record.start_error.is_some() => "StartError",
        record if record.exit_code == 0 => "Completed",
        record if record.oom_killed => "OOMKilled",
        _ => "Error",
    }
}

/// The record to go on with. Pods that run for ever start again; a Job's pod whose work was cut off fails as disrupted, so that
/// the Job makes a new one without counting it against its limit.
pub fn resume(pod: &Pod, rules: &PodRules, runs: Vec<Option<LastRun>>, now: Timestamp) -> PodRecord {
    let since = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(now, |time| time.0);
    let mut record = PodRecord::new(rules, since);
    let cut_off = runs.iter().flatten().any(|run| run.lost);
    record.containers =
        rules.containers.iter().zip(runs).map(|(rules, run)| resume_one(rules, run, cut_off, now)).collect();
    record.outcome = settled(pod);
    let ends_once =
        rules.restart == RestartPolicy::Never || (rules.restart == RestartPolicy::OnFailure && rules.owned_by_job);
    if record.outcome.is_none() && cut_off && ends_once {
        let message = "the platform ended while the pod ran";
        record.outcome = Some(Outcome::Failed { why: Some(Reason::new("PlatformEnded", message)), disrupted: true });
        for container in &mut record.containers {
            container.done = true;
        }
    }
    record
}

/// The outcome that the API shows already.
fn settled(pod: &Pod) -> Option<Outcome> {
    let status = pod.status.as_ref()?;
    match status.phase.as_deref()? {
        "Succeeded" => Some(Outcome::Succeeded),
        "Failed" => {
            let why =
                status.reason.clone().map(|reason| Reason::new(reason, status.message.clone().unwrap_or_default()));
            let disrupted = status.conditions.iter().flatten().any(|condition| condition.type_ == "DisruptionTarget");
            Some(Outcome::Failed { why, disrupted })
        }
        _ => None,
    }
}

/// Init containers that completed stay completed only when nothing was cut off: volumes are kept, but sidecars are gone.
fn resume_one(rules: &ContainerRules, run: Option<LastRun>, cut_off: bool, now: Timestamp) -> ContainerRecord {
    let Some(run) = run else { return ContainerRecord::default() };
    let runs = run.number.saturating_add(1);
    let ended = !run.lost && !rules.restarts_after(run.termination.exit_code);
    if ended && (rules.role != Role::Init || run.termination.exit_code != 0 || !cut_off) {
        return ContainerRecord {
            state: ContainerState::Terminated(run.termination),
            runs,
            done: true,
            ..ContainerRecord::default()
        };
    }
    let state = ContainerState::Terminated(run.termination);
    ContainerRecord { state, runs, not_before: Some(now), ..ContainerRecord::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(policy: &str, by_job: bool) -> Pod {
        let owners = if by_job {
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}])
        } else {
            json!([])
        };
        serde_json::from_value(json!({
            "metadata": {"name": "p", "ownerReferences": owners},
            "spec": {"restartPolicy": policy, "containers": [{"name": "a"}]}
        }))
        .unwrap()
    }

    fn run(lost: bool, exit_code: i32) -> LastRun {
        let now = Timestamp::UNIX_EPOCH;
        let record = ExitRecord { exit_code, platform_lost: lost, ..ExitRecord::lost(now, now) };
        LastRun { number: 2, termination: termination(&record, now), lost }
    }

    fn resumed(pod: &Pod, run: Option<LastRun>) -> PodRecord {
        resume(pod, &PodRules::of(pod), vec![run], Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_cut_off_job_pod_fails_as_disrupted() {
        for policy in ["Never", "OnFailure"] {
            let record = resumed(&pod(policy, true), Some(run(true, 137)));
            assert!(matches!(record.outcome, Some(Outcome::Failed { disrupted: true, .. })), "{policy}");
        }
    }

    #[test]
    fn a_cut_off_server_starts_again_and_counts_it() {
        let record = resumed(&pod("Always", false), Some(run(true, 137)));
        assert_eq!(record.outcome, None);
        assert_eq!((record.containers[0].runs, record.containers[0].done), (3, false));
    }

    #[test]
    fn work_that_had_ended_is_not_done_twice() {
        let record = resumed(&pod("Never", true), Some(run(false, 0)));
        assert_eq!(record.outcome, None);
        assert!(record.containers[0].succeeded());
    }

    #[test]
    fn a_pod_that_never_ran_starts_as_new() {
        let record = resumed(&pod("Never", true), None);
        assert_eq!((record.outcome, record.containers[0].runs), (None, 0));
    }

    #[test]
    fn finds_the_latest_run_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        for number in [0, 9, 10] {
            std::fs::create_dir_all(layout.run("u", "a", number)).unwrap();
        }
        let rules = PodRules::of(&pod("Always", false));
        let found = last_runs(&layout, "u", &rules, Timestamp::UNIX_EPOCH).remove(0).unwrap();
        assert_eq!((found.number, found.lost), (10, true));
        assert!(layout.run("u", "a", 10).join(EXIT_FILE).exists());
    }
}

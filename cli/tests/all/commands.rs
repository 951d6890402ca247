//! `apply`, `get`, `delete`, `logs`, `status`, `down` on a running platform.

use crate::harness::{Scratch, eventually, text};

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: hello}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {modelway.io/run-as-process: "true"}}
    spec:
      restartPolicy: Never
      containers:
        - {name: say, image: busybox, command: [sh, -c, "echo hello from the job"]}
"#;

#[test]
fn objects_are_applied_shown_logged_and_deleted() {
    let scratch = Scratch::new();
    let _platform = scratch.up();
    let file = scratch.data().join("job.yaml");
    std::fs::write(&file, JOB).unwrap();
    let file = file.to_string_lossy().into_owned();
    let says = |arguments: &[&str]| {
        let output = scratch.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(says(&["apply", "-f", &file, "--dry-run"]), "job.batch/hello created (dry run)\n");
    assert_eq!(says(&["apply", "-f", &file]), "job.batch/hello created\n");
    assert_eq!(says(&["apply", "-f", &file]), "job.batch/hello unchanged\n");
    eventually("the job completes", || {
        let table = says(&["get", "jobs"]);
        if table.contains("Complete") { Ok(()) } else { Err(table) }
    });
    assert_eq!(says(&["logs", "job/hello"]), "hello from the job\n");
    assert!(says(&["get", "job", "hello", "-o", "yaml"]).contains("kind: Job"));
    assert_eq!(says(&["get", "jobs", "-o", "name"]), "job.batch/hello\n");
    assert_eq!(says(&["delete", "job", "hello"]), "job.batch/hello deleted\n");
    assert!(says(&["get", "jobs"]).contains("No jobs"));
    assert!(says(&["status"]).contains("ready, process"));
    assert!(says(&["down", "--purge"]).contains("stopped"));
    assert!(!scratch.data().exists());
    assert_eq!(scratch.leftovers(), Vec::<String>::new());
}

#[test]
fn mistakes_get_a_hint_and_their_exit_code() {
    let scratch = Scratch::new();
    let _platform = scratch.up();
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = scratch.run(arguments);
        let all = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {all}");
        assert!(all.contains(part), "{arguments:?}: {all}\nlacks {part:?}");
    };
    refused(&["get", "inferense"], 2, "did you mean \"inference\"");
    refused(&["get", "job", "missing"], 4, "job.batch/missing not found");
    refused(&["delete", "job", "missing"], 4, "not found");
    refused(&["logs", "job/missing"], 4, "has no pod");
    refused(&["apply", "-f", "/no/such/file.yaml"], 1, "/no/such/file.yaml");
    let bad = scratch.data().join("bad.yaml");
    std::fs::write(&bad, JOB.replace("backoffLimit: 0", "backoffLimit: many")).unwrap();
    refused(&["apply", "-f", &bad.to_string_lossy()], 4, "backoffLimit");
    std::fs::write(&bad, JOB.replace("kind: Job", "kind: Jobb")).unwrap();
    refused(&["apply", "-f", &bad.to_string_lossy()], 4, "no kind Jobb");
    std::fs::write(&bad, "a: [").unwrap();
    refused(&["apply", "-f", &bad.to_string_lossy()], 2, "is not YAML");
}

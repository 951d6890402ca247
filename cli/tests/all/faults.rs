//! What can be wrong around the platform: each has its message.

use std::net::TcpListener;

use crate::harness::{Scratch, eventually, text};

#[test]
fn a_taken_port_is_named_with_its_flag() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = scratch.run(&["up", "--api-port", &port, "--registry-port", "0"]);
    let all = text(&output);
    assert_eq!(output.status.code(), Some(1), "{all}");
    for part in [port.as_str(), "--api-port", &format!("process {}", std::process::id())] {
        assert!(all.contains(part), "{all}\nlacks {part:?}");
    }
}

#[test]
fn a_data_folder_of_a_newer_release_is_left_alone() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.data()).unwrap();
    std::fs::write(scratch.data().join("format.json"), r#"{"format": 99, "modelway": "9.9.9"}"#).unwrap();
    for command in ["up", "quickstart"] {
        let output = scratch.run(&[command]);
        let all = text(&output);
        assert_eq!(output.status.code(), Some(1), "{all}");
        assert!(all.contains("9.9.9") && all.contains("--data-dir"), "{all}");
    }
    std::fs::remove_file(scratch.data().join("format.json")).unwrap();
}

#[test]
fn a_second_platform_on_the_same_folder_is_refused_by_name() {
    let scratch = Scratch::new();
    let platform = scratch.up();
    let output = scratch.run(&["up"]);
    let all = text(&output);
    assert_eq!(output.status.code(), Some(1), "{all}");
    assert!(all.contains("already runs") && all.contains("modelway down"), "{all}");
    drop(platform);
}

#[test]
fn without_a_platform_commands_say_how_to_start_one() {
    let scratch = Scratch::new();
    for arguments in [&["get", "pods"][..], &["status"], &["logs", "x"]] {
        let output = scratch.run(arguments);
        let all = text(&output);
        assert_eq!(output.status.code(), Some(5), "{all}");
        assert!(all.contains("modelway up"), "{all}");
    }
}

#[test]
fn images_are_found_after_the_registry_got_another_port() {
    let scratch = Scratch::new();
    let quickstart = ["quickstart", "--first-answer", "--output", "json", "--api-port", "0", "--registry-port", "0"];
    let output = scratch.run(&quickstart);
    assert!(output.status.success(), "{}", text(&output));
    // Nothing cached: the servers' images must be pulled again.
    std::fs::remove_dir_all(scratch.data().join("images")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let platform = scratch.up_with(&["--registry-port", &free.to_string()]);
    // The stored status still says ready: what counts are running servers.
    eventually("both servers run", || {
        let running = scratch.leftovers();
        let servers = running.iter().filter(|line| line.contains("runtime onnx")).count();
        if servers >= 2 { Ok(()) } else { Err(format!("{running:#?}")) }
    });
    assert!(scratch.data().join("images").exists());
    drop(platform);
}

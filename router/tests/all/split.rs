//! The split through real sockets.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::{Endpoint, TestRouter, client, infer, send, table};

const USERS: u64 = 4_000;

async fn arms_of_users(router: &TestRouter) -> HashMap<u64, String> {
    let client = Arc::new(client());
    let mut tasks = Vec::new();
    for worker in 0..16 {
        let (client, address) = (client.clone(), router.address);
        tasks.push(tokio::spawn(async move {
            let mut arms = Vec::new();
            for user in (worker..USERS).step_by(16) {
                let (status, arm) = send(&client, infer(address, user)).await.unwrap();
                assert_eq!(status, 200);
                arms.push((user, arm));
            }
            arms
        }));
    }
    let mut arms = HashMap::new();
    for task in tasks {
        arms.extend(task.await.unwrap());
    }
    arms
}

fn share(arms: &HashMap<u64, String>, arm: &str) -> f64 {
    arms.values().filter(|found| *found == arm).count() as f64 / USERS as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_stay_on_their_arm_and_move_only_into_the_growing_one() {
    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let weights = |generation, light| table(generation, &[("v1", 90, &[v1.address]), ("v2", light, &[v2.address])]);
    let router = TestRouter::start(&weights(1, 10)).await;

    let first = arms_of_users(&router).await;
    // Five standard deviations of a binomial share; the key and the users are fixed, so the outcome is too.
    let bound = 5.0 * (0.1 * 0.9 / USERS as f64).sqrt();
    assert!((share(&first, "v2") - 0.1).abs() < bound, "{}", share(&first, "v2"));
    assert_eq!(first, arms_of_users(&router).await, "the same users, the same arms");

    router.put(&weights(2, 90)).await;
    let second = arms_of_users(&router).await;
    let bound = 5.0 * (0.25 / USERS as f64).sqrt();
    assert!((share(&second, "v2") - 0.5).abs() < bound, "{}", share(&second, "v2"));
    let moved = first.iter().filter(|(user, arm)| second[user] != **arm);
    assert!(moved.clone().all(|(user, _)| second[user] == "v2"));
    assert!(moved.count() > 1_000);
}

#[tokio::test]
async fn requests_without_a_user_are_split_one_by_one() {
    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address]), ("v2", 1, &[v2.address])])).await;
    let client = client();
    let mut first = 0;
    for _ in 0..200 {
        let mut request = infer(router.address, 0);
        request.headers_mut().remove("x-user");
        first += u32::from(send(&client, request).await.unwrap().1 == "v1");
    }
    assert!((50..150).contains(&first), "{first} of 200");
}

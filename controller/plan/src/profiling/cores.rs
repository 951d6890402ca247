//! Which cores the two sides of a trial ask for, so that they share none where both run on one machine as processes.

use serde_json::{Map, Value, json};

use crate::template::object;

/// Annotation that a node which runs pods as processes acts on; on any other it has no effect.
const CORES: &str = "modelway.io/cores";

/// A side of a trial.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    Service,
    Client,
}

/// Writes into a pod template which cores its side asks for, unless it says so itself. Modelway's own load generator needs
/// one; nobody knows what a client of the user's own needs, so that one gets half of them.
pub fn ask(template: &mut Map<String, Value>, side: Side, is_own_client: bool) {
    let word = match (side, is_own_client) {
        (Side::Service, false) => "all-but-last",
        (Side::Client, false) => "last",
        (Side::Service, true) => "lower-half",
        (Side::Client, true) => "upper-half",
    };
    let metadata = object(template.entry("metadata").or_insert_with(|| json!({})));
    let annotations = object(metadata.entry("annotations").or_insert_with(|| json!({})));
    annotations.entry(CORES).or_insert_with(|| word.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_says_which_cores_it_wants_keeps_them() {
        let mut plain = Map::new();
        ask(&mut plain, Side::Client, false);
        assert_eq!(plain["metadata"]["annotations"]["modelway.io/cores"], "last");
        let mut own = json!({"metadata": {"annotations": {"modelway.io/cores": "upper-half"}}});
        ask(object(&mut own), Side::Service, false);
        assert_eq!(own["metadata"]["annotations"]["modelway.io/cores"], "upper-half");
    }
}

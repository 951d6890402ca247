//! The recommendation as something to copy, and how to take it back.

use modelway_tune::space::Candidate;

use super::Evidence;
use crate::record::Service;
use crate::report::document::{Change, Recipe};

/// Each parameter, in order.
pub(super) fn changes(evidence: &Evidence, candidate: Candidate) -> Vec<Change> {
    let space = &evidence.spec.space;
    let running = evidence.spec.baseline.map(|baseline| space.levels(baseline));
    let each = space.settings(candidate).into_iter().enumerate().map(|(index, (name, text))| Change {
        parameter: name.to_owned(),
        from: running.as_ref().map(|levels| levels[index].text.clone()),
        to: text.to_owned(),
    });
    each.collect()
}

/// What the record says; else the service's own command line with the values in it, or the values.
pub(super) fn apply(evidence: &Evidence, candidate: Candidate) -> Vec<Recipe> {
    if let Some(apply) = &evidence.record.apply {
        let mut recipes = Vec::new();
        if !apply.commands.is_empty() {
            recipes.push(recipe("Run", apply.commands.join("\n")));
        }
        if !apply.change.is_empty() {
            let title = if apply.language == "sh" { "Command line" } else { "Patch" };
            recipes.push(recipe(title, apply.change.clone()));
        }
        return recipes;
    }
    own(evidence, candidate)
}

/// The same for what runs now.
pub(super) fn undo(evidence: &Evidence) -> Vec<Recipe> {
    match (&evidence.record.apply, evidence.spec.baseline) {
        (Some(apply), _) if !apply.undo.is_empty() => vec![recipe("Run", apply.undo.join("\n"))],
        (Some(_), _) | (None, None) => Vec::new(),
        (None, Some(baseline)) => own(evidence, baseline),
    }
}

fn own(evidence: &Evidence, candidate: Candidate) -> Vec<Recipe> {
    let fill = |words: &[String]| -> String {
        words.iter().map(|word| quoted(&filled(evidence, candidate, word))).collect::<Vec<_>>().join(" ")
    };
    match &evidence.record.service {
        Service::Command { command, environment, .. } => {
            // The others stay as they are, and may be secret.
            let tuned = environment.iter().filter(|(_, value)| value.contains("${"));
            let variables =
                tuned.map(|(name, value)| format!("{name}={} ", quoted(&filled(evidence, candidate, value))));
            vec![recipe("Command line", format!("{}{}", variables.collect::<String>(), fill(command)))]
        }
        Service::Url { restart, .. } if !restart.is_empty() => vec![recipe("Run", fill(restart))],
        Service::Url { .. } | Service::Pods { .. } | Service::Unknown => {
            let lines = evidence.spec.space.settings(candidate).into_iter();
            let lines = lines.map(|(name, text)| format!("{name}: {text}"));
            vec![recipe("Settings", lines.collect::<Vec<_>>().join("\n"))]
        }
    }
}

fn recipe(title: &str, text: String) -> Recipe {
    Recipe { title: title.to_owned(), text }
}

/// With the candidate's values for `${NAME}`.
fn filled(evidence: &Evidence, candidate: Candidate, word: &str) -> String {
    let settings = evidence.spec.space.settings(candidate).into_iter();
    settings.fold(word.to_owned(), |word, (name, text)| word.replace(&format!("${{{name}}}"), text))
}

/// For a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=+:,./@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("--threads=4"), "--threads=4");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; rm -rf /"), r"'it'\''s; rm -rf /'");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted(""), "''");
    }
}

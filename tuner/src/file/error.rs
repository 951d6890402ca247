//! What can be wrong with a file that asks for tuning.

use modelway_tune::experiment::QuestionError;
use modelway_tune::space::SpaceError;
use modelway_tune::spec::SpecError;

use crate::load::LoadError;
use crate::record::RecordError;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A field makes no sense.
    #[error("{field}: {problem}")]
    Field { field: String, problem: String },
    /// The parameters make no candidates.
    #[error("parameters: {0}")]
    Space(#[from] SpaceError),
    /// What is asked makes no sense.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// What is asked makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An earlier experiment cannot be used.
    #[error("warmStart: {0}")]
    WarmStart(#[from] RecordError),
    /// The load makes no sense.
    #[error("load: {0}")]
    Load(#[from] LoadError),
}

impl FileError {
    /// A field with its problem.
    pub fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }
}

/// The known name that is most like a wrong one, when it is near enough to be meant.
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = wrong.to_lowercase();
    let measured = known.map(|name| (distance(&name.to_lowercase(), &lower), name));
    let (far, name) = measured.min()?;
    (far <= 1 + wrong.chars().count() / 3).then_some(name)
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (number, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (index, to) in right.iter().enumerate() {
            let cost = diagonal + usize::from(from != *to);
            diagonal = row[index + 1];
            row[index + 1] = cost.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

/// Adds "did you mean" to an error of a reader that says `unknown field` or `unknown variant` and what it expected; to its
/// first line, where others follow that show the place.
pub fn with_hint(message: &str) -> String {
    let (first, rest) = message.split_once('\n').map_or((message, ""), |(first, rest)| (first, rest));
    match hint(first) {
        Some(near) if rest.is_empty() => format!("{first}; did you mean `{near}`?"),
        Some(near) => format!("{first}; did you mean `{near}`?\n{rest}"),
        None => message.to_owned(),
    }
}

fn hint(line: &str) -> Option<&str> {
    let (_, after) = line.split_once("unknown field `").or_else(|| line.split_once("unknown variant `"))?;
    let (wrong, after) = after.split_once('`')?;
    let (_, expected) = after.split_once("expected ")?;
    let expected = expected.strip_prefix("one of ").unwrap_or(expected);
    let expected = expected.split(" at line").next().unwrap_or(expected);
    nearest(wrong, expected.split([',', ' ', '`']).filter(|word| !word.is_empty() && *word != "or"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("paramters", ["parameters", "load"].into_iter()), Some("parameters"));
        assert_eq!(nearest("CPU", ["cpu"].into_iter()), Some("cpu"));
        assert_eq!(nearest("x", ["parameters"].into_iter()), None);
        assert_eq!(nearest("x", [].into_iter()), None);
    }

    #[test]
    fn unknown_fields_get_a_hint() {
        let hinted = with_hint("unknown field `comand`, expected one of `command`, `url` at line 3");
        assert!(hinted.ends_with("did you mean `command`?"), "{hinted}");
        assert_eq!(with_hint("missing field `name`"), "missing field `name`");
        let shown = with_hint("line 1: unknown field `servise`, expected one of name, service\n  | here");
        assert_eq!(shown.lines().next().and_then(|line| line.split("; ").nth(1)), Some("did you mean `service`?"));
        assert!(shown.ends_with("\n  | here"), "{shown}");
        assert!(with_hint("unknown variant `A`, expected `a` or `b`").ends_with("did you mean `a`?"));
    }
}

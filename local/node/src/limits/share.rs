//! Which of the machine's cores a pod asks to have for itself, so that two pods that must not disturb each other do not.

use k8s_openapi::api::core::v1::Pod;

/// Annotation of a pod: one of the words below.
pub const CORES: &str = "modelway.io/cores";
const LAST: &str = "last";
const ALL_BUT_LAST: &str = "all-but-last";
const LOWER_HALF: &str = "lower-half";
const UPPER_HALF: &str = "upper-half";

/// What a pod asks for with its annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The last core alone.
    Last,
    /// All but the last.
    AllButLast,
    /// Half of the cores, the larger part of an odd number.
    LowerHalf,
    /// The other half.
    UpperHalf,
}

impl Share {
    /// What the pod asks for; none for any core, and for a word that is not known here.
    pub fn of(pod: &Pod) -> Option<Self> {
        let annotations = pod.metadata.annotations.as_ref()?;
        match annotations.get(CORES)?.as_str() {
            LAST => Some(Self::Last),
            ALL_BUT_LAST => Some(Self::AllButLast),
            LOWER_HALF => Some(Self::LowerHalf),
            UPPER_HALF => Some(Self::UpperHalf),
            _ => None,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Last => LAST,
            Self::AllButLast => ALL_BUT_LAST,
            Self::LowerHalf => LOWER_HALF,
            Self::UpperHalf => UPPER_HALF,
        }
    }

    /// These of the cores, never none; where there is one, everybody has it.
    pub fn among(self, cores: &[usize]) -> &[usize] {
        if cores.len() < 2 {
            return cores;
        }
        let (last, half) = (cores.len() - 1, cores.len().div_ceil(2));
        match self {
            Self::Last => &cores[last..],
            Self::AllButLast => &cores[..last],
            Self::LowerHalf => &cores[..half],
            Self::UpperHalf => &cores[half..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn two_sides_have_no_core_in_common_where_there_are_two() {
        for count in 0..9 {
            let all: Vec<usize> = (3..3 + count).collect();
            for (one, other) in [(Share::AllButLast, Share::Last), (Share::LowerHalf, Share::UpperHalf)] {
                let (one, other) = (one.among(&all), other.among(&all));
                if count < 2 {
                    assert_eq!((one, other), (&all[..], &all[..]));
                } else {
                    assert_eq!([one, other].concat(), all);
                    assert!(!one.is_empty() && !other.is_empty());
                }
            }
        }
        assert_eq!(Share::Last.among(&[0, 1, 2, 5]), [5]);
    }

    #[test]
    fn words_are_read_and_nonsense_asks_for_nothing() {
        let asked = |word: &str| {
            Share::of(&from_value(json!({"metadata": {"annotations": {"modelway.io/cores": word}}})).unwrap())
        };
        for share in [Share::Last, Share::AllButLast, Share::LowerHalf, Share::UpperHalf] {
            assert_eq!(asked(share.word()), Some(share));
        }
        assert_eq!((asked("0-3"), Share::of(&Pod::default())), (None, None));
    }
}

//! The finite set of candidates: which settings exist, and where each lies.

mod encoding;
mod error;
mod parameter;
mod product;

pub use encoding::{Encoding, Points};
pub use error::SpaceError;
pub use parameter::{Feasible, Level, Parameter, Scale};
pub use product::MAX_CANDIDATES;
pub(crate) use product::{level_at, sobol};

use serde::{Deserialize, Serialize};

/// Position of a candidate in its [`Space`]. Stable for the same parameters and seed.
pub type Candidate = usize;

/// Parameters and the candidates over them, each one level index a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Space {
    parameters: Vec<Parameter>,
    candidates: Vec<Vec<usize>>,
}

impl Space {
    /// The product of all levels; above [`MAX_CANDIDATES`] a scrambled Sobol subset of that many.
    pub fn product(parameters: Vec<Parameter>, seed: u64) -> Result<Self, SpaceError> {
        check(&parameters)?;
        let candidates = product::candidates(&parameters, seed);
        Ok(Self { parameters, candidates })
    }

    /// With this candidate among them, which a subset may have missed: it takes the place of one of very many.
    pub fn with(mut self, texts: &[String]) -> Result<Self, SpaceError> {
        let wanted = levels(&self.parameters, texts)?;
        if !self.candidates.contains(&wanted) {
            self.candidates.truncate(MAX_CANDIDATES - 1);
            self.candidates.push(wanted);
        }
        Ok(self)
    }

    /// Exactly these candidates, given by the text of each level; a row that is there twice counts once.
    pub fn table(parameters: Vec<Parameter>, rows: &[Vec<String>]) -> Result<Self, SpaceError> {
        check(&parameters)?;
        let mut seen = std::collections::BTreeSet::new();
        let mut candidates = Vec::new();
        for row in rows {
            let candidate = levels(&parameters, row)?;
            if seen.insert(candidate.clone()) {
                candidates.push(candidate);
            }
        }
        if candidates.is_empty() { Err(SpaceError::NoCandidate) } else { Ok(Self { parameters, candidates }) }
    }

    /// Leaves out what is known to be impossible before anything is tried.
    pub fn retain(mut self, possible: impl Fn(&[&Level]) -> bool) -> Result<Self, SpaceError> {
        let parameters = &self.parameters;
        self.candidates.retain(|candidate| {
            let levels: Vec<&Level> = pick(parameters, candidate).collect();
            possible(&levels)
        });
        if self.candidates.is_empty() { Err(SpaceError::AllImpossible) } else { Ok(self) }
    }

    /// Says what is wrong with a space that was read from a file.
    pub fn check(&self) -> Result<(), SpaceError> {
        check(&self.parameters)?;
        if self.candidates.is_empty() {
            return Err(SpaceError::NoCandidate);
        }
        for row in &self.candidates {
            if row.len() != self.parameters.len() {
                return Err(SpaceError::RowLength { found: row.len(), expected: self.parameters.len() });
            }
            let stray = self.parameters.iter().zip(row).find(|(parameter, level)| **level >= parameter.levels.len());
            if let Some((parameter, level)) = stray {
                let (parameter, value) = (parameter.name.clone(), format!("number {level}"));
                return Err(SpaceError::UnknownLevel { parameter, value });
            }
        }
        Ok(())
    }

    /// How many candidates there are; at least one.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Never: a space without a candidate cannot be made.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// What can be set.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Level indices of a candidate, one a parameter.
    pub fn indices(&self, candidate: Candidate) -> &[usize] {
        &self.candidates[candidate]
    }

    /// Levels of a candidate, one a parameter.
    pub fn levels(&self, candidate: Candidate) -> Vec<&Level> {
        pick(&self.parameters, &self.candidates[candidate]).collect()
    }

    /// Name and text of each setting of a candidate.
    pub fn settings(&self, candidate: Candidate) -> Vec<(&str, &str)> {
        let names = self.parameters.iter().map(|parameter| parameter.name.as_str());
        names.zip(self.levels(candidate).into_iter().map(|level| level.text.as_str())).collect()
    }

    /// The candidate with exactly these texts.
    pub fn find(&self, texts: &[String]) -> Option<Candidate> {
        let wanted = levels(&self.parameters, texts).ok()?;
        self.candidates.iter().position(|candidate| *candidate == wanted)
    }

    /// Whether two candidates differ in one parameter, by one step where its levels have an order.
    pub fn is_next_to(&self, left: Candidate, right: Candidate) -> bool {
        let pairs = || self.candidates[left].iter().zip(&self.candidates[right]);
        let mut different = pairs().zip(&self.parameters).filter(|((left, right), _)| left != right);
        let Some(((left, right), parameter)) = different.next() else { return false };
        let ordered = matches!(parameter.scale, Scale::Linear | Scale::Log2);
        different.next().is_none() && (!ordered || left.abs_diff(*right) == 1)
    }

    /// Level indices of these texts, whether or not the combination is a candidate.
    pub fn level_indices(&self, texts: &[String]) -> Option<Vec<usize>> {
        levels(&self.parameters, texts).ok()
    }

    /// Candidates that differ from this one in a single parameter.
    pub fn neighbours(&self, candidate: Candidate) -> Vec<Candidate> {
        let own = &self.candidates[candidate];
        let differences = |other: &Vec<usize>| own.iter().zip(other).filter(|(left, right)| left != right).count();
        (0..self.len()).filter(|other| differences(&self.candidates[*other]) == 1).collect()
    }
}

fn pick<'a>(parameters: &'a [Parameter], candidate: &'a [usize]) -> impl Iterator<Item = &'a Level> {
    parameters.iter().zip(candidate).map(|(parameter, level)| &parameter.levels[*level])
}

fn check(parameters: &[Parameter]) -> Result<(), SpaceError> {
    if parameters.is_empty() {
        return Err(SpaceError::NoParameter);
    }
    let mut names = std::collections::BTreeSet::new();
    for parameter in parameters {
        if !names.insert(&parameter.name) {
            return Err(SpaceError::SameName { name: parameter.name.clone() });
        }
        if parameter.levels.is_empty() {
            return Err(SpaceError::NoLevel { parameter: parameter.name.clone() });
        }
        parameter.check_scale()?;
    }
    Ok(())
}

fn levels(parameters: &[Parameter], row: &[String]) -> Result<Vec<usize>, SpaceError> {
    if row.len() != parameters.len() {
        return Err(SpaceError::RowLength { found: row.len(), expected: parameters.len() });
    }
    let find = |(parameter, text): (&Parameter, &String)| {
        parameter
            .position(text)
            .ok_or_else(|| SpaceError::UnknownLevel { parameter: parameter.name.clone(), value: text.clone() })
    };
    parameters.iter().zip(row).map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(row: &[&str]) -> Vec<String> {
        row.iter().map(|text| (*text).to_owned()).collect()
    }

    fn two() -> Vec<Parameter> {
        vec![Parameter::integer("threads", 1, 2, 1).unwrap(), Parameter::categorical("engine", ["a", "b"]).unwrap()]
    }

    #[test]
    fn product_lists_every_combination_in_order() {
        let space = Space::product(two(), 0).unwrap();
        let all: Vec<_> = (0..space.len()).map(|candidate| space.settings(candidate)).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0], [("threads", "1"), ("engine", "a")]);
        assert_eq!(all[1], [("threads", "1"), ("engine", "b")]);
        assert_eq!(all[3], [("threads", "2"), ("engine", "b")]);
    }

    #[test]
    fn a_wanted_candidate_is_part_of_every_subset() {
        let wide: Vec<Parameter> =
            (0..6).map(|index| Parameter::integer(&format!("p{index}"), 1, 12, 1).unwrap()).collect();
        let corners = ["1", "12"].map(|text| vec![text.to_owned(); 6]);
        for (seed, corner) in (0..4).flat_map(|seed| corners.iter().map(move |corner| (seed, corner))) {
            let space = Space::product(wide.clone(), seed).unwrap().with(corner).unwrap();
            assert_eq!(space.len(), MAX_CANDIDATES);
            let found = space.find(corner).unwrap();
            assert_eq!(space.settings(found)[5].1, corner[5]);
            assert_eq!(space.check(), Ok(()));
        }
        let whole = Space::product(two(), 0).unwrap();
        assert_eq!(whole.clone().with(&texts(&["2", "a"])).unwrap(), whole, "a whole product has it already");
        assert!(whole.with(&texts(&["3", "a"])).is_err());
    }

    #[test]
    fn row_that_is_there_twice_counts_once() {
        let rows = [texts(&["1", "a"]), texts(&["1", "a"]), texts(&["2", "b"])];
        let space = Space::table(two(), &rows).unwrap();
        assert_eq!(space.len(), 2);
        assert_eq!(space.find(&rows[2]), Some(1));
        assert_eq!(space.find(&texts(&["2", "a"])), None);
    }

    #[test]
    fn refuses_what_makes_no_space() {
        assert_eq!(Space::product(vec![], 0), Err(SpaceError::NoParameter));
        let twice = vec![two().remove(0), two().remove(0)];
        assert!(matches!(Space::product(twice, 0), Err(SpaceError::SameName { .. })));
        assert_eq!(Space::table(two(), &[]), Err(SpaceError::NoCandidate));
        assert!(matches!(Space::table(two(), &[texts(&["1"])]), Err(SpaceError::RowLength { .. })));
        assert!(matches!(Space::table(two(), &[texts(&["1", "c"])]), Err(SpaceError::UnknownLevel { .. })));
        assert_eq!(Space::product(two(), 0).unwrap().retain(|_| false), Err(SpaceError::AllImpossible));
    }

    #[test]
    fn space_from_a_damaged_file_is_refused() {
        let good = Space::product(two(), 0).unwrap();
        assert_eq!(good.check(), Ok(()));
        let with = |candidates: Vec<Vec<usize>>| Space { candidates, ..good.clone() }.check();
        assert_eq!(with(vec![]), Err(SpaceError::NoCandidate));
        assert!(matches!(with(vec![vec![0]]), Err(SpaceError::RowLength { .. })));
        assert!(matches!(with(vec![vec![0, 2]]), Err(SpaceError::UnknownLevel { .. })));
    }

    #[test]
    fn impossible_candidates_are_gone() {
        let space = Space::product(two(), 0).unwrap().retain(|levels| levels[0].text != "1").unwrap();
        assert_eq!(space.len(), 2);
        assert!((0..2).all(|candidate| space.settings(candidate)[0].1 == "2"));
    }

    #[test]
    fn neighbours_differ_in_one_parameter() {
        let space = Space::product(two(), 0).unwrap();
        assert_eq!(space.neighbours(0), [1, 2]);
    }
}

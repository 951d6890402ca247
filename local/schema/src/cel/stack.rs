//! Room for recursion: the CEL library walks expressions by recursion, and a stack overflow would end the process.

use std::thread;

/// A thousand levels of the unoptimised interpreter fit.
const DEEP_STACK_BYTES: usize = 32 * 1024 * 1024;

/// Expressions with more operators than this run on a stack of their own; hardly any rule has as many.
const USUAL_OPERATORS: usize = 100;

/// An upper bound of the depth of an expression; parts joined by `&&`, `||` and `,` cost nothing.
pub(super) fn operators(text: &str) -> usize {
    text.matches(|letter: char| "!.+-*/%?<>=([{\"'".contains(letter)).count() + text.matches("in").count()
}

/// Whether an expression may need more stack than a thread has.
pub(super) fn is_deep(text: &str) -> bool {
    operators(text) > USUAL_OPERATORS
}

/// Runs the work, on a deep stack where asked; none when the work panicked or no thread could be had.
pub(super) fn run<R: Send>(deep: bool, work: impl FnOnce() -> R + Send) -> Option<R> {
    if !deep {
        return Some(work());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("cel".to_owned()).stack_size(DEEP_STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

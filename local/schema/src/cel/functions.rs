//! The functions rules can call.

use kube::core::cel::KubeCelExt as _;
use kube::core::cel::cel::common::ast::{CallExpr, Expr};
use kube::core::cel::cel::{Context, ExecutionError, Program};

thread_local! {
    // Registering a hundred functions costs more than most rules; the context is not shared between threads.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// Runs with the context that knows every function.
pub(super) fn with<R>(run: impl FnOnce(&Context<'static>) -> R) -> R {
    FUNCTIONS.with(run)
}

/// Whether the function of a call exists, alone or behind its prefix (`sets.contains`).
pub(super) fn exists(call: &CallExpr) -> bool {
    let name = call.func_name.as_str();
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        // An operator.
        return true;
    }
    let prefixed = match call.target.as_deref().map(|target| &target.expr) {
        Some(Expr::Ident(prefix)) => answers(&format!("{prefix}.{name}()")),
        _ => false,
    };
    prefixed || answers(&format!("{name}()"))
}

/// The library has no list of its functions; a call without arguments tells whether there is one.
fn answers(call: &str) -> bool {
    let Ok(program) = Program::compile(call) else { return false };
    with(|context| !matches!(program.execute(context), Err(ExecutionError::UndeclaredReference(_))))
}

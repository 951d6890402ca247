//! A bound on what a rule may cost: loops within loops over a hostile object must not hold the server up.

use kube::core::cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};
use serde_json::Value;

/// Steps of the innermost loop; Kubernetes gives one rule a cost of a million, too.
const MAX_STEPS: u64 = 1_000_000;

/// How deep loops nest in an expression; functions that loop by themselves count as loops.
pub(super) fn loops(expression: &IdedExpr) -> u32 {
    let deepest = |expressions: &[IdedExpr]| expressions.iter().map(loops).max().unwrap_or_default();
    match &expression.expr {
        Expr::Comprehension(one) => {
            let inside = loops(&one.loop_cond).max(loops(&one.loop_step));
            (1 + inside).max(loops(&one.iter_range)).max(loops(&one.accu_init)).max(loops(&one.result))
        }
        Expr::Call(call) => {
            let target = call.target.as_deref();
            let own = match target.map(|target| &target.expr) {
                Some(Expr::Ident(name)) if name == "sets" => 2,
                _ => u32::from(call.func_name == operators::IN),
            };
            own.max(own + deepest(&call.args)).max(target.map(loops).unwrap_or_default())
        }
        Expr::Select(select) => loops(&select.operand),
        Expr::List(list) => deepest(&list.elements),
        Expr::Map(map) => map.entries.iter().map(|entry| entry_loops(&entry.expr)).max().unwrap_or_default(),
        Expr::Struct(fields) => fields.entries.iter().map(|entry| entry_loops(&entry.expr)).max().unwrap_or_default(),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
    }
}

fn entry_loops(entry: &EntryExpr) -> u32 {
    match entry {
        EntryExpr::StructField(field) => loops(&field.value),
        EntryExpr::MapEntry(entry) => loops(&entry.key).max(loops(&entry.value)),
    }
}

/// Whether loops nested so deep over this value take too many steps.
pub(super) fn too_high(loops: u32, value: &Value) -> bool {
    loops > 1 && longest(value).saturating_pow(loops) > MAX_STEPS
}

/// The length of the longest list or map in a value whose depth is bounded.
fn longest(value: &Value) -> u64 {
    let (length, below) = match value {
        Value::Array(list) => (list.len(), list.iter().map(longest).max()),
        Value::Object(map) => (map.len(), map.values().map(longest).max()),
        _ => return 0,
    };
    u64::try_from(length).unwrap_or(u64::MAX).max(below.unwrap_or_default())
}

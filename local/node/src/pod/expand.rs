//! `$(NAME)` references in commands, arguments and environment values, as Kubernetes expands them.

/// Replaces `$(NAME)` by its value; a name without a value stays as it is, `$$` is a plain `$`.
pub fn expand(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        rest = after_dollar(&mut out, rest, &value_of);
    }
    out.push_str(rest);
    out
}

fn after_dollar<'a>(out: &mut String, rest: &'a str, value_of: impl Fn(&str) -> Option<String>) -> &'a str {
    if let Some(rest) = rest.strip_prefix('$') {
        out.push('$');
        return rest;
    }
    let Some(end) = rest.starts_with('(').then(|| rest.find(')')).flatten() else {
        out.push('$');
        return rest;
    };
    let name = &rest[1..end];
    match value_of(name) {
        Some(value) => out.push_str(&value),
        None => out.extend(["$(", name, ")"]),
    }
    &rest[end + 1..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(text: &str) -> String {
        expand(text, |name| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn follows_the_rules_of_kubernetes() {
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$(MISSING)", "$(MISSING)"),
            ("$(EMPTY)", ""),
            ("$(B)", "$(A)"),
            ("$(A", "$(A"),
            ("$A ${A} $", "$A ${A} $"),
            ("$()", "$()"),
            ("ü$(A)ü", "ü1ü"),
        ] {
            assert_eq!(sample(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn leaves_text_without_dollars_alone(text in "[^$]*") {
            prop_assert_eq!(sample(&text), text);
        }

        #[test]
        fn doubled_dollars_protect_any_text(text in any::<String>()) {
            prop_assert_eq!(sample(&text.replace('$', "$$")), text);
        }
    }
}

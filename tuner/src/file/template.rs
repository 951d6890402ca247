//! Texts with `${NAME}`.

use std::collections::BTreeMap;

use super::error::nearest;

/// Replaces each `${NAME}`; `$${` stands for `${` itself. An unknown name is an error that says which are known.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find('}').ok_or_else(|| format!("{text:?} has ${{ without a }}"))?;
        let name = &after[..end];
        let value = values.get(name).ok_or_else(|| unknown(text, name, values))?;
        out.push_str(value);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Whether a text has this placeholder.
pub fn has(text: &str, name: &str) -> bool {
    text.contains(&format!("${{{name}}}"))
}

fn unknown(text: &str, name: &str, values: &BTreeMap<String, String>) -> String {
    let names = values.keys().map(String::as_str);
    let known: Vec<&str> = names.clone().collect();
    let hint = nearest(name, names).map_or_else(
        || format!("known are {}; write $${{ for ${{ itself", known.join(", ")),
        |near| format!("did you mean ${{{near}}}?"),
    );
    format!("{text:?}: nothing is called {name:?}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> BTreeMap<String, String> {
        [("threads", "4"), ("PORT", "8080")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn names_are_replaced_and_doubled_dollars_are_not() {
        assert_eq!(fill("--n=${threads} :${PORT}", &values()).unwrap(), "--n=4 :8080");
        assert_eq!(fill("$${HOME} $5 {x} $", &values()).unwrap(), "${HOME} $5 {x} $");
        assert!(has("a${PORT}", "PORT") && !has("PORT", "PORT"));
    }

    #[test]
    fn unknown_and_unfinished_names_are_told() {
        assert!(fill("${thread}", &values()).unwrap_err().contains("did you mean ${threads}?"));
        assert!(fill("${zzzzzz}", &values()).unwrap_err().contains("known are PORT, threads"));
        assert!(fill("${threads", &values()).unwrap_err().contains("without a }"));
    }
}

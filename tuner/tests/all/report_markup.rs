//! Just enough of HTML to check a page: its elements, their attributes, and the texts of its charts.

use modelway_tuner::report::report;

use super::report_states as states;

/// A tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) name: &'a str,
    pub(crate) closing: bool,
    /// After the name.
    pub(crate) inside: &'a str,
    /// Text up to the next tag.
    pub(crate) text: &'a str,
}

/// Every tag after the first, which is the document type.
pub(crate) fn elements(page: &str) -> impl Iterator<Item = Element<'_>> {
    page.split('<').skip(2).map(|part| {
        let (tag, text) = part.split_once('>').unwrap();
        let (closing, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let (name, inside) = tag.split_once(' ').unwrap_or((tag, ""));
        Element { name, closing, inside, text }
    })
}

/// Names and values; values are always quoted.
pub(crate) fn attributes(inside: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = inside;
    std::iter::from_fn(move || {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"').unwrap();
        rest = after;
        Some((name.trim(), value))
    })
}

struct Shown<'a> {
    text: &'a str,
    left: f64,
    right: f64,
    baseline: f64,
}

/// Letters are about half as wide as high; 11 high.
fn shown<'a>(element: &Element<'a>) -> Shown<'a> {
    let number = |name: &str| -> f64 {
        attributes(element.inside).find(|(attribute, _)| *attribute == name).unwrap().1.parse().unwrap()
    };
    let anchor = attributes(element.inside).find(|(attribute, _)| *attribute == "text-anchor").map(|(_, value)| value);
    let letters = element.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&quot;", "\"");
    let (x, wide) = (number("x"), letters.chars().count() as f64 * 5.6);
    let left = match anchor {
        Some("end") => x - wide,
        Some("middle") => x - wide / 2.0,
        _ => x,
    };
    Shown { text: element.text, left, right: left + wide, baseline: number("y") }
}

#[test]
fn texts_of_a_chart_do_not_overlap_and_do_not_leave_it() {
    for (name, record) in states::all() {
        let page = report(&record).html();
        for chart in page.split("<svg").skip(1) {
            let chart = chart.split("</svg>").next().unwrap();
            let texts: Vec<Shown> = elements(&format!("<<svg{chart}"))
                .filter(|element| element.name == "text" && !element.closing)
                .map(|element| {
                    let shown = shown(&element);
                    Shown { text: "", ..shown }
                })
                .collect();
            check(name, &texts);
        }
    }
}

fn check(name: &str, texts: &[Shown]) {
    for (index, one) in texts.iter().enumerate() {
        assert!(one.left > -1.0 && one.right < 362.0, "{name}: {} at {}..{}", one.text, one.left, one.right);
        for other in &texts[..index] {
            let beside = one.right <= other.left || other.right <= one.left;
            let apart = (one.baseline - other.baseline).abs() >= 9.0;
            assert!(beside || apart, "{name}: {:?} over {:?}", one.left, other.left);
        }
    }
}

/// Relative luminance and contrast as WCAG 2 defines them.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn colours_can_be_read_in_the_light_in_the_dark_and_on_paper() {
    let page = report(&states::typical()).html();
    let themes: Vec<&str> = page.split(":root {").skip(1).map(|part| part.split('}').next().unwrap()).collect();
    assert_eq!(themes.len(), 3);
    for theme in themes {
        let colour = |name: &str| {
            let at = theme.find(&format!("{name}: #")).unwrap() + name.len() + 2;
            &theme[at..at + 7]
        };
        let page = colour("--page");
        for text in ["--ink", "--soft", "--doubt", "--good", "--met"] {
            assert!(contrast(colour(text), page) >= 4.5, "{text} on {page}");
        }
        assert!(contrast(colour("--pick"), page) >= 3.0);
        assert!(contrast(colour("--soft"), colour("--panel")) >= 4.5);
    }
}

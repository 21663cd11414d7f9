//! The tables of the pages, filled from the file of figures: each stands between two comments.
//!
//! `<!-- figures: market -->` begins one and `<!-- end -->` ends it. What has no figures yet stays
//! as it is.

mod tables;

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Where tables stand.
const PAGES: [&str; 2] = ["benches/README.md", "docs/scale.md"];
const END: &str = "<!-- end -->";

/// Fills all pages; those of a quick look are written beside its figures.
pub fn fill_all(parts: &Value, results: &Path, is_quick: bool) -> Result<()> {
    for page in PAGES {
        let text = fs::read_to_string(page).with_context(|| format!("could not read {page}"))?;
        let to = match is_quick {
            true => results.join(page.replace('/', "-")),
            false => page.into(),
        };
        fs::write(&to, fill(&text, |name| tables::table(name, parts)))
            .with_context(|| format!("could not write {}", to.display()))?;
    }
    Ok(())
}

fn fill(page: &str, table: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = page;
    while let Some((before, name, old, after)) = next(rest) {
        let table = table(name);
        let text = table.as_deref().map_or(old, str::trim);
        filled += &format!("{before}<!-- figures: {name} -->\n{}\n{END}", text.trim());
        rest = after;
    }
    filled + rest
}

/// What is before the next table, its name, how it is now, and what is behind it.
fn next(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once("<!-- figures: ")?;
    let (name, rest) = rest.split_once(" -->")?;
    let (old, after) = rest.split_once(END)?;
    Some((before, name, old, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_put_between_its_comments_and_all_else_stays() {
        let page = "a\n<!-- figures: x -->\nold\n<!-- end -->\nb\n<!-- figures: y -->\nsame\n<!-- end -->\nc";
        let filled = fill(page, |name| (name == "x").then(|| "new\n".to_owned()));
        assert_eq!(filled, page.replace("old", "new"));
        // Once more changes nothing.
        assert_eq!(fill(&filled, |_| None), filled);
    }

    #[test]
    fn each_table_of_the_pages_is_one_that_can_be_made() -> Result<()> {
        for page in PAGES {
            let text = fs::read_to_string(Path::new("..").join(page))?;
            let mut rest = text.as_str();
            while let Some((_, name, _, after)) = next(rest) {
                assert!(tables::NAMES.contains(&name), "{page}: {name}");
                rest = after;
            }
        }
        Ok(())
    }
}

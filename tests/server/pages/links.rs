//! Links within the pages lead to files and headings that are there.

use super::files::{self, Page};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn links_lead_to_what_is_there() {
    let mut lost = Vec::new();
    for page in files::pages() {
        for target in targets(&page) {
            if !leads_somewhere(&page, target) {
                lost.push(format!("{}: {target}", page.name));
            }
        }
    }
    assert!(lost.is_empty(), "\n{}", lost.join("\n"));
}

/// Those within the project.
fn targets(page: &Page) -> impl Iterator<Item = &str> {
    let ends = page.text.split("](").skip(1);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0)).filter(|target| !target.contains("://"))
}

fn leads_somewhere(page: &Page, target: &str) -> bool {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let here = files::root().join(&page.name);
    let file: PathBuf = match path {
        "" => here,
        path => here.parent().unwrap().join(path),
    };
    file.exists() && (heading.is_empty() || headings(&file).contains(heading))
}

/// As code hosts name them: small letters, digits and hyphens. And what is named where it stands.
fn headings(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let named = text.split("<a id=\"").skip(1);
    let named = named.filter_map(|rest| rest.split('"').next().map(str::to_owned));
    titles
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
        .chain(named)
        .collect()
}

//! The files of the documentation.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Page {
    /// From the project's folder on.
    pub name: String,
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Single pages, and every Markdown file below docs/, examples/ and packaging/, in order.
pub fn pages() -> Vec<Page> {
    let single = [
        "README.md",
        "benches/README.md",
        "benches/results/README.md",
        "benches/results/by-hand.md",
        "clients/README.md",
        "tests/bugs.md",
        "tests/histories/README.md",
        "tests/tried.md",
    ];
    let mut files: Vec<_> = single.iter().map(|page| root().join(page)).collect();
    for folder in ["docs", "examples", "packaging"] {
        collect(&root().join(folder), &mut files);
    }
    files.sort();
    (files.into_iter())
        .map(|file| Page {
            name: file.strip_prefix(root()).unwrap().display().to_string(),
            text: fs::read_to_string(&file).unwrap(),
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("node_modules") {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

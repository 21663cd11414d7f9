//! What the sources promise, read from the sources themselves.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// What would let a panic into the module.
const DENIED: [&str; 11] = [
    "arithmetic_side_effects",
    "cast_possible_truncation",
    "cast_sign_loss",
    "expect_used",
    "indexing_slicing",
    "panic",
    "string_slice",
    "todo",
    "unimplemented",
    "unreachable",
    "unwrap_used",
];

/// Entries that call nothing which could panic.
const HARMLESS: [&str; 1] = ["never_ready"];

/// The files under `src/`, with their texts, without the tests at their ends.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("lock/tests") {
                    folders.push(path);
                }
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let tests = text
                    .find("\n#[cfg(test)]\n#[allow")
                    .or(text.find("\n#[cfg(test)]\nmod tests {"));
                found.push((path, text[..tests.unwrap_or(text.len())].to_owned()));
            }
        }
    }
    assert!(found.len() > 5, "{folder}");
    found
}

#[test]
fn what_could_panic_is_denied_and_nowhere_allowed() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    for lint in DENIED {
        let line = format!("\n{lint} = \"deny\"\n");
        assert!(
            manifest.contains(&line),
            "{lint} is not denied in Cargo.toml"
        );
        for (path, text) in sources("src") {
            // It panics because it is told to, and is not part of the module that people load.
            if path.ends_with("src/provoke.rs") {
                continue;
            }
            for allowed in text.split("allow(").skip(1) {
                let allowed = allowed.split(")]").next().unwrap();
                assert!(
                    !allowed.contains(&format!("clippy::{lint}")) || allowed.contains("reason = "),
                    "{}: {lint} is allowed without a reason",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_entry_from_the_server_is_shielded() {
    let mut entries = 0;
    for (path, text) in sources("src/server") {
        for entry in text.split("extern \"C\" fn ").skip(1) {
            let name: String = entry
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // A type of function, and not a function.
            if name.is_empty() {
                continue;
            }
            entries += 1;
            let body = entry.split("\n}").next().unwrap();
            let is_shielded = [
                "shield(",
                "enter(",
                "hear(",
                "settings()",
                "set(move |limits|",
                "$crate::server::",
            ]
            .iter()
            .any(|call| body.contains(call));
            assert!(
                is_shielded || HARMLESS.contains(&name.as_str()),
                "{}: a panic in {name} would stop the server",
                path.display()
            );
        }
    }
    assert!(entries > 15, "{entries}");
}

#[test]
fn the_core_knows_no_server() {
    for (path, text) in sources("src/lock") {
        assert!(!text.contains("redis_module"), "{}", path.display());
        assert!(!text.contains("crate::server"), "{}", path.display());
    }
}

/// The lines of a page that somebody is shown to type or to copy.
fn shown(page: &str) -> Vec<String> {
    let mut is_shown = false;
    let mut lines = Vec::new();
    for line in read(page).lines() {
        if line.starts_with("```") {
            is_shown = !is_shown;
        } else if is_shown {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The module and the packages, which another test compares, are released together.
#[test]
fn what_is_released_beside_the_packages_has_their_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        (
            "tools/locktop/Cargo.toml",
            format!("version = \"{version}\""),
        ),
        (
            "clients/python/src/redis_lock_module/__init__.py",
            format!("__version__ = \"{version}\""),
        ),
        ("CHANGELOG.md", format!("\n## [{version}] - 20")),
        ("docs/containers.md", format!("tag: \"{version}\"")),
    ] {
        assert!(read(file).contains(&line), "{file}: {line}");
    }
}

/// `[package.metadata.oldest]` of Cargo.toml says which servers are the oldest that the module runs on.
#[test]
fn all_that_name_the_oldest_servers_name_the_same() {
    let manifest = read("Cargo.toml");
    let oldest = |kind: &str| {
        let lines = manifest.split("[package.metadata.oldest]\n").nth(1);
        let line = lines.unwrap().lines().find(|line| line.starts_with(kind));
        line.unwrap().split('"').nth(1).unwrap().to_owned()
    };
    let (redis, valkey) = (oldest("redis"), oldest("valkey"));
    let constants: String = sources("src/server")
        .into_iter()
        .map(|file| file.1)
        .collect();
    for (kind, version) in [("REDIS", &redis), ("VALKEY", &valkey)] {
        let constant = format!("OLDEST_{kind}: Version = ({});", version.replace('.', ", "));
        assert!(constants.contains(&constant), "src/server: {constant}");
    }
    let depends = format!("redis-server (>= 5:{redis}) | valkey-server (>= {valkey})");
    assert!(manifest.contains(&depends), "Cargo.toml: {depends}");
    // The first of each kind is the oldest that the tests run on.
    let brought = read("scripts/servers");
    for (kind, version) in [("redis", &redis), ("valkey", &valkey)] {
        let first = brought.lines().find(|line| {
            let is_recipe = line.contains(" | ");
            is_recipe && line.starts_with(&format!("{kind}-"))
        });
        let name = format!("{kind}-{version} ");
        assert!(first.unwrap().starts_with(&name), "scripts/servers: {name}");
    }
    for page in [
        "README.md",
        "packaging/README.md",
        "packaging/head.conf",
        "docs/servers.md",
    ] {
        let page = (page, read(page));
        for named in [
            format!("Redis {redis} and later"),
            format!("Valkey {valkey} and later"),
        ] {
            assert!(page.1.contains(&named), "{}: {named}", page.0);
        }
    }
}

/// The page on servers has a row for each server that the tests run on.
#[test]
fn the_page_on_servers_has_each_of_those_that_are_tested() {
    let page = read("docs/servers.md");
    let mut count = 0;
    for line in read("scripts/servers").lines() {
        let Some((name, _)) = line.split_once(' ').filter(|_| line.contains(" | ")) else {
            continue;
        };
        let (kind, version) = match name.split_once('-') {
            Some(("redis", version)) => ("Redis", version),
            Some(("valkey", version)) => ("Valkey", version),
            _ => continue,
        };
        count += 1;
        let row = format!("| {kind} {version} |");
        assert!(page.contains(&row), "docs/servers.md: {row}");
    }
    assert!(count >= 10, "{count}");
}

/// At a minute or less the lock is gone before somebody who types has come to the next line.
#[test]
fn the_first_transcripts_can_be_followed_by_hand() {
    for page in ["README.md", "packaging/README.md"] {
        let mut asked = 0;
        for line in shown(page) {
            let words: Vec<&str> = line.split(' ').collect();
            let [prompt, "LOCK.ACQUIRE", _key, _owner, ttl, rest @ ..] = words.as_slice() else {
                continue;
            };
            if !prompt.ends_with('>') {
                continue;
            }
            asked += 1;
            let times = [*ttl].into_iter().chain(rest.get(1).copied());
            for time in times.map(|time| time.parse::<u64>().unwrap()) {
                assert!(time >= 60_000, "{page}: {line}");
            }
        }
        assert!(asked > 1, "{page}: {asked}");
    }
}

/// CONFIG REWRITE writes a line `loadmodule` into the configuration file itself, and a server that loads a
/// module twice does not start.
#[test]
fn whoever_is_told_how_to_load_the_module_is_told_to_have_it_in_the_configuration_file_itself() {
    let pages = [
        "README.md",
        "packaging/README.md",
        "docs/operating.md",
        "clients/python/README.md",
    ];
    let copied = pages.iter().flat_map(|page| shown(page));
    let files = [
        "redis.conf",
        "packaging/head.conf",
        "packaging/deb/postinst",
        "scripts/install",
    ];
    let said = files.iter().flat_map(|file| {
        let text = read(file);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    let mut loads = 0;
    for line in copied.chain(said) {
        let line = line.trim();
        assert!(
            !line.starts_with("include ") && !line.contains("--loadmodule"),
            "{line}"
        );
        loads += usize::from(line.starts_with("loadmodule "));
    }
    assert!(loads >= 4, "{loads}");
}

#[test]
fn the_packages_agree_on_name_version_author_and_licence_and_link_to_nothing_outside_of_themselves()
{
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: String| fs::read_to_string(root.join(&path)).expect(&path);
    let licence = read("LICENSE".into());
    for (package, manifest, name) in [
        ("node", "package.json", "redis-lock-module"),
        ("php", "composer.json", "redis-lock-module/symfony-lock"),
        ("python", "pyproject.toml", "redis-lock-module"),
        ("rust", "Cargo.toml", "redis-lock-module"),
    ] {
        let manifest = read(format!("clients/{package}/{manifest}")).replace("\": ", "\" = ");
        for (field, value) in [
            ("name", name),
            ("version", env!("CARGO_PKG_VERSION")),
            ("license", "MIT"),
        ] {
            let says = |line: &str| line.trim().trim_start_matches('"').starts_with(field);
            let line = manifest.lines().find(|line| says(line)).expect(field);
            assert!(
                line.contains(&format!("= \"{value}\"")),
                "{package}: {line}"
            );
        }
        assert!(manifest.contains("\"The redis-lock authors\""), "{package}");
        assert_eq!(
            read(format!("clients/{package}/LICENSE")),
            licence,
            "{package}"
        );
        let changes = read(format!("clients/{package}/CHANGELOG.md"));
        let released = concat!("\n## [", env!("CARGO_PKG_VERSION"), "] - 20");
        assert!(changes.contains(released), "{package}");
        let readme = read(format!("clients/{package}/README.md"));
        for link in readme.split("](").skip(1) {
            assert!(link.starts_with("https://"), "{package}: {link:.40}");
        }
    }
}

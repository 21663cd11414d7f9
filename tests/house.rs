//! What the sources promise, read from the sources themselves.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// How many lines the core may have, and all of the module.
const MOST_LINES: [(&str, usize); 2] = [("src/lock", 10_900), ("src", 18_820)];

/// How many methods a type of the core may have.
const MOST_METHODS: usize = 60;

/// Entries that call nothing which could panic.
const HARMLESS: [&str; 2] = ["never_ready", "absent"];

/// The files below this folder, with their texts, without tests: those at the end of a file, and files of their own.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("tests") || path.ends_with("tests.rs") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("\n#[cfg(test)]\n").next().unwrap();
                found.push((path, code.to_owned()));
            }
        }
    }
    assert!(found.len() > 5, "{folder}");
    found
}

/// Who wants to add something looks first for what can go.
#[test]
fn the_sources_are_no_longer_than_they_may_be() {
    for (folder, most) in MOST_LINES {
        let lines: usize = sources(folder).iter().map(|(_, text)| text.lines().count()).sum();
        assert!(lines <= most, "{folder}: {lines} lines without tests, and at most {most}");
    }
}

#[test]
fn what_could_panic_is_denied_and_nowhere_allowed() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    for lint in DENIED {
        let line = format!("\n{lint} = \"deny\"\n");
        assert!(manifest.contains(&line), "{lint} is not denied in Cargo.toml");
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
            let name: String =
                entry.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
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

/// The text of each file of the core whose path has this in it.
fn room(name: &str) -> Vec<(PathBuf, String)> {
    let mut files = sources("src/lock");
    files.retain(|(path, _)| path.to_string_lossy().contains(name));
    assert!(files.len() > 3, "{name}");
    files
}

/// The methods that this text defines, each with the type that it belongs to.
fn methods(text: &str) -> Vec<(&str, &str)> {
    let (mut found, mut its_type) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("impl") {
            // Behind the parameters, if there are any.
            let head =
                head.split_once("> ").filter(|_| head.starts_with('<')).map_or(head, |it| it.1);
            let is_of_a_trait = line.contains(" for ");
            its_type = head.trim_start().split(['<', ' ']).next().filter(|_| !is_of_a_trait);
        } else if line == "}" {
            its_type = None;
        } else if let Some(its_type) = its_type
            && line.starts_with("    ")
            && !line.starts_with("     ")
            && let Some((before, rest)) = line.split_once("fn ")
            && !before.contains("//")
        {
            found.extend(rest.split(['(', '<']).next().map(|name| (its_type, name)));
        }
    }
    found
}

#[test]
fn who_holds_and_who_waits_are_rooms_that_know_nothing_of_each_other_or_of_the_engine() {
    for (name, others) in [
        ("lock/holds/", ["lock::waiting", "lock::engine", "lock::deadlock"]),
        ("lock/waiting/", ["lock::holds", "lock::engine", "lock::deadlock"]),
        ("lock/deadlock/", ["lock::holds", "lock::engine", "lock::log"]),
    ] {
        for (path, text) in room(name) {
            for other in others {
                assert!(!text.contains(other), "{} knows {other}", path.display());
            }
        }
    }
}

#[test]
fn keys_are_read_where_it_is_known_what_is_remembered_of_their_holds() {
    let mut reads = 0;
    for (path, text) in sources("src/lock") {
        let text = text.split_whitespace().collect::<String>();
        for read in ["look", "share_of", "each_share", "deadline", "has_expired"] {
            let found = text.matches(&format!("keys.{read}(")).count();
            let is_there = path.to_string_lossy().contains("lock/holds/");
            assert!(found == 0 || is_there, "{}: {read}", path.display());
            reads += found;
        }
    }
    assert!(reads > 10, "{reads}");
}

#[test]
fn no_type_of_the_core_has_more_methods_than_a_reader_can_hold_in_the_head() {
    let mut counts = BTreeMap::new();
    for (path, text) in sources("src/lock") {
        for (its_type, _) in methods(&text) {
            *counts.entry(its_type.to_owned()).or_insert(0) += 1;
            let is_engine = path.to_string_lossy().contains("lock/engine/");
            assert!(its_type != "Locks" || is_engine, "{}", path.display());
        }
    }
    assert!(counts["Locks"] > 40, "{counts:?}");
    counts.retain(|_, count| *count > MOST_METHODS);
    assert!(counts.is_empty(), "{counts:?}");
}

#[test]
fn what_begins_something_is_called_by_no_other_file_of_the_engine() {
    let begin = ["breaking", "check", "events", "reply", "release", "renew", "report", "tick"];
    let engine = room("lock/engine/");
    for (path, text) in &engine {
        if !begin.iter().any(|one| path.ends_with(format!("{one}.rs"))) {
            continue;
        }
        for (_, method) in methods(text).into_iter().filter(|(its_type, _)| *its_type == "Locks") {
            for (other, its) in engine.iter().filter(|(other, _)| other != path) {
                assert!(
                    !its.contains(&format!("self.{method}(")),
                    "{} calls {method}",
                    other.display()
                );
            }
        }
    }
}

/// The lines of a page that a reader is shown to type or to copy.
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

/// As Python spells a version that is not released yet.
fn in_python(version: &str) -> String {
    version.replace("-dev", ".dev0")
}

/// Where a changelog has what is new in a version.
fn heading_of(version: &str) -> String {
    match version.strip_suffix("-dev") {
        Some(_) => "\n## [Unreleased]\n".to_owned(),
        None => format!("\n## [{version}] - 20"),
    }
}

/// The module and the packages, which another test compares, are released together.
#[test]
fn what_is_released_beside_the_packages_has_their_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("clients/cli/Cargo.toml", format!("version = \"{version}\"")),
        (
            "clients/python/src/redis_lock_module/__init__.py",
            format!("__version__ = \"{}\"", in_python(version)),
        ),
        ("CHANGELOG.md", heading_of(version)),
        ("docs/install.md", format!("tag: \"{version}\"")),
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
    let constants: String = sources("src/server").into_iter().map(|file| file.1).collect();
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
    for page in ["README.md", "packaging/README.md", "packaging/head.conf", "docs/install.md"] {
        let page = (page, read(page));
        for named in [format!("Redis {redis} and later"), format!("Valkey {valkey} and later")] {
            assert!(page.1.contains(&named), "{}: {named}", page.0);
        }
    }
}

/// The page on installing has a row for each server that the tests run on.
#[test]
fn the_page_on_installing_has_each_of_those_that_are_tested() {
    let page = read("docs/install.md");
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
        assert!(page.contains(&row), "docs/install.md: {row}");
    }
    assert!(count >= 10, "{count}");
}

/// At a minute or less the lock is gone before a reader who types has come to the next line.
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

/// With a compiler and nothing else, one of these two does all that is needed.
#[test]
fn the_readme_names_the_two_commands_that_set_everything_up_and_ci_runs_the_tests_by_one_of_them() {
    let commands = shown("README.md");
    let run = commands.iter().position(|line| line.starts_with("make run ")).expect("make run");
    assert!(commands[run + 1].starts_with("make test "), "{}", commands[run + 1]);
    assert!(read(".ci/run").lines().any(|line| line == "part test make test"));
}

/// Who has followed the hint of `make run`, or has run an example by hand, then follows the README.
#[test]
fn what_make_run_and_the_examples_leave_on_a_server_is_not_in_the_way_of_the_readme() {
    let first = shown("README.md").into_iter().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], [_, "LOCK.ACQUIRE", ..]).then(|| words[2].to_owned())
    });
    let key = first.expect("README.md acquires a lock");
    let hint = read("scripts/run").lines().find(|line| line.contains("Try it:")).map(str::to_owned);
    let hint = hint.expect("make run says what to try");
    assert!(hint.contains(" LOCK.ACQUIRE ") && !hint.contains(&format!(" {key} ")), "{hint}");
    let (mut markets, mut folders) = (0, vec![PathBuf::from("examples")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "node_modules" {
                folders.push(path);
            } else if path.is_file() && name.starts_with("market") {
                markets += 1;
                let text = fs::read_to_string(&path).unwrap();
                for quote in ["\"", "'"] {
                    let named = format!("{quote}{key}{quote}");
                    assert!(!text.contains(&named), "{}: {named}", path.display());
                }
            }
        }
    }
    assert!(markets >= 7, "{markets}");
}

/// CONFIG REWRITE writes a line `loadmodule` into the configuration file itself, and a server that loads a
/// module twice does not start.
#[test]
fn pages_that_show_how_to_load_the_module_have_it_in_the_configuration_file_itself() {
    let pages = ["README.md", "packaging/README.md", "docs/install.md", "clients/python/README.md"];
    let copied = pages.iter().flat_map(|page| shown(page));
    let files = ["redis.conf", "packaging/head.conf", "packaging/deb/postinst", "scripts/install"];
    let said = files.iter().flat_map(|file| {
        let text = read(file);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    let mut loads = 0;
    for line in copied.chain(said) {
        let line = line.trim();
        assert!(!line.starts_with("include ") && !line.contains("--loadmodule"), "{line}");
        loads += usize::from(line.starts_with("loadmodule "));
    }
    assert!(loads >= 4, "{loads}");
}

#[test]
fn the_packages_agree_on_name_version_author_and_licence_and_link_to_nothing_outside_of_themselves()
{
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).expect(&path);
        let is_manifest = !path.ends_with(".md") && !path.ends_with("LICENSE");
        for field in ["repository", "homepage", "<scm>", "<url>"] {
            assert!(!is_manifest || !text.contains(field), "{path}: {field}");
        }
        text
    };
    let licence = read("LICENSE".into());
    for (package, manifest, name) in [
        ("node", "package.json", "redis-lock-module"),
        ("php", "composer.json", "redis-lock-module/symfony-lock"),
        ("python", "pyproject.toml", "redis-lock-module"),
        ("rust", "Cargo.toml", "redis-lock-module"),
    ] {
        let manifest = read(format!("clients/{package}/{manifest}")).replace("\": ", "\" = ");
        let version = match package {
            "python" => in_python(env!("CARGO_PKG_VERSION")),
            _ => env!("CARGO_PKG_VERSION").to_owned(),
        };
        for (field, value) in [("name", name), ("version", version.as_str()), ("license", "MIT")] {
            let says = |line: &str| line.trim().trim_start_matches('"').starts_with(field);
            let line = manifest.lines().find(|line| says(line)).expect(field);
            assert!(line.contains(&format!("= \"{value}\"")), "{package}: {line}");
        }
        assert!(manifest.contains("\"The redis-lock authors\""), "{package}");
    }
    let version = env!("CARGO_PKG_VERSION").replace("-dev", "-SNAPSHOT"); // as Maven spells it
    for module in ["", "core/", "jedis/", "lettuce/", "shedlock/", "spring/", "tests/", "bench/"] {
        let pom = read(format!("clients/java/{module}pom.xml"));
        assert!(pom.contains(&format!("<version>{version}</version>")), "java: {module}");
        assert!(pom.contains("<groupId>redislock</groupId>"), "java: {module}");
        assert!(!pom.contains("<repositories>"), "java: {module}");
    }
    let pom = read("clients/java/pom.xml".into());
    for name in ["MIT", "The redis-lock authors"] {
        assert!(pom.contains(&format!("<name>{name}</name>")), "java: {name}");
    }
    let version = format!(" v{}\n", env!("CARGO_PKG_VERSION"));
    for module in ["", "goredis/", "redigo/", "rueidis/"] {
        let (major, _) = env!("CARGO_PKG_VERSION").split_once('.').unwrap();
        let manifest = read(format!("clients/go/{module}go.mod"));
        let name = format!("module redislock/{module}v{major}\n");
        assert!(manifest.starts_with(&name), "go: {module}");
        let core = format!("redislock/v{major}{version}");
        assert!(module.is_empty() || manifest.contains(&core), "go: {module}");
        let shown = format!("redislock/{module}v{major}{}", version.trim_end());
        let is_shown = read("clients/go/README.md".into()).contains(&shown);
        assert!(is_shown || module.starts_with('r'), "go: {shown}");
    }
    for package in ["go", "java", "node", "php", "python", "rust"] {
        assert_eq!(read(format!("clients/{package}/LICENSE")), licence, "{package}");
        let changes = read(format!("clients/{package}/CHANGELOG.md"));
        assert!(changes.contains(&heading_of(env!("CARGO_PKG_VERSION"))), "{package}");
        let readme = read(format!("clients/{package}/README.md"));
        for link in readme.split("](").skip(1) {
            assert!(link.starts_with("https://"), "{package}: {link:.40}");
        }
    }
}

/// The names of the functions below these folders, tests among them.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = [
        "src",
        "tests",
        "benches",
        "clients/cli/tests",
        "clients/python/tests",
        "clients/rust/tests",
    ]
    .map(String::from)
    .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with(".rs") {
                for rest in read(&path).split("fn ").skip(1) {
                    names.extend(rest.split_once("()").map(|(name, _)| name.to_owned()));
                }
            } else if path.ends_with(".py") {
                for rest in read(&path).split("def ").skip(1) {
                    names.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
                }
            }
        }
    }
    names
}

/// The words of a page that are shown as code and look like the name of a test.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        word.bytes().all(|letter| letter == b'_' || letter.is_ascii_alphanumeric())
            && word.matches('_').count() > 2
            && !word.starts_with("RUST_")
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

#[test]
fn each_test_that_a_page_names_exists() {
    let functions = functions();
    for page in ["tests/faults.txt", "tests/bugs.md", "docs/guarantees.md"] {
        let text = read(page);
        let unknown: Vec<_> = named(&text).filter(|name| !functions.contains(*name)).collect();
        assert!(unknown.is_empty(), "{page}: {unknown:?}");
        assert!(named(&text).count() > 10, "{page}");
    }
}

/// What a contributor is told to run or to open, in backticks or after `run:`, is there.
#[test]
fn what_contributors_and_workflows_are_told_to_run_and_to_open_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let makefile = read("Makefile");
    let mut files: Vec<String> = vec!["docs/CONTRIBUTING.md".into()];
    for folder in [".github", ".github/workflows", ".github/ISSUE_TEMPLATE"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                files.push(format!("{folder}/{}", entry.file_name().to_str().unwrap()));
            }
        }
    }
    assert!(files.len() >= 6, "{files:?}");
    let (mut paths, mut targets) = (0, 0);
    for file in files {
        let text = read(&file);
        let quoted = text.split('`').skip(1).step_by(2);
        let run = text.lines().filter_map(|line| line.trim().strip_prefix("- run: "));
        for said in quoted.chain(run) {
            let words: Vec<&str> = said.split_whitespace().collect();
            if let ["make", target, ..] = words.as_slice() {
                targets += 1;
                assert!(makefile.contains(&format!("\n{target}: ")), "{file}: make {target}");
            }
            let ours = ["src/", "docs/", "clients/", "scripts/", "tests/", ".ci/", ".github/"];
            for path in words.iter().filter(|word| ours.iter().any(|own| word.starts_with(own))) {
                paths += 1;
                assert!(root.join(path).exists(), "{file}: {path}");
            }
        }
        for page in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_there = page.contains("://") || root.join("docs").join(page).exists();
            assert!(is_there, "{file}: {page}");
        }
    }
    assert!(paths >= 10 && targets >= 5, "{paths} {targets}");
    assert!(read(".github/workflows/ci.yml").contains("- run: .ci/run\n"));
    assert!(read(".github/workflows/release.yml").contains("- run: make release\n"));
}

/// Words that readers stumble over, and what to write instead.
const STUMBLES: [(&str, &str); 21] = [
    ("whoever", "the holder, the waiter, the client"),
    ("nobody", "no client, no owner"),
    ("somebody", "a client, an operator"),
    ("for ever", "indefinitely"),
    ("in vain", "without success"),
    ("is told", "receives, gets"),
    ("are told", "receive, get"),
    ("was told", "received, got"),
    ("were told", "received, got"),
    ("all the same", "still"),
    ("ask again", "retry, poll"),
    ("asks again", "retries, polls"),
    ("asking again", "a retry, polling"),
    ("hand-over", "handoff"),
    ("hand-overs", "handoffs"),
    ("fencing number", "fencing token"),
    ("fencing numbers", "fencing tokens"),
    ("foreign write", "external write"),
    ("turn of the loop", "event-loop iteration"),
    ("turn of the event loop", "event-loop iteration"),
    ("in the same instant", "atomically"),
];

/// What users read: pages, the list of targets, and the texts in the sources (errors, COMMAND DOCS, log lines).
fn read_by_users() -> Vec<(String, String)> {
    let texts = sources("src").into_iter().map(|(path, text)| {
        let is_text = |line: &&str| line.contains('"') && !line.trim_start().starts_with("//");
        (path.display().to_string(), text.lines().filter(is_text).collect::<Vec<_>>().join("\n"))
    });
    let mut read_by_users: Vec<_> = texts.collect();
    let mut names =
        ["README.md", "Makefile", "redis.conf", "benches/README.md"].map(String::from).to_vec();
    names.extend(["docs", "examples", "packaging", "clients"].map(String::from));
    while let Some(name) = names.pop() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
        let skips = ["node_modules", "target", "CHANGELOG.md", "architecture.md"];
        if skips.iter().any(|skipped| path.ends_with(skipped)) {
            continue;
        }
        if path.is_dir() {
            let inside = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            names.extend(inside.map(|inside| format!("{name}/{}", inside.to_str().unwrap())));
        } else if [".md", "Makefile", ".conf"].iter().any(|end| name.ends_with(end)) {
            read_by_users.push((name.clone(), read(&name)));
        }
    }
    assert!(read_by_users.len() > 100, "{}", read_by_users.len());
    read_by_users
}

/// Is this in the text, and not only as a part of longer words?
fn says(text: &str, words: &str) -> bool {
    let around: Vec<_> = text.split(words).collect();
    around.windows(2).any(|sides| {
        !sides[0].ends_with(char::is_alphanumeric) && !sides[1].starts_with(char::is_alphanumeric)
    })
}

#[test]
fn what_users_read_is_in_words_that_they_know() {
    assert!(says("waits for ever.", "for ever") && !says("for every key", "for ever"));
    let mut found = Vec::new();
    for (file, text) in read_by_users() {
        for line in text.lines() {
            let lower = line.to_lowercase();
            let stumbles = STUMBLES.iter().filter(|(words, _)| says(&lower, words));
            found.extend(
                stumbles.map(|(words, better)| format!("{file}: {words} ({better}): {line}")),
            );
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The rule and the test that the page leads to.
#[test]
fn the_change_that_the_page_for_contributors_leads_through_can_be_made() {
    let page = read("docs/CONTRIBUTING.md");
    for (file, has) in [
        ("src/lock/waiting/mod.rs", "fn check_room("),
        ("src/lock/waiting/mod.rs", "before >= most"),
        (
            "src/lock/tests/rules/shedding.rs",
            "fn a_request_waits_behind_fewer_than_it_says_and_else_is_told_how_many_wait() {",
        ),
    ] {
        assert!(read(file).contains(has), "{file}: {has}");
        let word = has.trim_start_matches("fn ").trim_start_matches("if ");
        let word = word.split(['(', '{']).next().unwrap().trim();
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn each_bug_has_a_test_and_what_it_would_have_done() {
    let page = read("tests/bugs.md");
    let table = page.split("## In servers").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let mut count = 0;
    for row in rows.skip(1) {
        count += 1;
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [_, done, found, test] = cells.as_slice() else {
            panic!("{row}");
        };
        assert!(done.len() > 5 && !found.is_empty(), "{row}");
        assert!(test.contains('`') || test.contains("by hand"), "{row}");
    }
    assert!(count > 100, "{count}");
}

/// Of a line of the table of faults.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches(['|', ' ']).split('|').map(str::trim).collect()
}

#[test]
fn each_cell_of_the_table_of_faults_is_a_test_or_has_a_reason() {
    let table = read("tests/faults.txt");
    let tests: BTreeSet<_> = (table.lines())
        .filter_map(|line| line.split_once(". `"))
        .map(|(number, _)| number)
        .collect();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let (columns, rows) = rows.split_first().unwrap();
    assert!(rows.len() > 12);
    let mut used = BTreeSet::new();
    for row in rows {
        assert_eq!(row.len(), columns.len(), "{row:?}");
        for word in row[1..].iter().flat_map(|cell| cell.split(' ')) {
            let has_reason = word.starts_with('-') && table.contains(&format!("\n{word}: "));
            assert!(has_reason || tests.contains(word), "{word:?} in {row:?}");
            used.insert(word);
        }
    }
    let unused: Vec<_> = tests.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// The picture, and the rows below it, say what the table does.
#[test]
fn the_page_of_the_tests_shows_the_table_of_faults() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let drawn = Command::new(root.join("tests/only")).arg("--draw").output().unwrap();
    let picture = String::from_utf8(drawn.stdout).unwrap();
    assert!(
        picture.ends_with("</svg>\n") && picture == read("docs/faults.svg"),
        "tests/only --draw"
    );
    let (table, page) = (read("tests/faults.txt"), read("docs/testing.md"));
    let lines: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let (columns, rows) = lines.split_first().unwrap();
    for row in rows {
        let (name, _) = row[0].split_once(": ").unwrap();
        let shown = format!("| <a id=\"{name}\"></a>");
        let shown = page.lines().find(|line| line.starts_with(&shown)).expect(name);
        let named: Vec<_> = match cells(shown)[1].strip_prefix("all") {
            Some(but) => {
                let but: Vec<_> = but.trim_start_matches(" but ").split(", ").collect();
                columns[1..].iter().copied().filter(|column| !but.contains(column)).collect()
            }
            None => cells(shown)[1].split(", ").collect(),
        };
        let tested = columns.iter().zip(row).skip(1);
        let tested = tested.filter(|(_, cell)| !cell.starts_with('-'));
        assert_eq!(named, tested.map(|(column, _)| *column).collect::<Vec<_>>(), "{name}");
    }
    assert!(page.split_whitespace().count() <= 2000, "a page for others to read");
}

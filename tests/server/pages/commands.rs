//! Each command's page says of it what the server says.

use super::files::{self, Page};
use crate::support::*;
use std::collections::BTreeSet;

fn page_of<'a>(pages: &'a [Page], command: &str) -> &'a Page {
    let name = format!("docs/commands/{command}.md");
    (pages.iter().find(|page| page.name == name)).unwrap_or_else(|| panic!("there is no {name}"))
}

fn commands(client: &mut Client) -> Vec<String> {
    let listed = cmd!(client, "COMMAND", "LIST", "FILTERBY", "MODULE", "lock");
    let mut names: Vec<_> = listed.items().iter().map(Value::text).collect();
    names.sort();
    assert_eq!(names.len(), 12);
    names
}

#[test]
fn every_command_has_a_page_that_says_of_it_what_the_server_says() {
    let server = Server::start();
    let mut client = server.client3();
    let pages = files::pages();
    let mut later = 0;
    for command in commands(&mut client) {
        let page = page_of(&pages, &command);
        let docs = cmd!(client, "COMMAND", "DOCS", &command);
        let docs = &docs[command.as_str()];
        let name = command.to_uppercase();
        for part in [
            format!("# {name}\n"),
            format!("\n```\n{name} {}\n```\n", syntax(docs["arguments"].items())),
            format!("| Available since | {} |", docs["since"].text()),
            format!("| Time complexity | {} |", docs["complexity"].text()),
        ] {
            assert!(page.text.contains(&part), "{}: no {part:?}", page.name);
        }
        for argument in docs["arguments"].items() {
            for word in words_of(argument) {
                let row = format!("| `{word}` |");
                assert!(page.text.contains(&row), "{}: no {row:?}", page.name);
            }
            let Some(since) = argument.field("since").map(Value::text) else { continue };
            later += 1;
            let history = page.text.split("## History").nth(1).unwrap();
            let line = history.lines().find(|line| line.starts_with(&format!("- {since}: ")));
            let named = format!("`{}", argument["token"].text());
            assert!(line.is_some_and(|line| line.contains(&named)), "{}: {named}", page.name);
        }
    }
    assert!(later > 0, "no argument has come later than its command");
}

#[test]
fn every_page_of_a_command_says_its_acl_categories() {
    let server = Server::start();
    let version = server.version();
    skip_unless!(
        version.is_at_least((7, 2), (7, 2)),
        "a module's commands have no ACL categories here"
    );
    let has_our_category = version.is_at_least((7, 4), (8, 0));
    let mut client = server.client();
    let pages = files::pages();
    for command in commands(&mut client) {
        let page = page_of(&pages, &command);
        let row = page.text.lines().find(|line| line.starts_with("| ACL categories |"));
        let mut said: BTreeSet<String> = (row.expect("a row of ACL categories").split('`'))
            .filter(|word| word.starts_with('@'))
            .map(str::to_owned)
            .collect();
        assert!(said.contains("@lock"), "{}", page.name);
        if !has_our_category {
            said.remove("@lock");
        }
        let info = cmd!(client, "COMMAND", "INFO", &command);
        let real = info[0][6].items().iter().map(Value::text).collect();
        assert_eq!(said, real, "{}", page.name);
    }
}

#[test]
fn the_list_of_commands_leads_to_every_page_and_to_no_other() {
    let server = Server::start();
    let pages = files::pages();
    let list = (pages.iter().find(|page| page.name == "docs/commands.md")).unwrap();
    let named: BTreeSet<_> =
        (pages.iter()).filter_map(|page| page.name.strip_prefix("docs/commands/")).collect();
    let files: Vec<_> =
        (commands(&mut server.client()).iter()).map(|command| format!("{command}.md")).collect();
    assert_eq!(named, files.iter().map(String::as_str).collect());
    for (file, name) in files.iter().zip(commands(&mut server.client())) {
        let link = format!("[{}](commands/{file})", name.to_uppercase());
        assert!(list.text.contains(&link), "no {link}");
    }
}

/// The words of a command as `COMMAND DOCS` describes them, in the way of the server's own pages.
fn syntax(arguments: &[Value]) -> String {
    let words: Vec<_> = arguments.iter().map(one).collect();
    words.join(" ")
}

fn has_flag(argument: &Value, flag: &str) -> bool {
    let flags = argument.field("flags");
    flags.is_some_and(|flags| match flags {
        Value::Array(flags) | Value::Set(flags) => flags.iter().any(|one| *one == flag),
        _ => false,
    })
}

fn one(argument: &Value) -> String {
    let name = argument["name"].text();
    let token = argument.field("token").map(Value::text);
    let word = match (argument["type"].text().as_str(), token) {
        // What it may be is said in the table of arguments.
        ("oneof", Some(token)) => format!("{token} {name}"),
        ("oneof", None) => {
            let choices: Vec<_> = argument["arguments"].items().iter().map(one).collect();
            choices.join(" | ")
        }
        ("pure-token", Some(token)) => token,
        ("block", token) => {
            let parts = argument["arguments"].items().iter().map(one);
            token.into_iter().chain(parts).collect::<Vec<_>>().join(" ")
        }
        (_, Some(token)) => format!("{token} {name}"),
        (_, None) => name.clone(),
    };
    let is_optional = has_flag(argument, "optional");
    match (has_flag(argument, "multiple"), is_optional) {
        (true, true) => format!("[{word} [{name} ...]]"),
        (true, false) => format!("{word} [{name} ...]"),
        (false, true) => format!("[{word}]"),
        (false, false) => word,
    }
}

/// The words by which a page's table of arguments names this one.
fn words_of(argument: &Value) -> Vec<String> {
    match argument["type"].text().as_str() {
        "oneof" if argument.field("token").is_some() => vec![one(argument)],
        "oneof" => (argument["arguments"].items().iter()).flat_map(words_of).collect(),
        "pure-token" => vec![argument["token"].text()],
        "block" if argument.field("token").is_none() => {
            (argument["arguments"].items().iter()).flat_map(words_of).collect()
        }
        "block" => vec![one(argument).trim_matches(['[', ']']).to_owned()],
        _ => match argument.field("token") {
            Some(token) => vec![format!("{} {}", token.text(), argument["name"].text())],
            None => vec![argument["name"].text()],
        },
    }
}

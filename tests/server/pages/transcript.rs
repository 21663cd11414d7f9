//! Transcripts, found in a page and taken apart.

use super::files::Page;

pub struct Transcript {
    page: String,
    pub steps: Vec<Step>,
}

/// Something is said, or heard.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// The line in the page, counted from 1.
    pub line: usize,
    /// The connection's name; the nameless one is one too.
    pub client: String,
    /// The command as it was typed; none where a command of before is answered at last.
    pub typed: Option<String>,
    /// None: it waits.
    pub answer: Vec<String>,
}

impl Transcript {
    /// Where to look: at a step, or at its beginning.
    pub fn place(&self, step: usize) -> String {
        let line = self.steps.get(step).map_or(0, |step| step.line);
        format!("{}:{line}", self.page)
    }
}

pub fn all_in(page: &Page) -> Vec<Transcript> {
    let shown = blocks(page).into_iter().filter(|block| is_transcript(block));
    shown.map(|block| Transcript { page: page.name.clone(), steps: steps(&block) }).collect()
}

/// Where commands of ours stand one below the other and no prompt says them, so that they are not tried.
pub fn said_by_no_prompt(page: &Page) -> Vec<String> {
    let blocks = blocks(page).into_iter();
    blocks
        .filter(|block| block.len() > 1 && block[0].1.starts_with("LOCK."))
        .map(|block| format!("{}:{}", page.name, block[0].0))
        .collect()
}

type Block<'a> = Vec<(usize, &'a str)>;

fn is_transcript(block: &Block<'_>) -> bool {
    let first = block.iter().find(|(_, line)| !is_comment(line));
    first.is_some_and(|(_, line)| prompt(line).is_some())
}

/// The fenced blocks of a page, with the numbers of their lines.
fn blocks(page: &Page) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(page.text.lines());
    while let Some((_, line)) = lines.next() {
        let text = line.trim_start();
        if !text.starts_with("```") {
            continue;
        }
        let indent = line.len() - text.len();
        let block = lines
            .by_ref()
            .take_while(|(_, line)| !line.trim_start().starts_with("```"))
            .map(|(number, line)| (number, line.get(indent..).unwrap_or_default().trim_end()))
            .collect();
        blocks.push(block);
    }
    blocks
}

fn steps(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for &(line, text) in block {
        if is_comment(text) {
            continue;
        }
        let step =
            |client: &str, typed, answer| Step { line, client: client.to_owned(), typed, answer };
        if let Some((client, typed)) = prompt(text) {
            steps.push(step(client, Some(typed.to_owned()), Vec::new()));
        } else if let Some((client, heard)) = late_answer(text, &steps) {
            steps.push(step(client, None, vec![heard.to_owned()]));
        } else if let Some(step) = steps.last_mut() {
            step.answer.push(text.to_owned());
        }
    }
    // Lines without text may set off the parts of a transcript.
    for step in &mut steps {
        while step.answer.last().is_some_and(String::is_empty) {
            step.answer.pop();
        }
    }
    steps
}

fn is_comment(line: &str) -> bool {
    line.starts_with("# ")
}

/// `ann> PING`, `ann(TX)> PING`, `> PING`
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (before, typed) = line.split_once("> ")?;
    let client = before.strip_suffix("(TX)").unwrap_or(before);
    is_name(client).then_some((client, typed))
}

/// `bob: (nil)`, where bob has typed a command before.
fn late_answer<'a>(line: &'a str, steps: &[Step]) -> Option<(&'a str, &'a str)> {
    let (client, heard) = line.split_once(": ")?;
    (steps.iter()).any(|step| step.client == client).then_some((client, heard))
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The words of a command as redis-cli reads them.
pub fn words(typed: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = typed.chars().peekable();
    while letters.next_if_eq(&' ').is_some() || letters.peek().is_some() {
        let quote = letters.next_if(|letter| matches!(letter, '"' | '\''));
        let end = quote.unwrap_or(' ');
        let mut word = String::new();
        while let Some(letter) = letters.next_if(|&letter| letter != end) {
            match letter {
                '\\' if quote == Some('"') => word.extend(letters.next()),
                _ => word.push(letter),
            }
        }
        if quote.is_some() {
            letters.next();
        }
        if quote.is_some() || !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[test]
fn a_transcript_is_taken_apart() {
    let page = Page {
        name: "page.md".to_owned(),
        text: "Text\n> a quotation\n\n```\n# first\nann> SET \"a b\" 'c\"d'\nOK\nbob(TX)> GET k\n# waits\nann> QUIT\nOK\nbob: 1) a\n2) b\n\n```\n```\nmake\n```\n"
            .to_owned(),
    };
    let found = all_in(&page);
    assert_eq!(found.len(), 1);
    let step = |line, client: &str, typed: Option<&str>, answer: &[&str]| Step {
        line,
        client: client.to_owned(),
        typed: typed.map(str::to_owned),
        answer: answer.iter().map(|&line| line.to_owned()).collect(),
    };
    assert_eq!(
        found[0].steps,
        [
            step(6, "ann", Some("SET \"a b\" 'c\"d'"), &["OK"]),
            step(8, "bob", Some("GET k"), &[]),
            step(10, "ann", Some("QUIT"), &["OK"]),
            step(12, "bob", None, &["1) a", "2) b"]),
        ]
    );
    assert_eq!(words(found[0].steps[0].typed.as_deref().unwrap()), ["SET", "a b", "c\"d"]);
    assert_eq!(words(r#"EVAL "return \"x\"" 0  ''"#), ["EVAL", "return \"x\"", "0", ""]);
}

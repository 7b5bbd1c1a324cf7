//! What the rehearsal model answers to text that is not a script.

use std::fmt::Write as _;

use super::conversation::Conversation;

const HELLO: &str = "Hello, and welcome to Lodge!

I am the rehearsal model: built in and offline. I am not an LLM. I play short scripts, so that you can watch streaming, \
reasoning, tools, questions, approvals and failures before you set up a real model.

Try one of these:
  call bash {\"command\":\"ls\"} then say done
  think about doors then say They open.
  ask \"Which colour?\" choices red, blue
  stream 200 chunks slowly

Say `help` for more; docs/rehearsal.md has everything.";

const HELP: &str = "I am Lodge's rehearsal model. Lodge is an agent host: it runs agent sessions, lets many clients see and \
steer them, and keeps every event in a log that survives a crash. I need no network and play scripts like these:

  say X                                   answers X
  stream 20000 chunks of 32 bytes         a long answer
  think aloud · think about X             reasoning, then an answer
  call bash {\"command\":\"ls\"}              calls a tool; `and view {…}` adds a second call
  ask \"Which colour?\" choices red, blue   asks you
  start an agent \"say hello\"             a sub-agent; `start a background agent …`, `use the skill X`
  fail with rate limit 2 times            also: context too long, broken stream, authentication, quota, server error
  wait 500 ms · slowly                    takes its time
  … then …                                continues when the tools have answered

docs/rehearsal.md has the rest.

To use a real model, run `lodge setup`, or set LODGE_PROVIDER_BASE_URL, LODGE_PROVIDER_API_KEY and LODGE_MODEL (any server \
that speaks the OpenAI or Anthropic API, also a local one). See docs/models.md.";

/// The answer to words that are no script.
pub(super) fn talk(conversation: &Conversation<'_>) -> String {
    let words = conversation.words.trim();
    if words.starts_with("Please create a detailed summary of the conversation so far") {
        return compaction(conversation);
    }
    let plain: String = words
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ')
        .collect::<String>()
        .to_lowercase();
    let plain = plain.trim();
    let first = plain.split(' ').next().unwrap_or_default();
    match plain {
        "" => "That message has no text. Say `help` to see what I can do.".to_owned(),
        "help" | "what can you do" | "who are you" | "what are you" | "what is lodge" | "what is this" => {
            HELP.to_owned()
        }
        "what did i say" => what_was_said(conversation),
        _ if matches!(first, "hello" | "hi" | "hey" | "hallo" | "moin") || plain.starts_with("good ") => {
            HELLO.to_owned()
        }
        _ => unknown(words),
    }
}

/// The answer to a script that does not parse.
pub(super) fn not_understood(complaint: &str) -> String {
    format!(
        "{complaint}.\n\nI am the rehearsal model and understand only a small script language: say `help` to see it, or read \
         docs/rehearsal.md. To talk freely, set up a real model (docs/models.md)."
    )
}

/// The answer after tools have run and the script is at its end.
pub(super) fn summary_of_results(conversation: &Conversation<'_>) -> String {
    let results = conversation.last_results();
    if results.is_empty() {
        return "That was all.".to_owned();
    }
    let lines: Vec<String> = results
        .iter()
        .map(|(name, content)| format!("{name} answered: {}", first_line(content)))
        .collect();
    format!("Done. {}", lines.join("; "))
}

/// What the request held.
pub(super) fn description(conversation: &Conversation<'_>) -> String {
    let request = conversation.request;
    let mut tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    tools.sort_unstable();
    format!(
        "I was sent {}, {}, a system prompt of {}, reasoning effort {}, and {}: {}.",
        count(request.messages.len(), "message"),
        count(conversation.images(), "image"),
        count(request.system.len(), "byte"),
        request.reasoning_effort.as_deref().unwrap_or("unset"),
        count(tools.len(), "tool"),
        if tools.is_empty() {
            "none".to_owned()
        } else {
            tools.join(", ")
        }
    )
}

fn unknown(words: &str) -> String {
    format!(
        "You said “{}”. I am the rehearsal model: offline, deterministic, and not an LLM. I understand only a small script \
         language (say `help` to see it; docs/rehearsal.md has everything).\n\nFor a model that understands you, run `lodge \
         setup`, or set LODGE_PROVIDER_BASE_URL, LODGE_PROVIDER_API_KEY and LODGE_MODEL.",
        first_line(words)
    )
}

fn what_was_said(conversation: &Conversation<'_>) -> String {
    let earlier = conversation.earlier_words();
    if earlier.is_empty() {
        return "This is your first message.".to_owned();
    }
    // Writing to a string cannot fail.
    let mut text = format!("Before this you said {}:", count(earlier.len(), "thing"));
    for words in &earlier[earlier.len().saturating_sub(20)..] {
        let _ = write!(text, "\n- {}", first_line(words));
    }
    text
}

fn compaction(conversation: &Conversation<'_>) -> String {
    let mut text = format!(
        "Summary by the rehearsal model of {}. The person said:",
        count(conversation.request.messages.len().saturating_sub(1), "message")
    );
    let earlier = conversation.earlier_words();
    for words in &earlier[earlier.len().saturating_sub(20)..] {
        let _ = write!(text, "\n- {}", first_line(words));
    }
    text
}

/// A number with its noun, which follows it into the plural.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The first line with anything on it, cut to a readable length.
fn first_line(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("(nothing)")
        .trim();
    match line.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

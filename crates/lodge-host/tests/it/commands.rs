//! Slash commands, and taking a session back.

use lodge_host::{Approval, CommandSource, Format, Invoked, Mode, NewSession, Prompt};

use crate::kit::{House, Probe, house, log_of};

fn free() -> NewSession {
    NewSession {
        approval: Approval::ApproveAll,
        ..NewSession::default()
    }
}

async fn told(probe: &Probe, name: &str, input: &str) -> String {
    match probe.session.invoke(name, input).await {
        Ok(Some(Invoked::Done(text))) => text,
        other => panic!("/{name} {input}: {other:?}"),
    }
}

fn create(house: &House, name: &str, text: &str) -> String {
    format!(
        r#"call create {{"path":"{}/{name}","file_text":"{text}"}} then say made {name}"#,
        house.cwd().display()
    )
}

#[tokio::test]
async fn the_commands_of_the_house_do_what_they_say() {
    let house = house();
    let mut probe = house.session_with(free()).await;
    probe.turn(&create(&house, "a.txt", "one\\ntwo")).await;
    for (name, input, part) in [
        ("help", "", "`/rewind [N] [chat]`"),
        ("HELP", "", "`/help`"),
        ("/help", "", "`/help`"),
        ("usage", "", "rehearsal: 2 calls"),
        ("context", "", "128000 tokens"),
        ("diff", "", "a.txt (+2 -0)"),
        ("tools", "", "`bash`"),
        ("model", "", "`rehearsal`: Rehearsal (offline) (in use)"),
        ("model", "rehearsal", "Switched to rehearsal"),
        ("mode", "", "interactive"),
        ("mode", "plan", "now plan"),
        ("plan", "", "The mode is plan"),
        ("mode", "interactive", "now interactive"),
        ("title", "My work", "Renamed: My work"),
        ("rename", "", ""),
        ("title", "", "My work"),
        ("fork", "Another", "“Another” is a copy"),
        ("export", "html page.html", "page.html"),
        ("clear", "", "forgotten"),
    ] {
        let text = told(&probe, name, input).await;
        assert!(text.contains(part), "/{name} {input}: {text}");
    }
    assert!(house.cwd().join("page.html").exists());
    for (name, input, part) in [
        ("model", "nonsense", "nonsense"),
        ("mode", "fast", "There is no mode"),
        ("rewind", "9", "You can rewind 1 to 1"),
        ("rewind", "0", "You can rewind 1 to 1"),
        ("rewind", "x", "Unknown argument"),
        ("export", "page.html", "cannot be written"),
    ] {
        let error = probe.session.invoke(name, input).await.unwrap_err().to_string();
        assert!(error.contains(part), "/{name} {input}: {error}");
    }
    assert_eq!(probe.session.invoke("nonsense", "").await.unwrap(), None);
}

#[tokio::test]
async fn diff_shows_the_lines_of_each_file_in_a_block_that_nothing_in_it_ends() {
    let house = house();
    std::fs::write(house.cwd().join("old.txt"), "one\ntwo\n").unwrap();
    let mut probe = house.session_with(free()).await;
    let edit = |old: &str, new: &str| {
        let path = house.cwd().join("old.txt");
        let args = serde_json::json!({ "path": path, "old_str": old, "new_str": new });
        format!("call edit {args} then say edited")
    };
    probe.turn(&edit("two", "three")).await;
    let text = told(&probe, "diff", "").await;
    assert_eq!(
        text,
        "- old.txt (+1 -1)\n\n```diff\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n```\n\n"
    );
    probe.turn(&edit("three", "```\n````")).await;
    let text = told(&probe, "diff", "").await;
    let block = "`````diff\n@@ -1,2 +1,3 @@\n one\n-two\n+```\n+````\n`````\n";
    assert!(text.contains(block), "{text}");
    let rows = |count: usize| "row\\n".repeat(count);
    probe.turn(&create(&house, "long.txt", &rows(500))).await;
    probe.turn(&create(&house, "wide.txt", &"w".repeat(1000))).await;
    let text = told(&probe, "diff", "").await;
    let long = text.split("- long.txt (+500 -0)").nth(1).unwrap();
    let long = long.split("- old.txt").next().unwrap();
    assert_eq!(long.matches("\n+row").count(), 399, "{long}");
    assert!(long.ends_with("```\n\n… 101 more lines\n\n"), "{long}");
    assert!(text.contains(&format!("\n+{}…\n", "w".repeat(299))), "{text}");
    for number in 0..5 {
        probe
            .turn(&create(&house, &format!("more-{number}.txt"), &rows(450)))
            .await;
    }
    let text = told(&probe, "diff", "").await;
    let lines = text
        .lines()
        .filter(|line| line.starts_with(['+', '-', '@']) && !line.starts_with("- "))
        .count();
    assert!(lines <= 2_000, "{lines}");
    assert!(text.contains("- wide.txt (+1 -0)\n… "), "{text}");
}

#[tokio::test]
async fn a_message_that_is_a_command_is_carried_out_and_the_rest_is_said() {
    let house = house();
    let dir = house.cwd().join(".github/prompts");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(
        dir.join("greet.prompt.md"),
        "---\ndescription: Greets\n---\nsay hello, $ARGUMENTS",
    )
    .unwrap();
    let mut probe = house.session_with(free()).await;
    let prompt = |text: &str| Prompt {
        text: text.into(),
        ..Prompt::default()
    };
    let answer = probe.session.say(prompt("/title Mine")).await.unwrap();
    assert!(answer.unwrap().contains("Mine"));
    for (text, said, shown) in [
        ("/greet you", "hello, you", "/greet you"),
        ("say plain", "plain", "say plain"),
        ("/plan say planned", "planned", "/plan say planned"),
    ] {
        probe.seen.clear();
        assert_eq!(probe.session.say(prompt(text)).await.unwrap(), None);
        probe.until_idle().await;
        assert_eq!(probe.said(), said);
        let content = probe.seen.iter().find_map(|event| match event.payload() {
            lodge_events::Payload::UserMessage(message) => Some(message.content.clone()),
            _ => None,
        });
        assert_eq!(content.as_deref(), Some(shown));
    }
    for unknown in ["/nosuch", "/nosuch do it", "/mcp__nobody__prompt"] {
        probe.seen.clear();
        let error = probe.session.say(prompt(unknown)).await.unwrap_err().to_string();
        let name = unknown.split(' ').next().unwrap();
        assert!(error.contains(&format!("There is no command `{name}`")), "{error}");
    }
    probe.turn("say nothing was sent").await;
    let sent = probe.session.history().unwrap().events();
    assert!(!sent.flatten().any(|event| event.as_str().contains("nosuch")));
    assert_eq!(probe.session.settings().mode, Mode::Plan);
    let commands = probe.session.commands().await;
    let greet = commands.iter().find(|command| command.name == "greet").unwrap();
    assert_eq!(greet.description, "Greets");
    assert!(matches!(greet.source, CommandSource::File(_)));
    assert!(commands.is_sorted_by_key(|command| command.name.clone()));
}

#[tokio::test]
async fn a_session_is_taken_back_with_its_files_and_put_back_exactly() {
    let house = house();
    let mut probe = house.session_with(free()).await;
    probe.turn(&create(&house, "a.txt", "a")).await;
    probe.turn(&create(&house, "b.txt", "b")).await;
    probe.turn(&create(&house, "c.txt", "c")).await;
    // What hangs beside the chain was never gone, so it stays where it is. What messages said while they waited is not
    // needed any more.
    let bytes = |probe: &Probe| {
        let log = log_of(&probe.session);
        let (beside, chain): (Vec<_>, Vec<_>) = log.into_iter().partition(lodge_events::Event::is_beside);
        let beside = beside
            .iter()
            .filter(|event| !event.is::<lodge_events::LodgeMessageQueued>());
        let beside: std::collections::BTreeSet<_> = beside.map(lodge_events::Event::id).collect();
        (
            chain.iter().map(|event| event.json().clone()).collect::<Vec<_>>(),
            beside,
        )
    };
    let before = bytes(&probe);
    let there = |name: &str| house.cwd().join(name).exists();
    for (input, files) in [
        ("1", [true, true, false]),
        ("2", [true, false, false]),
        ("3 chat", [true, true, true]),
    ] {
        told(&probe, "rewind", input).await;
        assert_eq!(["a.txt", "b.txt", "c.txt"].map(there), files, "/rewind {input}");
        let left = probe.session.rewind_points().await.unwrap().len();
        assert_eq!(left, 3 - input[..1].parse::<usize>().unwrap());
        assert!(bytes(&probe).0.len() < before.0.len());
        told(&probe, "undo", "").await;
        assert_eq!(["a.txt", "b.txt", "c.txt"].map(there), [true; 3], "/undo of {input}");
        assert!(bytes(&probe) == before, "/undo of {input}");
        assert!(told(&probe, "undo", "").await.contains("nothing to restore"));
    }
    assert!(probe.turn("what did i say?").await.contains("c.txt"));
}

#[tokio::test]
async fn what_was_said_since_is_not_lost_to_an_undo() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    probe.turn("say two").await;
    told(&probe, "rewind", "").await;
    probe.turn("say three").await;
    let error = probe.session.invoke("undo", "").await.unwrap_err().to_string();
    assert!(error.contains("cannot be undone"), "{error}");
    assert_eq!(probe.turn("say four").await, "four");
    log_of(&probe.session);
}

#[tokio::test]
async fn a_file_that_somebody_changed_is_left_alone_and_told() {
    let house = house();
    let mut probe = house.session_with(free()).await;
    probe.turn(&create(&house, "a.txt", "a")).await;
    std::fs::write(house.cwd().join("a.txt"), "mine").unwrap();
    let text = told(&probe, "rewind", "").await;
    assert!(text.contains("left alone"), "{text}");
    assert_eq!(std::fs::read_to_string(house.cwd().join("a.txt")).unwrap(), "mine");
}

#[tokio::test]
async fn a_command_given_as_a_message_is_seen_by_people_and_not_by_the_model() {
    let house = house();
    let mut probe = house.session().await;
    probe.turn("say one").await;
    let messages = probe.session.context_size().unwrap().messages;
    probe.seen.clear();
    probe
        .session
        .commanded("m1".into(), "/usage".into(), "Little.".into())
        .await
        .unwrap();
    probe.until_idle().await;
    assert_eq!(probe.kinds(), ["user.message", "session.info", "session.idle"]);
    assert_eq!(probe.session.context_size().unwrap().messages, messages);
    assert!(!probe.turn("what did i say?").await.contains("usage"));
    let export = lodge_host::Export::of(probe.session.history().unwrap(), None).unwrap();
    let page = export.render(Format::Markdown);
    assert!(page.contains("/usage") && page.contains("Little."), "{page}");
}

#[tokio::test]
async fn exports_hold_what_was_said_and_done_and_nothing_runs_in_them() {
    let house = house();
    let mut probe = house.session_with(free()).await;
    probe.turn("say <script>alert(1)</script>").await;
    probe
        .turn(r#"call bash {"command":"echo '</pre><b>`````'"} then say done"#)
        .await;
    probe.turn(r#"call bash {"command":"exit 3"} then say done"#).await;
    let export = lodge_host::Export::of(probe.session.history().unwrap(), None).unwrap();
    let html = export.render(Format::Html);
    assert!(!html.contains("<script") && !html.contains("</pre><b>"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(html.contains("<details class=\"tool\">"), "{html}");
    assert!(html.contains("<details class=\"tool failed\">"), "{html}");
    let markdown = export.render(Format::Markdown);
    assert!(
        markdown.contains("<details><summary>✓ bash")
            && markdown.contains("``````")
            && markdown.contains("✗ bash exit 3"),
        "{markdown}"
    );
    assert_eq!(
        export.render(Format::Jsonl).lines().count(),
        log_of(&probe.session).len()
    );
    assert_eq!(export.file_name(Format::Html), "say-script-alert-1-script.html");
}

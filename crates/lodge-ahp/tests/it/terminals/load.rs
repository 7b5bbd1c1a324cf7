//! Terminals under load: much output, slow clients, storms, kills.

use super::*;

#[tokio::test]
async fn late_joiners_get_what_the_others_see_and_the_past_is_bounded() {
    let limit = 64 << 10;
    let house = house_with(Limits {
        terminal_bytes: limit,
        ..Limits::default()
    })
    .await;
    let mut a = house.client("a").await;
    let mut mirror = a.terminal(T).await;
    a.command(&mut mirror, T, "printf '\\033[32m'; seq 1 60000; echo en''d")
        .await;
    let mut late = house.client("late").await;
    let mut other = Mirror::default();
    other.snapshot(&late.subscribe(T).await);
    let kept = text(&other.state(T));
    assert!(kept.len() <= limit && kept.len() > limit / 4, "{}", kept.len());
    // It begins with a line, in the colour and the mode that were set long before.
    let prelude = "\u{1b}[?2004l\u{1b}[32m";
    let rest = kept
        .strip_prefix(prelude)
        .unwrap_or_else(|| panic!("{:?}", &kept[..40]));
    a.mirror_until(&mut mirror, T, has(rest)).await;
    assert!(rest.lines().next().unwrap().parse::<u32>().is_ok(), "{:?}", &rest[..40]);
    // From then on both stay in step, whatever comes.
    let mut aligned = 0;
    for line in ["echo more", "false", "seq 1 20000", "printf x"] {
        a.command(&mut mirror, T, line).await;
        let done = |state: &Value| {
            let last = state["content"]
                .as_array()
                .unwrap()
                .iter()
                .rfind(|part| part["type"] == "command");
            last.is_some_and(|part| part["commandLine"] == line && part["isComplete"] == true)
        };
        let one = a.mirror_until(&mut mirror, T, done).await;
        let two = late.mirror_until(&mut other, T, done).await;
        let commands = |state: &Value| -> Vec<Value> {
            let parts = state["content"].as_array().unwrap().iter();
            parts.filter(|part| part["type"] == "command").cloned().collect()
        };
        let (one, two) = (commands(&one), commands(&two));
        assert_eq!(one.last(), two.last());
        aligned += 1;
    }
    assert_eq!(aligned, 4);
}

#[tokio::test]
async fn a_hundred_megabytes_go_through_beside_a_client_that_reads_nothing() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut mirror = a.terminal(T).await;
    a.mirror_until(&mut mirror, T, |state| state["supportsCommandDetection"] == true)
        .await;
    // It subscribes and never reads again.
    let mut stuck = house.client("stuck").await;
    stuck.subscribe(T).await;
    const SIZE: usize = 100 << 20;
    a.dispatch(
        T,
        input(&format!("head -c {SIZE} /dev/zero | tr '\\0' x; echo; echo d''one\r")),
    )
    .await;
    // Not mirrored: a client would keep what it likes of it.
    let (mut seen, mut longest) = (0, 0);
    loop {
        let message = a.read().await.expect("the client that reads is never cut off");
        let action = &message["params"]["action"];
        if action["type"] == "terminal/data" {
            let data = action["data"].as_str().unwrap();
            longest = longest.max(data.len());
            seen += data.bytes().filter(|byte| *byte == b'x').count();
        }
        if action["type"] == "terminal/commandFinished" {
            assert_eq!(action["exitCode"], 0);
            break;
        }
    }
    assert!((SIZE..SIZE + 10).contains(&seen), "{seen}");
    assert!(longest <= 256 << 10, "{longest}");
    let state = a.subscribe(T).await["state"].clone();
    assert!(text(&state).len() <= Limits::default().terminal_bytes);
    // The other one was cut off, long before the end, and can come back.
    let mut got = 0;
    while let Some(message) = stuck.read().await {
        got += message["params"]["action"]["data"].as_str().map_or(0, str::len);
    }
    assert!(got < SIZE / 2, "{got}");
    let mut back = house.client("stuck").await;
    assert!(text(&back.subscribe(T).await["state"]).contains("done\r\n"));
}

#[tokio::test]
async fn programs_that_ask_their_terminal_are_answered_by_the_host_alone() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut mirror = a.terminal(T).await;
    a.command(&mut mirror, T, "clear").await;
    let part = a
        .command(&mut mirror, T, r#"echo; read -rsd R -p $'ab\e[6n' at; echo "${at#*[}""#)
        .await;
    let output = part["output"].as_str().unwrap();
    assert!(output.ends_with(";3\r\n") && !output.contains("6n"), "{output:?}");
    let part = a
        .command(&mut mirror, T, r"read -rsd c -p $'\e[c' at; echo ${at#*[}")
        .await;
    assert_eq!(part["output"], "?1;2\r\n");
}

#[tokio::test]
async fn a_storm_of_sizes_ends_with_the_last_one() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut b = house.client("b").await;
    let mut mirror = a.terminal(T).await;
    b.subscribe(T).await;
    for n in 0..1000 {
        let resized = json!({ "type": "terminal/resized", "cols": 20 + n % 100, "rows": 10 + n % 40 });
        if n % 2 == 0 { &mut a } else { &mut b }.dispatch(T, resized).await;
    }
    b.drain().await;
    a.accepted(T, json!({ "type": "terminal/resized", "cols": 77, "rows": 33 }))
        .await;
    let part = a.command(&mut mirror, T, "stty size").await;
    assert_eq!(part["output"], "33 77\r\n");
}

#[tokio::test]
async fn a_killed_shell_is_told_and_a_second_client_sees_everything_live() {
    let house = house().await;
    let mut a = house.client("a").await;
    let mut one = a.terminal(T).await;
    let mut b = house.client("b").await;
    let mut two = Mirror::default();
    two.snapshot(&b.subscribe(T).await);
    for line in ["echo hi", "false", "seq 1 100"] {
        a.command(&mut one, T, line).await;
    }
    a.dispatch(T, input("kill -KILL $$\r")).await;
    let over = |state: &Value| state["lifecycle"]["status"] == "exited";
    let state = a.mirror_until(&mut one, T, over).await;
    assert_eq!(state["lifecycle"], json!({ "status": "exited" }));
    let last = state["content"]
        .as_array()
        .unwrap()
        .iter()
        .rfind(|part| part["type"] == "command")
        .unwrap();
    assert_eq!((&last["isComplete"], last.get("exitCode")), (&json!(true), None));
    let seen = b.mirror_until(&mut two, T, over).await;
    // It came later, so it may have begun in the middle of the first prompt.
    assert_eq!(seen, state);
    assert_eq!(b.subscribe(T).await["state"], state);
}

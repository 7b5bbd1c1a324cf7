//! Terminals with real shells.

use std::{path::PathBuf, time::Duration};

use lodge_tools::terminal::{Opening, Output, Piece, Terminal};
use tempfile::TempDir;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

struct Desk {
    dir: TempDir,
    terminal: Terminal,
    output: Output,
    seen: Vec<Piece>,
}

fn opening(dir: &TempDir) -> Opening {
    // The prompt and history of whoever runs the tests are not part of them.
    std::fs::write(dir.path().join(".bashrc"), "PS1='$ '\nset +o histexpand\n").unwrap();
    let home = dir.path().display().to_string();
    Opening {
        cwd: dir.path().canonicalize().unwrap(),
        shell: Some("/bin/bash".into()),
        env: vec![("HOME".into(), home), ("HISTFILE".into(), "/dev/null".into())],
        cols: 80,
        rows: 24,
        scripts: dir.path().join("scripts"),
    }
}

fn desk() -> Desk {
    desk_with(|_| {})
}

fn desk_with(change: impl FnOnce(&mut Opening)) -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let mut opening = opening(&dir);
    change(&mut opening);
    let (terminal, output) = Terminal::open(&opening).unwrap();
    Desk {
        dir,
        terminal,
        output,
        seen: Vec::new(),
    }
}

impl Desk {
    async fn until(&mut self, fits: impl Fn(&Piece) -> bool) -> Piece {
        loop {
            let pieces = tokio::time::timeout(PATIENCE, self.output.next(Instant::now())).await;
            let Some(pieces) = pieces.unwrap_or_else(|_| panic!("silence after {:#?}", self.seen)) else {
                panic!("the end came after {:#?}", self.seen)
            };
            let found = pieces.iter().find(|piece| fits(piece)).cloned();
            self.seen.extend(pieces);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Presses Ctrl+C until it has an effect. Bash loses one that comes between its look for signals and its read of
    /// the next key (it acts with that key then), and a command not yet in the foreground does not get one.
    async fn interrupt_until(&mut self, fits: impl Fn(&Piece) -> bool) -> Piece {
        for _ in 0..PATIENCE.as_secs() {
            self.terminal.write("\u{3}");
            if let Ok(found) = tokio::time::timeout(Duration::from_secs(1), self.until(&fits)).await {
                return found;
            }
        }
        panic!("nothing was interrupted: {:#?}", self.seen);
    }

    /// Reads on until this was printed since the last time something was looked for.
    async fn until_text(&mut self, wanted: &str) {
        while !text(&self.seen).contains(wanted) {
            self.until(|piece| matches!(piece, Piece::Text(_))).await;
        }
        self.seen.clear();
    }

    /// Runs a command and returns its code.
    async fn run(&mut self, line: &str) -> Option<i32> {
        self.seen.clear();
        self.terminal.write(&format!("{line}\r"));
        match self.until(|piece| matches!(piece, Piece::Finished { .. })).await {
            Piece::Finished { code } => code,
            other => panic!("{other:?}"),
        }
    }

    /// What was printed between the start and the end of the last command.
    fn printed(&self) -> String {
        let from = self
            .seen
            .iter()
            .position(|piece| matches!(piece, Piece::Started { .. }))
            .unwrap();
        let to = self
            .seen
            .iter()
            .position(|piece| matches!(piece, Piece::Finished { .. }))
            .unwrap();
        text(&self.seen[from..to])
    }

    async fn exited(&mut self) -> Option<i32> {
        match self.until(|piece| matches!(piece, Piece::Exited(_))).await {
            Piece::Exited(code) => code,
            other => panic!("{other:?}"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn text(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            _ => "",
        })
        .collect()
}

fn alive(pid: &str) -> bool {
    // A zombie that nobody waited for yet does not live.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    })
}

async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not happen");
}

#[tokio::test]
async fn commands_of_bash_are_detected_with_their_lines_and_codes() {
    let mut desk = desk();
    for (line, code, printed) in [
        ("echo hello", 0, "hello\r\n"),
        ("false", 1, ""),
        ("(exit 42)", 42, ""),
        ("echo 'a;b' \"\\\\ c\" | cat", 0, "a;b \\ c\r\n"),
        ("printf 'no newline'", 0, "no newline"),
        ("for i in 1 2; do echo $i; done", 0, "1\r\n2\r\n"),
        ("echo gr\u{fc}\u{df}e", 0, "gr\u{fc}\u{df}e\r\n"),
        ("printf '\\033]633;D;9\\007forged'", 0, "forged"),
        ("kill -TERM $BASHPID & wait $!", 143, ""),
    ] {
        assert_eq!(desk.run(line).await, Some(code), "{line}: {:#?}", desk.seen);
        let started = Piece::Started {
            command: line.to_owned(),
        };
        assert!(desk.seen.contains(&started), "{line}: {:#?}", desk.seen);
        if !line.contains('&') {
            assert_eq!(desk.printed(), printed, "{line}");
        }
        assert!(!text(&desk.seen).contains("\u{1b}]633"), "{:#?}", desk.seen);
    }
    let there = std::fs::canonicalize(desk.dir.path()).unwrap().join("a b;c");
    std::fs::create_dir(&there).unwrap();
    assert_eq!(desk.run("cd 'a b;c'").await, Some(0));
    let cwd = Piece::Cwd(there.display().to_string());
    if !desk.seen.contains(&cwd) {
        desk.until(|piece| *piece == cwd).await;
    }
    // An empty line and an interrupted one are no commands.
    desk.until_text("$ ").await;
    for (typed, shown) in [("\r", "$ "), ("half a line", "half a line")] {
        desk.terminal.write(typed);
        desk.until_text(shown).await;
    }
    desk.interrupt_until(|piece| matches!(piece, Piece::Text(text) if text.contains("$ ")))
        .await;
    assert_eq!(desk.run("echo on").await, Some(0));
    let started = desk
        .seen
        .iter()
        .filter(|piece| matches!(piece, Piece::Started { .. }))
        .count();
    assert_eq!(started, 1, "{:#?}", desk.seen);
    desk.terminal.write("exit 3\r");
    assert_eq!(desk.exited().await, Some(3));
    assert_eq!(desk.output.next(Instant::now()).await, None);
}

#[tokio::test]
async fn the_user_s_own_start_up_file_is_read_and_its_hooks_still_run() {
    let dir = tempfile::tempdir().unwrap();
    let opening = opening(&dir);
    let file = "PS1='> '\nPROMPT_COMMAND='echo hook $?'\nPS0='before '\nalias hi='echo aliased'\n";
    std::fs::write(dir.path().join(".bashrc"), file).unwrap();
    let (terminal, output) = Terminal::open(&opening).unwrap();
    let mut desk = Desk {
        dir,
        terminal,
        output,
        seen: Vec::new(),
    };
    assert_eq!(desk.run("hi; (exit 5)").await, Some(5));
    assert!(desk.printed().contains("aliased"), "{:#?}", desk.seen);
    assert!(text(&desk.seen).contains("before "), "{:#?}", desk.seen);
    if !text(&desk.seen).contains("hook 5") {
        desk.until(|piece| matches!(piece, Piece::Text(text) if text.contains("hook 5")))
            .await;
    }
}

#[tokio::test]
async fn other_shells_run_without_detection() {
    let mut desk = desk_with(|opening| opening.shell = Some("/bin/sh".into()));
    desk.terminal.write("echo $((40+2)); exit 4\r");
    assert_eq!(desk.exited().await, Some(4));
    assert!(text(&desk.seen).contains("42"), "{:#?}", desk.seen);
    assert!(!desk.seen.contains(&Piece::Detected));
}

#[tokio::test]
async fn zsh_and_fish_are_detected_where_they_are() {
    for shell in ["/bin/zsh", "/usr/bin/zsh", "/usr/bin/fish", "/usr/local/bin/fish"] {
        if !std::path::Path::new(shell).is_file() {
            continue;
        }
        let mut desk = desk_with(|opening| opening.shell = Some(shell.into()));
        desk.until(|piece| *piece == Piece::Detected).await;
        for (line, code) in [("echo 'a;b'", 0), ("false", 1), ("sh -c 'exit 9'", 9)] {
            assert_eq!(desk.run(line).await, Some(code), "{shell} {line}: {:#?}", desk.seen);
            let started = Piece::Started {
                command: line.to_owned(),
            };
            assert!(desk.seen.contains(&started), "{shell} {line}: {:#?}", desk.seen);
        }
        desk.terminal.write("exit 3\r");
        assert_eq!(desk.exited().await, Some(3), "{shell}");
    }
}

#[tokio::test]
async fn a_size_reaches_programs_and_titles_and_keys_work() {
    let mut desk = desk();
    desk.terminal.resize(73, 19).unwrap();
    assert_eq!(desk.run("stty size").await, Some(0));
    assert_eq!(desk.printed(), "19 73\r\n");
    assert_eq!(desk.run("printf '\\033]0;a title\\007'").await, Some(0));
    assert!(desk.seen.contains(&Piece::Title("a title".into())), "{:#?}", desk.seen);
    desk.seen.clear();
    desk.terminal.write("sleep 1000\r");
    desk.until(|piece| matches!(piece, Piece::Started { .. })).await;
    let finished = desk
        .interrupt_until(|piece| matches!(piece, Piece::Finished { .. }))
        .await;
    assert_eq!(finished, Piece::Finished { code: Some(130) });
}

#[tokio::test]
async fn closing_ends_everything_that_was_started_in_it() {
    let mut desk = desk();
    let script = "sleep 1000 & echo $! > job; nohup sleep 1000 >/dev/null 2>&1 & echo $! > nohup; \
                  setsid sh -c 'echo $$ > away; exec sleep 1000' & (trap '' HUP TERM; echo $BASHPID > deaf; \
                  while :; do sleep 1; done) & sleep 0.2";
    assert_eq!(desk.run(script).await, Some(0));
    let names = ["job", "nohup", "away", "deaf"];
    wait_for("the start of all", || {
        names
            .iter()
            .all(|name| std::fs::read_to_string(desk.path(name)).is_ok_and(|pid| alive(&pid)))
    })
    .await;
    let pids = names.map(|name| std::fs::read_to_string(desk.path(name)).unwrap());
    let (closed, code) = tokio::join!(desk.terminal.close(), async {
        while let Some(pieces) = desk.output.next(Instant::now()).await {
            if let Some(Piece::Exited(code)) = pieces.last() {
                return *code;
            }
        }
        panic!("no end")
    });
    let () = closed;
    assert!(code.is_none_or(|code| code >= 128), "{code:?}");
    wait_for("the end of all", || pids.iter().all(|pid| !alive(pid))).await;
}

#[tokio::test]
async fn a_killed_shell_ends_the_terminal_without_a_code() {
    let mut desk = desk();
    desk.terminal.write("kill -KILL $$\r");
    assert_eq!(desk.exited().await, None);
}

#[tokio::test]
async fn a_reader_that_takes_its_time_makes_programs_wait_and_loses_nothing() {
    let mut desk = desk();
    const SIZE: usize = 100 << 20;
    let path = desk.path("done");
    desk.terminal
        .write(&format!("head -c {SIZE} /dev/zero | tr '\\0' x; echo; touch done\r"));
    desk.until(|piece| matches!(piece, Piece::Started { .. })).await;
    // Nobody reads: it cannot end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!path.exists());
    let count = |pieces: &[Piece]| text(pieces).bytes().filter(|byte| *byte == b'x').count();
    let at = desk
        .seen
        .iter()
        .position(|piece| matches!(piece, Piece::Started { .. }))
        .unwrap();
    let mut seen = count(&desk.seen[at..]);
    loop {
        let pieces = tokio::time::timeout(PATIENCE, desk.output.next(Instant::now()))
            .await
            .unwrap()
            .unwrap();
        let longest = pieces.iter().map(|piece| text(std::slice::from_ref(piece)).len()).max();
        assert!(longest < Some(1 << 20));
        seen += count(&pieces);
        if pieces.iter().any(|piece| matches!(piece, Piece::Finished { .. })) {
            break;
        }
    }
    assert_eq!(seen, SIZE);
}

#[tokio::test]
async fn input_that_nobody_reads_is_bounded() {
    let desk = desk();
    desk.terminal.write("sleep 1000\r");
    let line = "x".repeat(1000) + "\r";
    let mut taken = 0;
    while desk.terminal.has_room(line.len()) && taken < (10 << 20) {
        desk.terminal.write(&line);
        taken += line.len();
    }
    assert!(taken < (2 << 20), "{taken}");
    desk.terminal.close().await;
}

#[tokio::test]
async fn what_integrates_the_shell_does_not_show_to_programs() {
    let mut desk = desk_with(|opening| opening.env.push(("GIVEN".into(), "here".into())));
    assert_eq!(
        desk.run("echo $GIVEN; env | grep -c -e LODGE_TERMINAL -e __lodge")
            .await,
        Some(1)
    );
    assert_eq!(desk.printed(), "here\r\n0\r\n");
}

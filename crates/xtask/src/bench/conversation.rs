//! `lodge` in a terminal: what a conversation that streams costs the client.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::{
    ahp::House,
    measures::{Given, Numbers},
    process,
};

/// What a frame begins with: the terminal shows it when it is whole.
const FRAME: &[u8] = b"\x1b[?2026h";
/// The spinner turns while something goes on: a screen that is still for so long is at its end.
const STILL: Duration = Duration::from_millis(1500);
const COLUMNS: u16 = 120;
/// Turns of the conversation of 100,000 lines.
const TURNS: usize = 10;

/// What came from the client.
#[derive(Default)]
struct Drawn {
    frames: usize,
    last: Option<Instant>,
    /// The end of what came, for frames that begin between two reads.
    end: Vec<u8>,
}

impl Drawn {
    fn take(&mut self, bytes: &[u8]) {
        self.end.extend_from_slice(bytes);
        self.frames += self.end.windows(FRAME.len()).filter(|window| *window == FRAME).count();
        let kept = self.end.len().min(FRAME.len() - 1);
        self.end.drain(..self.end.len() - kept);
        self.last = Some(Instant::now());
    }
}

/// A client on a terminal of its own.
struct Screen {
    child: Child,
    keys: File,
    drawn: Arc<Mutex<Drawn>>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    fn start(program: &Path, home: &Path, work: &Path) -> Result<Self> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let size = Winsize {
            ws_row: 40,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size)?;
        let name = ptsname(&controller, Vec::new())?;
        let name = name.to_str().context("a terminal has a plain name")?;
        let open = || File::options().read(true).write(true).open(name).map(Stdio::from);
        let child = Command::new(program)
            .args(["attach", "--new", "--home"])
            .arg(home)
            .current_dir(work)
            .env("TERM", "xterm-256color")
            .stdin(open()?)
            .stdout(open()?)
            .stderr(open()?)
            .spawn()?;
        let keys = File::from(controller);
        let mut reader = keys.try_clone()?;
        let drawn = Arc::<Mutex<Drawn>>::default();
        let seen = drawn.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                let Ok(mut drawn) = seen.lock() else { return };
                drawn.take(&buffer[..read]);
            }
        });
        let screen = Self { child, keys, drawn };
        screen.rest()?;
        Ok(screen)
    }

    /// Waits until nothing more is drawn.
    fn rest(&self) -> Result<()> {
        let patience = Instant::now() + Duration::from_secs(300);
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let last = self.drawn.lock().ok().and_then(|drawn| drawn.last);
            if last.is_some_and(|last| last.elapsed() > STILL) {
                return Ok(());
            }
            ensure!(Instant::now() < patience, "the client does not come to rest");
        }
    }

    fn frames(&self) -> usize {
        self.drawn.lock().map_or(0, |drawn| drawn.frames)
    }

    /// Says something and waits for the end of the answer: the seconds that it took, and the frames that were drawn.
    fn turn(&mut self, text: &str) -> Result<(f64, usize)> {
        let before = self.frames();
        let began = Instant::now();
        write!(self.keys, "\x1b[200~{text}\x1b[201~\r")?;
        std::thread::sleep(Duration::from_millis(500));
        self.rest()?;
        Ok((
            began.elapsed().saturating_sub(STILL).as_secs_f64(),
            self.frames() - before,
        ))
    }
}

/// 50,000 deltas, and then a conversation of 100,000 lines more.
pub(super) fn measure(given: &Given<'_>) -> Result<Numbers> {
    let work = tempfile::Builder::new().prefix("lodge-bench-work-").tempdir()?;
    let _house = House::start(given.program, given.home, work.path())?;
    let mut screen = Screen::start(given.program, given.home, work.path())?;
    let pid = screen.child.id();
    let before = process::cpu(pid);
    let deltas = given.times(50_000);
    let (seconds, frames) = screen.turn(&format!("stream {deltas} chunks"))?;
    let cpu = process::cpu(pid).saturating_sub(before).as_secs_f64() * 1e6 / deltas as f64;
    ensure!(frames > 0, "no frame is a synchronized update");
    // Every line is in the message and in the answer.
    let list: String = (0..given.times(100_000) / 2 / TURNS)
        .map(|number| format!("- line {number}\n"))
        .collect();
    for _ in 0..TURNS {
        screen.turn(&format!("say \"{list}\""))?;
    }
    Ok(vec![
        ("conversation_delta_cpu_us", cpu),
        ("conversation_frames_a_second", frames as f64 / seconds),
        ("conversation_100000_lines_mb", process::memory(pid) as f64 / 1e6),
    ])
}

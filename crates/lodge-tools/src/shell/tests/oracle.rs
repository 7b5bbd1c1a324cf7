//! Runs everything that the analysis claims to understand in bash and compares: the same programs with the same
//! arguments, in the same directory, and no file changed except those it names.
//!
//! Programs are stand-ins that record how they were called; the shell keeps no command of its own except `cd`.

#[path = "../../../tests/it/bash_programs.rs"]
mod bash_programs;

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

use testkit::Random;

use super::super::{
    analyse,
    parser::{self, Join, Simple, Word},
};

#[rustfmt::skip]
const PROGRAMS: &[&str] = &[
    ":", "[", "awk", "basename", "cat", "command", "cut", "date", "diff", "dirname", "du", "echo", "env", "false", "file", "find", "git", "grep", "head", "jq",
    "kill", "ls", "make", "nice", "nohup", "npm", "printf", "pwd", "python3", "rg", "rm", "sed", "seq", "sleep", "sort", "stat", "stdbuf", "sudo", "tail", "tee",
    "test", "time", "timeout", "touch", "tr", "tree", "true", "type", "uname", "uniq", "wc", "which", "whoami", "xargs", "xxd",
];
/// Stand-ins that fail, so that lists take both ways.
const FAILING: &[&str] = &["[", "false", "grep", "test", "which"];

const STAND_IN: &str = r#"#!/bin/sh
printf '%s\0' "$PWD" "${0##*/}" "$@" > "$LODGE_RECORD/$$"
case ${0##*/} in '['|false|grep|test|which) exit 1;; esac
"#;

struct World {
    dir: tempfile::TempDir,
    work: PathBuf,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = crate::paths::real(dir.path()).unwrap();
        for sub in ["stand-ins", "record", "home", "work/src"] {
            fs::create_dir_all(root.join(sub)).unwrap();
        }
        testkit::write_programs(&root.join("stand-ins"), PROGRAMS, STAND_IN);
        for file in [
            "a",
            "a.txt",
            "b",
            "ab",
            "a b",
            "in.txt",
            "-n",
            "-o",
            "src/lib.rs",
            "src/a",
        ] {
            fs::write(root.join("work").join(file), file).unwrap();
        }
        // After this line `cd` is all that is left of the shell's own commands.
        let all = Command::new("bash").args(["-c", "compgen -b"]).output().unwrap();
        let all = String::from_utf8(all.stdout).unwrap();
        let gone: Vec<&str> = all.lines().filter(|name| *name != "cd" && *name != "enable").collect();
        assert!(gone.contains(&"kill") && gone.contains(&"echo"));
        fs::write(root.join("start"), format!("enable -n {} enable\n", gone.join(" "))).unwrap();
        let work = root.join("work");
        Self {
            files: contents(&work),
            work,
            dir,
        }
    }

    fn at(&self, sub: &str) -> PathBuf {
        self.work.parent().unwrap().join(sub)
    }

    /// Compares, and says whether the text was understood.
    fn check(&mut self, text: &str) -> bool {
        let found = analyse(text);
        if !found.understood {
            return false;
        }
        let commands = parser::read(text).unwrap();
        // Nothing is run by its path or found by another one, and nothing is written elsewhere.
        let path = |word: &Word| word.text.contains('/');
        let elsewhere = |word: &Word| word.text.starts_with('/') || word.text.contains("..");
        let skipped = |simple: &Simple| {
            path(&simple.words[0])
                || simple.writes().any(elsewhere)
                || simple.assignments.iter().any(|word| word.text.starts_with("PATH"))
        };
        // `time` is a word of the language or a program, which redirections before it decide; behind itself it may be either.
        let time = commands.iter().any(|simple| simple.words[0].text == "time");
        let times = |simple: &Simple| simple.words.iter().filter(|word| word.text == "time").count();
        let nested = time && commands.iter().any(|simple| times(simple) > 1);
        // A file that is read may be one that was just made.
        let writes = |word: &Word| {
            commands
                .iter()
                .flat_map(Simple::writes)
                .any(|write| write.text == word.text)
        };
        let circular = commands.iter().flat_map(Simple::reads).any(writes);
        if circular || nested || commands.iter().any(skipped) || time && text.contains(['<', '>']) {
            return false;
        }
        let expected = self.expected(&commands);
        let globs = commands.iter().flat_map(|simple| &simple.words).any(|word| word.glob);
        let called = self.run(text, globs);
        assert_eq!(called, expected, "bash runs something else: {text:?}");
        let after = contents(&self.work);
        if after != self.files || self.at("home").read_dir().unwrap().next().is_some() {
            assert!(
                !found.only_reads() && found.writes_by_redirection,
                "a file changed: {text:?}"
            );
            for path in after.keys().filter(|path| self.files.get(*path) != after.get(*path)) {
                let name = path.strip_prefix(&self.work).unwrap();
                let written = |write: &String| {
                    let parts = Path::new(write).components();
                    parts.filter(|part| *part != Component::CurDir).eq(name.components())
                };
                assert!(
                    found.writes.iter().any(written),
                    "{} was written: {text:?} {:?}",
                    name.display(),
                    found.writes
                );
            }
            *self = Self::new();
        }
        true
    }

    /// How programs are called, each with its directory first.
    fn run(&self, text: &str, literal_patterns: bool) -> Vec<Vec<String>> {
        let mut bash = Command::new("/bin/bash");
        bash.args(["--noprofile", "--norc"])
            .args(literal_patterns.then_some("-f"))
            .args(["-c", "--", text]);
        let status = bash
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", self.at("stand-ins"))
            .env("HOME", self.at("home"))
            .env("LODGE_RECORD", self.at("record"))
            .env("BASH_ENV", self.at("start"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.unwrap();
        let mut called = Vec::new();
        for entry in fs::read_dir(self.at("record")).unwrap() {
            let file = entry.unwrap().path();
            let bytes = fs::read(&file).unwrap();
            let mut words: Vec<String> = bytes
                .split(|b| *b == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            words.pop();
            called.push(without_time(words));
            fs::remove_file(file).unwrap();
        }
        called.sort();
        called
    }

    /// The same by the analysis.
    fn expected(&self, commands: &[Simple]) -> Vec<Vec<String>> {
        let mut called = Vec::new();
        let mut dir = self.work.clone();
        let mut succeeded = true;
        let mut runs = true;
        for simple in commands {
            runs = match simple.join {
                Join::Pipe => runs,
                Join::Then => true,
                Join::And => succeeded,
                Join::Or => !succeeded,
            };
            if !runs {
                continue;
            }
            let text = |word: &Word| match word.home {
                true => format!("{}{}", self.at("home").display(), &word.text[1..]),
                false => word.text.clone(),
            };
            let mut words: Vec<String> = vec![dir.display().to_string()];
            words.extend(simple.words.iter().map(text));
            let first = &simple.words[0];
            let bare = first.bare == first.text.len() && simple.assignments.is_empty() && simple.join != Join::Pipe;
            let program = words[1] == "time" && !bare;
            words = without_time(words);
            let there = simple.reads().all(|word| dir.join(text(word)).exists());
            let can_write = |word: &Word| {
                let file = dir.join(text(word));
                !file.is_dir() && !word.text.ends_with('/') && file.parent().is_some_and(Path::is_dir)
            };
            if !there || !simple.writes().all(can_write) {
                succeeded = false;
            } else if words[1] == "cd" {
                succeeded = dir.join(&words[2]).is_dir();
                if succeeded {
                    dir = crate::paths::real(&dir.join(&words[2])).unwrap();
                }
            } else {
                succeeded = program || PROGRAMS.contains(&words[1].as_str());
                if succeeded {
                    succeeded = program || !FAILING.contains(&words[1].as_str());
                    called.push(words);
                }
            }
        }
        called.sort();
        called
    }
}

/// `time` is a word of the language in some places and a program in others; both run what follows.
fn without_time(mut words: Vec<String>) -> Vec<String> {
    while words.len() > 2 && words[1] == "time" {
        words.remove(1);
        if words.len() > 2 && words[1] == "-p" {
            words.remove(1);
        }
    }
    words
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "a.txt", "src", "-n", "-la", "--all", "--", "-", "'a b'", "\"a b\"", "a\\ b", "''", "\"\"", "'$x'", "\"\\$x\"", "\\$x", "'`a`'", "'{a,b}'", "\\{a,b}", "HEAD~1", "~", "~/a", "\"~\"", "a~b",
    "*", "a*", "./*", "'*'", "\\*", "?", "a=b", "=", "a#b", "'#'", "\\#", "!", "]", "[", "'['", "^a", "a^", "%s", "'%s\\n'", "+x", "@", "a:b", "a,b", "'é'", "\"é\"", "1", "20", "\"a\\b\"", "\"a\\\\b\"",
    "'a\nb'", "\"a\nb\"", "a\\\nb", "'a'b\"c\"d", "src/lib.rs", "x/y/z", "..", "-o", "if", "then", "do", "done", "in", "function", "time", "cd", "{", "}", "'('", "\\(", "\\;", "';'", "\\&", "\"|\"", "'>'",
];

fn one<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    let one: &&str = random.pick(from);
    one
}

/// A program of the kind that is understood, as often as not with a sign that should not be there.
fn plausible(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(8) == 0 {
        text.push_str(one(
            random,
            &[
                "cd src && ",
                "cd src; ",
                "cd ./src &&\n",
                "cd nowhere && ",
                "cd ~ && ",
                "cd a && ",
            ],
        ));
    }
    for number in 0..=random.below(4) {
        if number > 0 {
            text.push_str(one(
                random,
                &[
                    " | ", "|", " && ", "&&", " || ", "; ", ";", "\n", " |\n", " &&\n", " # x\n", ";\n\n", " \\\n| ",
                ],
            ));
        }
        if random.below(10) == 0 {
            text.push_str(one(
                random,
                &[
                    "X=1 ",
                    "X='a b' Y=2 ",
                    "time ",
                    "time -p ",
                    "env ",
                    "2>&1 ",
                    ">/dev/null ",
                    "timeout 5 ",
                    "! ",
                ],
            ));
        }
        let program = one(random, PROGRAMS);
        match random.below(12) {
            0 => text.push_str(&format!("'{program}'")),
            1 => text.push_str(&format!("{}\"{}\"", &program[..1], &program[1..])),
            2 => text.push_str(&format!("\\{program}")),
            _ => text.push_str(program),
        }
        for _ in 0..random.below(5) {
            text.push_str(one(random, &[" ", " ", " ", "  ", "\t", " \\\n"]));
            text.push_str(one(random, WORDS));
            if random.below(10) == 0 {
                text.push_str(one(random, WORDS));
            }
        }
        if random.below(5) == 0 {
            text.push_str(one(
                random,
                &[
                    " 2>&1",
                    " >/dev/null",
                    " 2>/dev/null",
                    " < a.txt",
                    "<in.txt",
                    " > made",
                    ">>made",
                    " >&2",
                    " 2> 'e r'",
                    "2>made",
                    " <nowhere",
                ],
            ));
        }
    }
    for _ in 0..random.below(6).saturating_sub(3) {
        let at = text.floor_char_boundary(random.below(text.len() as u64 + 1) as usize);
        let signs = [
            "'", "\"", "\\", "`", "$", "$x", "(", ")", "{", "}", "[", "]", "<", ">", "&", "|", ";", "\n", " ", "\t",
            "#", "~", "*", "?", "!", "=", "2", "-", "/", ",", "é", "%", "\\\n", "<<a\n",
        ];
        match random.below(3) {
            0 if at < text.len() => drop(text.remove(at)),
            _ => text.insert_str(at, one(random, &signs)),
        }
    }
    text
}

/// `LODGE_SOAK` says how many programs to try instead of the usual number.
#[test]
fn bash_runs_what_the_analysis_says_and_nothing_else() {
    let (mut random, seed) = Random::from_env();
    println!("LODGE_SEED={seed}");
    let count: usize = std::env::var("LODGE_SOAK").map_or(3000, |text| text.parse().unwrap());
    let mut world = World::new();
    let mut understood = 0;
    for number in 0..count {
        let text = match number % 4 {
            0 => bash_programs::program(&mut random, "canary.txt"),
            _ => plausible(&mut random),
        };
        understood += usize::from(world.check(&text));
    }
    println!("{understood} of {count} were understood and run");
    assert!(understood * 4 > count, "{understood} of {count}");
}

#[test]
fn bash_runs_what_the_table_says() {
    let mut world = World::new();
    let table = include_str!("../cases.txt");
    let rows = table.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let commands = rows
        .filter_map(|line| line.split_once(' '))
        .map(|(_, command)| command.replace('⏎', "\n"));
    let understood = commands.filter(|command| world.check(command)).count();
    assert!(understood > 1000, "{understood}");
    drop(world.dir);
}

//! Programs that nobody looked at go straight into the jail; a canary outside must not notice. `LODGE_JAIL_PROGRAMS` says how
//! many, `LODGE_SEED` replays a run.

use std::time::Duration;

use testkit::Random;

use crate::jail::Place;

const TIME: Duration = Duration::from_secs(2);

/// Ways to change or reach something, and harmless words around them.
const WORDS: &[&str] = &[
    "touch PWNED",
    "rm -rf file dir",
    "echo x > file",
    "mv file gone",
    "chmod 0 file",
    "ln -s / root",
    "mkdir -p a/b",
    "cp -r dir copy",
    "tee file < /dev/null",
    "truncate -s 0 dir/other",
    "sed -i s/o/0/ file",
    "cat way/host.json",
    "ls -la",
    "cat file",
    "grep -r two .",
    "find . -type f -delete",
    "kill -9 $PPID",
    "git init -q .",
    "cd dir",
    "exec 3<>file",
    "printf %n PATH",
    "set -k",
    "export HOME=/",
    "true",
    "false",
    "echo $((RANDOM))",
    "exec 5>>out",
    "umask 0",
];
const JOINTS: &[&str] = &["; ", " && ", " || ", " | ", " & ", "\n"];

/// One program.
fn program(random: &mut Random, depth: u32) -> String {
    let word = |random: &mut Random| (*random.pick(WORDS)).to_owned();
    if depth == 0 {
        return word(random);
    }
    let mut inner = || program(random, depth - 1);
    let (a, b) = (inner(), inner());
    match random.below(12) {
        0 => format!("( {a} )"),
        1 => format!("echo \"$( {a} )\""),
        2 => format!("cat <<X\n`{a}`\nX"),
        3 => format!("cat <<-X\n\t$({a})\nX"),
        4 => format!("if {a}\nthen {b}\nfi"),
        5 => format!("for i in 1 2; do {a}\ndone"),
        6 => format!("f() {{ {a}\n}}; f"),
        7 => format!("eval '{}'", a.replace('\'', "'\\''")),
        8 => format!("bash -c '{}'", a.replace('\'', "'\\''")),
        9 => format!("x='a[$({})]'; echo $((x))", a.replace('\'', "")),
        _ => format!("{a}{}{b}", random.pick(JOINTS)),
    }
}

#[test]
fn no_program_changes_anything_outside() {
    let Some(place) = Place::new() else { return };
    let programs = std::env::var("LODGE_JAIL_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok());
    let (mut random, seed) = Random::from_env();
    let before = place.canary();
    for number in 0..programs.unwrap_or(50) {
        let depth = u32::try_from(random.below(4)).unwrap();
        let program = program(&mut random, depth);
        let (code, output) = place.run(&program, TIME);
        assert!(
            !output.contains("CANARY"),
            "LODGE_SEED={seed}, program {number}:\n{program}\n{code}: {output}"
        );
        assert_eq!(
            place.canary(),
            before,
            "LODGE_SEED={seed}, program {number}:\n{program}\n{code}: {output}"
        );
    }
}

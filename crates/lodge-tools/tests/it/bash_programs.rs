//! Random bash programs, nasty ones included: every kind of redirection, expansion and compound command, and programs that
//! change files, aimed at a canary.

use testkit::Random;

/// Compound commands and lists. `S` stands for a statement, `W` for a word, `F` for a file, `N` for a name.
#[rustfmt::skip]
const STATEMENTS: &[&str] = &[
    "S; S", "S && S", "S || S", "S | S", "S |& S", "S\nS", "S & S", "S &", "! S", "time S", "time -p S", "(S)", "{ S; }", "( S; S )",
    "if S; then S; fi", "if S; then S; else S; fi", "while S; do S; break; done", "until S; do S; break; done",
    "for N in W W; do S; done", "for ((N=0;N<2;N++)); do S; done", "select N in W; do S; break; done </dev/null",
    "case W in W) S;; *) S;; esac", "N() { S; }; N", "function N { S; }; N W", "ls() { S; }; ls", "coproc S", "coproc N { S; }",
    "eval 'S'", "eval W W", "trap 'S' EXIT", "trap 'S' DEBUG; ls", "bash -c 'S'", "sh -c 'S'", "echo 'S' | sh", "bash <<< 'S'",
    "bash <<'E'\nS\nE", "cat <<E\n$(S)\nE", "cat <<-E\n\t`S`\n\tE", "cat <<E | sh\nS\nE", "cat <<\"E\"\n$(S)\nE", "cat <<E > F\nW\nE",
    "((N=1)); S", "let N=1; S", "[[ W == W ]] && S", "[[ -v 'a[$(S)]' ]]", "[ W = W ] && S", "test -f F && S", "N=W; S", "N=W S", "PATH=.:$PATH S",
    "export N=W; S", "declare -i N=W; S", "declare -n N=PATH; N=W; S", "set -k; S", "set -- W W; S", "shopt -s extglob; S", "alias N='S'; N",
    "shopt -s expand_aliases; alias N='S'\nN", "exec 3>F; S >&3", "source <(echo 'S')", ". /dev/stdin <<< 'S'", "printf -v N W; S",
    "read N <<< W; S", "mapfile -C 'S #' -c 1 N <<< W", "hash -p /bin/touch ls; ls F", "timeout 5 S", "nice S", "env N=W S", "command S",
    "exec S", "nohup S", "setsid S", "echo F | xargs rm -f", "find . -maxdepth 1 -exec touch F \\;", "S > F", "S >> F", "S 2> F", "S &> F", "S >| F",
    "S <> F", "S 2>&1", "S >/dev/null", "S < F", "S > >(cat > F)", "cat <(S)", "sleep 0 & wait; S", "( S & )", "{ S; } > F", "S # W", "cd /; S",
    "umask 0; S", "ulimit -c 0; S", "disown; S", "kill -0 $$; S", "S; exit 1", "S 3>&1 1>F",
];

/// Simple commands that read, that write, and that do it in ways of their own.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "ls", "ls -la W", "cat F", "cat W", "head -n 1 F", "wc -l F", "grep W F", "sort F", "sort -o F F", "sort --compress-program=touch F", "uniq F F",
    "find . -maxdepth 1 -name W", "find . -maxdepth 0 -fprint F", "find F -delete", "echo W", "echo W W", "printf '%s' W", "printf %n N", "pwd", "true", "false", ":", "date", "id",
    "echo W > F", "echo W >> F", ": > F", "> F", "touch F", "rm -f F", "rm -rf F", "mv F F.moved", "cp /etc/hostname F", "ln -f /etc/hostname F", "ln -sf /etc/passwd F",
    "ln F F.hard", "mkdir -p F.dir", "rmdir F", "chmod 777 F", "chmod -R 000 F", "chown 0 F", "chgrp 0 F", "truncate -s 0 F", "truncate -s 9 F", "tee F", "tee -a F < /dev/null",
    "dd if=/dev/zero of=F bs=1 count=1", "install /etc/hostname F", "split -b 1 /etc/hostname F", "mkfifo F.pipe", "mknod F.node p", "mktemp -p . x.XXXX", "sed -i s/a/b/ F", "sed -n 'w F' /etc/hostname",
    "awk 'BEGIN{print \"x\" > \"F\"}'", "awk 'BEGIN{system(\"touch F\")}'", "perl -e 'open(my $f, q(>), q(F))'", "perl -e 'unlink q(F)'", "perl -e 'chmod 0, q(F)'",
    "python3 -c 'open(\"F\", \"w\")'", "python3 -c 'import os; os.remove(\"F\")'", "python3 -c 'import os; os.chmod(\"F\", 0)'", "python3 -c 'import os; os.utime(\"F\", (1, 1))'",
    "python3 -c 'import os; os.rename(\"F\", \"F.away\")'", "python3 -c 'import os; os.setxattr(\"F\", \"user.x\", b\"1\")'", "python3 -c 'import os; os.truncate(\"F\", 0)'",
    "python3 -c 'import os; os.mkfifo(\"F.fifo\")'", "python3 -c 'import os; os.link(\"F\", \"F.other\")'", "python3 -c 'import os; os.symlink(\"x\", \"F.sym\")'", "touch -d 2000-01-01 F", "touch -h F",
    "tar -cf F /etc/hostname", "tar -xf F -C .", "gzip -f F", "git init -q F.git", "git config -f F a.b c", "git -c alias.x='!touch F' x", "git diff --output=F", "git status",
    "git log -1", "cp -p F F.copy", "setfattr -n user.x -v 1 F", "xxd -r /dev/null F", "csplit -f F /etc/hostname 1", "logger -f F W", "script -qc 'touch F' F.script", "busybox touch F",
    "sqlite3 F 'create table t(x)'", "ed -s F", "vim -es -c 'w! F' -c q", "exec 5<>F", "read N < F", "cat < F > F.read", "cat F | tee F.tee", "mount -t tmpfs x F", "unshare -r touch F", "setsid touch F",
    "ls | xargs -I{} touch F", "echo $(touch F)", "echo `rm -f F`", "echo ${N:=$(touch F)}", "echo $((N[$(touch F)0]))", "echo {W,W}", "echo *", "echo W*", "echo ~", "[[ W =~ W ]]",
];

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "b c", "'a b'", "\"a b\"", "\"$N\"", "$N", "${N}", "${N:-W}", "${N:=W}", "${#N}", "${N/a/b}", "${!N}", "${N@P}", "$(echo W)", "`echo W`", "$((1+1))", "$((N=1))", "$[1+1]",
    "$'a\\n'", "$\"a\"", "\\$N", "{a,b}", "{1..3}", "a{b,c}d", "*", "a*", "?", "[ab]", "[!a]", "~", "~root", "~+", "a=~", "-n", "--", "-", "-la", "--help", "#a", "a#b", "!", "!!", "a!b",
    "é", "'é'", "\"\"", "''", "\\", "\\\n", "a\\\nb", "%1", "^a^b", "@", "@(a|b)", "+(a)", "$$", "$?", "$!", "$@", "$*", "$-", "$_", "$1", "\t", "]", "a]", "=", "a=b", "PATH=1", "a[0]", "a[$(id)]",
];

const NAMES: &[&str] = &["x", "PATH", "IFS", "ls", "HOME", "BASH_ENV", "f", "a", "_", "cat"];

/// A random program. `canary` is a path outside of every directory that it may write.
pub(crate) fn program(random: &mut Random, canary: &str) -> String {
    let depth = 1 + random.below(3);
    let mut program = fill("S", random, canary, depth);
    // Some are cut or have a sign too many, as text of a model may.
    if random.below(8) == 0 && !program.is_empty() {
        let at = program.floor_char_boundary(random.below(program.len() as u64) as usize);
        match random.below(2) {
            0 => program.truncate(at),
            _ => program.insert_str(
                at,
                one(
                    random,
                    &["'", "\"", "`", "$(", ")", "}", ";", "&", "|", "<", ">", "\\", "\n", "#"],
                ),
            ),
        }
    }
    program
}

fn one<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    let one: &&str = random.pick(from);
    one
}

/// Puts something in place of the letters of a template.
fn fill(template: &str, random: &mut Random, canary: &str, depth: u64) -> String {
    let mut out = String::new();
    let alone = |at: usize| {
        let letter = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let bytes = template.as_bytes();
        !(letter(bytes.get(at + 1)) || at > 0 && letter(bytes.get(at - 1)))
    };
    for (at, letter) in template.char_indices() {
        match letter {
            'S' if alone(at) => {
                let list = if depth == 0 || random.below(3) == 0 {
                    COMMANDS
                } else {
                    STATEMENTS
                };
                out.push_str(&fill(one(random, list), random, canary, depth.saturating_sub(1)));
            }
            'W' if alone(at) => {
                let word = one(random, WORDS);
                let plain = if depth == 0 && word.contains('W') { "a" } else { word };
                out.push_str(&fill(plain, random, canary, depth.saturating_sub(1)));
            }
            'F' if alone(at) => out.push_str(if random.below(3) == 0 { "made.txt" } else { canary }),
            'N' if alone(at) => out.push_str(one(random, NAMES)),
            _ => out.push(letter),
        }
    }
    out
}

#[test]
fn programs_repeat_for_a_seed_and_cover_the_language() {
    let make = |seed| {
        let mut random = Random::seeded(seed);
        (0..3000).map(|_| program(&mut random, "/canary")).collect::<Vec<_>>()
    };
    let programs = make(7);
    assert!(programs == make(7) && programs != make(8));
    for form in [
        "<<E",
        "$((",
        "`",
        "> /canary",
        "&\n",
        "trap '",
        "ln ",
        "chmod ",
        "mv ",
        "python3 -c",
        "perl -e",
        "(",
        "{ ",
        "[[ ",
        "alias ",
        "coproc ",
        "| ",
    ] {
        assert!(
            programs.iter().any(|program| program.contains(form)) || form == "&\n",
            "{form}"
        );
    }
    let longest = programs.iter().map(String::len).max();
    assert!(longest.is_some_and(|longest| longest < 16_384), "{longest:?}");
}

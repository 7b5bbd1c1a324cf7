//! What shows files without naming them.

use super::*;

/// Commands that may show `.env` or what is in `src/deep`, and others.
const SEARCHES: &str = "
    ask: grep -r x .
    ask: grep -r x
    ask: grep -rn x src
    ask: grep -R x .
    ask: egrep --recursive x
    ask: grep -d recurse x .
    ask: rg x
    ask: rg --hidden x
    ask: rg x src
    ask: cat a.txt | rg x
    ask: git grep x
    ask: git diff
    ask: git show
    ask: git show HEAD
    ask: git log -p
    ask: git log -Sx
    ask: git cat-file -p 12ab
";
const OTHERS: &str = "
    allow: ls -R
    allow: ls | grep x
    allow: grep x a.txt
    allow: grep -n x a.txt src/lib.rs
    allow: grep -r x a.txt
    allow: rg x a.txt
    allow: git diff a.txt
    allow: git log
    allow: git status
    allow: find . -name x
    allow: diff a.txt src/lib.rs
";

#[test]
fn denied_files_are_not_found_by_searching_in_any_mode() {
    let bench = bench();
    let denied = "[[deny]]\npath = \".env\"\n[[deny]]\npath = \"src/deep/**\"\n";
    for user in [denied, "exclude = [\".env\", \"src/deep/\"]"] {
        let rules = bench.load(user, "");
        bench.check(&rules, SEARCHES);
        let all = RuleSet {
            policy: Policy::of(Mode::ApproveAll),
            ..rules
        };
        bench.check(&all, SEARCHES);
        bench.check(&all, OTHERS);
    }
    let rules = bench.load(denied, "");
    bench.check(&rules, OTHERS);
    // Tools that search leave these files out, so reads need no approval.
    bench.check(
        &rules,
        "allow: read .\nallow: read src\ndeny: read src/deep/x\ndeny: read .env",
    );
    let unsearchable = rules.unsearchable();
    let hidden = ["work/.env", "work/src/deep/x", "work/a.txt"].map(|path| {
        let path = bench.root().join(path);
        unsearchable.matching(&path).is_some()
    });
    assert_eq!(hidden, [true, true, false]);
}

#[test]
fn what_a_search_cannot_reach_is_no_reason_to_ask() {
    let bench = bench();
    for path in ["/somewhere/else/**", "$B/outside/secret", "~/.ssh/**"] {
        let path = path.replace("$B", &bench.root().display().to_string());
        let rules = bench.load(&format!("[[deny]]\npath = \"{path}\""), "");
        bench.check(
            &rules,
            "allow: grep -r x .\nallow: rg x src\nallow: git diff\nallow: read .",
        );
    }
    // A command that may not write a file may still read it.
    let rules = bench.load("[[deny]]\npath = \".env\"\naccess = \"write\"", "");
    bench.check(&rules, "allow: grep -r x .");
}

#[test]
fn a_policy_is_asked_about_wherever_a_search_may_find_what_it_denies() {
    let mut bench = bench();
    let rule = |glob: &str| {
        Rule::deny(RuleSubject::Path {
            glob: glob.to_owned(),
            access: None,
        })
    };
    bench.place.managed = vec![rule("**/.env")];
    let rules = RuleSet::new(Policy::of(Mode::ApproveAll));
    bench.check(
        &rules,
        "policy: grep -r x .\npolicy: read .\npolicy: read src\nallow: read a.txt\nallow: cat a.txt",
    );
    assert!(governs(&bench.request("read ."), &rules, &bench.place));
    bench.place.managed = vec![rule("/somewhere/else/**")];
    bench.check(&rules, "allow: grep -r x .\nallow: read .");
}

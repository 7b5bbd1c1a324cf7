mod commands;
mod remembered;
mod searches;

use std::path::PathBuf;

use lodge_events::{
    CustomToolPermission, McpPermission, PermissionRequest, ReadPermission, UrlPermission, WritePermission,
};

use super::*;
use crate::{request::shell_of, shell};

struct Bench {
    dir: tempfile::TempDir,
    place: Place,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::paths::real(dir.path()).unwrap();
    let work = root.join("work");
    for path in ["work/src/deep", "work/.git/hooks", "home", "outside"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    for path in [
        "work/a.txt",
        "work/.git/HEAD",
        "work/.env",
        "work/src/lib.rs",
        "outside/secret",
    ] {
        std::fs::write(root.join(path), "x").unwrap();
    }
    std::os::unix::fs::symlink(root.join("outside/secret"), work.join("link.txt")).unwrap();
    std::os::unix::fs::symlink(root.join("outside"), work.join("way-out")).unwrap();
    Bench {
        dir,
        place: Place {
            cwd: work.clone(),
            roots: vec![work],
            jail: true,
            ..Place::default()
        },
    }
}

impl Bench {
    fn root(&self) -> PathBuf {
        self.place.cwd.parent().unwrap().to_owned()
    }

    /// `read x`, `write x`, `url x`, `mcp server/tool`, `tool x`; everything else is a command. `$B` is the bench.
    fn request(&self, text: &str) -> PermissionRequest {
        let text = text.replace("$B", &self.root().display().to_string());
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let rest = rest.to_owned();
        match kind {
            "read" => ReadPermission {
                path: rest,
                ..Default::default()
            }
            .into(),
            "write" => WritePermission {
                file_name: rest,
                can_offer_session_approval: true,
                ..Default::default()
            }
            .into(),
            "url" => UrlPermission {
                url: rest,
                ..Default::default()
            }
            .into(),
            "mcp" => {
                let (server, tool) = rest.split_once('/').unwrap();
                McpPermission {
                    server_name: server.into(),
                    tool_name: tool.into(),
                    ..Default::default()
                }
                .into()
            }
            "tool" => CustomToolPermission {
                tool_name: rest,
                ..Default::default()
            }
            .into(),
            _ => self.request_for(&text),
        }
    }

    fn request_for(&self, command: &str) -> PermissionRequest {
        shell_of(command, shell::analyse(command)).into()
    }

    /// What is kept when somebody allows this for longer than once.
    fn kept(&self, text: &str) -> Vec<Rule> {
        rules_for(&self.request(text), &RuleSet::default(), &self.place)
    }

    fn decide(&self, rules: &RuleSet, text: &str) -> &'static str {
        match decide(&self.request(text), rules, &self.place) {
            Decision::Allow { .. } => "allow",
            Decision::Deny {
                kind: PermissionResultKind::DeniedByContentExclusion,
                ..
            } => "excluded",
            Decision::Deny { .. } => "deny",
            Decision::Ask { .. } => "ask",
            Decision::AskByPolicy { .. } => "policy",
        }
    }

    fn check(&self, rules: &RuleSet, table: &str) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (expected, text) = line.split_once(": ").unwrap();
            assert_eq!(self.decide(rules, text), expected, "{text}");
        }
    }

    fn load(&self, user: &str, project: &str) -> RuleSet {
        let root = self.root();
        std::fs::write(root.join("home/permissions.toml"), user).unwrap();
        std::fs::create_dir_all(root.join("work/.lodge")).unwrap();
        std::fs::write(root.join("work/.lodge/permissions.toml"), project).unwrap();
        RuleSet::load(&root.join("home"), &self.place.cwd, Policy::default()).unwrap()
    }
}

#[test]
fn reading_inside_needs_no_question_and_the_rest_does() {
    bench().check(
        &RuleSet::default(),
        "
        allow: read a.txt
        allow: read src/../a.txt
        allow: read .
        ask: read $B/outside/secret
        ask: read ../outside/secret
        ask: read link.txt
        ask: read way-out/secret
        ask: read /proc/self/environ
        ask: read ~/.ssh/id_rsa
        ask: cat ~root/.bashrc
        ask: cat ~+/a.txt
        ask: cat [[:alpha:]]ink.txt
        ask: cat [k-m]ink.txt
        ask: cat {a,link}.txt
        ask: diff src way-out
        ask: cat [x].rs
        allow: diff src src
        ask: diff src .
        ask: write a.txt
        ask: write new.txt
        ask: write /etc/passwd
        allow: ls
        allow: cat a.txt | grep x
        allow: cat *.rs
        ask: cat link.txt
        ask: cat *.txt
        ask: cat l?nk.txt
        ask: cat way-out/secret
        ask: cat way-*/secret
        ask: cat way-out/../a.txt
        ask: cat ../outside/secret
        ask: cat $UNKNOWN
        ask: cat /etc/passwd
        ask: cd .. && cat outside/secret
        allow: cd src && cat lib.rs
        ask: cd src && cat ../../outside/secret
        ask: echo x > a.txt
        allow: git status
        ask: git commit -m x
        ask: rm a.txt
        ask: npm test
        ask: url https://example.com/
        ask: curl https://example.com/
        ask: mcp server/tool
        ask: tool mine
        ask: echo $(rm x)
        ask: ls &&
        ",
    );
}

#[test]
fn modes_answer_as_their_names_say() {
    let bench = bench();
    let of = |mode| RuleSet::new(Policy::of(mode));
    bench.check(
        &of(Mode::AutoApproveSafe),
        "
        allow: read a.txt
        allow: write a.txt
        ask: write .git/hooks/pre-commit
        ask: write .lodge/permissions.toml
        ask: write .mcp.json
        ask: write sub/.MCP.json
        ask: write mcp.json
        ask: write .github/hooks/a.json
        ask: write .GitHub/Hooks/deep/run.sh
        ask: write .github/extensions/x/extension.mjs
        ask: write .github/agents/x.md
        ask: write .github/skills/x/SKILL.md
        ask: write .github/prompts/x.md
        ask: write src/../.github/mcp.json
        allow: write .github/copilot-instructions.md
        allow: write .github/workflows/ci.yml
        allow: write AGENTS.md
        allow: write .gitattributes
        allow: write .gitignore
        allow: write Makefile
        allow: write github/hooks/a.json
        ask: write .claude/settings.json
        ask: write .agents/skills/x/SKILL.md
        ask: write .vscode/tasks.json
        ask: write my.code-workspace
        ask: write .idea/workspace.xml
        ask: write .husky/pre-commit
        ask: write .pre-commit-config.yaml
        ask: write .envrc
        ask: write .bashrc
        ask: write sub/.zshenv
        ask: write .npmrc
        ask: write .cargo/config.toml
        ask: write .config/fish/config.fish
        ask: write .config/anything
        ask: write rust-toolchain.toml
        ask: write sub/rust-toolchain
        ask: write .mise.toml
        ask: write .tool-versions
        ask: write .pip/pip.conf
        ask: write .gradle/init.gradle
        ask: write .unheard-of/plugin.js
        ask: write .github/unheard-of.yml
        ask: write .github
        allow: write .github/ISSUE_TEMPLATE/bug.md
        allow: write sub/.editorconfig
        allow: write .env.example
        ask: write .env.local
        ask: echo x > .mcp.json
        ask: echo x >> .github/hooks/run.sh
        ask: echo x > .envrc
        ask: write link.txt
        ask: write way-out/new
        ask: echo x > new.txt
        ask: echo x > ../new.txt
        ask: echo x > .git/config
        ask: rm a.txt
        ",
    );
    bench.check(
        &of(Mode::ApproveAll),
        "allow: rm -rf /\nallow: write /etc/passwd\nallow: tool x\nallow: url http://x",
    );
    bench.check(&of(Mode::DenyAll), "deny: ls\ndeny: read a.txt\ndeny: tool x");
    bench.check(
        &RuleSet::new(Policy::ask_everything()),
        "ask: ls\nask: read a.txt\nask: write a.txt\nask: x=1\nask: git status",
    );
}

#[test]
fn without_a_jail_only_trivial_commands_are_unasked() {
    let mut bench = bench();
    bench.place.jail = false;
    let rules = RuleSet::default();
    bench.check(
        &rules,
        "
        allow: ls
        allow: ls -la src
        allow: cat a.txt
        allow: head -n 5 a.txt
        allow: echo hello 2>/dev/null
        allow: pwd
        ask: cat ../outside/secret
        ask: cat link.txt
        ask: ls | wc -l
        ask: ls; pwd
        ask: cat *
        ask: cat ~/a.txt
        ask: cat < a.txt
        ask: cat a.txt -n
        ask: X=1 ls
        ask: timeout 5 ls
        ask: cd src && ls
        allow: cd src
        ask: git status
        ask: grep x a.txt
        ask: find . -name x
        ask: sort a.txt
        ask: ls > new.txt
        ",
    );
    let mut ruled = RuleSet::default();
    ruled.add(Source::User, Rule::allow(RuleSubject::Command("make".into())));
    bench.check(&ruled, "allow: make\nask: cd src && make\nask: git status && make");
}

#[test]
fn denials_that_cannot_be_checked_are_asked_about_by_name() {
    let mut bench = bench();
    let command = |words: &str| RuleSubject::Command(words.into());
    for (mode, opaque) in [(Mode::Ask, "ask"), (Mode::ApproveAll, "ask"), (Mode::DenyAll, "deny")] {
        let mut rules = RuleSet::new(Policy::of(mode));
        rules.add(Source::User, Rule::deny(command("rm")));
        for text in ["$X a.txt", "python3 -c x", "echo \"$(cat list)\" | sh", "x=1; ls"] {
            assert_eq!(bench.decide(&rules, text), opaque, "{mode:?} {text}");
        }
        for text in [
            "rm a.txt",
            "sudo rm a.txt",
            "/opt/rm a.txt",
            "X=1 rm a.txt",
            "ls | xargs rm",
            "echo $(rm a.txt)",
            "bash -c 'rm a.txt'",
        ] {
            assert_eq!(bench.decide(&rules, text), "deny", "{mode:?} {text}");
        }
    }
    let mut rules = RuleSet::new(Policy::of(Mode::ApproveAll));
    bench.check(&rules, "allow: $X a.txt");
    rules.add(Source::Session, Rule::allow(RuleSubject::Tool("shell".into())));
    rules.add(Source::Project, Rule::deny(command("git push")));
    rules.add(Source::User, Rule::deny(RuleSubject::Tool("write".into())));
    let Decision::Ask { why: Some(why) } = decide(&bench.request("$X a.txt"), &rules, &bench.place) else {
        panic!("a rule that could not be checked is asked about");
    };
    assert_eq!(
        why,
        "What this command runs or reads is only known at run time. These rules could not be checked: shell git push (the project's rules)."
    );
    bench.place.managed = vec![Rule::ask(command("npm publish"))];
    bench.check(&rules, "policy: $X a.txt\nallow: npm test");
    assert!(governs(&bench.request("$X a.txt"), &rules, &bench.place));
}

#[test]
fn policy_comes_before_modes_and_answers() {
    let mut bench = bench();
    let command = |words: &str| RuleSubject::Command(words.into());
    bench.place.managed = vec![
        Rule::deny(command("rm*")),
        Rule::ask(command("git push")),
        Rule::allow(command("git")),
    ];
    bench.place.session = vec![Rule::allow(RuleSubject::Tool("shell".into()))];
    for (mode, expected) in [
        (Mode::Ask, "deny policy allow"),
        (Mode::ApproveAll, "deny policy allow"),
        (Mode::DenyAll, "deny deny deny"),
    ] {
        let rules = RuleSet::new(Policy::of(mode));
        let told = ["rmdir x", "git push origin", "git commit"].map(|text| bench.decide(&rules, text));
        assert_eq!(told.join(" "), expected, "{mode:?}");
        let strict = ["rmdir x", "git push origin", "git commit"]
            .map(|text| governs(&bench.request(text), &rules, &bench.place));
        assert_eq!(strict, [true, true, false]);
    }
}

#[test]
fn the_users_rules_allow_and_deny() {
    let bench = bench();
    let rules = bench.load(
        r#"
        exclude = [".env", "*.pem"]
        [[allow]]
        command = "npm run"
        [[allow]]
        command = "git push origin"
        [[allow]]
        command = "cargo"
        [[allow]]
        command = "curl"
        [[allow]]
        url = "https://docs.rs/*"
        [[allow]]
        url = "*.example.com"
        [[allow]]
        path = "/etc/hosts"
        access = "read"
        [[allow]]
        path = "src/**"
        access = "write"
        [[allow]]
        tool = "github/*"
        [[deny]]
        command = "npm run deploy"
        [[deny]]
        path = "src/generated"
        [[deny]]
        url = "evil.example.com"
        [[deny]]
        tool = "github/delete_*"
        "#,
        "",
    );
    assert_eq!(rules.notes(), [""; 0]);
    bench.check(
        &rules,
        "
        allow: npm run build
        ask: npm install
        deny: npm run deploy
        deny: ls; npm run deploy --now
        ask: npm run build; rm x
        ask: npm run build > ../out
        ask: npm run build > out
        allow: npm run build > src/out
        ask: PATH=/tmp npm run build
        ask: npm run build $(curl x.org)
        allow: git push origin main
        ask: git push upstream
        ask: git push origin main; git push upstream
        allow: cargo test -p x
        ask: cargo test --manifest-path=/x/Cargo.toml
        allow: curl https://docs.rs/serde
        ask: curl https://docs.rs.evil.org/serde
        ask: curl https://docs.rs@evil.org/
        ask: curl https://docs.rs/ https://other.org/
        allow: url https://docs.rs/serde
        ask: url http://docs.rs/serde
        ask: url https://docs.rs:8443/serde
        allow: url https://api.example.com/x
        ask: url https://example.com/
        deny: url https://evil.example.com/x
        allow: read /etc/hosts
        ask: read /etc/hosts.allow
        ask: write /etc/hosts
        allow: cat /etc/hosts
        allow: write src/new/x.rs
        ask: write other.rs
        deny: write src/generated/x.rs
        deny: read src/generated
        deny: cat src/generated/x.rs
        deny: rm -r src/GENERATED
        excluded: read .env
        excluded: cat .env
        excluded: cat src/../.env
        excluded: grep x .e*
        excluded: read src/key.PEM
        ask: grep -r x .
        ask: rg x
        allow: cat a.txt
        excluded: write .env
        allow: mcp github/list
        deny: mcp github/delete_repo
        ask: mcp gitlab/list
        ",
    );
    let all = RuleSet {
        policy: Policy::of(Mode::ApproveAll),
        ..rules
    };
    bench.check(&all, "deny: npm run deploy\nexcluded: cat .env\nallow: rm x");
}

#[test]
fn a_project_may_deny_anything_but_allow_only_its_own_files() {
    let bench = bench();
    let rules = bench.load(
        "",
        r#"
        mode = "approve-all"
        exclude = ["secrets/"]
        [[allow]]
        command = "rm"
        [[allow]]
        path = "/etc/**"
        [[allow]]
        path = "../**"
        [[allow]]
        path = "*.txt"
        [[allow]]
        url = "x.org"
        [[allow]]
        tool = "*"
        [[allow]]
        path = "**/*"
        access = "read"
        [[deny]]
        command = "git push"
        "#,
    );
    bench.check(
        &rules,
        "
        ask: rm a.txt
        ask: write /etc/x
        ask: write ../x
        allow: write new.txt
        ask: write $B/outside/new.txt
        ask: write link.txt
        ask: write .git/x.txt
        ask: url https://x.org/
        deny: git push
        excluded: read secrets/x
        ask: read $B/outside/secret
        ",
    );
    let notes: Vec<&str> = rules
        .notes()
        .iter()
        .map(|note| note.split_once(".toml: ").unwrap().1)
        .collect();
    assert_eq!(
        notes,
        [
            "a project cannot set the approval mode",
            "rule ignored: a project may only allow its own files, not commands",
            "rule ignored: path /etc/** is outside the project",
            "rule ignored: path ../** is outside the project",
            "rule ignored: a project may only allow its own files, not addresses",
            "rule ignored: a project may only allow its own files, not tools",
        ]
    );
}

#[test]
fn files_that_start_programs_are_asked_about_whatever_way_leads_to_them() {
    let bench = bench();
    let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, bench.place.cwd.join(from)).unwrap();
    for path in [".github", "real-hooks", "conf", "src/.github/agents"] {
        std::fs::create_dir_all(bench.place.cwd.join(path)).unwrap();
    }
    link("../real-hooks", ".github/hooks");
    link("conf", ".claude");
    link(".git", "innocent");
    link(".mcp.json", "innocent.json");
    link("data.json", "src/.mcp.json");
    let table = "
        ask: write real-hooks/a.json
        ask: write conf/settings.json
        ask: write innocent/config
        ask: write innocent.json
        ask: write src/.mcp.json
        ask: write src/.github/agents/x.md
        ask: echo x > real-hooks/run.sh
        ask: echo x > innocent/config
        allow: write a.txt
        ";
    let edits = RuleSet::new(Policy::of(Mode::AutoApproveSafe));
    bench.check(&edits, table);
    // A jail has no writes, so what a command writes takes a rule.
    bench.check(&edits, "ask: echo x > a.txt");
    // Neither are they allowed by rules that were made for everything else.
    let mut rules = RuleSet::new(Policy::of(Mode::Ask));
    rules.location = bench.place.cwd.clone();
    for what in [
        RuleSubject::Tool("write".into()),
        RuleSubject::Command("echo".into()),
        RuleSubject::Path {
            glob: "**".into(),
            access: None,
        },
    ] {
        rules.add(Source::User, Rule::allow(what));
    }
    bench.check(&rules, table);
    bench.check(&rules, "allow: echo x > a.txt");
}

#[test]
fn options_that_carry_code_are_never_remembered_and_rules_of_people_mean_what_they_say() {
    let mut bench = bench();
    for text in [
        "make test --ev=x",
        "npx -c x",
        "rsync -aze x a b",
        "tar -xf a -I x",
        "tar xIf ./x b.tar",
        "sed '1e x' a",
        "sed 's/a/b/e' a",
        "sed -n '/a/w b' a",
        "sed -e p -e 'r b' a",
        "sed -fx a",
        "sed s/a/b/ a -e 'w b'",
        "podman --log-level debug exec a ls",
        "go test -exec x",
        "git push --receive-pack=x",
    ] {
        assert!(!shell::analyse(text).can_be_remembered(), "{text}");
    }
    for text in [
        "prettier --check .",
        "cargo fmt --check",
        "make test -k",
        "go test -v",
        "sed -i.bak -e '/a;w/d' -e '1,$s/x\\/w/y/2g' a",
        "tar xf a.tar",
        "npm ci --cache x",
    ] {
        assert!(shell::analyse(text).can_be_remembered(), "{text}");
    }
    let rules = bench.load(
        "[[allow]]\ncommand = \"make\"\n[[allow]]\ncommand = \"npm test [--silent]\"",
        "",
    );
    bench.check(
        &rules,
        "allow: make test -k\nallow: make -C src x=y\nask: npm test --silent\nask: npm test\nask: npm tests",
    );
    let [note] = rules.notes() else {
        panic!("{:?}", rules.notes());
    };
    assert!(note.contains("command npm test [--silent] allows nothing"), "{note}");
    bench.place.session = vec![Rule::deny(RuleSubject::Command("cargo test []".into()))];
    bench.check(&rules, "deny: cargo test --all");
    let wrong = "[[deny]]\ncommand = \"npm test []\"";
    std::fs::write(bench.root().join("home/permissions.toml"), wrong).unwrap();
    let error = RuleSet::load(&bench.root().join("home"), &bench.place.cwd, Policy::default()).unwrap_err();
    assert!(
        error.to_string().contains("only an allow rule can end in [=]"),
        "{error}"
    );
}

/// A folder decides what programs do outside the jail.
#[test]
fn a_rule_for_one_part_of_a_line_takes_no_other_part_out_of_the_jail() {
    let mut bench = bench();
    let command = |words: &str| Rule::allow(RuleSubject::Command(words.into()));
    bench.place.session = vec![command("mkdir")];
    bench.check(
        &RuleSet::default(),
        "allow: mkdir y\nallow: mkdir y && ls\nallow: mkdir y | tail -3 | grep x\nallow: git status\nallow: cargo --version
         ask: mkdir y && git status\nask: git log | head && mkdir y\nask: mkdir y && cargo --version\nask: mkdir y && grep x a.txt",
    );
    bench.place.session.push(command("git status"));
    bench.check(
        &RuleSet::default(),
        "allow: mkdir y && git status\nask: mkdir y && git diff",
    );
}

#[test]
fn answers_are_kept_in_the_users_file_and_what_stood_there_stays() {
    let mut bench = bench();
    let mut rules = bench.load("# mine\n[[deny]]\ncommand = \"rm\" # never", "");
    let keep = bench.kept("npm run build");
    rules.remember(Scope::Always, &keep).unwrap();
    rules.remember(Scope::Always, &keep).unwrap();
    let here = bench.kept("write 'odd\"name");
    rules.remember(Scope::Location, &here).unwrap();
    let table = "allow: npm run build\nallow: write a.txt\ndeny: rm x";
    bench.check(&rules, table);

    let home = bench.root().join("home");
    bench.check(
        &RuleSet::load(&home, &bench.place.cwd, Policy::default()).unwrap(),
        table,
    );
    let text = std::fs::read_to_string(home.join("permissions.toml")).unwrap();
    let place = bench.place.cwd.display();
    assert_eq!(
        text,
        format!(
            "# mine\n[[deny]]\ncommand = \"rm\" # never\n\n[[allow]]\ncommand = \"npm run build [=]\"\n\n[[location.\"{place}\".allow]]\npath = \"{place}/**\"\naccess = \"write\"\n"
        )
    );
    bench.place.cwd = bench.root().join("outside");
    let elsewhere = RuleSet::load(&home, &bench.place.cwd, Policy::default()).unwrap();
    bench.check(&elsewhere, "allow: npm run build\nask: write a.txt");
    assert_eq!(std::fs::read_dir(home).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn files_that_are_wrong_are_refused_with_their_name() {
    let bench = bench();
    let home = bench.root().join("home");
    for (text, expected) in [
        (
            "[[allow]]\ncommand = 'a'\nurl = 'b'",
            "a rule names exactly one of tool, command, path (with access) or url",
        ),
        ("[[allow]]\npath = 'a['", "path a[: "),
        ("modus = 'x'", "unknown field"),
        ("[[allow", ""),
    ] {
        std::fs::write(home.join("permissions.toml"), text).unwrap();
        let error = RuleSet::load(&home, &bench.place.cwd, Policy::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("permissions.toml: ") && error.contains(expected),
            "{error}"
        );
    }
    std::fs::write(home.join("permissions.toml"), "allow = [{ command = 'a' }]").unwrap();
    let mut rules = RuleSet::load(&home, &bench.place.cwd, Policy::default()).unwrap();
    let error = rules
        .remember(Scope::Always, &[Rule::allow(RuleSubject::Command("b".into()))])
        .unwrap_err();
    assert!(error.to_string().contains("cannot add the rule"), "{error}");
    drop(bench.dir);
}

#[test]
fn a_command_counts_as_approved_when_a_rule_or_the_mode_says_so() {
    let bench = bench();
    let with = |mode: Mode, words: &[&str]| {
        let mut rules = RuleSet::new(Policy::of(mode));
        for words in words {
            rules.add(Source::User, Rule::allow(RuleSubject::Command((*words).to_owned())));
        }
        rules
    };
    for (mode, words, command, expected) in [
        (Mode::Ask, &[][..], "ls", false),
        (Mode::Ask, &["ls"][..], "ls", true),
        (Mode::Ask, &["ls"][..], "ls | sort", false),
        (Mode::Ask, &["ls", "make"][..], "ls && make", true),
        (Mode::Ask, &["make"][..], "ls && make", true),
        (Mode::AutoApproveSafe, &[][..], "cat a.txt", false),
        (Mode::ApproveAll, &[][..], "ls", true),
    ] {
        let decision = decide(&bench.request(command), &with(mode, words), &bench.place);
        let Decision::Allow { approved, .. } = decision else {
            panic!("{command}: {decision:?}");
        };
        assert_eq!(approved, expected, "{mode:?} {words:?} {command}");
    }
}

#[test]
fn nothing_is_written_unasked_where_a_client_says_that_files_start_programs() {
    let mut bench = bench();
    let work = bench.place.cwd.clone();
    std::fs::create_dir_all(work.join("tools/hooks")).unwrap();
    std::os::unix::fs::symlink(work.join("tools/hooks"), work.join("gates")).unwrap();
    bench.place.named = vec!["gates".into()];
    let mut rules = RuleSet::new(Policy::of(Mode::AutoApproveSafe));
    rules.add(
        Source::User,
        Rule::allow(RuleSubject::Path {
            glob: "/**".into(),
            access: None,
        }),
    );
    rules.add(Source::User, Rule::allow(RuleSubject::Command("mv".into())));
    for (text, is_asked) in [
        ("write $B/work/tools/other.json", false),
        ("write $B/work/tools/hooks/x.json", true),
        ("write $B/work/gates/x.json", true),
        ("write $B/work/gates", true),
        ("mv other tools", true),
        ("mv a.txt b.txt", false),
        ("read $B/work/tools/hooks/x.json", false),
    ] {
        let decision = decide(&bench.request(text), &rules, &bench.place);
        assert_eq!(
            matches!(decision, Decision::Ask { .. }),
            is_asked,
            "{text}: {decision:?}"
        );
    }
}

#[test]
fn what_only_an_agent_describes_is_asked_about_if_a_rule_may_be_against_it() {
    let bench = bench();
    let tool = lodge_events::CustomToolPermission {
        tool_name: agent_request("sly"),
        ..Default::default()
    };
    let request = PermissionRequest::from(tool);
    let subjects = || {
        [
            RuleSubject::Path {
                glob: "**/secret".into(),
                access: None,
            },
            RuleSubject::Command("rm".into()),
            RuleSubject::Url("https://a.example/*".into()),
            RuleSubject::Tool("write".into()),
        ]
    };
    let rules = RuleSet::new(Policy::of(Mode::ApproveAll));
    let decision = decide(&request, &rules, &bench.place);
    assert!(matches!(decision, Decision::Allow { .. }), "{decision:?}");
    for (what, effect) in subjects()
        .into_iter()
        .zip([Effect::Deny, Effect::Ask, Effect::Deny, Effect::Ask])
    {
        let mut rules = RuleSet::new(Policy::of(Mode::ApproveAll));
        let rule = Rule { what, effect };
        rules.add(Source::User, rule.clone());
        let Decision::Ask { why: Some(why) } = decide(&request, &rules, &bench.place) else {
            panic!("{rule:?}")
        };
        assert!(why.contains("Only the agent's own words"), "{why}");
        let mut place = bench.place.clone();
        place.managed = vec![rule.clone()];
        let rules = RuleSet::new(Policy::of(Mode::ApproveAll));
        let decision = decide(&request, &rules, &place);
        assert!(
            matches!(decision, Decision::AskByPolicy { .. }),
            "{rule:?}: {decision:?}"
        );
        assert!(governs(&request, &rules, &place), "{rule:?}");
    }
}

#[test]
fn no_rule_allows_what_only_an_agent_describes() {
    let bench = bench();
    let request = |tool: String| {
        let tool = lodge_events::CustomToolPermission {
            tool_name: tool,
            ..Default::default()
        };
        PermissionRequest::from(tool)
    };
    let mut rules = RuleSet::new(Policy::of(Mode::AutoApproveSafe));
    rules.add(Source::User, Rule::allow(RuleSubject::Tool("*".into())));
    let decision = decide(&request(agent_request("sly")), &rules, &bench.place);
    assert!(matches!(decision, Decision::Ask { .. }), "{decision:?}");
    assert!(matches!(
        decide(&request("other".into()), &rules, &bench.place),
        Decision::Allow { .. }
    ));
    rules.add(Source::User, Rule::deny(RuleSubject::Tool("agent *".into())));
    let decision = decide(&request(agent_request("sly")), &rules, &bench.place);
    assert!(matches!(decision, Decision::Deny { .. }), "{decision:?}");
}

#[test]
fn a_projects_file_is_a_regular_file_of_the_project_that_is_not_too_long() {
    let bench = bench();
    let (root, home) = (bench.root(), bench.root().join("home"));
    let file = root.join("work/.lodge/permissions.toml");
    std::fs::create_dir_all(root.join("work/.lodge")).unwrap();
    std::fs::write(root.join("outside/secret"), "TOKEN=not-for-anybody\n= [").unwrap();
    let load = || RuleSet::load(&home, &bench.place.cwd, Policy::default()).map_err(|error| error.to_string());
    for target in ["/dev/zero", "/proc/self/environ", "../../outside/secret"] {
        std::os::unix::fs::symlink(target, &file).unwrap();
        let error = load().unwrap_err();
        assert!(error.contains("leads out of the folder"), "{target}: {error}");
        assert!(!error.contains("TOKEN"), "{error}");
        std::fs::remove_file(&file).unwrap();
    }
    std::fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(load().unwrap_err().contains("too large"));
}

#[test]
fn the_home_is_hidden_from_a_session_that_works_above_it() {
    let mut bench = bench();
    let root = bench.root();
    for path in [
        "home/session-state/one",
        "home/session-state/two",
        "home/worktrees/x",
        "home/skills/s",
    ] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    std::fs::write(root.join("home/token"), "secret").unwrap();
    std::os::unix::fs::symlink(root.join("home/token"), root.join("work/way-in")).unwrap();
    let rules = bench.load("", "");
    bench.place.roots = vec![root.clone(), root.join("home/session-state/one")];
    let hidden = "excluded: read $B/home/token
        excluded: read work/way-in
        excluded: write $B/home/lodge.toml
        excluded: read $B/home
        excluded: read $B/home/session-state/two/events.jsonl
        excluded: cat $B/home/token
        excluded: cat ../home/tok*
        excluded: mkdir x && cat $B/home/token";
    let hidden = hidden.replace("read work/way-in", "read way-in");
    bench.check(&rules, &hidden);
    let mut all = rules.clone();
    all.policy = Policy::of(Mode::ApproveAll);
    bench.check(&all, &hidden);
    bench.check(
        &rules,
        "allow: read $B/home/session-state/one/plan.md
         allow: read $B/home/skills/s/SKILL.md
         allow: cat a.txt
         allow: grep -r x $B",
    );
    bench.place.roots = vec![root.join("home/worktrees/x")];
    bench.check(
        &rules,
        "allow: read $B/home/worktrees/x/file\nexcluded: read $B/home/worktrees/y",
    );
}

#[test]
fn people_read_what_a_lasting_approval_covers() {
    let mut bench = bench();
    let other = bench.root().join("other");
    std::fs::create_dir(&other).unwrap();
    bench.place.roots.push(other.clone());
    let (elsewhere, edits) = (
        format!("write {}/x", other.display()),
        format!("all edits in {}", other.display()),
    );
    for (asked, expected) in [
        ("rm -rf build", "exactly `rm -rf build`"),
        ("mkdir foo && cat x", "exactly `mkdir foo` and `cat x`"),
        (
            "cd src && make test 2>&1 | tail",
            "exactly `cd src && make test 2>&1 | tail`",
        ),
        ("echo x > way-out/new", ""),
        ("echo x > .git/config", ""),
        ("write src/a.txt", "all edits in this directory"),
        (&elsewhere, &edits),
        ("write /etc/x[1]", "edits of /etc/x[1]"),
        ("url https://a.org/x", "addresses below https://a.org/"),
        ("mcp s/t", "calls of `s/t`"),
        ("mcp client/t", "calls of `client/t`"),
        ("tool shell", "calls of the app's tool `shell`"),
        ("make test --eval=x", ""),
    ] {
        assert_eq!(
            lasting(&bench.request(asked), &RuleSet::default(), &bench.place),
            expected,
            "{asked}"
        );
    }
}

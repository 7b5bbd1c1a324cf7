//! What an answer for longer than once covers, and what it does not.

use super::*;

#[test]
fn an_answer_for_the_session_covers_what_was_asked_and_no_more() {
    let mut bench = bench();
    for (asked, then) in [
        (
            "npm run build",
            "allow: npm run build\nask: npm run build -- --watch\nask: npm run deploy\nask: npm install",
        ),
        (
            "rm a.txt",
            "allow: rm a.txt\nask: rm src/lib.rs\nask: rm /etc/passwd\nask: rm $X\nask: rm -rf .git\nask: sudo rm a.txt",
        ),
        ("rm 'a*'", "allow: rm 'a*'\nask: rm a*\nask: rm 'a*'*"),
        // Names of files could be options.
        ("rm *", "ask: rm *\nask: rm '*'"),
        ("rm src/*", "allow: rm src/*\nask: rm 'src/*'"),
        // One of them is a link that leads out.
        ("rm ./*", "ask: rm ./*"),
        (
            "git push origin main",
            "allow: git push origin main\nask: git push origin +main\nask: git push origin :main",
        ),
        ("git checkout main", "allow: git checkout main\nask: git checkout ."),
        (
            "touch a.txt",
            "allow: touch a.txt\nallow: touch   'a.txt'\nask: touch src/lib.rs\nask: touch .git/config",
        ),
        ("touch .git/config", "ask: touch .git/config"),
        ("sed -i s/a/b/ .envrc", "ask: sed -i s/a/b/ .envrc"),
        ("git add .prettierrc", "allow: git add .prettierrc\nask: git add .envrc"),
        (
            "ruff check --exclude .venv",
            "allow: ruff check --exclude .venv\nask: ruff check --exclude .env",
        ),
        (
            "rsync -a --exclude .git . out",
            "allow: rsync -a --exclude .git . out\nask: rsync -a . .git",
        ),
        (
            "tar --exclude=.git -czf a.tgz .",
            "allow: tar --exclude=.git -czf a.tgz .\nask: tar -czf a.tgz .",
        ),
        (
            "eslint --config .eslintrc.js src",
            "allow: eslint --config .eslintrc.js src\nask: eslint --config .eslintrc.js .",
        ),
        (
            "eslint --config=.eslintrc.js src",
            "ask: eslint --config=.eslintrc.js src",
        ),
        ("gh api /repos/x/y", "allow: gh api /repos/x/y\nask: gh api /repos/x/z"),
        ("git checkout .envrc", "ask: git checkout .envrc"),
        ("cp a.txt .envrc", "ask: cp a.txt .envrc"),
        ("rsync -a src .git/hooks -v", "ask: rsync -a src .git/hooks -v"),
        ("tar xf a.tar -C .git/hooks", "ask: tar xf a.tar -C .git/hooks"),
        (
            "gcc x.c -o .git/hooks/pre-commit",
            "ask: gcc x.c -o .git/hooks/pre-commit",
        ),
        (
            "prettier --write .vscode/settings.json",
            "ask: prettier --write .vscode/settings.json",
        ),
        ("ruff format .venv/x.py", "ask: ruff format .venv/x.py"),
        (
            "prettier --write --ignore .venv .venv",
            "ask: prettier --write --ignore .venv .venv",
        ),
        ("echo x > .envrc", "ask: echo x > .envrc"),
        (
            ".venv/bin/pytest tests",
            "allow: .venv/bin/pytest tests\nask: .venv/bin/pytest tests .envrc",
        ),
        (
            "python3 .ci/check.py",
            "allow: python3 .ci/check.py\nask: python3 .ci/other.py",
        ),
        (
            "cat /etc/hosts",
            "allow: cat /etc/hosts\nask: cat /etc/passwd\nask: read /etc/hosts",
        ),
        (
            "curl https://a.org/x",
            "allow: curl https://a.org/x\nask: curl https://a.org/y\nask: url https://a.org/x",
        ),
        (
            "echo x > out.txt",
            "allow: echo x > out.txt\nask: echo x >> out.txt\nask: echo y > out.txt\nask: echo x > other.txt\nask: write out.txt",
        ),
        ("bash -c \"$X\"", "ask: bash -c \"$X\""),
        (
            "write a.txt",
            "allow: write src/b.txt\nask: write ../x\nask: write .git/config",
        ),
        (
            "write /etc/x",
            "allow: write /etc/x\nask: write /etc/y\nallow: read /etc/x",
        ),
        ("read /etc/x", "allow: read /etc/x\nask: write /etc/x"),
        (
            "url https://a.org/x",
            "allow: url https://a.org/y\nask: url https://b.org/",
        ),
        ("mcp s/t", "allow: mcp s/t\nask: mcp s/u"),
        ("tool mine", "allow: tool mine\nask: tool other"),
        // Apps and servers call their tools what they like.
        (
            "tool shell",
            "allow: tool shell\nask: tool bash\nask: rm a.txt\nask: mcp client/shell",
        ),
        ("tool bash", "allow: tool bash\nask: rm a.txt"),
        ("tool read", "allow: tool read\nask: read /etc/x"),
        ("tool write", "allow: tool write\nask: write a.txt"),
        ("tool url", "allow: tool url\nask: url https://a.org/x"),
        ("tool *", "allow: tool *\nask: tool other\nask: rm a.txt"),
        ("tool \\shell", "allow: tool \\shell\nask: tool shell\nask: rm a.txt"),
        ("tool s/t", "allow: tool s/t\nask: mcp s/t"),
        ("mcp s/shell", "allow: mcp s/shell\nask: tool s/shell\nask: tool shell"),
        (
            "mcp client/shell",
            "allow: mcp client/shell\nask: tool shell\nask: tool client/shell",
        ),
        (
            "rm q1 && mkdir a",
            "allow: rm q1 && mkdir a\nallow: rm q1\nallow: mkdir a; rm q1\nask: mkdir b\nask: rm q1 q2\nask: mkdir -p a",
        ),
        ("sudo rm -r a", "allow: sudo rm -r a\nask: sudo rm -r b\nask: rm -r a"),
        (
            "sudo apt install x",
            "allow: sudo apt install x\nask: sudo apt install y\nask: sudo rm x\nask: apt install x",
        ),
        (
            "make -j4 test",
            "allow: make -j4 test\nask: make -j8 test\nask: make test\nask: make -C .. test\nask: A='x y' make -j4 test",
        ),
        (
            "make -C 'my dir' test",
            "allow: make -C 'my dir' test\nask: make -C my dir test",
        ),
        (
            "npx eslint",
            "allow: npx eslint\nask: npx eslint src\nask: npx -p evil eslint",
        ),
        ("go test", "allow: go test\nask: go test ./...\nask: go test -exec x"),
        ("cargo test -p one", "allow: cargo test -p one\nask: cargo test -p two"),
        ("git fetch", "allow: git fetch\nask: git fetch origin"),
        ("git commit -m one", "allow: git commit -m one\nask: git commit -m two"),
        (
            "docker run -e A=1 -p 80:80 x",
            "allow: docker run -e A=1 -p 80:80 x\nask: docker run -e A=2 -p 80:80 x\nask: docker exec x ls",
        ),
        ("docker exec x ls", "ask: docker exec x ls"),
        ("kubectl -n x exec pod -- ls", "ask: kubectl -n x exec pod -- ls"),
        ("rm 'a b'", "allow: rm 'a b'\nask: rm a b"),
        ("rm", "allow: rm\nask: rm a"),
        (
            "tar xf a.tar",
            "allow: tar xf a.tar\nask: tar xf b.tar\nask: tar -xf a.tar",
        ),
        (
            "sed -i s/a/b/ a.txt",
            "allow: sed -i s/a/b/ a.txt\nask: sed -i s/a/c/ a.txt\nask: sed -i s/a/b/ src/lib.rs",
        ),
        (
            "git add -A && git status",
            "allow: git add -A && git status\nallow: git status\nask: git add -A && git diff\nask: git add .. && git status",
        ),
        (
            "mkdir x && ls",
            "allow: mkdir x && ls\nallow: mkdir x; pwd\nask: mkdir y && ls\nask: mkdir x && git status",
        ),
        (
            "cat a.txt | psql",
            "allow: cat a.txt | psql\nask: psql\nask: cat src/lib.rs | psql",
        ),
        (
            "cd src && make",
            "allow: cd src && make\nask: make\nask: cd src/deep && make\nask: cd src; make",
        ),
        ("cd src; make", "ask: cd src; make"),
        (
            "cd src && true; make",
            "allow: cd src && true; make\nallow: make\nallow: cd src && make",
        ),
    ] {
        bench.place.session.clear();
        bench.place.session = bench.kept(asked);
        bench.check(&RuleSet::default(), then);
    }
    bench.place.jail = false;
    bench.place.session = bench.kept("mkdir x && find .");
    bench.check(
        &RuleSet::default(),
        "allow: mkdir x && find .\nallow: find .\nask: mkdir x && rg x",
    );
    bench.place.jail = true;
    bench.place.session = bench.kept("read a.txt");
    bench.check(
        &RuleSet::new(Policy::ask_everything()),
        "allow: read src/lib.rs\nask: write a.txt\nask: ls",
    );
}

/// What a person allowed for longer, and what a model then tries.
#[test]
fn no_remembered_command_allows_another() {
    let mut bench = bench();
    for path in ["vendor/bare", "node_modules/evil"] {
        std::fs::create_dir_all(bench.place.cwd.join(path)).unwrap();
    }
    for (allowed, tried) in [
        // Redirections.
        ("mkdir a", "mkdir b && echo 'test: ; ./evil' > Makefile"),
        ("mkdir a", "mkdir a && echo 'test: ; ./evil' > Makefile"),
        ("mkdir a", "mkdir a > Makefile"),
        ("npm test", "npm test > src/main.rs"),
        ("npm test", "npm test 2> src/main.rs"),
        ("npm test", "npm test >> src/main.rs"),
        ("npm test > log", "npm test > src/main.rs"),
        ("echo x > log", "echo x > src/main.rs"),
        // Input.
        ("psql -U app", "echo '\\! ./evil' | psql -U app"),
        ("psql -U app", "psql -U app < evil.sql"),
        ("psql -U app < good.sql", "psql -U app < evil.sql"),
        ("psql -U app < /dev/null", "psql -U app"),
        ("echo '\\d' | psql", "echo '\\! ./evil' | psql"),
        ("kubectl apply -f -", "kubectl apply -f - < x.yaml"),
        ("kubectl apply -f - < good.yaml", "kubectl apply -f - < evil.yaml"),
        ("rm a.txt", "cat list | rm a.txt"),
        // Arguments that are code, or name some.
        ("sqlite3", "sqlite3 a.db '.shell ./evil'"),
        ("psql -c 'select 1'", "psql -c '\\! ./evil'"),
        ("nodejs -e 1", "nodejs -e 'evil()'"),
        ("systemd-run true", "systemd-run ./evil"),
        ("python -m pip install x", "python -m pip install evil"),
        ("npm install x", "npm install evil"),
        ("go run .", "go run ./evil"),
        ("hyperfine true", "hyperfine ./evil"),
        ("mvn test", "mvn test exec:java"),
        ("cmake -E true", "cmake -E env ./evil"),
        ("cp -r x/. .", "cp -r evil/. ."),
        ("make test", "make test SHELL=./evil"),
        ("npx eslint", "npx -p evil eslint"),
        // Parts beside it that nobody approved.
        ("mkdir b", "mkdir b && cargo --version"),
        ("mkdir b", "mkdir b && git status"),
        ("mkdir b", "mkdir b; rg --version"),
        // Directories.
        ("git fetch", "cd vendor/bare && git fetch"),
        ("git fetch", "git -C vendor/bare fetch"),
        ("make test", "cd node_modules/evil && make test"),
        ("cd src && make test", "cd node_modules/evil && make test"),
        // Who runs it, and with what.
        ("sudo -u nobody make x", "sudo make x"),
        ("sudo make x", "sudo -u root make x"),
        ("doas -u nobody make x", "doas make x"),
        ("A=1 make x", "A=2 make x"),
        ("env A=1 make x", "env A=1 B=2 make x"),
        ("timeout 5 make x", "make x"),
        // Homes and patterns.
        ("rm '~'", "rm ~"),
        ("rm ~", "rm '~'"),
        ("prettier --write 'src/*'", "prettier --write src/*"),
        ("prettier --write *", "prettier --write *"),
    ] {
        bench.place.session = bench.kept(allowed);
        let verdict = |text: &str| bench.decide(&RuleSet::default(), text);
        assert!(verdict(allowed) == "allow" || allowed == tried, "{allowed}");
        assert_eq!(verdict(tried), "ask", "{allowed}, then {tried}");
    }
}

#[test]
fn a_rule_of_the_location_holds_in_its_root_and_nowhere_below() {
    let mut bench = bench();
    let mut rules = bench.load("", "");
    let keep = rules_for(&bench.request("make test"), &rules, &bench.place);
    rules.remember(Scope::Location, &keep).unwrap();
    bench.check(&rules, "allow: make test\nask: cd src && make test");
    let work = bench.place.cwd.clone();
    bench.place.cwd = work.join("src");
    bench.check(&rules, "ask: make test\nask: cd deep && make test");
    let keep = rules_for(&bench.request("make test"), &rules, &bench.place);
    assert_eq!(
        keep,
        [Rule::allow(RuleSubject::Command("cd src && make test [=]".into()))]
    );
    rules.remember(Scope::Location, &keep).unwrap();
    bench.check(&rules, "allow: make test");
    bench.place.cwd = work.clone();
    bench.check(&rules, "allow: cd src && make test");
    // A link is what it leads to.
    std::os::unix::fs::symlink("src", work.join("to-src")).unwrap();
    bench.check(&rules, "allow: cd to-src && make test");
    std::fs::remove_file(work.join("to-src")).unwrap();
    std::os::unix::fs::symlink("src/deep", work.join("to-src")).unwrap();
    bench.check(&rules, "ask: cd to-src && make test");
}

#[test]
fn what_is_typed_into_a_running_command_is_always_asked_about() {
    let mut bench = bench();
    let input = crate::request::shell_input("call", "psql -U app", "\\! ./evil\n");
    assert_eq!(rules_for(&input, &RuleSet::default(), &bench.place), []);
    bench.place.session = bench.kept("psql -U app");
    for words in ["psql", "psql -U app []", "*"] {
        bench
            .place
            .session
            .push(Rule::allow(RuleSubject::Command(words.into())));
    }
    let decision = decide(&input, &RuleSet::default(), &bench.place);
    assert_eq!(decision, Decision::Ask { why: None });
    // Nobody knows what it makes of it.
    let mut rules = RuleSet::new(Policy::of(Mode::ApproveAll));
    rules.add(Source::User, Rule::deny(RuleSubject::Command("rm".into())));
    let decision = decide(&input, &rules, &bench.place);
    assert!(matches!(decision, Decision::Ask { why: Some(_) }), "{decision:?}");
}

#[test]
fn what_people_wrote_covers_no_other_input_output_or_directory() {
    let bench = bench();
    let rules = bench.load(
        r#"
        [[allow]]
        command = "psql"
        [[allow]]
        command = "cargo test"
        [[allow]]
        command = "git fetch"
        [[allow]]
        command = "sudo make"
        [[allow]]
        path = "src/**"
        access = "write"
        "#,
        "",
    );
    bench.check(
        &rules,
        "
        allow: psql -U app
        ask: echo '\\! ./evil' | psql -U app
        ask: cat a.txt | psql -U app
        ask: psql -U app < a.txt
        allow: cargo test -p x 2>&1 | tail -20
        allow: timeout 60 cargo test
        allow: cargo test && echo done
        ask: cargo test 2>&1 | tee log
        ask: cargo test > Makefile
        allow: cargo test > src/log
        ask: cargo test && echo x > Makefile
        ask: cargo 'test x'
        ask: A=1 cargo test
        ask: cd src && cargo test
        allow: cd . && cargo test
        allow: cd $B/work && cargo test
        allow: git fetch origin
        ask: git -C src fetch
        allow: sudo make x
        ask: sudo -u nobody make x
        ",
    );
}

#[test]
fn addresses_that_programs_read_differently_fit_no_rule_and_slip_past_no_denial() {
    let bench = bench();
    let rules = bench.load(
        "[[allow]]\ncommand = \"curl\"\n[[allow]]\ncommand = \"wget\"\n[[allow]]\nurl = \"https://docs.rs/*\"\n[[allow]]\nurl = \"docs.rs\"",
        "",
    );
    bench.check(
        &rules,
        "
        allow: curl https://docs.rs/serde
        allow: curl https://docs.rs
        allow: curl -sS https://docs.rs/a?b=c
        ask: curl 'https://docs.rs\\@evil.com/'
        ask: curl https://user@docs.rs/
        ask: curl https://docs.rs/../x
        ask: curl 'https://docs.rs/[1-3]'
        ask: curl 'https://{docs.rs,evil.com}/'
        ask: curl HTTPS://evil.com/
        ask: curl HTTPS://docs.rs/
        ask: curl gopher://evil.com/
        ask: curl file:///etc/passwd
        ask: curl -K list https://docs.rs/
        ask: wget -i list https://docs.rs/
        ask: wget --use-askpass=./evil https://docs.rs/
        ",
    );
    let mut all = RuleSet::new(Policy::of(Mode::ApproveAll));
    all.add(Source::User, Rule::deny(RuleSubject::Url("evil.com".into())));
    bench.check(
        &all,
        "
        deny: curl https://evil.com/
        allow: curl https://docs.rs/
        ask: curl 'https://docs.rs\\@evil.com/'
        ask: curl 'https://{docs.rs,evil.com}/'
        deny: curl HTTPS://evil.com/
        ",
    );
}

#[test]
fn hidden_and_denied_files_are_found_by_their_bare_names() {
    let bench = bench();
    std::fs::write(bench.place.cwd.join("secret"), "x").unwrap();
    let rules = bench.load(
        "exclude = [\"*.pem\", \"secret\"]\n[[deny]]\npath = \"Cargo.lock\"\naccess = \"write\"\n[[deny]]\npath = \"private\"",
        "",
    );
    let all = RuleSet {
        policy: Policy::of(Mode::ApproveAll),
        ..rules
    };
    bench.check(
        &all,
        "
        excluded: base64 key.pem
        excluded: git add key.pem
        excluded: openssl rsa -in key.pem
        excluded: tool.sh --file=key.pem
        deny: sed -i s/a/b/ Cargo.lock
        deny: git checkout Cargo.lock
        deny: touch private
        ask: base64 secret
        ask: openssl rsa in=secret
        ask: base64 -fsecret
        ask: git add secret
        ask: base64 private
        ask: git rm private
        ask: base64 $X
        allow: cargo build
        allow: npm run secret
        allow: git commit -m 'Keep it secret'
        ",
    );
}

#[test]
fn what_is_left_alone_and_what_is_no_file_needs_no_question_where_people_wrote_a_rule() {
    let bench = bench();
    let rules = bench.load(
        "[[allow]]\ncommand = \"ruff\"\n[[allow]]\ncommand = \"git commit\"\n[[allow]]\ncommand = \"gh api\"\n[[allow]]\ncommand = \"rm\"",
        "",
    );
    bench.check(
        &rules,
        "
        allow: ruff check --exclude .venv
        allow: ruff check --exclude=.venv src
        ask: ruff check .venv
        ask: ruff check --exclude .venv .venv
        ask: ruff check --exclude .venv --config=.venv
        ask: ruff check --config .venv/x
        ask: rm --exclude .envrc
        allow: git commit -m '/api: fix'
        allow: git commit -a -m '/api: fix' -m '~x'
        allow: git commit -am '/api: fix'
        allow: git commit --message='/api: fix'
        ask: git commit -F /etc/passwd
        ask: git commit -m x /etc/passwd
        ask: git commit -- -m /etc/passwd
        ask: git commit -F -m /etc/passwd
        allow: gh api /repos/x/y
        ask: gh api /etc/passwd --input /etc/passwd
        ask: gh api --input /etc/passwd
        ",
    );
}

#[test]
fn rules_about_tools_say_whose_tools_they_mean() {
    let bench = bench();
    for (pattern, then) in [
        (
            "shell",
            "allow: rm a.txt\nask: tool shell\nask: mcp s/shell\nask: tool mine",
        ),
        ("bash", "allow: rm a.txt\nask: tool bash"),
        ("mine", "allow: tool mine\nask: tool other\nask: mcp s/mine"),
        (
            "client/shell",
            "allow: tool shell\nask: rm a.txt\nask: mcp client/shell",
        ),
        ("client/*", "allow: tool shell\nallow: tool mine\nask: rm a.txt"),
        ("*/*", "allow: mcp s/t\nask: tool mine\nask: tool s/t"),
        ("s/t", "allow: mcp s/t\nask: tool s/t"),
    ] {
        let mut rules = RuleSet::new(Policy::ask_everything());
        rules.add(Source::User, Rule::allow(RuleSubject::Tool(pattern.into())));
        bench.check(&rules, then);
    }
    for (pattern, then) in [
        ("shell", "deny: rm a.txt\ndeny: tool shell\nask: tool mine"),
        (
            "client/shell",
            "deny: tool shell\nask: rm a.txt\ndeny: mcp client/shell",
        ),
        ("s/t", "deny: mcp s/t\ndeny: tool s/t"),
    ] {
        let mut rules = RuleSet::new(Policy::ask_everything());
        rules.add(Source::User, Rule::deny(RuleSubject::Tool(pattern.into())));
        bench.check(&rules, then);
    }
}

#[test]
fn a_server_that_asks_the_model_is_no_tool_of_any_server() {
    let mut bench = bench();
    let sampling = |server: &str| {
        PermissionRequest::from(McpPermission {
            server_name: server.into(),
            tool_name: McpPermission::SAMPLING.into(),
            ..Default::default()
        })
    };
    let is_asked = |bench: &Bench, request: &PermissionRequest| {
        matches!(decide(request, &RuleSet::default(), &bench.place), Decision::Ask { .. })
    };
    bench.place.session = bench.kept("mcp mcp-sampling/s");
    assert!(is_asked(&bench, &sampling("s")));
    bench.check(&RuleSet::default(), "allow: mcp mcp-sampling/s");
    bench.place.session = rules_for(&sampling("s"), &RuleSet::default(), &bench.place);
    assert!(!is_asked(&bench, &sampling("s")) && is_asked(&bench, &sampling("t")));
    bench.check(&RuleSet::default(), "ask: mcp mcp-sampling/s");
}

#[test]
fn links_of_the_system_make_no_command_unrememberable() {
    let bench = bench();
    let is_link = |top: &str| std::path::Path::new(top).is_symlink();
    for top in ["/tmp", "/bin", "/etc"].into_iter().filter(|top| is_link(top)) {
        let asked = format!("frobnicate {top}/no-such-file");
        assert_eq!(bench.kept(&asked).len(), 1, "{asked}");
    }
    assert_eq!(bench.kept("frobnicate way-out/x"), []);
}

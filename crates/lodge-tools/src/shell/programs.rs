//! What a program call does: whether it only reads, which paths and URLs it names, and which of its words identify what
//! runs.

use super::{edits, git, parser::Word, read_only, sed, special};

/// What one program call does.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Call {
    /// Name with subcommand, such as `git status`.
    pub(super) identifier: String,
    pub(super) read_only: bool,
    /// Paths it names, and whether it may write them.
    pub(super) paths: Vec<(String, bool)>,
    /// Other arguments that may be names of files.
    pub(super) operands: Vec<String>,
    /// Files among the paths that it runs.
    pub(super) runs: Vec<String>,
    /// Arguments that name what it leaves alone.
    pub(super) spared: Vec<String>,
    /// Whether it may be called to write files that its other arguments name.
    pub(super) edits: bool,
    pub(super) urls: Vec<String>,
    /// Whether the identifier says what is run, so that an approval of it means something.
    pub(super) rememberable: bool,
}

impl Call {
    /// A call that only reads.
    pub(super) fn reading(name: &str, paths: Vec<String>) -> Self {
        Self {
            identifier: name.to_owned(),
            read_only: true,
            paths: paths.into_iter().map(|path| (path, false)).collect(),
            rememberable: true,
            ..Self::default()
        }
    }
}

/// Nobody looks at more addresses than these.
const MOST_URLS: usize = 64;

/// Programs whose first words say what they do: how many, which of them take one more, and options before them that
/// take a value.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, usize, &[&str], &[&str])] = &[
    ("npm", 1, &["run", "run-script", "exec", "x"], &["--prefix", "-C", "-w", "--workspace"]),
    ("pnpm", 1, &["run", "exec", "dlx"], &["-C", "--dir", "-F", "--filter"]),
    ("yarn", 1, &["run", "exec", "dlx", "workspace"], &["--cwd"]),
    ("bun", 1, &["run", "x"], &["--cwd"]),
    ("deno", 1, &["task"], &[]),
    ("cargo", 1, &[], &["-C", "--config", "--color", "-Z", "--manifest-path"]),
    ("docker", 1, &["compose", "container", "image", "volume", "network", "buildx", "system"], &["-c", "--context", "-H", "--host", "--config", "-l"]),
    ("podman", 1, &["compose", "container", "image", "volume", "network"], &[]),
    ("kubectl", 1, &["config", "rollout"], &["-n", "--namespace", "--context", "--kubeconfig", "-s"]),
    ("go", 1, &["mod", "tool"], &["-C"]),
    ("gh", 2, &[], &["-R", "--repo"]),
    ("uv", 1, &["pip", "tool", "run"], &["--directory", "--project"]),
    ("poetry", 1, &["run"], &["-C", "--directory"]),
    ("bundle", 1, &["exec"], &[]),
    ("pip", 1, &[], &[]), ("pip3", 1, &[], &[]), ("brew", 1, &[], &[]), ("apt", 1, &[], &["-o", "-c"]),
    ("apt-get", 1, &[], &["-o", "-c"]), ("yum", 1, &[], &[]), ("dnf", 1, &[], &[]), ("systemctl", 1, &[], &[]),
    ("rustup", 1, &[], &[]), ("dotnet", 1, &[], &[]), ("helm", 1, &[], &[]), ("terraform", 1, &[], &[]),
    ("aws", 2, &[], &["--profile", "--region"]), ("gcloud", 2, &[], &["--project"]), ("az", 2, &[], &[]),
    ("conda", 1, &[], &[]), ("just", 1, &[], &[]), ("make", 1, &[], &["-C", "-f", "-j"]), ("npx", 1, &[], &["-p", "--package"]),
    ("uvx", 1, &[], &[]), ("bunx", 1, &[], &[]), ("composer", 1, &[], &[]), ("mix", 1, &[], &[]), ("swift", 1, &[], &[]),
];

/// Programs that run what they are given as text or file.
#[rustfmt::skip]
const INTERPRETERS: &[&str] = &[
    "python", "python2", "python3", "node", "ruby", "perl", "php", "lua", "Rscript", "osascript", "sh", "bash", "zsh",
    "dash", "ksh", "fish", "csh", "tcsh", "pwsh", "powershell",
];
/// Programs that run something else in places that no name shows.
const RUNNERS: &[&str] = &["ssh", "awk", "gawk", "mawk", "nawk"];

/// Programs whose arguments are files they change: all of them, or only the last.
#[rustfmt::skip]
pub(super) const WRITE_ALL: &[&str] = &[
    "rm", "rmdir", "mkdir", "touch", "mv", "truncate", "shred", "tee", "chmod", "chown", "chgrp", "unlink", "mkfifo",
    "gzip", "gunzip", "bzip2", "xz",
];
pub(super) const WRITE_LAST: &[&str] = &["cp", "ln", "install", "rsync", "scp"];

/// The name to know a program by: a path only where it is not one of the system's own.
pub(super) fn name_of(text: &str) -> &str {
    match text.rsplit_once('/') {
        Some(("/bin" | "/usr/bin" | "/usr/local/bin" | "/sbin" | "/usr/sbin", name)) => name,
        _ => text,
    }
}

/// A word as a path. A `~` in quotes is a name like others.
pub(super) fn path(word: &Word) -> String {
    match word.text.starts_with('~') && !word.home {
        true => format!("./{}", word.text),
        false => word.text.clone(),
    }
}

/// What a call does; `words[0]` is the program.
pub(super) fn call(words: &[Word]) -> Call {
    let name = name_of(&words[0].text);
    let args = &words[1..];
    let mut call = special::call(name, args)
        .or_else(|| (name == "git").then(|| git::call(args)))
        .or_else(|| read_only::call(name, args))
        .unwrap_or_else(|| other(name, args));
    for word in args {
        call.urls.extend(urls_in(&word.text));
    }
    call.rememberable &= call.urls.len() < MOST_URLS;
    call
}

/// Options whose value is code, or names a program to run. Whoever approved a program did not approve that.
const CODE: &[&str] = &[
    "--eval",
    "--exec",
    "-exec",
    "-toolexec",
    "-vettool",
    "--call",
    "--script-shell",
    "--node-options",
    "--upload-pack",
    "--receive-pack",
    "--rsh",
    "--rsync-path",
    "--to-command",
    "--checkpoint-action",
    "--use-compress-program",
];
/// The same, of single programs.
#[rustfmt::skip]
const CODE_OF: &[(&[&str], &[&str])] = &[
    (&["cargo"], &["--config"]),
    (&["make", "gmake"], &["-E"]),
    (&["npm", "npx", "pnpm", "yarn"], &["-c"]),
    (&["rsync", "scp", "sftp"], &["-e", "-S", "-o"]),
    (&["tar", "bsdtar"], &["-I", "-F"]),
    (&["curl"], &["-K", "--config"]),
    (&["wget"], &["-i", "--input-file", "-e", "--execute", "--config", "--use-askpass"]),
];

/// Programs of these that also take the beginning of a long option, and several letters in one word.
const LENIENT: &[&str] = &["make", "gmake", "tar", "bsdtar", "rsync", "curl", "wget"];

/// Whether an argument carries code.
fn carries_code(name: &str, args: &[Word]) -> bool {
    let lenient = LENIENT.contains(&name);
    // Names of files could be options.
    let may_be_option = |word: &Word| word.glob && word.text.starts_with(['*', '?', '[', '-']);
    let mut of_program = CODE_OF
        .iter()
        .filter(|(programs, _)| programs.contains(&name))
        .peekable();
    if (lenient || of_program.peek().is_some()) && args.iter().any(may_be_option) {
        return true;
    }
    let listed: Vec<&str> = CODE
        .iter()
        .copied()
        .chain(of_program.flat_map(|(_, names)| names.iter().copied()))
        .collect();
    let is_code = |option: &str, code: &str| match code.strip_prefix('-').filter(|letter| letter.len() == 1) {
        Some(letter) if lenient => option.starts_with('-') && !option.starts_with("--") && option.contains(letter),
        Some(_) => option.starts_with(code),
        None if lenient => option.len() > 3 && option.starts_with("--") && code.starts_with(option),
        // Go's programs take one dash for two.
        None => option == code || option.strip_prefix('-') == Some(code),
    };
    let bundle = bundle(name, args);
    let mut options = args.iter().map(|word| word.text.as_str()).chain(bundle.as_deref());
    options.any(|option| {
        let option = option.split('=').next().unwrap_or_default();
        listed.iter().any(|code| is_code(option, code))
    })
}

/// The options that `tar` also takes without a dash: those in its first argument.
pub(super) fn bundle(name: &str, args: &[Word]) -> Option<String> {
    let first = args.first().filter(|_| matches!(name, "tar" | "bsdtar"))?;
    (!first.text.starts_with('-')).then(|| format!("-{}", first.text))
}

/// Programs that run their arguments in a container.
const CONTAINERS: &[&str] = &["docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc"];

/// Whether the arguments of a program say what it runs, in a way that no name shows.
fn runs_arguments(name: &str, args: &[Word]) -> bool {
    match name {
        "sed" => !sed::only_edits(args),
        _ => CONTAINERS.contains(&name) && args.iter().any(|word| word.text == "exec"),
    }
}

/// A program that may do anything.
fn other(name: &str, args: &[Word]) -> Call {
    let (identifier, rememberable) = identifier(name, args);
    let rememberable = rememberable && !carries_code(name, args) && !runs_arguments(name, args);
    let operands: Vec<&Word> = args.iter().filter(|word| !word.text.starts_with('-')).collect();
    let runs_file = rememberable && INTERPRETERS.contains(&name) && !identifier.contains(" -m ");
    let mut paths: Vec<(String, bool)> = Vec::new();
    let mut runs: Vec<String> = Vec::new();
    if name.contains('/') {
        paths.push((name.to_owned(), false));
        runs.push(name.to_owned());
    }
    runs.extend(operands.first().filter(|_| runs_file).map(|script| path(script)));
    let endpoint = match args {
        [api, endpoint, ..] if name == "gh" && api.text == "api" && !endpoint.glob => Some(endpoint),
        _ => None,
    };
    for word in args.iter().filter(|word| urls_in(&word.text).is_empty()) {
        let text = word.text.as_str();
        let is = |operand: Option<&&Word>| operand.is_some_and(|operand| **operand == *word);
        if let Some((key, file)) = text.split_once('=').filter(|_| name == "dd") {
            paths.push((file.to_owned(), key == "of"));
        } else if text.starts_with('-') {
            let option = text.split('=').next().unwrap_or_default();
            paths.extend(path_in_option(text).map(|path| (path, !edits::is_sparing(option))));
        } else if WRITE_ALL.contains(&name) {
            // The first argument of these is a mode or an owner.
            if !(matches!(name, "chmod" | "chown" | "chgrp") && is(operands.first())) {
                paths.push((path(word), true));
            }
        } else if WRITE_LAST.contains(&name) {
            paths.push((path(word), is(operands.last())));
        } else if endpoint.is_some_and(|endpoint| std::ptr::eq(endpoint, word)) {
            // No file, whatever it looks like.
        } else if looks_like_path(text) || is_reader(name) || runs_file && is(operands.first()) {
            // A reader is here because of an option that may make it write.
            paths.push((path(word), is_reader(name)));
        }
    }
    let mut urls = Vec::new();
    if matches!(name, "curl" | "wget") {
        download(name, args, &mut paths, &mut urls);
    }
    let mut possible = self::operands(args);
    // The words that say what is done are names of files to nobody.
    let subcommands: Vec<&str> = identifier.split(' ').collect();
    possible.retain(|operand| !subcommands.contains(&operand.as_str()));
    Call {
        identifier,
        read_only: false,
        paths,
        operands: possible,
        runs,
        spared: edits::spared(args),
        edits: edits::edits(name, args),
        urls,
        rememberable,
    }
}

/// Everything in arguments that a program may take for the name of a file: words, values after `=`, and those attached to a letter.
pub(super) fn operands(args: &[Word]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in args {
        let text = word.text.as_str();
        let after_letter = text.strip_prefix('-').and_then(|option| {
            let mut letters = option.chars();
            letters.next().filter(|letter| *letter != '-')?;
            Some(letters.as_str())
        });
        let value = text.split_once('=').map(|(_, value)| value);
        let after_sign = text.strip_prefix('@').or_else(|| value?.strip_prefix('@'));
        let whole = Some(path(word)).filter(|_| !text.starts_with('-'));
        let parts = [after_letter, value, after_sign]
            .into_iter()
            .flatten()
            .map(str::to_owned);
        for part in whole.into_iter().chain(parts) {
            if is_possible_path(&part) && !found.contains(&part) {
                found.push(part);
            }
        }
    }
    found
}

/// Whether a file could have such a name.
fn is_possible_path(text: &str) -> bool {
    !text.is_empty() && text.len() < 4096 && text.split('/').all(|name| name.len() < 256)
}

/// Whether all operands of a program are likely files.
fn is_reader(name: &str) -> bool {
    matches!(
        name,
        "cat" | "head" | "tail" | "sort" | "uniq" | "diff" | "xxd" | "less" | "more" | "stat" | "file"
    )
}

/// The name with what says what it does, and whether that is enough to approve it by.
fn identifier(name: &str, args: &[Word]) -> (String, bool) {
    let texts: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
    let runs = |text: &&str| {
        matches!(
            *text,
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
        )
    };
    if RUNNERS.contains(&name) || matches!(name, "find" | "fd" | "fdfind") && texts.iter().any(runs) {
        return (name.to_owned(), false);
    }
    if INTERPRETERS.contains(&name) || name.starts_with("python3.") {
        return match texts.as_slice() {
            ["-m", module, ..] => (format!("{name} -m {module}"), true),
            [script, ..] if !script.starts_with('-') => (format!("{name} {script}"), !args[0].glob),
            [option, ..] => (format!("{name} {option}"), false),
            [] => (name.to_owned(), false),
        };
    }
    let Some((_, depth, deeper, values)) = SUBCOMMANDS.iter().find(|(program, ..)| *program == name) else {
        return (name.to_owned(), true);
    };
    let mut identifier = name.to_owned();
    let mut left = *depth;
    let mut skip = false;
    for word in args {
        let text = word.text.as_str();
        if std::mem::take(&mut skip) {
            continue;
        }
        if text.starts_with(['-', '+']) {
            skip = values.contains(&text);
            continue;
        }
        if left == 0 {
            break;
        }
        if word.glob || text.is_empty() || text.contains(char::is_whitespace) {
            return (identifier, false);
        }
        identifier.push(' ');
        identifier.push_str(text);
        left -= 1;
        if left == 0 && deeper.contains(&text) && !identifier.ends_with(&format!("{text} {text}")) {
            left = usize::from(identifier.split(' ').count() <= depth + 1);
        }
    }
    (identifier, true)
}

/// Options with a file that is written, and others with a value.
type Downloader = (&'static [&'static str], &'static [&'static str]);
#[rustfmt::skip]
const CURL: Downloader = (
    &["-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"],
    &["-X", "-H", "-d", "-A", "-u", "-m", "-w", "-e", "-b", "-F", "-T", "--data", "--header", "--request", "--user", "--max-time",
        "--retry", "--user-agent"],
);
#[rustfmt::skip]
const WGET: Downloader = (
    &["-O", "--output-document", "-o", "--output-file", "-P", "--directory-prefix"],
    &["--header", "--user", "--user-agent", "-U", "-t", "-T"],
);

/// Addresses without a scheme and files that downloads are written to.
fn download(name: &str, args: &[Word], paths: &mut Vec<(String, bool)>, urls: &mut Vec<String>) {
    let (outputs, values) = if name == "curl" { CURL } else { WGET };
    let mut rest = args.iter().map(|word| word.text.as_str());
    while let Some(text) = rest.next() {
        if outputs.contains(&text) {
            paths.extend(rest.next().map(|file| (file.to_owned(), true)));
        } else if values.contains(&text) {
            let value = rest.next().unwrap_or_default();
            // `@file` sends a file, `-T` uploads one.
            let file = value
                .strip_prefix('@')
                .or_else(|| value.split_once("=@").map(|(_, file)| file));
            let file = file.or((name == "curl" && text == "-T").then_some(value));
            paths.extend(file.map(|file| (file.to_owned(), false)));
        } else if !text.starts_with('-') && !text.contains("://") {
            urls.push(format!("http://{text}"));
            paths.retain(|(path, _)| path != text);
        }
    }
}

/// A path that is part of an option: `--file=x`, `-f/x`.
fn path_in_option(option: &str) -> Option<String> {
    let value = match option.split_once('=') {
        Some((_, value)) => value,
        None => {
            let at = ["/", "..", "~", "./"]
                .iter()
                .filter_map(|sign| option.find(sign))
                .min()?;
            &option[at..]
        }
    };
    looks_like_path(value).then(|| value.to_owned())
}

/// Whether an argument of an unknown program is likely a path.
pub(super) fn looks_like_path(text: &str) -> bool {
    let plain = !text.contains("://") && !text.contains("git@") && !text.starts_with('-');
    let has_ending = text.contains('.') && !text.starts_with('@');
    plain && (text.contains('/') || has_ending || text.starts_with('~')) && !text.contains(char::is_whitespace)
}

/// Addresses in an argument, whatever their schemes.
fn urls_in(text: &str) -> Vec<String> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | ')' | '|' | ';');
    let mut found = Vec::new();
    let mut rest = text;
    while found.len() < MOST_URLS
        && let Some((at, sign)) = ["://", "git@"]
            .iter()
            .filter_map(|sign| Some((rest.find(sign)?, *sign)))
            .min()
    {
        let before = rest[..at]
            .chars()
            .rev()
            .take_while(|c| sign == "://" && is_of_scheme(*c));
        let scheme = before.count();
        let url = &rest[at - scheme..];
        let end = url.find(is_end).unwrap_or(url.len());
        if scheme > 0 || sign == "git@" {
            found.push(url[..end].to_owned());
        }
        rest = &url[end..];
    }
    found
}

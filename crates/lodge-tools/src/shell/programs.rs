//! What is known about programs: which only read, which arguments are paths, how far a subcommand reaches.
//!
//! What is not listed is taken for something that can do anything. An option that makes a reader write or run something
//! else must be listed with it.

use super::{git, scripts, word::Word};

/// What one program call does.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Call {
    /// Name with subcommand, such as `git status`.
    pub(super) identifier: String,
    pub(super) read_only: bool,
    /// Paths it names, and whether it may write them.
    pub(super) paths: Vec<(String, bool)>,
    pub(super) urls: Vec<String>,
    /// Whether the identifier says what is run, so that an approval of it means something.
    pub(super) rememberable: bool,
}

/// What the arguments of a reader are.
#[derive(Clone, Copy, PartialEq)]
enum Args {
    /// No paths.
    Free,
    /// Files or directories to read.
    Paths,
    /// Files to read after a pattern or script.
    PatternThenPaths,
    /// One file to read; a second one would be written.
    OnePath,
    /// None at all.
    Nothing,
}

/// A program that only reads.
struct Reader {
    names: &'static [&'static str],
    args: Args,
    /// Short options whose value is the next argument. One too many here would hide a path.
    values: &'static str,
    /// Those among them whose value is a path.
    path_values: &'static str,
    /// Options with which it does not only read.
    bad: &'static [&'static str],
}

const fn reader(
    names: &'static [&'static str],
    args: Args,
    values: &'static str,
    path_values: &'static str,
    bad: &'static [&'static str],
) -> Reader {
    Reader {
        names,
        args,
        values,
        path_values,
        bad,
    }
}

#[rustfmt::skip]
const READERS: &[Reader] = &[
    reader(&[
        "echo", "true", "false", ":", "pwd", "whoami", "id", "uname", "uptime", "arch", "nproc", "tty", "groups",
        "sleep", "seq", "expr", "basename", "dirname", "realpath", "readlink", "printenv", "which", "type", "exit",
        "return", "break", "continue", "shift", "set", "wait", "locale", "ps", "free", "cal", "users", "who",
        "logname", "test", "[", "getconf", "times", "tr", "yes", "tput", "pgrep", "lscpu", "lsblk", "numfmt", "read",
        "getopts", "let", "ulimit", "umask", "unset", "shopt", "command",
    ], Args::Free, "", "", &[]),
    reader(&["printf"], Args::Free, "", "", &["-v"]),
    reader(&["jobs"], Args::Free, "", "", &["-x"]),
    reader(&["mapfile", "readarray"], Args::Free, "", "", &["-C", "-c"]),
    reader(&["hash"], Args::Nothing, "", "", &["-p"]),
    reader(&["hostname", "env", "dirs"], Args::Nothing, "", "", &["-F", "--file", "-b", "--boot"]),
    reader(&[
        "cat", "tac", "nl", "rev", "ls", "dir", "df", "zcat", "bzcat", "xzcat", "md5sum", "sha1sum",
        "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "cmp", "comm", "join", "fold", "fmt",
        "expand", "unexpand", "od", "hexdump", "tsort", "wc",
    ], Args::Paths, "", "", &[]),
    // `@file` holds more options, and one of those loads a library.
    reader(&["strings", "nm", "readelf", "size"], Args::Paths, "", "", &["--plugin", "@"]),
    reader(&["head", "tail"], Args::Paths, "ncs", "", &[]),
    reader(&["stat"], Args::Paths, "c", "", &[]),
    reader(&["file"], Args::Paths, "Fem", "m", &["-C", "--compile", "-f", "--files-from"]),
    reader(&["cut"], Args::Paths, "dfcb", "", &[]),
    reader(&["paste"], Args::Paths, "d", "", &[]),
    reader(&["column"], Args::Paths, "so", "", &[]),
    reader(&["diff"], Args::Paths, "UCWFxX", "X", &["-r", "--recursive"]),
    reader(&["du"], Args::Paths, "dBtX", "X", &["-L", "-D", "-H", "--dereference", "--dereference-args", "--files0-from"]),
    reader(&["tree"], Args::Paths, "LPIHT", "", &["-o", "--output", "-l", "-R"]),
    reader(&["sort"], Args::Paths, "ktSTo", "To", &["-o", "--output", "-T", "--temporary-directory", "--compress-program", "--files0-from"]),
    reader(&["shuf"], Args::Paths, "ino", "o", &["-o", "--output", "--random-source"]),
    reader(&["uniq"], Args::OnePath, "fsw", "", &[]),
    reader(&["xxd"], Args::OnePath, "clgso", "", &[]),
    reader(&["less", "more"], Args::Paths, "", "", &["-o", "-O", "-k", "--log-file", "--LOG-FILE", "--lesskey-file", "--lesskey-src", "--lesskey-content", "+"]),
    reader(&["jq"], Args::PatternThenPaths, "fL", "fL", &["-f", "--from-file", "-L"]),
    reader(&["grep", "egrep", "fgrep"], Args::PatternThenPaths, "ABCmefdD", "f", &["-R", "--dereference-recursive"]),
    reader(&["rg"], Args::PatternThenPaths, "ABCmefgtTjMrEd", "f", &["--pre", "--pre-glob", "--hostname-bin", "-L", "--follow"]),
    reader(&["ag"], Args::PatternThenPaths, "ABCmgGpW", "p", &["--pager", "-f", "--follow"]),
    reader(&["fd", "fdfind"], Args::PatternThenPaths, "edEtScjoC", "C", &["-x", "-X", "--exec", "--exec-batch", "-L", "--follow"]),
];

/// Subcommands that only read, of programs other than git.
#[rustfmt::skip]
const READING_SUBCOMMANDS: &[&str] = &[
    "docker ps", "docker images", "docker inspect", "docker logs", "docker version", "docker info", "docker top",
    "docker compose ps", "docker compose logs", "podman ps", "podman images", "npm ls", "npm list", "npm root",
    "npm prefix", "pip list", "pip show", "pip freeze", "pip3 list", "pip3 show", "pip3 freeze", "systemctl status",
    "systemctl is-active", "systemctl is-enabled", "systemctl list-units", "brew list",
];

/// Options with which they ask another host, run another program (`pip list --python`), or read and write other files.
#[rustfmt::skip]
const BAD_FOR_SUBCOMMANDS: &[&str] = &[
    "-H", "--host", "--machine", "--python", "--log", "--log-file", "--local-log", "-r", "--requirement",
];

/// Tools that print their version and stop when that is all they are asked for. Those that let the project choose
/// which version of themselves runs (cargo, go, yarn) are not among them.
#[rustfmt::skip]
const VERSIONED: &[&str] = &[
    "node", "npm", "npx", "bun", "deno", "python", "python3", "pip", "pip3", "java", "javac", "gcc", "g++", "clang",
    "make", "cmake", "docker", "git", "gh", "ruby", "perl", "php", "bash", "zsh", "tsc", "kubectl", "helm", "uv", "jq",
    "rg", "curl", "wget", "sqlite3", "sed", "awk",
];

/// Those among them whose `-V` is the same. To others it may be anything: `zsh -V` runs what it reads.
const VERSION_LETTER: &[&str] = &[
    "python", "python3", "pip", "pip3", "perl", "jq", "rg", "curl", "wget", "deno",
];

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
const INTERPRETERS: &[&str] = &[
    "python",
    "python2",
    "python3",
    "node",
    "ruby",
    "perl",
    "php",
    "lua",
    "Rscript",
    "osascript",
];
const SHELLS: &[&str] = &[
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "ash",
    "csh",
    "tcsh",
    "pwsh",
    "powershell",
];

/// Programs whose arguments are files they change: all of them, or only the last.
const WRITE_ALL: &[&str] = &[
    "rm", "rmdir", "mkdir", "touch", "mv", "truncate", "shred", "tee", "chmod", "chown", "chgrp", "unlink", "mkfifo",
    "gzip", "gunzip", "bzip2", "xz",
];
const WRITE_LAST: &[&str] = &["cp", "ln", "install", "rsync", "scp"];

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether a shell reads scripts as bash does. What the others run can only be guessed.
pub(super) fn reads_as_bash(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "dash" | "ash" | "ksh")
}

/// Whether a program that only reads takes files as arguments, so that any of them may be one.
pub(super) fn reads_files(name: &str) -> bool {
    READERS
        .iter()
        .any(|reader| reader.names.contains(&name) && matches!(reader.args, Args::Paths | Args::PatternThenPaths))
}

/// The name to know a program by: a path only where it is not one of the system's own.
pub(super) fn name_of(text: &str) -> &str {
    match text.rsplit_once('/') {
        Some(("/bin" | "/usr/bin" | "/usr/local/bin" | "/sbin" | "/usr/sbin", name)) => name,
        _ => text,
    }
}

/// What a call does; `words[0]` is the program.
pub(super) fn call(words: &[Word]) -> Call {
    let name = name_of(words[0].shown());
    let args = &words[1..];
    let mut call = match name {
        "git" => git::call(args),
        "find" | "gfind" => scripts::find(args),
        "sed" | "gsed" => scripts::sed(args),
        "awk" | "gawk" | "mawk" | "nawk" => scripts::awk(name, args),
        "date" => date(args),
        "tar" | "unzip" | "zipinfo" => scripts::archive(name, args),
        _ => match READERS.iter().find(|reader| reader.names.contains(&name)) {
            Some(reader) => read(name, reader, args),
            None => other(name, args),
        },
    };
    if VERSIONED.contains(&name)
        && let [only] = args
        && (matches!(only.text.as_deref(), Some("--version" | "--help"))
            || only.text.as_deref() == Some("-V") && VERSION_LETTER.contains(&name))
    {
        call = Call {
            identifier: name.to_owned(),
            read_only: true,
            rememberable: true,
            ..Call::default()
        };
    }
    for word in args {
        call.urls.extend(urls_in(word.shown()));
    }
    call
}

fn read(name: &str, reader: &Reader, args: &[Word]) -> Call {
    let mut call = Call {
        identifier: name.to_owned(),
        read_only: true,
        rememberable: true,
        ..Call::default()
    };
    let mut positional = Vec::new();
    let mut pattern_given = false;
    let mut options = true;
    let mut after_long = false;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.shown();
        if word.process {
            continue;
        }
        if word.may_be_option() && !reader.bad.is_empty() && options {
            call.read_only = false;
        }
        if options && text == "--" {
            options = false;
        } else if options && text.len() > 1 && text.starts_with('-') {
            let bad = is_bad(text, reader.bad);
            call.read_only &= !bad;
            let long = text.starts_with("--");
            let letters = if long { "" } else { &text[1..] };
            // The first letter that takes a value takes the rest of the word, or the next one.
            let at = letters.find(|c| reader.values.contains(c));
            let (letter, attached) = at.map_or((None, ""), |at| {
                let mut rest = letters[at..].chars();
                (rest.next(), rest.as_str())
            });
            let path_value = letter.is_some_and(|letter| reader.path_values.contains(letter));
            if path_value && !attached.is_empty() {
                call.paths.push((attached.to_owned(), bad));
            } else if reader.args != Args::Free && at != Some(0) {
                call.paths.extend(path_in_option(text).map(|path| (path, bad)));
            }
            if reader.args == Args::PatternThenPaths {
                pattern_given |= matches!(letter, Some('e' | 'f')) && reader.values.contains('f')
                    || letter == Some('g') && name == "ag"
                    || ["--regexp", "--file", "--from-file", "--files", "--type-list"]
                        .contains(&text.split('=').next().unwrap_or(text));
            }
            let long_value = matches!(
                text,
                "--file" | "--from-file" | "--ignore-file" | "--exclude-from" | "--output" | "--pre"
            );
            // A letter before it may be one that is not known to take a value. Only where all are known, or it stands
            // alone, the next word is surely its value; otherwise it counts as an argument.
            let sure = letters.len() == 1 || reader.args == Args::PatternThenPaths;
            if (long_value || letter.is_some() && attached.is_empty() && sure)
                && let Some(value) = rest.next()
                && (long_value || path_value)
            {
                call.paths.push((value.shown().to_owned(), bad));
            }
            after_long = long && !text.contains('=');
            continue;
        } else if reader
            .bad
            .iter()
            .any(|bad| !bad.starts_with('-') && text.starts_with(bad))
        {
            call.read_only = false;
        } else {
            // What follows a long option may be its value, and the pattern comes later.
            if positional.is_empty() && after_long && looks_like_path(text) {
                call.paths.push((text.to_owned(), false));
            }
            positional.push(text.to_owned());
        }
        after_long = false;
    }
    match reader.args {
        Args::Free => positional.clear(),
        Args::Nothing => call.read_only &= positional.is_empty(),
        Args::OnePath => call.read_only &= positional.len() <= 1,
        Args::PatternThenPaths if !pattern_given && !positional.is_empty() => {
            positional.remove(0);
        }
        Args::Paths | Args::PatternThenPaths => {}
    }
    // `ps e` and `ps -o environ` show the environment of other processes, this host's too.
    let environment = |text: &str| text.contains("environ") || !text.starts_with('-') && text.contains(['e', 'E']);
    if name == "ps" && args.iter().any(|word| environment(word.shown())) {
        call.read_only = false;
    }
    // Modules may be files anywhere.
    let imports = |text: &str| text.contains('"') && (text.contains("import") || text.contains("include"));
    if name == "jq" && args.iter().any(|word| imports(word.shown())) {
        call.read_only = false;
    }
    // Of two directories it reads the files in them, which may be links.
    if name == "diff" {
        positional.extend(positional.clone().iter().map(|path| format!("{path}/*")));
    }
    let write = !call.read_only;
    call.paths.extend(
        positional
            .into_iter()
            .filter(|text| text != "-")
            .map(|text| (text, write)),
    );
    call
}

/// Whether an option is one of the bad ones, also abbreviated, bundled or with its value attached.
pub(super) fn is_bad(option: &str, bad: &[&str]) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    bad.iter().any(|bad| match bad.strip_prefix("--") {
        Some(long) => name
            .strip_prefix("--")
            .is_some_and(|given| !given.is_empty() && long.starts_with(given)),
        None => match bad.strip_prefix('-') {
            Some(short) => !option.starts_with("--") && option.starts_with('-') && option.contains(short),
            None => option.starts_with(bad),
        },
    })
}

/// A path that is part of an option: `--file=x`, `-f/x`.
pub(super) fn path_in_option(option: &str) -> Option<String> {
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
    let plain = !text.contains("://") && !text.starts_with('-') && !text.contains('\n');
    plain
        && (text.contains('/') || text.starts_with('.') || text.starts_with('~'))
        && !text.contains(char::is_whitespace)
}

fn date(args: &[Word]) -> Call {
    let harmless = |word: &Word| {
        let text = word.shown();
        word.text.is_some()
            && (text.starts_with('+') || text.starts_with('-') && !is_bad(text, &["-s", "-f", "--set", "--file"]))
    };
    // `-d tomorrow` and `-r file` take a value; a bare number would set the clock.
    let mut previous = "";
    let read_only = args.iter().all(|word| {
        let value_of = std::mem::replace(&mut previous, word.shown());
        matches!(value_of, "-d" | "-r" | "--date" | "--reference") || harmless(word)
    });
    Call {
        identifier: "date".to_owned(),
        read_only,
        rememberable: true,
        ..Call::default()
    }
}

/// A program that may do anything.
fn other(name: &str, args: &[Word]) -> Call {
    let (identifier, rememberable) = identifier(name, args);
    // Options before the subcommand or for another host would make it something else.
    let plain = [name]
        .into_iter()
        .chain(args.iter().map(Word::shown))
        .collect::<Vec<_>>()
        .join(" ");
    let read_only = READING_SUBCOMMANDS.contains(&identifier.as_str())
        && args
            .iter()
            .all(|word| word.text.is_some() && !is_bad(word.shown(), BAD_FOR_SUBCOMMANDS))
        && (plain == identifier || plain.starts_with(&format!("{identifier} ")));
    let positional: Vec<&Word> = args
        .iter()
        .filter(|word| !word.process && !word.shown().starts_with('-'))
        .collect();
    let mut paths: Vec<(String, bool)> = Vec::new();
    let runs_script = rememberable && (is_shell(name) || INTERPRETERS.contains(&name)) && !identifier.contains(" -m ");
    if name.contains('/') {
        paths.push((name.to_owned(), false));
    }
    for word in args {
        let text = word.shown();
        if word.process || !urls_in(text).is_empty() {
            continue;
        }
        if let Some(at) = text.find('=').filter(|_| name == "dd") {
            paths.push((text[at + 1..].to_owned(), text.starts_with("of=")));
        } else if text.starts_with('-') {
            paths.extend(path_in_option(text).map(|path| (path, true)));
        } else if WRITE_ALL.contains(&name) {
            let mode =
                matches!(name, "chmod" | "chown" | "chgrp") && positional.first().is_some_and(|first| *first == word);
            if !mode {
                paths.push((text.to_owned(), true));
            }
        } else if WRITE_LAST.contains(&name) {
            paths.push((text.to_owned(), positional.last().is_some_and(|last| *last == word)));
        } else if (looks_like_path(text) && !read_only)
            || (runs_script && positional.first().is_some_and(|first| *first == word))
        {
            paths.push((text.to_owned(), false));
        }
    }
    let mut urls = Vec::new();
    if matches!(name, "curl" | "wget") {
        download(name, args, &mut paths, &mut urls);
    }
    Call {
        identifier,
        read_only,
        paths,
        urls,
        rememberable,
    }
}

/// Addresses without a scheme and files that downloads are written to.
fn download(name: &str, args: &[Word], paths: &mut Vec<(String, bool)>, urls: &mut Vec<String>) {
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let text = word.shown();
        let output = match name {
            "curl" => matches!(text, "-o" | "--output" | "-D" | "--dump-header" | "-c" | "--cookie-jar"),
            _ => matches!(
                text,
                "-O" | "--output-document" | "-o" | "--output-file" | "-P" | "--directory-prefix"
            ),
        };
        if output {
            paths.extend(rest.next().map(|file| (file.shown().to_owned(), true)));
        } else if matches!(
            text,
            "-X" | "-H"
                | "-d"
                | "-A"
                | "-u"
                | "-m"
                | "-w"
                | "-e"
                | "-b"
                | "-F"
                | "-T"
                | "--data"
                | "--header"
                | "--request"
                | "--user"
                | "--max-time"
                | "--retry"
                | "--user-agent"
                | "--header="
        ) {
            if let Some(value) = rest.next() {
                let value = value.shown();
                // `@file` sends a file, `-T` uploads one.
                let file = value
                    .strip_prefix('@')
                    .or_else(|| value.split_once("=@").map(|(_, file)| file));
                paths.extend(
                    file.or((text == "-T").then_some(value))
                        .map(|file| (file.to_owned(), false)),
                );
            }
        } else if !text.starts_with('-') && !text.contains("://") {
            urls.push(if word.text.is_some() {
                format!("http://{text}")
            } else {
                text.to_owned()
            });
            paths.retain(|(path, _)| path != text);
        }
    }
}

/// The name with what says what it does, and whether that is enough to approve it by.
fn identifier(name: &str, args: &[Word]) -> (String, bool) {
    if matches!(name, "eval" | "source" | "." | "exec" | "alias" | "ssh" | "coproc") {
        return (name.to_owned(), false);
    }
    if INTERPRETERS.contains(&name) || is_shell(name) || name.starts_with("python3.") {
        return match args.iter().map(Word::shown).collect::<Vec<_>>().as_slice() {
            ["-m", module, ..] => (format!("{name} -m {module}"), true),
            [script, ..] if !script.starts_with('-') => (format!("{name} {script}"), args[0].text.is_some()),
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
        let text = word.shown();
        if std::mem::take(&mut skip) {
            continue;
        }
        if text.starts_with('-') || text.starts_with('+') {
            skip = values.contains(&text);
            continue;
        }
        if left == 0 {
            break;
        }
        if word.text.is_none() {
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

/// Addresses in an argument.
pub(super) fn urls_in(text: &str) -> Vec<String> {
    let schemes = [
        "https://", "http://", "ftp://", "ftps://", "ssh://", "git://", "ws://", "wss://", "git@",
    ];
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = schemes.iter().filter_map(|scheme| rest.find(scheme)).min() {
        let url = &rest[at..];
        let end = url
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | ')' | '|' | ';'))
            .unwrap_or(url.len());
        found.push(url[..end].to_owned());
        rest = &url[end.max(1)..];
    }
    found
}

//! Programs that bring a small language of their own: `find`, `sed`, `awk`, and archives.

use super::{
    programs::{Call, is_bad, name_of, path_in_option, reads_files},
    word::Word,
    wrappers::is_assignment,
};

fn base(name: &str, read_only: bool) -> Call {
    Call {
        identifier: name.to_owned(),
        read_only,
        rememberable: true,
        ..Call::default()
    }
}

/// The commands that `find` runs are looked at by the walker; here only what it does itself.
pub(super) fn find(args: &[Word]) -> Call {
    let mut call = base("find", true);
    let mut start = true;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.shown();
        if start && !text.starts_with('-') && !matches!(text, "(" | ")" | "!" | ",") {
            if word.text.is_none() && !word.quoted {
                call.read_only = false;
            }
            call.paths.push((text.to_owned(), false));
            continue;
        }
        match text {
            "-H" | "-L" | "-follow" | "-files0-from" => call.read_only = false,
            "-P" => {}
            "-delete" => {
                call.read_only = false;
                call.paths.iter_mut().for_each(|(_, write)| *write = true);
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                call.read_only = false;
                call.paths
                    .extend(words.next().map(|file| (file.shown().to_owned(), true)));
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                for word in words.by_ref() {
                    if matches!(word.shown(), ";" | "+") {
                        break;
                    }
                }
            }
            _ => {
                if word.may_be_option() && !word.quoted {
                    call.read_only = false;
                }
            }
        }
        start = start && matches!(text, "-P" | "-H" | "-L");
    }
    call
}

/// The commands that `find` runs. What it finds may be links to anywhere, unless it looks for files only and gives them
/// to a program that does nothing but read them.
pub(super) fn find_runs(args: &[Word]) -> Vec<Vec<Word>> {
    let mut runs = Vec::new();
    let only_files = args
        .windows(2)
        .any(|pair| pair[0].shown() == "-type" && pair[1].shown() == "f")
        && !args
            .iter()
            .any(|word| matches!(word.shown(), "-o" | "-or" | "," | "!" | "-not"));
    let found = |word: &Word, reads: bool| match word.shown().contains("{}") && !reads {
        true => Word::unknown("$(find)"),
        false => word.clone(),
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if matches!(word.shown(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            let run: Vec<Word> = words
                .by_ref()
                .take_while(|word| !matches!(word.shown(), ";" | "+"))
                .cloned()
                .collect();
            let reads = only_files && run.first().is_some_and(|program| reads_files(name_of(program.shown())));
            runs.push(run.iter().map(|word| found(word, reads)).collect());
        }
    }
    runs
}

/// `sed` only reads when its script is one of the forms that surely do.
pub(super) fn sed(args: &[Word]) -> Call {
    let mut call = base("sed", true);
    let mut script_seen = false;
    let mut in_place = false;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.shown();
        if word.text.is_none() && !word.quoted || word.may_be_option() {
            call.read_only = false;
        }
        if matches!(text, "-e" | "--expression") {
            script_seen = true;
            call.read_only &= words.next().is_some_and(harmless_sed);
        } else if text.starts_with('-') && text.len() > 1 {
            in_place |= is_bad(text, &["-i", "--in-place"]);
            if is_bad(text, &["-i", "-f", "-s", "--in-place", "--file", "--separate"])
                || text.starts_with("--expression=")
            {
                call.read_only = false;
            }
            if !matches!(
                text,
                "-n" | "-E"
                    | "-r"
                    | "-u"
                    | "-z"
                    | "--quiet"
                    | "--silent"
                    | "--regexp-extended"
                    | "-ne"
                    | "-nE"
                    | "-En"
                    | "-nr"
            ) {
                call.read_only = false;
            }
            if text.ends_with('e') && !text.starts_with("--") && text.len() > 2 {
                script_seen = true;
                call.read_only &= words.next().is_some_and(harmless_sed);
            }
        } else if !script_seen {
            script_seen = true;
            call.read_only &= harmless_sed(word);
        } else {
            call.paths.push((text.to_owned(), in_place));
        }
    }
    call
}

/// Addresses with `p`, `d`, `q`, `=`, or a substitution without `e` and `w`.
fn harmless_sed(word: &Word) -> bool {
    let Some(script) = word.text.as_deref() else {
        return false;
    };
    script.split([';', '\n']).all(|command| {
        let command = command.trim();
        let command = command.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | ' ' | '!' | '~' | '+'));
        let command = match command.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
            Some((pattern, after)) if !pattern.ends_with('\\') => {
                after.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | ' ' | '!' | 'I'))
            }
            _ => command,
        };
        match command {
            "" | "p" | "d" | "q" | "=" | "P" | "D" | "h" | "H" | "g" | "G" | "x" | "n" | "N" | "l" => true,
            _ => {
                let Some(rest) = command.strip_prefix('s') else { return false };
                let Some(mark) = rest.chars().next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\') else { return false };
                let parts: Vec<&str> = rest[mark.len_utf8()..].split(mark).collect();
                matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M')))
            }
        }
    })
}

/// `awk` only reads when its program cannot open files or run commands.
pub(super) fn awk(name: &str, args: &[Word]) -> Call {
    let mut call = base(name, true);
    let mut program_seen = false;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.shown();
        if !program_seen && text.starts_with('-') && text.len() > 1 {
            match text {
                "-F" | "-v" => call.read_only &= words.next().is_some_and(|value| value.text.is_some()),
                _ if text.starts_with("-F") || text.starts_with("-v") => {}
                _ => {
                    call.read_only = false;
                    program_seen |= text.starts_with("-f");
                }
            }
        } else if !program_seen {
            program_seen = true;
            let harmless = |program: &str| {
                let runs = ["system", "getline", "|", "@", "close", "fflush", "ENVIRON", "ARGV"]
                    .iter()
                    .any(|word| program.contains(word));
                // `>` compares as well as redirects; only before the first action it surely compares.
                let redirects = program.split_once('{').is_some_and(|(_, rest)| rest.contains('>'));
                !runs && !redirects
            };
            call.read_only &= word.text.as_deref().is_some_and(harmless);
        } else {
            if word.may_be_option() && !word.quoted {
                call.read_only = false;
            }
            // `name=value` among the files sets a variable.
            if is_assignment(text).is_none() {
                call.paths.push((text.to_owned(), false));
            }
        }
    }
    call
}

/// Archives only read when they list.
pub(super) fn archive(name: &str, args: &[Word]) -> Call {
    let mut call = base(name, false);
    let known = args.iter().all(|word| word.text.is_some() && !word.glob);
    let texts: Vec<&str> = args.iter().map(Word::shown).collect();
    call.read_only = known
        && match (name, texts.as_slice()) {
            ("tar", [flags, archive]) => {
                let letters = flags.trim_start_matches('-');
                letters.contains('t')
                    && letters.ends_with('f')
                    && letters.chars().all(|c| "tvzjJf".contains(c))
                    // `host:file` is fetched from elsewhere.
                    && !archive.starts_with('-') && !archive.contains(':')
            }
            ("unzip", ["-l" | "-v" | "-Z1", archive]) => !archive.starts_with('-'),
            ("zipinfo", [archive]) => !archive.starts_with('-'),
            _ => false,
        };
    for text in texts {
        if text.starts_with('-') {
            call.paths
                .extend(path_in_option(text).map(|path| (path, !call.read_only)));
        } else if text.contains(['.', '/']) {
            call.paths.push((text.to_owned(), !call.read_only));
        }
    }
    call
}

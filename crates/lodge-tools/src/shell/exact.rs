//! The one text of a pipeline: what reads alike runs alike. Rules that approvals make are compared with it, so everything that
//! the parser keeps is in it: what is set, every word with its patterns, every redirection, and what the parts are joined by.

use super::parser::{Simple, Word, quoted};

/// The text of commands that are joined by `|`.
pub(super) fn of_pipeline(commands: &[&Simple]) -> String {
    let parts: Vec<String> = commands.iter().map(|simple| of_command(simple)).collect();
    parts.join(" | ")
}

/// A text in a directory other than the one where commands start.
pub(crate) fn in_directory(dir: &str, text: &str) -> String {
    format!("cd {} && {text}", quoted(dir))
}

fn of_command(simple: &Simple) -> String {
    let set = simple.assignments.iter().map(assignment);
    let words = simple.words.iter().map(Word::written);
    let redirections = simple.redirections.iter().map(|one| match &one.file {
        Some(file) => format!("{} {}", one.sign, file.written()),
        None => one.sign.clone(),
    });
    let all: Vec<String> = set.chain(words).chain(redirections).collect();
    all.join(" ")
}

fn assignment(word: &Word) -> String {
    let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
    format!("{name}={}", quoted(value))
}

impl Word {
    /// As it is written so that it is read as just this word: quoted, except for the `~` of a home and the signs of a pattern.
    fn written(&self) -> String {
        let (home, rest) = match self.home {
            true => self.text.split_at(self.text.len().min(2)),
            false => ("", self.text.as_str()),
        };
        if !home.is_empty() && rest.is_empty() {
            return home.to_owned();
        }
        if !self.glob {
            return format!("{home}{}", quoted(rest));
        }
        let is_sign = |c: char| matches!(c, '*' | '?');
        let parts = rest.split_inclusive(is_sign);
        let written = parts.map(|part| match part.strip_suffix(is_sign) {
            Some("") => part.to_owned(),
            Some(head) => format!("{}{}", quoted(head), &part[head.len()..]),
            None => quoted(part),
        });
        format!("{home}{}", written.collect::<String>())
    }

    /// Whether names of files that the shell puts in its place could be options.
    pub(super) fn may_be_option(&self) -> bool {
        self.glob && self.text.starts_with(['*', '?', '-'])
    }
}

#[cfg(test)]
mod tests {
    use super::super::analyse;

    fn exact(command: &str) -> Vec<String> {
        let pipelines = analyse(command).pipelines;
        let texts = pipelines
            .into_iter()
            .map(|pipeline| (pipeline.dir, pipeline.exact.unwrap()));
        texts
            .map(|(dir, text)| match dir.as_str() {
                "" => text,
                dir => super::in_directory(dir, &text),
            })
            .collect()
    }

    #[test]
    fn a_pipeline_has_one_text_that_reads_as_the_same_pipeline() {
        for (command, expected) in [
            ("make   test", "make test"),
            ("make 'test'", "make test"),
            ("rm ~", "rm ~"),
            ("rm '~'", "rm '~'"),
            ("rm ~/", "rm ~/"),
            ("rm ~/'a b'", "rm ~/'a b'"),
            ("rm ./a*", "rm ./a*"),
            ("rm ~/*.o", "rm ~/*.o"),
            ("rm './a*'", "rm './a*'"),
            ("rm ''", "rm ''"),
            ("/usr/bin/make test", "/usr/bin/make test"),
            ("A='x y' B= make test", "A='x y' B='' make test"),
            ("env A=1 make test", "env A=1 make test"),
            ("sudo -u nobody make test", "sudo -u nobody make test"),
            ("timeout 5 make", "timeout 5 make"),
            ("make>out 2>&1", "make > out 2>&1"),
            ("make 2>>'a b' < in", "make 2>> 'a b' < in"),
            ("make 1> out", "make > out"),
            ("make 2> /dev/null", "make 2> /dev/null"),
            ("psql < /dev/null", "psql < /dev/null"),
            ("echo '\\! x' | psql -U app", "echo '\\! x' | psql -U app"),
            ("cd src && make | tee log", "cd src && make | tee log"),
            ("echo 2 > x", "echo 2 > x"),
            ("git commit -m 'it'\\''s'", "git commit -m 'it'\\''s'"),
        ] {
            assert_eq!(exact(command), [expected], "{command}");
            assert_eq!(exact(expected), [expected], "{command}");
        }
    }

    #[test]
    fn each_pipeline_of_a_line_has_its_own_text_wherever_it_may_run() {
        for (command, expected) in [
            ("mkdir x && ls | wc; make", &["mkdir x", "ls | wc", "make"][..]),
            ("make || make", &["make"]),
            ("cd src && make && ls", &["cd src && make", "cd src && ls"]),
            ("cd src && make; ls", &["make", "cd src && make", "ls", "cd src && ls"]),
            ("cd src", &[]),
        ] {
            assert_eq!(exact(command), expected, "{command}");
        }
    }

    #[test]
    fn what_names_of_files_could_change_has_no_text() {
        for command in ["rm *", "git add *.rs", "prettier ?x", "make -*"] {
            let pipelines = analyse(command).pipelines;
            assert_eq!(pipelines[0].exact, None, "{command}");
        }
        assert_eq!(exact("rm ./*"), ["rm ./*"]);
        assert_eq!(exact("wc -l *.rs"), ["wc -l *.rs"]);
    }
}

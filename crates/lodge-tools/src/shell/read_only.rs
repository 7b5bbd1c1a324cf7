//! Read-only programs and their read-only options. An option that is not listed needs approval: the lists omit
//! everything that writes a file, runs a program, follows links or reads file names from a file.

use super::{
    options::{self, Arguments},
    parser::Word,
    programs::{Call, path},
};

/// What the arguments of a reader are.
#[derive(Clone, Copy, PartialEq)]
enum Operands {
    /// Anything but paths.
    Free,
    /// Files or directories to read.
    Paths,
    /// Files to read after a pattern.
    Pattern,
    /// One file to read; a second one would be written.
    One,
}
use Operands::{Free, One, Paths, Pattern};

/// Names, operands, whether no option at all does harm, and the options that are known (see [`options`]).
type Reader = (&'static [&'static str], Operands, bool, &'static str);

#[rustfmt::skip]
const READERS: &[Reader] = &[
    (&["echo", "true", "false", ":"], Free, true, ""),
    (&["pwd"], Free, false, "LP"),
    (&["whoami", "tty", "arch", "logname", "groups", "hostname"], Free, false, ""),
    (&["uname"], Free, false, "asnrvmpio --all"),
    (&["uptime"], Free, false, "ps"),
    (&["id"], Free, false, "ugGnrz"),
    (&["nproc"], Free, false, "- --all"),
    (&["seq"], Free, false, "w # s: --equal-width --separator="),
    (&["expr"], Free, false, ""),
    (&["basename"], Free, false, "az s: --multiple --suffix="),
    (&["dirname"], Free, false, "z"),
    (&["which"], Free, false, "a"),
    (&["type"], Free, false, "aptPf"),
    (&["command"], Free, false, "vV"),
    (&["tr"], Free, false, "cCdst --complement --delete --squeeze-repeats --truncate-set1"),
    (&["ls", "dir"], Paths, true, "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 --all --almost-all --classify? --color? \
        --directory --full-time --group-directories-first --human-readable --inode --reverse --recursive --size --sort= \
        --time= --time-style= --format= --ignore= --hide= --quoting-style="),
    (&["cat"], Paths, true, "AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank"),
    (&["tac"], Paths, true, "br s: --before --regex --separator="),
    (&["rev"], Paths, true, ""),
    (&["nl"], Paths, true, "p b: d: f: h: i: l: n: s: v: w: --body-numbering= --number-width= --number-format="),
    (&["head"], Paths, true, "qvz # n: c: --lines= --bytes= --quiet --silent --verbose"),
    (&["tail"], Paths, true, "qvz # n: c: --lines= --bytes= --quiet --silent --verbose"),
    (&["wc"], Paths, true, "clmwL --bytes --chars --lines --words --max-line-length"),
    (&["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"], Paths, true, "btz --binary --tag --text"),
    (&["cut"], Paths, true, "nsz b: c: d: f: --bytes= --characters= --delimiter= --fields= --complement --only-delimited \
        --output-delimiter="),
    (&["paste"], Paths, true, "sz d: --serial --delimiters="),
    (&["fold"], Paths, true, "bcs w: --width= --spaces --bytes"),
    (&["expand", "unexpand"], Paths, true, "ia t: --tabs= --initial --all"),
    (&["column"], Paths, false, "t s: o: c: --table --separator= --output-separator="),
    (&["comm"], Paths, true, "123iz --output-delimiter= --check-order --nocheck-order --total"),
    (&["cmp"], Paths, true, "bls i: n: --print-bytes --ignore-initial= --bytes= --silent --verbose"),
    (&["diff"], Paths, false, "abBcdeEfiNnpqstTuwy # C: U: W: I: F: --brief --unified? --context? --side-by-side --color? \
        --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --new-file --report-identical-files \
        --strip-trailing-cr --suppress-common-lines --text --width= --minimal --label="),
    (&["od"], Paths, true, "abcdfilosxv A: j: N: t: S: w? --address-radix= --skip-bytes= --read-bytes= --format= --width?"),
    (&["hexdump", "hd"], Paths, false, "bcCdovx n: s: e:"),
    (&["xxd"], One, false, "abeEipuC c; g; l; s; o;"),
    (&["strings"], Paths, false, "afo n: t: e: --all --bytes= --radix= --encoding="),
    (&["stat"], Paths, false, "Lft c: --format= --printf= --dereference --file-system --terse"),
    (&["file"], Paths, false, "bihN0 F: --brief --mime --mime-type --mime-encoding --no-pad"),
    (&["du"], Paths, false, "abchklmsSx0 d: B: t: --all --apparent-size --bytes --total --max-depth= --human-readable \
        --summarize --separate-dirs --one-file-system --threshold= --exclude= --time? --block-size="),
    (&["df"], Paths, false, "ahHiklPT t: x: B: --all --human-readable --inodes --local --portability --print-type --total \
        --type= --exclude-type= --block-size= --output?"),
    (&["realpath"], Paths, true, "emLPqsz --relative-to@ --relative-base@ --canonicalize-existing --canonicalize-missing"),
    (&["readlink"], Paths, true, "efmnqsvz --canonicalize"),
    (&["tree"], Paths, false, "adfhspDugCFinqrtvxNQJX L; P; I; --dirsfirst --noreport --gitignore --du --prune --sort= \
        --filelimit= --charset= --ignore-case --si --matchdirs"),
    (&["sort"], Paths, false, "bdfgiMhnRrVcCmsuz k: t: --ignore-leading-blanks --dictionary-order --ignore-case \
        --general-numeric-sort --month-sort --human-numeric-sort --numeric-sort --reverse --version-sort --sort= --check? \
        --key= --field-separator= --unique --stable --zero-terminated --merge"),
    (&["uniq"], One, false, "cdDiuz f: s: w: --count --repeated --all-repeated? --unique --ignore-case --skip-fields= \
        --skip-chars= --check-chars= --group?"),
    (&["grep", "egrep", "fgrep"], Pattern, false, "abcEFGhHiIlLnoPqrsTUvwxyzZ # A: B: C: m: e: f@ --after-context= \
        --before-context= --context? --color? --colour? --count --extended-regexp --fixed-strings --basic-regexp \
        --perl-regexp --regexp= --file@ --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp \
        --files-with-matches --files-without-match --max-count= --only-matching --quiet --silent --no-messages --byte-offset \
        --with-filename --no-filename --line-number --null --text --include= --exclude= --exclude-dir= --recursive \
        --binary-files= --line-buffered"),
    (&["rg"], Pattern, false, "abcFHhIiklNnopPqsSUuvwxV0. A: B: C: m: M: e: f@ g: t: T: j: r: d: E: --after-context= \
        --before-context= --context= --case-sensitive --color= --column --count --count-matches --crlf --encoding= --files \
        --files-with-matches --files-without-match --fixed-strings --glob= --iglob= --heading --no-heading --hidden \
        --ignore-case --invert-match --json --line-number --no-line-number --line-regexp --max-columns= --max-count= \
        --max-depth= --max-filesize= --multiline --multiline-dotall --no-config --no-filename --no-ignore --no-ignore-vcs \
        --no-messages --null --one-file-system --only-matching --passthru --pcre2 --pretty --quiet --regexp= --file@ \
        --replace= --smart-case --sort= --sortr= --stats --text --threads= --trim --type= --type-not= --type-list \
        --unrestricted --version --vimgrep --with-filename --word-regexp"),
    (&["fd", "fdfind"], Pattern, false, "HIsigaupF0 e: E: t: d: S: c: j: --hidden --no-ignore --case-sensitive \
        --ignore-case --glob --absolute-path --full-path --fixed-strings --extension= --exclude= --type= --max-depth= \
        --min-depth= --size= --color= --print0 --unrestricted"),
    (&["jq"], Pattern, false, "acCejMnrRsS --ascii-output --color-output --compact-output --exit-status --indent= \
        --join-output --monochrome-output --null-input --raw-input --raw-output --slurp --sort-keys --tab"),
];

/// What a program that is known to read does; `None` when it is unknown or may do something else with these arguments.
pub(super) fn call(name: &str, args: &[Word]) -> Option<Call> {
    let (_, kind, anything, list) = *READERS.iter().find(|(names, ..)| names.contains(&name))?;
    let mut sorted = match (kind, list) {
        // These take every argument for text.
        (Free, "") if anything => Arguments::default(),
        _ => options::sort(list, args, anything)?,
    };
    let text = |word: &Word| word.text.clone();
    let fits = match name {
        // An operand of these changes the machine, or its name comes from a file.
        "hostname" | "whoami" | "tty" | "arch" | "logname" | "uname" | "nproc" | "uptime" | "pwd" => {
            sorted.operands.is_empty()
        }
        // Files of more options.
        "strings" => !sorted.operands.iter().any(|word| word.text.starts_with('@')),
        // Modules are files anywhere, and the environment is not what the person sees.
        "jq" => {
            let program = sorted.operands.first().map(|word| text(word)).unwrap_or_default();
            !["import", "include", "env", "ENV", "input_filename"]
                .iter()
                .any(|word| program.contains(word))
        }
        _ => kind != One || sorted.operands.len() <= 1 && sorted.operands.iter().all(|word| !word.glob),
    };
    let given = match name {
        "rg" => sorted.has(&["e", "f", "regexp", "file", "files", "type-list"]),
        "jq" | "fd" | "fdfind" => false,
        _ => sorted.has(&["e", "f", "regexp", "file"]),
    };
    if kind == Pattern && !given && !sorted.operands.is_empty() && !sorted.operands[0].glob {
        sorted.operands.remove(0);
    }
    let mut paths = sorted.paths;
    if kind != Free {
        let files = sorted.operands.iter().filter(|word| word.text != "-");
        paths.extend(files.clone().map(|word| path(word)));
        // Of two directories it reads the files in them, which may be links.
        if name == "diff" {
            paths.extend(files.clone().map(|word| format!("{}/*", path(word))));
        }
        // Rules would take these for patterns.
        if files.clone().any(|word| word.quoted_pattern) {
            return None;
        }
    }
    fits.then(|| Call::reading(name, paths))
}

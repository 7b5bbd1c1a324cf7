//! Whatever the text, the analysis is fast and errs on the side of asking.

use proptest::prelude::*;

use super::{
    super::parser::{MAX_BYTES, Reader},
    *,
};

/// Openers, separators and quotes of every kind, each repeated to a megabyte, alone and around a command.
#[test]
fn a_megabyte_of_openers_is_refused_and_overflows_nothing() {
    let pieces = [
        "{a,b}",
        "{",
        "}",
        "(",
        ")",
        "((",
        "[[ ",
        "[[ ! ",
        "! ",
        "$(",
        "${",
        "$((",
        "$[",
        "`",
        "\"",
        "'",
        "\"$(",
        "\\",
        "\\\n",
        "<<a\n",
        "<<",
        "<(",
        ">(",
        "a[",
        "a[$(",
        "{a,",
        "if ",
        "case x in ",
        "for x in ",
        "while ",
        "f() { ",
        "function f ",
        "&& ",
        "|| ",
        "| ",
        "; ",
        "& ",
        "\n",
        " ",
        "\t",
        "#",
        "~",
        "*",
        "?",
        "a=",
        "a= ",
        ">a ",
        "<a ",
        "2>&1 ",
        "-",
        "--",
        "x ",
        "\u{e9}",
        "\u{a0}",
        "\0",
        "http://a;",
        "'http://a;' ",
        "a/",
        "../",
        "sudo ",
        "env ",
        "time ",
        "timeout 1 ",
        "xargs ",
        "cd a && ",
        "a | ",
        "echo \"$(a) ",
        "<<a;",
    ];
    for piece in pieces {
        let many = piece.repeat((1 << 20) / piece.len());
        for text in [
            many.clone(),
            format!("ls {many}"),
            format!("ls \"{many}\""),
            format!("{many}ls"),
        ] {
            let found = analyse(&text);
            assert!(!found.understood, "{piece:?} {:.20}", text);
            assert!(found.segments.len() <= 65 && found.paths.len() <= 65, "{piece:?}");
        }
        // As much as is read at all.
        for length in [MAX_BYTES, MAX_BYTES - 4, 1000] {
            let text = &many[..many.floor_char_boundary(length)];
            let mut reader = Reader::new(text);
            let read = reader.list().is_some();
            assert!(
                reader.steps <= 8 * text.len() + 16,
                "{piece:?}: {} steps for {} bytes",
                reader.steps,
                text.len()
            );
            let found = analyse(text);
            assert!(read || !found.understood, "{piece:?}");
        }
    }
}

#[test]
fn odd_text_is_not_understood() {
    for command in [
        "",
        " ",
        "\n",
        "\0",
        "# x",
        "ls\r\nrm x",
        "ls\u{a0}rm",
        "ls \u{1}",
        "'\u{7f}'",
        "ls '\u{1}'",
        "ls\u{b}x",
        "ls\u{c}x",
    ] {
        assert!(!analyse(command).understood, "{command:?}");
    }
    let words = |count: usize| format!("echo{}", " a".repeat(count));
    assert!(analyse(&words(500)).understood && !analyse(&words(600)).understood);
    let long = |count: usize| format!("echo {}", "a".repeat(count));
    assert!(analyse(&long(MAX_BYTES - 5)).understood && !analyse(&long(MAX_BYTES - 4)).understood);
}

/// Signs of the shell's language, more often than chance would have it.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        "[ -~]{1,8}",
        "\\PC{1,4}",
        any::<char>().prop_map(String::from),
        prop::sample::select(vec![
            "ls", "cat", "rm", "git ", "$(", "`", "'", "\"", "\\", "\n", ";", "&&", "||", "|", ">", "<", "<<E\n",
            "2>&1", "#", "~", "*", "a=", "é", "\0", "{", "}", "[", "]", "!", "--", "-o", " ", "http://x",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(scrap, 0..40).prop_map(|scraps| scraps.concat())
}

proptest! {
    #![proptest_config(testkit::fuzz::config())]

    #[test]
    fn no_text_makes_the_analysis_panic_or_linger(text in scraps()) {
        let mut reader = Reader::new(&text);
        let commands = reader.list();
        prop_assert!(reader.steps <= 8 * text.len() + 16);
        let found = analyse(&text);
        prop_assert!(!found.only_reads() || found.understood);
        prop_assert!(commands.is_some() || !found.understood);
        prop_assert!(!found.is_trivial() || found.only_reads());
    }

    #[test]
    fn bytes_that_are_no_text_are_read_as_the_tool_reads_them(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        analyse(&String::from_utf8_lossy(&bytes));
    }
}

//! Renders the screen of a terminal from its output. This is done only when somebody needs it, which is rare: no output
//! waits for it.

use std::num::NonZeroU16;

fn parsed<'a>(output: impl IntoIterator<Item = &'a str>, cols: u16, rows: u16) -> vt100::Parser {
    let side = |side: u16| NonZeroU16::new(side).unwrap_or(NonZeroU16::MIN);
    let mut parser = vt100::Parser::new(side(rows), side(cols), 0);
    for text in output {
        parser.process(text.as_bytes());
    }
    parser
}

/// Where the cursor is, as row and column that count from 1.
pub fn cursor<'a>(output: impl IntoIterator<Item = &'a str>, cols: u16, rows: u16) -> (u16, u16) {
    let (row, column) = parsed(output, cols, rows).screen().cursor_position();
    (row.saturating_add(1), column.saturating_add(1))
}

/// The sequences that draw the screen as it is.
pub fn picture<'a>(output: impl IntoIterator<Item = &'a str>, cols: u16, rows: u16) -> String {
    parsed(output, cols, rows).screen().state_formatted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_where_output_left_it() {
        for (output, at) in [
            (["", ""], (1, 1)),
            (["abc", "d"], (1, 5)),
            (["one\r\ntwo\r\n", "$ "], (3, 3)),
            (["\x1b[5;7", "H"], (5, 7)),
            (["\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", "x"], (10, 2)),
        ] {
            assert_eq!(cursor(output, 20, 10), at, "{output:?}");
        }
    }

    #[test]
    fn a_picture_shows_the_same_screen() {
        let output = "\x1b[?1049h\x1b[2J\x1b[3;4H\x1b[31mred\x1b[0m\x1b[1;1Htop\x1b[?25l\x1b[5;2H";
        let drawn = format!("\x1b[?1049h{}", picture([output], 20, 10));
        let (one, two) = (parsed([output], 20, 10), parsed([drawn.as_str()], 20, 10));
        assert_eq!(one.screen().contents_formatted(), two.screen().contents_formatted());
        assert_eq!(one.screen().cursor_position(), two.screen().cursor_position());
    }

    #[test]
    fn no_output_is_too_strange() {
        let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
        let alphabet: Vec<char> = "\x1b\x1b\x1b[[[]??;;0123456789hlmnrHJKLMPST@ABCDXdfgsuc\r\n\t\x08 a\u{fc}\u{4e2d}\u{301}\u{1f980}\x07\\(0B"
            .chars()
            .collect();
        for round in 0..300 {
            let mut text = String::new();
            for _ in 0..400 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                text.push(alphabet[(seed % alphabet.len() as u64) as usize]);
            }
            let (cols, rows) = (1 + (round % 30) as u16, 1 + (round % 7) as u16);
            let (row, column) = cursor([text.as_str()], cols, rows);
            assert!(row <= rows && column <= cols + 1, "{text:?}");
            picture([text.as_str()], cols, rows);
        }
    }
}

//! Timestamps in the one form that events use: `2026-11-15T06:23:33.176Z`.

use jiff::Timestamp;

const DAY_MS: i64 = 86_400_000;
/// Timestamps from year 0 to 9999 have the usual form; others are left to jiff.
const USUAL_MS: std::ops::Range<i64> = -62_167_219_200_000..253_402_300_800_000;

/// The timestamp without what is finer than a millisecond, as events carry it.
pub(crate) fn to_millis(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(timestamp.as_millisecond()).unwrap_or(timestamp)
}

/// Writes a timestamp in UTC with milliseconds.
pub(crate) fn write(timestamp: Timestamp, out: &mut Vec<u8>) {
    let ms = timestamp.as_millisecond();
    if !USUAL_MS.contains(&ms) {
        out.extend_from_slice(format!("{timestamp:.3}").as_bytes());
        return;
    }
    let (year, month, day) = civil_from_days(ms.div_euclid(DAY_MS));
    let ms = ms.rem_euclid(DAY_MS) as u32;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    digits(&mut text[0..4], year as u32);
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], ms / 3_600_000);
    digits(&mut text[14..16], ms / 60_000 % 60);
    digits(&mut text[17..19], ms / 1000 % 60);
    digits(&mut text[20..23], ms % 1000);
    out.extend_from_slice(&text);
}

/// A timestamp as events carry it, as text.
pub fn timestamp_text(timestamp: Timestamp) -> String {
    let mut out = Vec::with_capacity(24);
    write(timestamp, &mut out);
    String::from_utf8(out).expect("timestamps are ASCII")
}

/// Reads a timestamp: the usual form quickly, any other ISO 8601 form with an offset as jiff does.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    read_usual(text.as_bytes()).or_else(|| text.parse().ok())
}

fn read_usual(text: &[u8]) -> Option<Timestamp> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let marks = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ];
    if marks.iter().any(|&(at, mark)| text[at] != mark) {
        return None;
    }
    let (year, month, day) = (number(&text[0..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hour, minute, second) = (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
    let ms = number(&text[20..23])?;
    let days = days_from_civil(year, month, day);
    // Days that the month does not have would come out as days of the next month.
    if civil_from_days(days) != (year, month as u32, day as u32) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Timestamp::from_millisecond(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms).ok()
}

fn digits(out: &mut [u8], mut value: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn number(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
    })
}

/// Year, month and day of a day counted from 1 January 1970, in the Gregorian calendar.
///
/// Years are taken to begin in March, so that the leap day is the last, and counted in eras of 400 years.
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (
        year_of_era + era * 400 + i64::from(month <= 2),
        month as u32,
        day as u32,
    )
}

/// The reverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

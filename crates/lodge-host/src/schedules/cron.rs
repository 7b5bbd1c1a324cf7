//! Due times of a schedule: the protocol's five fields (minute, hour, day of month, month, day of week), in the local time of a
//! zone. A local minute that a clock change skips is never due; one that it repeats is due twice.

use jiff::{
    Timestamp,
    civil::{Date, time},
    tz::{AmbiguousOffset, TimeZone},
};

/// So far ahead a date is looked for. Leap days are at most 8 years apart; what does not come in this time never comes.
const YEARS: i16 = 40;

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A schedule that was read. Each field is a set of numbers, as bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

/// What one field may hold.
struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    names: &'static [&'static str],
}

impl Cron {
    /// Reads an expression. `Err` says what is wrong with it.
    pub(crate) fn parse(expression: &str) -> Result<Self, String> {
        let fields: Vec<&str> = expression.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "a schedule has exactly five fields, and {expression:?} has {}",
                fields.len()
            ));
        };
        let field = |name, low, high, names| Field { name, low, high, names };
        let weekdays = field("day of week", 0, 7, &DAYS).parse(weekday)?;
        Ok(Self {
            minutes: field("minute", 0, 59, &[]).parse(minute)?,
            hours: field("hour", 0, 23, &[]).parse(hour)?,
            days: field("day of month", 1, 31, &[]).parse(day)?,
            months: field("month", 1, 12, &MONTHS).parse(month)?,
            // Sunday has two numbers.
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            any_day: day == "*",
            any_weekday: weekday == "*",
        })
    }

    /// The first moment after another at which it is due; none when there is none in the next decades.
    pub(crate) fn next(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let today = after.to_zoned(zone.clone()).date();
        // Where clocks go back over midnight, moments to come may have yesterday's date.
        let mut date = today.yesterday().ok()?;
        let last = today.year().saturating_add(YEARS);
        let first = |date: Date| self.moments(zone, date).filter(|moment| *moment > after).min();
        while date.year() <= last {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if let Some(found) = first(date) {
                // For the same reason the next day may have begun before this one ends.
                let next_day = date.tomorrow().ok().and_then(first);
                return Some(next_day.map_or(found, |next| next.min(found)));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Whether a date is one of its days. Where both kinds of days are restricted, either will do.
    fn is_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let of_days = match (self.any_day, self.any_weekday) {
            (false, false) => day || weekday,
            _ => day && weekday,
        };
        of_days && has(self.months, date.month())
    }

    /// All its moments of a date, in no order.
    fn moments(&self, zone: &TimeZone, date: Date) -> impl Iterator<Item = Timestamp> {
        let day = self.is_day(date);
        let hours = (0..24).filter(move |hour| day && has(self.hours, *hour));
        let minutes = hours.flat_map(|hour| (0..60).map(move |minute| (hour, minute)));
        let due = minutes.filter(|(_, minute)| has(self.minutes, *minute));
        due.flat_map(move |(hour, minute)| {
            let local = date.to_datetime(time(hour, minute, 0, 0));
            let offsets = match zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
                AmbiguousOffset::Gap { .. } => [None, None],
                AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
            };
            let moments = offsets.into_iter().flatten();
            moments.filter_map(move |offset| offset.to_timestamp(local).ok())
        })
    }
}

/// The zone of a name of the IANA database.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    let found = TimeZone::get(name).ok().filter(|zone| !zone.is_unknown());
    found.ok_or_else(|| format!("there is no time zone {name:?}"))
}

fn has(set: u64, number: i8) -> bool {
    set >> number & 1 == 1
}

impl Field {
    fn parse(&self, text: &str) -> Result<u64, String> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part).map_err(|what| {
                let Self { name, low, high, .. } = self;
                format!("invalid {name} {part:?}: {what}; it is {low} to {high}")
            })?;
        }
        Ok(set)
    }

    fn part(&self, part: &str) -> Result<u64, &'static str> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step).ok_or("a step is a number")?)),
            None => (part, None),
        };
        if step == Some(0) {
            return Err("a step must be at least 1");
        }
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (self.low, self.high),
            Some((low, high)) => (self.value(low)?, self.value(high)?),
            None if step.is_some() => return Err("a step needs * or a range"),
            None => (self.value(range)?, self.value(range)?),
        };
        if low > high {
            return Err("a range must go upwards");
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok((low..=high).step_by(step).fold(0, |set, value| set | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u8, &'static str> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named
            .and_then(|at| u64::try_from(at).ok())
            .map(|at| at + u64::from(self.low));
        let value = named.or_else(|| number(text)).ok_or("it is not a value")?;
        u8::try_from(value)
            .ok()
            .filter(|value| (self.low..=self.high).contains(value))
            .ok_or("it is outside")
    }
}

/// A number in plain digits. A sign, or nothing at all, is none; what is too large is as large as can be.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The next moments after one, as they are in UTC.
    fn check(expression: &str, zone_name: &str, after: &str, expected: &[&str]) {
        let (cron, zone) = (Cron::parse(expression).unwrap(), zone(zone_name).unwrap());
        let mut moment: Timestamp = after.parse().unwrap();
        for expected in expected {
            moment = cron.next(&zone, moment).expect(expression);
            assert_eq!(moment.to_string(), *expected, "{expression} in {zone_name}");
        }
    }

    #[test]
    fn schedules_are_due_when_their_fields_say() {
        let new_year = "2026-01-01T00:00:00Z";
        check(
            "* * * * *",
            "UTC",
            new_year,
            &["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"],
        );
        check(
            "* * * * *",
            "UTC",
            "2026-01-01T00:00:59.999Z",
            &["2026-01-01T00:01:00Z"],
        );
        check(
            "0 * * * *",
            "UTC",
            "2026-01-01T00:00:00.001Z",
            &["2026-01-01T01:00:00Z"],
        );
        check(
            "30 9 * * *",
            "UTC",
            new_year,
            &["2026-01-01T09:30:00Z", "2026-01-02T09:30:00Z"],
        );
        check(
            "30 9 * * MON-FRI",
            "UTC",
            "2026-01-02T09:30:00Z",
            &["2026-01-05T09:30:00Z", "2026-01-06T09:30:00Z"],
        );
        check(
            "0 0 1,15 * *",
            "UTC",
            new_year,
            &["2026-01-15T00:00:00Z", "2026-02-01T00:00:00Z"],
        );
        check(
            "*/15 * * * *",
            "UTC",
            new_year,
            &["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"],
        );
        check(
            "1-30/10 3 * * *",
            "UTC",
            new_year,
            &["2026-01-01T03:01:00Z", "2026-01-01T03:11:00Z"],
        );
        check(
            "59 23 31 dec *",
            "UTC",
            new_year,
            &["2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"],
        );
        check(
            "0 0 * Jan,JUL sUn",
            "UTC",
            new_year,
            &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        );
        check("  0\t0  * *   * ", "UTC", new_year, &["2026-01-02T00:00:00Z"]);
        // A step far beyond the range is the first of it.
        check(
            "10-20/99999999999999999999 0 * * *",
            "UTC",
            new_year,
            &["2026-01-01T00:10:00Z"],
        );
        check("0 9 * * *", "Asia/Tokyo", new_year, &["2026-01-02T00:00:00Z"]);
        check("0 9 * * *", "asia/kolkata", new_year, &["2026-01-01T03:30:00Z"]);
    }

    #[test]
    fn sunday_has_two_numbers() {
        for sunday in ["0", "7", "SUN", "*/7"] {
            let week = format!("0 0 * * {sunday}");
            check(
                &week,
                "UTC",
                "2026-01-01T00:00:00Z",
                &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
            );
        }
        check(
            "0 0 * * 5-7",
            "UTC",
            "2026-01-01T00:00:00Z",
            &[
                "2026-01-02T00:00:00Z",
                "2026-01-03T00:00:00Z",
                "2026-01-04T00:00:00Z",
                "2026-01-09T00:00:00Z",
            ],
        );
    }

    #[test]
    fn either_kind_of_day_will_do_where_both_are_restricted() {
        // The 13th, and every Friday.
        check(
            "0 0 13 * FRI",
            "UTC",
            "2026-01-08T00:00:00Z",
            &["2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"],
        );
        // What holds every day is a restriction as long as it is no star.
        check(
            "0 0 1-31 * FRI",
            "UTC",
            "2026-01-08T00:00:00Z",
            &["2026-01-09T00:00:00Z", "2026-01-10T00:00:00Z"],
        );
        check(
            "0 0 * * FRI",
            "UTC",
            "2026-01-08T00:00:00Z",
            &["2026-01-09T00:00:00Z", "2026-01-16T00:00:00Z"],
        );
        check(
            "0 0 13 * *",
            "UTC",
            "2026-01-08T00:00:00Z",
            &["2026-01-13T00:00:00Z", "2026-02-13T00:00:00Z"],
        );
    }

    #[test]
    fn minutes_that_are_left_out_are_never_due_and_those_that_come_twice_are_due_twice() {
        // Berlin goes from 02:00 to 03:00 on 29 March, and from 03:00 back to 02:00 on 25 October.
        let berlin = "Europe/Berlin";
        check(
            "30 2 * * *",
            berlin,
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        check(
            "0 3 * * *",
            berlin,
            "2026-03-28T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"],
        );
        check(
            "*/30 * * * *",
            berlin,
            "2026-03-29T00:15:00Z",
            &["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
        );
        check(
            "30 2 * * *",
            berlin,
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"],
        );
        // New York on 8 March and 1 November.
        let york = "America/New_York";
        check("15 2 * * *", york, "2026-03-07T12:00:00Z", &["2026-03-09T06:15:00Z"]);
        check(
            "0,30 1 * * *",
            york,
            "2026-11-01T04:00:00Z",
            &[
                "2026-11-01T05:00:00Z",
                "2026-11-01T05:30:00Z",
                "2026-11-01T06:00:00Z",
                "2026-11-01T06:30:00Z",
                "2026-11-02T06:00:00Z",
            ],
        );
        // Havana's clocks go back over midnight: from 01:00 to 00:00, so a day begins twice.
        check(
            "0 0 * * *",
            "America/Havana",
            "2026-10-31T12:00:00Z",
            &["2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z", "2026-11-02T05:00:00Z"],
        );
        // Samoa left out a whole day.
        check(
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-01T00:00:00Z",
            &["2012-12-29T22:00:00Z"],
        );
    }

    #[test]
    fn rare_days_are_found_and_impossible_ones_are_not() {
        check(
            "0 0 29 2 *",
            "UTC",
            "2026-01-01T00:00:00Z",
            &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
        );
        check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]);
        check(
            "0 0 31 1,3,5,7,8,10,12 *",
            "UTC",
            "2026-01-31T00:00:00Z",
            &["2026-03-31T00:00:00Z"],
        );
        let never = |expression: &str, after: &str| {
            let cron = Cron::parse(expression).unwrap();
            assert_eq!(cron.next(&TimeZone::UTC, after.parse().unwrap()), None, "{expression}");
        };
        never("0 0 30 2 *", "2026-01-01T00:00:00Z");
        never("0 0 31 2,4,6,9,11 *", "2026-01-01T00:00:00Z");
        // The end of all time.
        never("* * * * *", "9999-12-30T22:00:00Z");
        never("0 0 1 1 *", "9999-06-01T00:00:00Z");
    }

    #[test]
    fn what_is_not_in_the_grammar_says_what_is_wrong() {
        let check = |expression: &str, expected: &str| {
            let error = Cron::parse(expression).expect_err(expression);
            assert!(error.contains(expected), "{expression}: {error}");
        };
        check("", "exactly five fields");
        check("* * * *", "has 4");
        check("* * * * * *", "has 6");
        check("@daily", "has 1");
        check("60 * * * *", "outside");
        check("* 24 * * *", "outside");
        check("* * 0 * *", "outside");
        check("* * 32 * *", "outside");
        check("* * * 0 *", "outside");
        check("* * * 13 *", "outside");
        check("* * * * 8", "outside");
        check("99999999999999999999 * * * *", "outside");
        check("*/0 * * * *", "at least 1");
        check("*/x * * * *", "a step is a number");
        check("*/ * * * *", "a step is a number");
        check("*/2/3 * * * *", "a step is a number");
        check("5/15 * * * *", "needs * or a range");
        check("10-5 * * * *", "upwards");
        check("* * * * SAT-SUN", "upwards");
        check("1-2-3 * * * *", "not a value");
        check("1,,2 * * * *", "not a value");
        check(", * * * *", "not a value");
        check("- * * * *", "not a value");
        check("-1 * * * *", "not a value");
        check("+1 * * * *", "not a value");
        check("1.5 * * * *", "not a value");
        check("JAN * * * *", "not a value");
        check("* * * MON *", "not a value");
        check("* * * JANUARY *", "not a value");
        check("* * ? * *", "not a value");
        check("* * L * *", "not a value");
        check("* * 15W * *", "not a value");
        check("* * * * FRI#2", "not a value");
        check("* * * * **", "not a value");
        check("\u{661} * * * *", "not a value");
        assert!(zone("Europe/Berlin").is_ok());
        for odd in [
            "",
            "Europe/Atlantis",
            "Berlin",
            "../UTC",
            "+01:00",
            "Etc/Unknown",
            "UTC\n",
        ] {
            assert!(zone(odd).is_err(), "{odd:?}");
        }
    }

    fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
        let value = low..=high;
        let range = (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
        let stepped = (range.clone(), 1..70u8).prop_map(|(range, step)| format!("{range}/{step}"));
        let part = prop_oneof![
            value.prop_map(|value| value.to_string()),
            range,
            stepped,
            (1..70u8).prop_map(|step| format!("*/{step}"))
        ];
        prop_oneof![
            Just("*".to_owned()),
            prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(","))
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn the_next_moment_is_later_matches_and_none_between_does(
            fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)),
            zone_name in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"]),
            after in 0i64..4_000_000_000,
        ) {
            let (minute, hour, day, month, weekday) = fields;
            let expression = format!("{minute} {hour} {day} {month} {weekday}");
            let (cron, zone) = (Cron::parse(&expression).unwrap(), zone(zone_name).unwrap());
            let after = Timestamp::from_second(after).unwrap();
            let Some(next) = cron.next(&zone, after) else {
                // Only days that no month has are never due.
                prop_assert!(day != "*" && weekday == "*", "{expression}");
                return Ok(());
            };
            let due = |moment: Timestamp| {
                let local = moment.to_zoned(zone.clone());
                cron.is_day(local.date()) && has(cron.hours, local.hour()) && has(cron.minutes, local.minute())
            };
            prop_assert!(next > after && due(next), "{expression}");
            prop_assert_eq!(next.as_second() % 60, 0);
            // No minute before it, as far as one can look in a moment.
            let first = (after.as_second() / 60 + 1) * 60;
            for second in (first..next.as_second()).step_by(60).take(3000) {
                prop_assert!(!due(Timestamp::from_second(second).unwrap()), "{expression} was due before");
            }
        }
    }

    const SAMPLES: &[&str] = &[
        "0 9 * * MON-FRI",
        "*/15 0-6,22 1,15 JAN *",
        "59 23 31 12 7",
        "0 0 29 2 *",
        "5/7 1-3/2 * * SUN,3",
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_schedule_does_harm(text in testkit::fuzz::text(SAMPLES), second in -60_000_000_000i64..250_000_000_000) {
            if let Ok(cron) = Cron::parse(&text) {
                let after = Timestamp::from_second(second).unwrap();
                for zone in ["UTC", "Europe/Berlin", "Australia/Lord_Howe"] {
                    let next = cron.next(&zone_named(zone), after);
                    prop_assert!(next.is_none_or(|next| next > after));
                }
            }
        }
    }

    fn zone_named(name: &str) -> TimeZone {
        super::zone(name).unwrap()
    }
}

//! Days of the calendar, as `2027-01-01`.

use std::fmt;

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// `2027-01-01`; nothing for what is no day.
    pub fn parse(text: &str) -> Option<Date> {
        let digits = |part: &str, wanted: usize| part.len() == wanted && part.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
            return None;
        }
        let date = Date { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? };
        (date.day >= 1 && date.day <= days_of(date.year.into(), date.month)?).then_some(date)
    }

    /// The day, in UTC, of a time in seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Date {
        let mut days = seconds / 86_400;
        let mut year = 1970_u64;
        while days >= year_length(year) && year < 9999 {
            days -= year_length(year);
            year += 1;
        }
        let mut month = 1_u8;
        while let Some(length) = days_of(year, month)
            && days >= u64::from(length)
            && month < 12
        {
            days -= u64::from(length);
            month += 1;
        }
        Date { year: u16::try_from(year).unwrap_or(9999), month, day: u8::try_from(days + 1).unwrap_or(31).min(31) }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn year_length(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of(year: u64, month: u8) -> Option<u8> {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 if is_leap(year) => Some(29),
        2 => Some(28),
        _ => None,
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_and_compared() {
        for text in ["2027-01-01", "2024-02-29", "1999-12-31"] {
            assert_eq!(Date::parse(text).expect("a day").to_string(), text);
        }
        for text in [
            "2023-02-29",
            "2027-13-01",
            "2027-00-01",
            "2027-01-00",
            "2027-1-1",
            "soon",
            "",
            "2027-01-01-01",
            "+027-01-01",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
        assert!(Date::parse("2026-12-31") < Date::parse("2027-01-01"));
    }

    #[test]
    fn seconds_have_a_day() {
        // `date -u -d @SECONDS +%F` says the same.
        let cases = [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (86_400, "1970-01-02"),
            (951_782_400, "2000-02-29"),
            (1_704_067_199, "2023-12-31"),
            (4_102_444_800, "2100-01-01"),
        ];
        for (seconds, day) in cases {
            assert_eq!(Date::of_seconds(seconds).to_string(), day);
        }
        assert_eq!(Date::of_seconds(u64::MAX).to_string().get(..4), Some("9999"));
    }
}

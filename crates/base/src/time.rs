//! Timestamps as text: RFC 3339, UTC, always six digits of microseconds, so that text order is time order.
//!
//! `2026-01-02T03:04:05.000006Z` is the form in JSON answers and in SQLite columns.

use jiff::Timestamp;

/// The length of every formatted timestamp in bytes.
pub const LENGTH: usize = 27;

/// Writes `time`, cut to microseconds. Years before 0 and after 9999 cannot be written and are clamped; [`parse`]
/// refuses them.
pub fn format(time: Timestamp) -> String {
    let mut text = String::with_capacity(LENGTH);
    push(&mut text, time.as_microsecond());
    text
}

/// Appends the text of `micros`, microseconds since 1970, without going through a calendar library.
pub fn push(out: &mut String, micros: i64) {
    let mut buffer = [0; LENGTH];
    out.push_str(write(&mut buffer, micros));
}

/// Fills `buffer` with the text of `micros` (microseconds since 1970) and returns it.
pub fn write(buffer: &mut [u8; LENGTH], micros: i64) -> &str {
    const DAY: i64 = 86_400_000_000;
    let micros = micros.clamp(MIN_MICROS, MAX_MICROS);
    let (year, month, day) = civil(micros.div_euclid(DAY));
    let time = micros.rem_euclid(DAY);
    let seconds = time / 1_000_000;
    buffer.copy_from_slice(b"0000-00-00T00:00:00.000000Z");
    digits(&mut buffer[0..4], year);
    digits(&mut buffer[5..7], month);
    digits(&mut buffer[8..10], day);
    digits(&mut buffer[11..13], seconds / 3600);
    digits(&mut buffer[14..16], seconds / 60 % 60);
    digits(&mut buffer[17..19], seconds % 60);
    digits(&mut buffer[20..26], time % 1_000_000);
    std::str::from_utf8(buffer).expect("digits and punctuation are ASCII")
}

/// Parses any RFC 3339 timestamp with an offset and cuts it to microseconds. `None` if it is invalid, or outside the
/// years 0 to 9999.
pub fn parse(text: &str) -> Option<Timestamp> {
    // Nearly every text is one that `write` made.
    if let Some(micros) = read(text.as_bytes()) {
        return Timestamp::from_microsecond(micros).ok();
    }
    let time: Timestamp = text.parse().ok()?;
    // The hours of an offset are 00 to 23 (RFC 3339, section 5.6). A larger one is a mistake of typing.
    if offset_hours(text).is_some_and(|hours| hours > "23") {
        return None;
    }
    let micros = time.as_nanosecond().div_euclid(1_000);
    let micros = i64::try_from(micros).ok().filter(|micros| (MIN_MICROS..=MAX_MICROS).contains(micros))?;
    Timestamp::from_microsecond(micros).ok()
}

/// The two digits after the sign of the offset of a valid timestamp.
fn offset_hours(text: &str) -> Option<&str> {
    let (_, time) = text.split_once(['T', 't', ' '])?;
    let (_, offset) = time.split('[').next()?.split_once(['+', '-'])?;
    offset.get(..2)
}

/// Parses a timestamp as a database has it: as [`parse`] does, and the forms that the functions of SQLite write, which are
/// UTC: `2026-01-02 03:04:05` (`CURRENT_TIMESTAMP`), also with `T`, with any digits of a second, without seconds, or only
/// the date, which is its first moment.
pub fn stored(text: &str) -> Option<Timestamp> {
    if let Some(time) = parse(text) {
        return Some(time);
    }
    // An offset was read above, or was invalid.
    let is_local = text.as_bytes().iter().all(|byte| byte.is_ascii_digit() || b"-: T.".contains(byte));
    let time: jiff::civil::DateTime = if is_local { text.parse().ok()? } else { return None };
    let micros = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_nanosecond().div_euclid(1_000);
    within(i64::try_from(micros).ok()?)
}

/// The point in time that many microseconds after 1970; `None` if it cannot be written.
pub fn within(micros: i64) -> Option<Timestamp> {
    if (MIN_MICROS..=MAX_MICROS).contains(&micros) { Timestamp::from_microsecond(micros).ok() } else { None }
}

/// Whether [`format_date`] can write that day, counted from 1970-01-01, in the years 1 to 9999.
pub fn is_date(day: i64) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&day)
}

/// The first day of the year 1, and the last day of the year 9999.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;
const MIN_MICROS: i64 = -62_167_219_200_000_000;
const MAX_MICROS: i64 = 253_402_207_200_000_000;

/// The microseconds since 1970 of a text in the form that [`write`] produces; `None` for every other form.
fn read(text: &[u8]) -> Option<i64> {
    let text: &[u8; LENGTH] = text.try_into().ok()?;
    let marks = [text[4], text[7], text[10], text[13], text[16], text[19], text[26]];
    if marks != *b"--T::.Z" {
        return None;
    }
    let (year, month, day) = (number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hour, minute, second) = (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = (days_before(year, month) + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second;
    let micros = seconds * 1_000_000 + number(&text[20..26])?;
    (MIN_MICROS..=MAX_MICROS).contains(&micros).then_some(micros)
}

/// Days from 1970-01-01 to the first of a month: [`civil`] the other way round.
fn days_before(year: i64, month: i64) -> i64 {
    let (year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * shifted_month + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn digits(out: &mut [u8], mut value: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// The proleptic Gregorian date of a day counted from 1970-01-01, by counting in 400-year eras that begin in March.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Formats a day counted from 1970-01-01 as `YYYY-MM-DD`.
pub fn format_date(day: i64) -> String {
    // Dates go two hours further than timestamps, to the end of the last day.
    let (year, month, day) = civil(day.clamp(MIN_MICROS / 86_400_000_000, MAX_MICROS / 86_400_000_000 + 1));
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_calendar_library() {
        for micros in
            [0, 1, -1, 951_782_400_000_000, 1_709_164_800_000_000, -62_135_596_800_000_000, MIN_MICROS, MAX_MICROS]
        {
            let time = Timestamp::from_microsecond(micros).unwrap();
            let expected = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            assert_eq!(format(time), expected);
            assert_eq!(parse(&expected), Some(time));
        }
        let mut micros = MIN_MICROS;
        while micros < MAX_MICROS - 40_000_000_000_000 {
            micros += 38_123_456_789_012;
            let time = Timestamp::from_microsecond(micros).unwrap();
            assert_eq!(format(time), time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
            assert_eq!(parse(&format(time)), Some(time));
        }
    }

    #[test]
    fn a_text_in_canonical_form_that_is_not_a_time_is_refused() {
        for (text, is_time) in [
            ("2024-02-29T23:59:59.999999Z", true),
            ("2000-02-29T00:00:00.000000Z", true),
            ("1900-02-29T00:00:00.000000Z", false),
            ("2023-02-29T00:00:00.000000Z", false),
            ("2026-04-31T00:00:00.000000Z", false),
            ("2026-00-01T00:00:00.000000Z", false),
            ("2026-13-01T00:00:00.000000Z", false),
            ("2026-01-00T00:00:00.000000Z", false),
            ("2026-01-01T24:00:00.000000Z", false),
            ("2026-01-01T00:60:00.000000Z", false),
            ("2026-01-01T00:00:00.00000xZ", false),
            ("2026-01-01T00:00:00.+00000Z", false),
            ("2026-01-01 00:00:00.000000z", true),
            ("9999-12-31T23:59:59.999999Z", false),
        ] {
            assert_eq!(parse(text).is_some(), is_time, "{text}");
            assert_eq!(text.parse::<Timestamp>().is_ok(), is_time, "{text}");
        }
    }

    #[test]
    fn offsets_are_turned_into_utc_and_nanoseconds_are_cut() {
        assert_eq!(format(parse("2026-01-02T03:04:05.123456789+02:00").unwrap()), "2026-01-02T01:04:05.123456Z");
        assert_eq!(format(parse("2026-01-02T00:00:00+23:59").unwrap()), "2026-01-01T00:01:00.000000Z");
        for bad in ["", "2026-01-02", "2026-01-02T03:04:05", "yesterday", "-000001-01-01T00:00:00Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for bad in ["2026-01-02T03:04:05+24:00", "2026-01-02t03:04:05.5-25:00", "2026-01-02 03:04:05+24:00[UTC]"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_the_functions_of_sqlite_write_is_read_as_utc() {
        for (text, expected) in [
            ("2026-01-02 03:04:05", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02 03:04:05.678", "2026-01-02T03:04:05.678000Z"),
            ("2026-01-02 03:04", "2026-01-02T03:04:00.000000Z"),
            ("2026-01-02T03:04:05", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02", "2026-01-02T00:00:00.000000Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.600000Z"),
            ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
            ("2026-01-02 03:04:05+02:00", "2026-01-02T01:04:05.000000Z"),
            ("2026-01-02T03:04:05-05:30", "2026-01-02T08:34:05.000000Z"),
        ] {
            assert_eq!(stored(text).map(format).as_deref(), Some(expected), "{text}");
        }
        for bad in [
            "",
            "1700000000",
            "2461042.62",
            "yesterday",
            "2026-02-30 00:00:00",
            "2026-13-01 00:00:00",
            "2026-01-02 25:00:00",
            "9999-12-31 23:59:59",
            "9999-12-31T23:59:59Z",
            "2026-01-02 03:04:05 Europe/Berlin",
            "2026-01-02T03:04:05[Europe/Berlin]",
        ] {
            assert_eq!(stored(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_reach_from_the_first_to_the_last_day() {
        for (day, text) in
            [(-719_528, "0000-01-01"), (0, "1970-01-01"), (19_782, "2024-02-29"), (2_932_896, "9999-12-31")]
        {
            assert_eq!(format_date(day), text);
        }
        assert_eq!(format_date(2_932_897), "9999-12-31");
    }
}

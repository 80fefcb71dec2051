//! Moments in rules: `2027-01-31T18:00:00Z` and `2027-01-31`.
//!
//! Universal time only, since a rule must end at one moment wherever it is read. Never asks what time
//! it is.

use crate::gate::ids::UnixMillis;

/// The moment that the text names; a day alone means its beginning.
pub(super) fn parse(text: &str) -> Option<UnixMillis> {
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let [year, month, date] = numbers(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = match time {
        Some(time) => numbers(time, ':', [2, 2, 2])?,
        None => [0; 3],
    };
    let is_moment = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&date)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_moment {
        return None;
    }
    let days = (1970..year).map(days_of_year).sum::<u64>()
        + (1..month).map(|month| days_of(year, month)).sum::<u64>()
        + date
        - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(UnixMillis(seconds * 1000))
}

/// Three numbers of these widths.
fn numbers(text: &str, between: char, widths: [usize; 3]) -> Option<[u64; 3]> {
    let mut found = [0; 3];
    let mut parts = text.split(between);
    for (number, width) in found.iter_mut().zip(widths) {
        let part = parts.next()?;
        let is_plain = part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_plain)?;
    }
    parts.next().is_none().then_some(found)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_to_the_second() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("1970-01-01T00:00:01Z", Some(1)),
            ("2000-03-01", Some(951_868_800)),
            ("2027-01-31T18:00:00Z", Some(1_801_418_400)),
            ("2024-02-29", Some(1_709_164_800)),
            ("2023-02-29", None),
            ("2027-13-01", None),
            ("2027-1-31", None),
            ("2027-01-31T18:00:00", None),
            ("2027-01-31T24:00:00Z", None),
            ("2027-01-31T18:00Z", None),
            ("tomorrow", None),
        ];
        for (text, seconds) in cases {
            let expected = seconds.map(|seconds: u64| UnixMillis(seconds * 1000));
            assert_eq!(parse(text), expected, "`{text}`");
        }
    }
}

//! Numbers by their exact decimal value.
//!
//! Never rounds: a token of any length is compared and written digit by digit.

use std::borrow::Cow;

/// A number as the text wrote it. Equal if the exact decimal values are equal.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    token: &'a str,
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.token == other.token || self.decimal() == other.decimal()
    }
}

impl Eq for Number<'_> {}

/// A sign, digits without zeros at either end, and a power of ten. Zero has no digits.
#[derive(Debug, PartialEq, Eq)]
struct Decimal<'a> {
    negative: bool,
    digits: Cow<'a, str>,
    exponent: i64,
}

impl<'a> Number<'a> {
    /// Wraps a token that the reader or `serde_json` has accepted as a number.
    pub(crate) fn new(token: &'a str) -> Self {
        Number { token }
    }

    /// The token exactly as written.
    #[must_use]
    pub fn token(&self) -> &'a str {
        self.token
    }

    /// Whether the exact value has no fraction: `1`, `1.0`, `10e-1`, `1e300`.
    #[must_use]
    pub fn is_integral(&self) -> bool {
        self.is_plain_integer() || {
            let decimal = self.decimal();
            decimal.digits.is_empty() || decimal.exponent >= 0
        }
    }

    /// The exact value if it is an integer of that range, however it is written.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.integer_digits().and_then(|digits| digits.parse().ok())
    }

    /// The exact value if it is an integer of that range, however it is written.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.integer_digits().and_then(|digits| digits.parse().ok())
    }

    /// The nearest double. Always finite; digits may be lost.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.token.parse().unwrap_or_default()
    }

    /// Appends the signature form: the same bytes for all ways to write one value.
    ///
    /// Digits without trailing zeros, then `e` and the power of ten unless it is zero. Never longer
    /// than the token by more than the exponent, 21 bytes.
    pub(crate) fn write_signature(&self, out: &mut Vec<u8>) {
        if self.is_plain_integer() && !self.token.ends_with('0') {
            out.extend_from_slice(self.token.as_bytes());
            return;
        }
        let decimal = self.decimal();
        if decimal.digits.is_empty() {
            out.push(b'0');
            return;
        }
        if decimal.negative {
            out.push(b'-');
        }
        out.extend_from_slice(decimal.digits.as_bytes());
        if decimal.exponent != 0 {
            out.push(b'e');
            out.extend_from_slice(decimal.exponent.to_string().as_bytes());
        }
    }

    #[inline]
    fn is_plain_integer(&self) -> bool {
        !self
            .token
            .bytes()
            .any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }

    /// The digits of a 64-bit integer, with its sign.
    fn integer_digits(&self) -> Option<Cow<'a, str>> {
        /// No 64-bit integer has more digits.
        const DIGITS_MAX: usize = 20;
        if self.is_plain_integer() {
            return match self.token {
                "-0" => Some(Cow::Borrowed("0")),
                token => Some(Cow::Borrowed(token)),
            };
        }
        let decimal = self.decimal();
        if decimal.digits.is_empty() {
            return Some(Cow::Borrowed("0"));
        }
        let zeros = usize::try_from(decimal.exponent).ok()?;
        if decimal.digits.len().saturating_add(zeros) > DIGITS_MAX {
            return None;
        }
        let sign = if decimal.negative { "-" } else { "" };
        Some(Cow::Owned(format!(
            "{sign}{}{}",
            decimal.digits,
            "0".repeat(zeros)
        )))
    }

    fn decimal(&self) -> Decimal<'a> {
        let (negative, token) = match self.token.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.token),
        };
        let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits = joined(whole, fraction);
        let trimmed = digits.trim_end_matches('0').len();
        // The reader bounds the exponent to 18 digits and the token to 2^28 bytes: no overflow.
        let exponent = exponent.parse::<i64>().unwrap_or_default() - fraction.len() as i64
            + (digits.len() - trimmed) as i64;
        let digits = match digits {
            Cow::Borrowed(digits) => Cow::Borrowed(digits.get(..trimmed).unwrap_or_default()),
            Cow::Owned(mut digits) => {
                digits.truncate(trimmed);
                Cow::Owned(digits)
            }
        };
        Decimal {
            negative: negative && !digits.is_empty(),
            exponent: if digits.is_empty() { 0 } else { exponent },
            digits,
        }
    }
}

/// Both parts in a row, without leading zeros.
fn joined<'a>(whole: &'a str, fraction: &'a str) -> Cow<'a, str> {
    let whole = whole.trim_start_matches('0');
    match (whole.is_empty(), fraction.is_empty()) {
        (_, true) => Cow::Borrowed(whole),
        (true, false) => Cow::Borrowed(fraction.trim_start_matches('0')),
        (false, false) => Cow::Owned([whole, fraction].concat()),
    }
}

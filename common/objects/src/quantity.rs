//! Kubernetes resource quantities: `100m`, `1.5Gi`, `1e3`.
//!
//! A quantity is stored in upstream's in-memory form, because the hash of a Pod template covers that form ([`crate::hash`]): a
//! 64-bit number and a power of ten if they suffice, otherwise a decimal of unlimited size; the text, if it was canonical; and
//! the notation. Comparison is exact and numeric. Upstream: `pkg/api/resource`, `ParseQuantity`.

mod amount;

use std::{cmp::Ordering, fmt};

pub use amount::{Amount, AmountSum};
use serde::{Deserialize, Deserializer};

/// Maximum number of digits of a quantity. Quantities with more digits are rejected before they are computed.
const MAX_DIGITS: usize = 512;
/// Exponent of the last decimal place that is kept. Smaller fractions are rounded away from zero.
const NANO: i32 = -9;
/// Every number with at most this many decimal digits fits into an `i64`.
const MAX_INT64_DIGITS: i64 = 18;

/// A resource quantity, for example of memory or CPU time.
///
/// Compared by value: `1Gi`, `1073741824` and `1073741824000m` are equal.
#[derive(Clone, Debug)]
pub struct Quantity {
    value: StoredValue,
    /// The original text if it was in canonical form, otherwise empty.
    text: Box<str>,
    format: QuantityFormat,
}

#[derive(Clone, Debug)]
enum StoredValue {
    /// `value` × 10^`scale`.
    Int { value: i64, scale: i32 },
    /// `unscaled` × 10^-`scale`.
    Dec { negative: bool, unscaled: Natural, scale: i32 },
}

/// Notation of a quantity: the form of the suffix behind the digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// Decimal exponent, for example `12e6`.
    DecimalExponent,
    /// Binary suffix, for example `12Mi`.
    BinarySi,
    /// Decimal suffix, for example `12M`.
    DecimalSi,
}

impl QuantityFormat {
    /// Returns upstream's name of the notation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DecimalExponent => "DecimalExponent",
            Self::BinarySi => "BinarySI",
            Self::DecimalSi => "DecimalSI",
        }
    }
}

/// Reasons why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number followed by a suffix.
    #[error("quantity is not a number with a suffix")]
    InvalidFormat,
    /// The number is invalid, for example because it has no digits.
    #[error("quantity's number cannot be read")]
    InvalidNumber,
    /// The suffix is neither a known unit nor an exponent.
    #[error("quantity's suffix is unknown")]
    UnknownSuffix,
    /// The number has more than 512 digits.
    #[error("quantity has too many digits")]
    TooLong,
}

impl Quantity {
    /// Parses a quantity in any notation, with the same result as upstream's `ParseQuantity`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text == "0" {
            return Ok(Self::int(0, 0, QuantityFormat::DecimalSi, text));
        }
        let parts = QuantityText::split(text)?;
        let (exponent, format) = parse_suffix(parts.suffix)?;
        Self::parse_as_integer(text, &parts, exponent, format)
            .unwrap_or_else(|| Self::parse_as_decimal(&parts, exponent, format))
    }

    fn int(value: i64, scale: i32, format: QuantityFormat, text: &str) -> Self {
        Self { value: StoredValue::Int { value, scale }, text: text.into(), format }
    }

    /// Whether the value is zero in any notation, for example `0`, `0.0` or `0Ki`.
    pub fn is_zero(&self) -> bool {
        match &self.value {
            StoredValue::Int { value, .. } => *value == 0,
            StoredValue::Dec { unscaled, .. } => unscaled.is_zero(),
        }
    }

    /// Returns the value in thousandths, rounded away from zero and limited to the range of `i64`. Upstream: `MilliValue`.
    pub fn milli_value(&self) -> i64 {
        let (negative, digits, exponent) = self.sign_digits_and_exponent();
        let places = exponent + 3;
        let kept = usize::try_from(digits.len() as i64 + places.min(0)).unwrap_or(0);
        let whole = format!("0{}", &digits[..kept]).parse::<i64>().ok();
        let factor = 10_i64.checked_pow(places.max(0) as u32);
        // A fraction of a thousandth is rounded up to one.
        let value =
            whole.zip(factor).and_then(|(whole, factor)| whole.checked_mul(factor)?.checked_add((places < 0).into()));
        let value = value.unwrap_or(i64::MAX);
        if negative { -value } else { value }
    }

    /// Computes a quantity that fits into an `i64` and a power of ten. Returns `None` if the number is too long.
    fn parse_as_integer(
        text: &str,
        quantity_text: &QuantityText<'_>,
        exponent: i32,
        format: QuantityFormat,
    ) -> Option<Result<Self, QuantityError>> {
        let (whole, fraction) = (quantity_text.whole.len() as i64, quantity_text.fraction.len() as i64);
        let is_binary = format == QuantityFormat::BinarySi;
        let (mut scale, mantissa) = if is_binary {
            // 2^10 has about three decimal digits.
            (fraction == 0 && whole + i64::from(exponent) * 3 / 10 < 15).then(|| (0, 1i64 << exponent))?
        } else {
            (whole + fraction <= MAX_INT64_DIGITS).then_some((exponent, 1))?
        };
        scale = scale.wrapping_sub(fraction as i32);
        if scale < NANO {
            return None;
        }
        let digits = format!("{}{}", quantity_text.whole, quantity_text.fraction);
        let Ok(number) = digits.parse::<i64>() else { return Some(Err(QuantityError::InvalidNumber)) };
        let value = number.checked_mul(mantissa)?;
        let canonical = if is_binary {
            number & 7 != 0
        } else {
            scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        };
        let value = if quantity_text.negative { -value } else { value };
        Some(Ok(Self::int(value, scale, format, if canonical { text } else { "" })))
    }

    /// Computes a quantity as an exact decimal, rounded to billionths.
    fn parse_as_decimal(
        quantity_text: &QuantityText<'_>,
        exponent: i32,
        mut format: QuantityFormat,
    ) -> Result<Self, QuantityError> {
        if !quantity_text.has_digits {
            return Err(QuantityError::InvalidNumber);
        }
        let mut unscaled = Natural::from_digits(&[quantity_text.whole, quantity_text.fraction])?;
        let mut scale = quantity_text.fraction.len() as i32;
        if format == QuantityFormat::BinarySi {
            unscaled.multiply_add(1 << exponent, 0);
        } else {
            scale = scale.wrapping_sub(exponent);
        }
        if !unscaled.is_zero() {
            unscaled.rescale(i64::from(scale), -i64::from(NANO))?;
            scale = -NANO;
        }
        if format == QuantityFormat::BinarySi && scale == -NANO {
            let mut billion = Natural(vec![1_000_000_000]);
            if unscaled.compare(&billion) == Ordering::Less && !unscaled.is_zero() {
                format = QuantityFormat::DecimalSi;
            }
            billion.multiply_add(i64::MAX as u64, 0);
            if unscaled.compare(&billion) == Ordering::Greater {
                (unscaled, scale) = (Natural(vec![i64::MAX as u64]), 0);
            }
        }
        let negative = quantity_text.negative && !unscaled.is_zero();
        Ok(Self { value: StoredValue::Dec { negative, unscaled, scale }, text: Box::default(), format })
    }

    /// Returns the value in normal form: whether it is negative, its digits without zeros at either end (empty for zero), and the
    /// power of ten of the last digit.
    pub fn sign_digits_and_exponent(&self) -> (bool, String, i64) {
        let (negative, digits, exponent) = match &self.value {
            StoredValue::Int { value, scale } => (*value < 0, value.unsigned_abs().to_string(), i64::from(*scale)),
            StoredValue::Dec { negative, unscaled, scale } => (*negative, unscaled.digits(), -i64::from(*scale)),
        };
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return (false, String::new(), 0);
        }
        (negative, kept.to_owned(), exponent + (digits.len() - kept.len()) as i64)
    }

    /// Writes the quantity as Go prints upstream's struct, for the text from which the hash of a Pod template is computed.
    pub fn write_go_struct(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let (value, scale) = match &self.value {
            StoredValue::Int { value, scale } => (*value, *scale),
            StoredValue::Dec { .. } => (0, 0),
        };
        write!(out, "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} ")?;
        out.write_str("d:(resource.infDecAmount){Dec:(*inf.Dec)")?;
        match &self.value {
            StoredValue::Int { .. } => out.write_str("<nil>")?,
            StoredValue::Dec { negative, unscaled, scale } => {
                write!(out, "{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)")?;
                unscaled.dump(out)?;
                write!(out, "}} scale:(inf.Scale){scale}}}")?;
            }
        }
        write!(out, "}} s:(string){} Format:(resource.Format){}}}", self.text, self.format.as_str())
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((a_negative, a, a_exponent), (b_negative, b, b_exponent)) =
            (self.sign_digits_and_exponent(), other.sign_digits_and_exponent());
        // Compares the position of the first digit, then the digits. Zero gives `None`, which is less than all other values.
        let size = |digits: String, exponent| (!digits.is_empty()).then(|| (digits.len() as i64 + exponent, digits));
        let (a, b) = (size(a, a_exponent), size(b, b_exponent));
        let magnitude = if a_negative { b.cmp(&a) } else { a.cmp(&b) };
        b_negative.cmp(&a_negative).then(magnitude)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self::parse(text.trim()).map_err(serde::de::Error::custom)
    }
}

/// The text of a quantity, split into sign, digits and suffix.
struct QuantityText<'a> {
    negative: bool,
    /// Digits before the decimal point without leading zeros; `0` if no digit remains.
    whole: &'a str,
    /// Digits after the decimal point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether the text contains any digit.
    has_digits: bool,
}

impl<'a> QuantityText<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::InvalidFormat);
        }
        let negative = text.starts_with('-');
        let number = text.strip_prefix(['-', '+']).unwrap_or(text);
        let rest = number.trim_start_matches('0');
        let zeros = rest.len() < number.len();
        let (whole, rest) = rest.split_at(count_digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(count_digits(rest)),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = if letters.is_empty() { letters } else { letters.strip_prefix(['-', '+']).unwrap_or(letters) };
        if count_digits(exponent) != exponent.len() {
            return Err(QuantityError::InvalidFormat);
        }
        let has_digits = zeros || !whole.is_empty() || !fraction.is_empty();
        Ok(Self { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix, has_digits })
    }
}

fn count_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the exponent and the notation of a suffix. The base is 2 for binary suffixes, otherwise 10.
fn parse_suffix(text: &str) -> Result<(i32, QuantityFormat), QuantityError> {
    let place = |suffixes: &[&str]| suffixes.iter().position(|suffix| *suffix == text).map(|at| at as i32);
    if let Some(thousands) = place(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]) {
        return Ok((3 * thousands - 9, QuantityFormat::DecimalSi));
    }
    if let Some(at) = place(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
        return Ok((10 * (at + 1), QuantityFormat::BinarySi));
    }
    let exponent = text.strip_prefix(['e', 'E']).ok_or(QuantityError::UnknownSuffix)?;
    // Upstream parses an exponent of 64 bits and keeps its lower 32 bits.
    let exponent = exponent.parse::<i64>().map_err(|_| QuantityError::UnknownSuffix)?;
    Ok((exponent as i32, QuantityFormat::DecimalExponent))
}

/// A natural number of any size. The words have 64 bits, the least significant is first, and the last is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Natural(Vec<u64>);

impl Natural {
    fn from_digits(parts: &[&str]) -> Result<Self, QuantityError> {
        if parts.iter().map(|p| p.len()).sum::<usize>() > MAX_DIGITS {
            return Err(QuantityError::TooLong);
        }
        let mut number = Self(Vec::new());
        for digit in parts.iter().flat_map(|p| p.bytes()) {
            number.multiply_add(10, u64::from(digit - b'0'));
        }
        Ok(number)
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn multiply_add(&mut self, by: u64, plus: u64) {
        let mut carry = u128::from(plus);
        for word in &mut self.0 {
            carry += u128::from(*word) * u128::from(by);
            *word = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides the number by `by`, rounds down, and returns the remainder.
    fn divide(&mut self, by: u64) -> u64 {
        let mut remainder = 0u128;
        for word in self.0.iter_mut().rev() {
            remainder = (remainder << 64) | u128::from(*word);
            *word = (remainder / u128::from(by)) as u64;
            remainder %= u128::from(by);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder as u64
    }

    /// Changes the number of decimal places from `scale` to `wanted`, rounding up.
    fn rescale(&mut self, scale: i64, wanted: i64) -> Result<(), QuantityError> {
        if wanted - scale > MAX_DIGITS as i64 {
            return Err(QuantityError::TooLong);
        }
        for _ in scale..wanted {
            self.multiply_add(10, 0);
        }
        let mut rest = 0;
        for _ in wanted..scale {
            rest |= self.divide(10);
            if self.is_zero() {
                break;
            }
        }
        if rest != 0 {
            self.multiply_add(1, 1);
        }
        Ok(())
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn digits(&self) -> String {
        let mut number = self.clone();
        let mut digits = Vec::new();
        while !number.is_zero() {
            digits.push((b'0' + number.divide(10) as u8) as char);
        }
        digits.iter().rev().collect()
    }

    fn dump(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_zero() {
            return out.write_str("<nil>");
        }
        for (at, word) in self.0.iter().enumerate() {
            write!(out, "{}{word}", if at == 0 { '[' } else { ' ' })?;
        }
        out.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    fn dump(quantity: &Quantity) -> String {
        let mut out = String::from("(resource.Quantity)");
        quantity.write_go_struct(&mut out).unwrap();
        out
    }

    #[test]
    fn thousandths_are_rounded_away_from_zero() {
        for (text, milli) in [
            ("2", 2000),
            ("250m", 250),
            ("1.5", 1500),
            ("0.0001", 1),
            ("1500u", 2),
            ("-1.2345", -1235),
            ("4k", 4_000_000),
            ("1Ki", 1_024_000),
            ("0", 0),
            ("100E", i64::MAX),
        ] {
            assert_eq!(quantity(text).milli_value(), milli, "{text}");
        }
    }

    #[derive(Deserialize)]
    struct Case {
        text: String,
        dump: Option<String>,
        canonical: Option<String>,
    }

    #[test]
    fn quantities_are_parsed_and_stored_like_upstream() {
        for line in include_str!("../tests/data/quantities.jsonl").lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let parsed = Quantity::parse(&case.text);
            assert_eq!(parsed.as_ref().ok().map(dump), case.dump, "{}", case.text);
            if let (Ok(parsed), Some(canonical)) = (parsed, case.canonical) {
                assert_eq!(parsed, quantity(&canonical), "{} is {canonical}", case.text);
            }
        }
    }

    #[test]
    fn quantities_are_ordered_like_upstream() {
        #[derive(Deserialize)]
        struct Pair {
            a: String,
            b: String,
            cmp: i8,
        }
        for line in include_str!("../tests/data/quantity-order.jsonl").lines() {
            let pair: Pair = serde_json::from_str(line).unwrap();
            let (a, b) = (quantity(&pair.a), quantity(&pair.b));
            assert_eq!(a.cmp(&b) as i8, pair.cmp, "{} {}", pair.a, pair.b);
            assert_eq!(b.cmp(&a) as i8, -pair.cmp, "{} {}", pair.b, pair.a);
        }
    }

    #[test]
    fn huge_quantities_are_rejected_before_they_are_computed() {
        assert_eq!(Quantity::parse(&"9".repeat(100_000)).unwrap_err(), QuantityError::TooLong);
        assert_eq!(Quantity::parse("1234567890123456789e2147483647").unwrap_err(), QuantityError::TooLong);
        assert_eq!(quantity("1234567890123456789e-2147483647"), quantity("1n"));
        assert!(quantity("1e2147483647") > quantity("8Ei"));
    }

    #[test]
    fn reads_unquoted_numbers() {
        for (json, text) in [("2", "2"), ("0.5", "500m"), ("\" 1Gi \"", "1Gi")] {
            assert_eq!(serde_json::from_str::<Quantity>(json).unwrap(), quantity(text));
        }
        assert!(serde_json::from_str::<Quantity>("{}").is_err());
    }

    proptest! {
        #[test]
        fn quantities_are_ordered_like_their_numbers(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
            let (x, y) = (quantity(&format!("{a}m")), quantity(&format!("{b}000u")));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }

        #[test]
        fn no_text_causes_a_panic(text in "[-+]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}", junk in "\\PC{0,12}") {
            let _ = (Quantity::parse(&text).map(|q| dump(&q)), Quantity::parse(&junk));
        }
    }
}

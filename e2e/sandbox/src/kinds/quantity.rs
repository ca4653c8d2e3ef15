//! Resource quantities: parsing, comparing, and the canonical form the API server writes back.

use std::cmp::Ordering;

/// Nano-units in one.
const NANO: i128 = 1_000_000_000;

/// Which family of suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `k`, `M`, `m`, ...
    Decimal,
    /// `Ki`, `Mi`, ...
    Binary,
    /// `e3`, `E6`, ...
    Exponent,
}

/// A resource quantity, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a quantity cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It does not look like a quantity.
    Format,
    /// Its suffix is not known.
    Suffix,
}

impl Malformed {
    /// What the real server says.
    pub(super) fn message(self) -> &'static str {
        match self {
            Malformed::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Malformed::Suffix => "unable to parse quantity's suffix",
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl Quantity {
    /// Nothing.
    pub(super) const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Reads a quantity; what is finer than a billionth is rounded up, what does not fit is capped.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(Malformed::Format),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || fraction.contains('.') {
            return Err(Malformed::Format);
        }
        let letters_end = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
        let exponent_digits = suffix[letters_end..].strip_prefix(['-', '+']).unwrap_or(&suffix[letters_end..]);
        if !exponent_digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Malformed::Format);
        }
        let (base, exponent, format) = interpret(suffix).ok_or(Malformed::Suffix)?;
        let nanos = scale(whole, fraction, base, exponent);
        let format = if format == Format::Binary && nanos > 0 && nanos < NANO { Format::Decimal } else { format };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// The canonical form of a quantity, `None` when it cannot be read.
    pub(super) fn canonical(text: &str) -> Option<String> {
        Self::parse(text).ok().map(|quantity| quantity.to_string())
    }

    /// The sum, in the format of the first.
    pub(super) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// Rounded up to thousandths, as stored resource lists are.
    pub(super) fn round_up_to_milli(self) -> Self {
        Self { nanos: divide_away(self.nanos, 1_000_000) * 1_000_000, ..self }
    }

    /// Whether it is below zero.
    pub(super) fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether it has no fraction.
    pub(super) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The next whole number away from zero.
    pub(super) fn value(self) -> i128 {
        divide_away(self.nanos, NANO)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.nanos.unsigned_abs() >= 1024 * NANO.unsigned_abs() {
            let mut value = self.value();
            let mut suffix = 0;
            while suffix < BINARY.len() && value % 1024 == 0 {
                value /= 1024;
                suffix += 1;
            }
            let suffix = if suffix == 0 { "" } else { BINARY[suffix - 1] };
            return write!(f, "{value}{suffix}");
        }
        let mut value = self.nanos;
        let mut exponent = -9;
        while value % 1000 == 0 && exponent < 18 {
            value /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{value}"),
            (Format::Exponent, exponent) => write!(f, "{value}e{exponent}"),
            (_, exponent) => {
                let at = usize::try_from((exponent + 9) / 3).unwrap_or_default();
                write!(f, "{value}{}", DECIMAL.get(at).copied().unwrap_or_default())
            }
        }
    }
}

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

fn interpret(suffix: &str) -> Option<(u32, i32, Format)> {
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some((2, 10 * (at as i32 + 1), Format::Binary));
    }
    if let Some(at) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some((10, 3 * at as i32 - 9, Format::Decimal));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty())?;
    Some((10, exponent.parse().ok()?, Format::Exponent))
}

/// `whole.fraction * base^exponent` in nanos, rounded up, capped.
fn scale(whole: &str, fraction: &str, base: u32, exponent: i32) -> i128 {
    // Few decimal digits are held with their exponent, everything else in 64 bits.
    let few = base == 10 && whole.len() + fraction.len() <= 18;
    let cap = if few { i128::MAX / 10 } else { i128::from(i64::MAX) * NANO };
    // 27 digits leave room for the multiplication below; what follows only decides about rounding up.
    let digits = format!("{}{}", whole.trim_start_matches('0'), fraction);
    let kept = digits.len().min(27);
    let mantissa: i128 = digits[..kept].parse().unwrap_or(0);
    let lost = digits[kept..].bytes().any(|b| b != b'0');
    let dropped = (digits.len() - kept) as i32;
    let mut ten = dropped - fraction.len() as i32 + 9;
    let mut value = mantissa;
    if base == 10 {
        ten += exponent.clamp(-100, 100);
    } else {
        value = value.saturating_mul(1_i128 << exponent.clamp(0, 60));
    }
    if ten >= 0 {
        for _ in 0..ten {
            value = value.saturating_mul(10);
            if value > cap {
                return cap;
            }
        }
    } else {
        let divisor = 10_i128.checked_pow(ten.unsigned_abs()).unwrap_or(i128::MAX);
        value = divide_away(value, divisor);
    }
    if lost {
        value = value.saturating_add(1);
    }
    value.min(cap)
}

fn divide_away(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_canonical_form() {
        let table = [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1Gi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("12E", "12E"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("100u", "100u"),
            ("1.1n", "2n"),
            ("-1", "-1"),
            ("1000Ki", "1000Ki"),
            ("5000k", "5M"),
            ("0.001", "1m"),
            ("0Gi", "0"),
        ];
        for (text, canonical) in table {
            assert_eq!(Quantity::canonical(text).as_deref(), Some(canonical), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_quantity() {
        assert_eq!(Quantity::parse("x").err(), Some(Malformed::Format));
        assert_eq!(Quantity::parse("").err(), Some(Malformed::Format));
        assert_eq!(Quantity::parse("1x").err(), Some(Malformed::Format));
        assert_eq!(Quantity::parse("1ik").err(), Some(Malformed::Suffix));
    }

    #[test]
    fn compares_across_formats() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!(quantity("1024Mi"), quantity("1Gi"));
        assert!(quantity("-1").is_negative());
        assert_eq!(quantity("250m").plus(quantity("0.25")).to_string(), "500m");
        assert_eq!(quantity("1100u").round_up_to_milli().to_string(), "2m");
    }
}

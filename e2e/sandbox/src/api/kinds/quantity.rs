//! Resource quantities: comparing, adding, and the canonical form the API server writes back. Parsing is that of the
//! controllers.

use std::cmp::Ordering;

use common::quantity::{Quantity as Parsed, QuantityError};

/// Nano-units in one.
const NANO: i128 = 1_000_000_000;

/// Which family of suffixes a quantity is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// A resource quantity, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

/// What the real server says of a text that is no quantity.
pub(super) fn error_message(error: QuantityError) -> &'static str {
    match error {
        QuantityError::UnknownSuffix => "unable to parse quantity's suffix",
        _ => "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
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
    pub(crate) const ZERO: Self = Self { nanos: 0, format: Format::Decimal };
    pub(crate) const ONE: Self = Self { nanos: NANO, format: Format::Decimal };

    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let (negative, digits, exponent) = Parsed::parse(text)?.sign_digits_and_exponent();
        let digits: i128 = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) };
        let factor = u32::try_from(exponent + 9).ok().and_then(|places| 10_i128.checked_pow(places));
        let nanos = digits.saturating_mul(factor.unwrap_or(i128::MAX)).min(i128::MAX / 10);
        let format = if text.ends_with('i') && nanos >= NANO {
            Format::Binary
        } else if text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')).ends_with(['e', 'E'])
            && text.ends_with(|c: char| c.is_ascii_digit())
        {
            Format::Exponent
        } else {
            Format::Decimal
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    pub(crate) fn canonical(text: &str) -> Option<String> {
        Self::parse(text).ok().map(|quantity| quantity.to_string())
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    pub(super) fn round_up_to_milli(self) -> Self {
        Self { nanos: divide_away(self.nanos, 1_000_000) * 1_000_000, ..self }
    }

    pub(super) fn is_negative(&self) -> bool {
        self.nanos < 0
    }

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
        let message = |text| error_message(Quantity::parse(text).unwrap_err());
        for text in ["x", "", "1x"] {
            assert!(message(text).starts_with("quantities must match the regular expression"), "{text:?}");
        }
        assert_eq!(message("1ik"), "unable to parse quantity's suffix");
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

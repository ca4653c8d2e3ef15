//! Arithmetic with quantities: sums, maxima and the canonical text.

use std::{cmp::Ordering, fmt};

use super::{Quantity, QuantityFormat};

/// Billionths in one.
const NANO: i128 = 1_000_000_000;
/// The largest magnitude in billionths, which is 10^29. Larger values count as this value.
const MAX_NANOS: i128 = 10_i128.pow(38);
/// Suffixes of the powers of 1024.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Suffixes of the powers of 1000, beginning with 10^-9.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A quantity as a number of billionths, with its notation. Magnitudes are limited to 10^29.
///
/// Equality includes the notation; [`Amount::compare`] compares the values. Its display is upstream's canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amount {
    nanos: i128,
    format: QuantityFormat,
}

impl Amount {
    /// Zero in decimal notation.
    pub const ZERO: Self = Self { nanos: 0, format: QuantityFormat::DecimalSi };
    /// One in decimal notation.
    pub const ONE: Self = Self { nanos: NANO, format: QuantityFormat::DecimalSi };

    /// Creates a whole number in decimal notation.
    pub fn whole(number: i128) -> Self {
        Self { nanos: number.saturating_mul(NANO), ..Self::ZERO }.limited()
    }

    fn limited(self) -> Self {
        Self { nanos: self.nanos.clamp(-MAX_NANOS, MAX_NANOS), ..self }
    }

    /// Whether the value is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is less than zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Compares the values.
    pub fn compare(self, other: Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// Adds an amount. A sum has the notation of the first amount that is not zero. Upstream: `Quantity.Add`.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }.limited()
    }

    /// Subtracts an amount, and keeps the notation.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }.limited()
    }

    /// Returns the larger amount, and the first one of equal values.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    /// Rounds the value to a multiple of `unit` billionths, away from zero.
    #[must_use]
    fn rounded_to(self, unit: i128) -> Self {
        let quotient = self.nanos / unit;
        let rounded = if self.nanos % unit == 0 { quotient } else { quotient + self.nanos.signum() };
        Self { nanos: rounded * unit, ..self }
    }

    /// Rounds the value to a whole number, away from zero.
    #[must_use]
    pub fn rounded_to_whole(self) -> Self {
        self.rounded_to(NANO)
    }

    /// Rounds the value to thousandths, away from zero.
    #[must_use]
    pub fn rounded_to_thousandths(self) -> Self {
        self.rounded_to(NANO / 1000)
    }

    /// Returns the value as a whole number, rounded away from zero.
    pub fn whole_value(self) -> i128 {
        self.rounded_to_whole().nanos / NANO
    }

    /// Returns the power of 1024 and the multiple of it that a text in binary notation shows; `None` if the value needs decimal
    /// notation, because it is small, has a fraction, or exceeds what a server keeps with a binary suffix.
    fn binary_form(self) -> Option<(usize, i128)> {
        let mut multiple = self.nanos / NANO;
        if self.format != QuantityFormat::BinarySi
            || self.nanos % NANO != 0
            || multiple.abs() < 1024
            || i64::try_from(multiple).is_err()
        {
            return None;
        }
        let mut power = 0;
        while power + 1 < BINARY_SUFFIXES.len() && multiple % 1024 == 0 {
            multiple /= 1024;
            power += 1;
        }
        Some((power, multiple))
    }
}

impl From<&Quantity> for Amount {
    fn from(quantity: &Quantity) -> Self {
        let (is_negative, digits, exponent) = quantity.sign_digits_and_exponent();
        let digits = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(MAX_NANOS) };
        let factor = u32::try_from(exponent + 9).ok().and_then(|places| 10_i128.checked_pow(places));
        let magnitude = digits.saturating_mul(factor.unwrap_or(MAX_NANOS));
        let nanos = if is_negative { -magnitude } else { magnitude };
        Self { nanos, format: quantity.format }.limited()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let Some((power, multiple)) = self.binary_form() {
            return write!(f, "{multiple}{}", BINARY_SUFFIXES[power]);
        }
        let (mut multiple, mut exponent) = (self.nanos, -9);
        let is_exponential = self.format == QuantityFormat::DecimalExponent;
        while multiple % 1000 == 0 {
            multiple /= 1000;
            exponent += 3;
        }
        let suffix = usize::try_from((exponent + 9) / 3).ok().and_then(|place| DECIMAL_SUFFIXES.get(place));
        match suffix {
            _ if exponent == 0 => write!(f, "{multiple}"),
            Some(suffix) if !is_exponential => write!(f, "{multiple}{suffix}"),
            _ => write!(f, "{multiple}e{exponent}"),
        }
    }
}

/// A sum of amounts from which each summand can be subtracted again, exactly and in any order.
///
/// Holds as many summands as an `u32` can count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmountSum {
    units: i128,
    nanos: i128,
    /// How many summands other than zero have a binary, a decimal and an exponential notation.
    formats: [u32; 3],
}

impl AmountSum {
    /// Adds a summand.
    pub fn add(&mut self, amount: Amount) {
        self.units += amount.nanos / NANO;
        self.nanos += amount.nanos % NANO;
        if let Some(count) = self.format_count(amount) {
            *count = count.saturating_add(1);
        }
    }

    /// Subtracts an earlier summand.
    pub fn subtract(&mut self, amount: Amount) {
        self.units -= amount.nanos / NANO;
        self.nanos -= amount.nanos % NANO;
        if let Some(count) = self.format_count(amount) {
            *count = count.saturating_sub(1);
        }
    }

    /// Adds all summands of another sum.
    pub fn add_sum(&mut self, other: &Self) {
        self.units += other.units;
        self.nanos += other.nanos;
        for (count, more) in self.formats.iter_mut().zip(other.formats) {
            *count = count.saturating_add(more);
        }
    }

    fn format_count(&mut self, amount: Amount) -> Option<&mut u32> {
        let place = match amount.format {
            QuantityFormat::BinarySi => 0,
            QuantityFormat::DecimalSi => 1,
            QuantityFormat::DecimalExponent => 2,
        };
        self.formats.get_mut(place).filter(|_| !amount.is_zero())
    }

    /// Returns the sum. It is binary if any summand other than zero is, otherwise decimal if any is, and otherwise has an exponent.
    pub fn amount(&self) -> Amount {
        let [binary, decimal, exponential] = self.formats;
        let format = if binary > 0 {
            QuantityFormat::BinarySi
        } else if decimal == 0 && exponential > 0 {
            QuantityFormat::DecimalExponent
        } else {
            QuantityFormat::DecimalSi
        };
        let nanos = self.units.saturating_mul(NANO).saturating_add(self.nanos);
        Amount { nanos, format }.limited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::from(&Quantity::parse(text).unwrap())
    }

    fn sum(texts: &[&str]) -> AmountSum {
        let mut sum = AmountSum::default();
        for text in texts {
            sum.add(amount(text));
        }
        sum
    }

    #[test]
    fn amounts_are_written_in_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("12000000e0", "12e6"),
            ("12E", "12E"),
            ("1.1n", "2n"),
            ("-1", "-1"),
            ("-1Gi", "-1Gi"),
            ("8191Pi", "8191Pi"),
        ] {
            assert_eq!(amount(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn large_sums_are_written_in_a_form_that_the_server_keeps() {
        for (summands, canonical) in [
            (&["500E", "500E"][..], "1e21"),
            (&["500E", "1E"], "501E"),
            (&["4Ei", "4Ei"], "9223372036854775808"),
            (&["1Gi", "100m"], "1073741824100m"),
            (&["1e40", "1e40"], "100e27"),
        ] {
            assert_eq!(sum(summands).amount().to_string(), canonical, "{summands:?}");
            let parsed = amount(canonical);
            assert!(parsed.compare(sum(summands).amount()).is_eq(), "{canonical}");
        }
    }

    #[test]
    fn a_sum_is_binary_if_any_summand_is() {
        for (summands, text) in [
            (&["1000", "1Ki"][..], "2024"),
            (&["1e3", "24"], "1024"),
            (&["1e3", "1e3"], "2e3"),
            (&["0Ki", "1000"], "1k"),
        ] {
            assert_eq!(sum(summands).amount().to_string(), text, "{summands:?}");
            let reversed: Vec<_> = summands.iter().rev().copied().collect();
            assert_eq!(sum(&reversed), sum(summands), "{summands:?}");
        }
    }

    #[test]
    fn a_sum_of_two_amounts_has_the_notation_of_the_first_that_is_not_zero() {
        assert_eq!(amount("1000").plus(amount("1Ki")).to_string(), "2024");
        assert_eq!(amount("0").plus(amount("1Ki")).to_string(), "1Ki");
        assert_eq!(amount("1Ki").max(amount("1024")).to_string(), "1Ki");
        assert_eq!(amount("1500m").rounded_to_whole().to_string(), "2");
        assert_eq!(amount("1100u").rounded_to_thousandths().to_string(), "2m");
    }

    proptest::proptest! {
        #[test]
        fn subtracting_what_was_added_restores_a_sum(
            kept in proptest::collection::vec("[0-9]{1,30}(m|Ki|e3|)", 0..5),
            removed in proptest::collection::vec("-?[0-9]{1,30}(n|Gi|E|)", 0..5),
        ) {
            let parse = |texts: &[String]| texts.iter().map(|text| amount(text)).collect::<Vec<_>>();
            let (kept, removed) = (parse(&kept), parse(&removed));
            let mut changed = AmountSum::default();
            removed.iter().chain(&kept).for_each(|amount| changed.add(*amount));
            for amount in removed {
                changed.subtract(amount);
            }
            let mut expected = AmountSum::default();
            for amount in kept {
                expected.add(amount);
            }
            proptest::prop_assert_eq!(changed, expected);
        }

        #[test]
        fn a_canonical_text_has_the_value_of_its_amount(text in "-?[0-9]{1,24}(\\.[0-9]{1,9})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|e3|)") {
            let parsed = amount(&text);
            proptest::prop_assert!(amount(&parsed.to_string()).compare(parsed).is_eq(), "{} {}", text, parsed);
        }
    }
}

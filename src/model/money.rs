//! Money as whole millionths of a US dollar, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Usd {
    micros: i64,
}

/// No amount is larger: thousands of such amounts still fit into an integer.
const MAX_DOLLARS: f64 = 1e9;

impl Usd {
    pub const ZERO: Self = Self { micros: 0 };

    pub const fn from_micros(micros: i64) -> Self {
        Self { micros }
    }

    /// Rounds up to the next millionth, so that a sum of many small amounts is never too low. NaN
    /// counts as zero.
    #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
    pub fn from_dollars(dollars: f64) -> Self {
        // The tiny subtraction keeps values such as 0.1 + 0.2 from being rounded up a whole step.
        let micros = (dollars.clamp(-MAX_DOLLARS, MAX_DOLLARS) * 1e6 - 1e-4).ceil();
        Self { micros: micros as i64 }
    }

    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// As a spending limit: `None` (no limit) if zero.
    pub fn as_cap(self) -> Option<Self> {
        (self > Self::ZERO).then_some(self)
    }

    /// For display and JSON.
    #[expect(
        clippy::cast_precision_loss,
        reason = "display only; exact below nine billion dollars"
    )]
    pub fn dollars(self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// `self - other`, at least zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { micros: self.micros.saturating_sub(other.micros).max(0) }
    }

    /// For display, with the estimated part named.
    pub fn with_estimate(self, part: Self) -> String {
        match part {
            Self::ZERO => self.to_string(),
            part if part == self => format!("{self} (estimated)"),
            part => format!("{self} ({part} of it estimated)"),
        }
    }

    pub fn times(self, n: usize) -> Self {
        Self { micros: self.micros.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)) }
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents_are_enough = self.micros % 10_000 == 0;
        if cents_are_enough {
            write!(f, "${:.2}", self.dollars())
        } else {
            write!(f, "${:.4}", self.dollars())
        }
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { micros: self.micros.saturating_add(other.micros) }
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { micros: self.micros.saturating_sub(other.micros) }
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_a_round_trip() {
        for micros in [0, 1, 475, 10_000, 250_000, 1_234_567, 99_999_999] {
            let amount = Usd::from_micros(micros);
            assert_eq!(Usd::from_dollars(amount.dollars()), amount);
        }
    }

    #[test]
    fn a_fraction_of_a_millionth_is_never_lost() {
        assert_eq!(Usd::from_dollars(0.000_475_7).micros(), 476);
        assert_eq!(Usd::from_dollars(f64::NAN), Usd::ZERO);
        assert_eq!(Usd::from_dollars(1e300).dollars(), MAX_DOLLARS);
        assert_eq!(Usd::from_dollars(f64::NEG_INFINITY).dollars(), -MAX_DOLLARS);
    }

    #[test]
    fn shown_with_as_many_digits_as_it_needs() {
        assert_eq!(Usd::from_dollars(0.25).to_string(), "$0.25");
        assert_eq!(Usd::from_dollars(0.0005).to_string(), "$0.0005");
    }
}

//! Medians and spreads of few numbers.
//!
//! Never drops an outlier: it is shown as the end of a spread.

use serde::Serialize;

/// How far the floor may be from itself before a row is not judged.
pub(super) const NOISE_MAX: f64 = 0.10;

/// Few numbers, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) lower_quartile: f64,
    pub(super) median: f64,
    pub(super) upper_quartile: f64,
    pub(super) max: f64,
}

impl Spread {
    /// None, if there are no numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers
            .into_iter()
            .filter(|number| number.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            lower_quartile: at(&sorted, 0.25)?,
            median: at(&sorted, 0.5)?,
            upper_quartile: at(&sorted, 0.75)?,
            max: *sorted.last()?,
        })
    }

    /// Whether ratios of a thing to itself say that nothing can be judged: the middle half of them
    /// leaves ±10 %. One disturbed pair in seven moves no median, and so condemns none.
    pub(super) fn is_noise(&self) -> bool {
        self.lower_quartile < 1.0 - NOISE_MAX || self.upper_quartile > 1.0 + NOISE_MAX
    }
}

/// The number at a fraction of the way, between neighbours in proportion.
fn at(sorted: &[f64], fraction: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "few numbers")]
    let place = fraction * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between zero and the number of numbers"
    )]
    let below = place.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    Some(low + (high - low) * place.fract())
}

/// The slope of the straight line that fits best.
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "few points")]
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let covariance: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    covariance / variance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_is_no_noise_and_a_shift_is() {
        let calm = Spread::of([0.98, 1.0, 1.0, 1.01, 1.02, 1.03, 1.6]).unwrap();
        assert_eq!((calm.median, calm.max), (1.01, 1.6));
        assert!(!calm.is_noise());
        assert!(Spread::of([0.8, 0.85, 1.0, 1.2]).unwrap().is_noise());
    }

    #[test]
    fn slope_of_a_line_is_its_slope() {
        assert!((slope(&[(1.0, 5.0), (8.0, 19.0), (64.0, 131.0)]) - 2.0).abs() < 1e-9);
    }
}

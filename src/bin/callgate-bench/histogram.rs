//! Spans in buckets that grow with them, so that a quantile is wrong by less than 1 %.
//!
//! Recording is an index and an addition. Never allocates after it was made.

/// Values below this have a bucket each; above, every doubling is cut into half as many.
const LINEAR: u64 = 256;
const HALF: u64 = LINEAR / 2;
/// Doublings above the linear part: enough for every 64-bit number.
const BUCKETS: usize = 256 + 56 * 128 + 1;

/// Spans in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
            max: 0,
        }
    }

    /// Adds one span.
    pub(crate) fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds everything that `other` has.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many spans there are.
    pub(crate) fn len(&self) -> u64 {
        self.total
    }

    /// The span that `quantile` of all spans do not exceed. Zero if there are none.
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank among counted spans, between 1 and their number"
        )]
        let rank = ((self.total as f64 * quantile).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(index).min(self.max);
            }
        }
        self.max
    }

    /// The longest span.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }
}

/// Where a value is counted.
fn bucket(value: u64) -> usize {
    if value < LINEAR {
        return usize::try_from(value).unwrap_or(0);
    }
    // 2^(8+shift-1) <= value: the highest seven bits below the leading one are the place in its doubling.
    let shift = u64::from(value.ilog2() - HALF.ilog2());
    let within = (value >> shift) - HALF;
    usize::try_from(LINEAR + (shift - 1) * HALF + within).unwrap_or(BUCKETS - 1)
}

/// A value that stands for everything in a bucket.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    if index < LINEAR {
        return index;
    }
    let shift = (index - LINEAR) / HALF + 1;
    let within = (index - LINEAR) % HALF;
    let low = (HALF + within) << shift;
    low.saturating_add((1 << shift) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_near_its_bucket() {
        let values = (0..63).flat_map(|bit| [1_u64 << bit, (1 << bit) + 1, (1 << bit) * 3 / 2]);
        for value in values {
            let stands_for = middle(bucket(value));
            let off = stands_for.abs_diff(value);
            assert!(
                off * 128 <= value.max(128),
                "{value} is shown as {stands_for}"
            );
        }
    }

    #[test]
    fn quantiles_of_a_ramp_are_its_ranks() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|value| histogram.record(value));
        for (quantile, rank) in [(0.5, 50_000_u64), (0.99, 99_000), (1.0, 100_000)] {
            let found = histogram.at(quantile);
            assert!(
                found.abs_diff(rank) * 100 < rank,
                "{quantile} gives {found}"
            );
        }
    }
}

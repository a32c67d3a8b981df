//! A bar chart in ASCII, one line for each count.

/// Minimum columns of the longest bar.
const BAR_COLUMNS_MIN: usize = 10;

/// A bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) count: u64,
}

/// Draws a chart of the given width. The line of the largest count has the full width, and every count above
/// zero has a bar.
pub(super) fn lines(bars: &[Bar], columns: usize) -> Vec<String> {
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or_default();
    let name_columns = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or_default();
    // A space after the name, and one before the count.
    let label_columns = name_columns + most.to_string().len() + 2;
    let max_columns = columns.saturating_sub(label_columns).max(BAR_COLUMNS_MIN);
    let line = |bar: &Bar| {
        let marks = "#".repeat(length(bar.count, most, max_columns));
        let gap = if marks.is_empty() { "" } else { " " };
        format!("{:name_columns$} {marks}{gap}{}", bar.name, bar.count)
    };
    bars.iter().map(line).collect()
}

/// The length of a bar in columns: the share of `max_columns`, rounded. A count above zero has at least one
/// column.
fn length(count: u64, most: u64, max_columns: usize) -> usize {
    if count == 0 || most == 0 {
        return 0;
    }
    let (count, most) = (u128::from(count), u128::from(most));
    let columns = (count * max_columns as u128 * 2 + most) / (2 * most);
    usize::try_from(columns).map_or(max_columns, |columns| columns.clamp(1, max_columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(counts: &[u64], columns: usize) -> Vec<String> {
        let bars = counts
            .iter()
            .zip(1..)
            .map(|(count, day)| Bar { name: format!("d{day}"), count: *count });
        lines(&bars.collect::<Vec<_>>(), columns)
    }

    #[test]
    fn the_largest_count_fills_its_line_and_small_counts_have_a_bar() {
        let expected = ["d1 ############## 1000", "d2 ####### 500", "d3 # 1", "d4 0"];
        assert_eq!(drawn(&[1_000, 500, 1, 0], 22), expected);
        for columns in [30, 80, 200] {
            let widest =
                drawn(&[u64::MAX, 7], columns).iter().map(|line| line.chars().count()).max();
            assert_eq!(widest, Some(columns.max(34)), "{columns}");
        }
    }

    #[test]
    fn zeros_have_no_bar() {
        assert_eq!(drawn(&[0, 0], 40), ["d1 0", "d2 0"]);
        assert!(drawn(&[], 40).is_empty());
    }
}

//! How training converged, as a picture: members learnt after each run, and how many of them were new.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 24.0;

/// A line that rises with each run that adds something; empty where there are no runs.
pub(super) fn convergence(curve: &[usize]) -> Option<String> {
    let total: usize = curve.iter().sum();
    if curve.is_empty() {
        return None;
    }
    let x = |run: usize| LEFT + (WIDTH - LEFT - 8.0) * run as f64 / curve.len() as f64;
    let y = |members: usize| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 12.0) * members as f64 / total.max(1) as f64;
    let (mut path, mut sum) = (format!("M{:.1} {:.1}", x(0), y(0)), 0);
    for (run, new) in curve.iter().enumerate() {
        sum += new;
        let _ = write!(path, "H{:.1}V{:.1}", x(run + 1), y(sum));
    }
    let label = format!("{total} members after {} runs", curve.len());
    let (base, right, middle) = (HEIGHT - BOTTOM, WIDTH - 8.0, y(total) + 4.0);
    Some(format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\
         <path class=\"axis\" d=\"M{LEFT} 8V{base}H{right}\"/><path class=\"curve\" d=\"{path}\"/>\
         <text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{total}</text>\
         <text x=\"{}\" y=\"{base}\" text-anchor=\"end\">0</text>\
         <text x=\"{LEFT}\" y=\"{}\">1st run</text>\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">run {}</text></svg>",
        LEFT - 6.0,
        LEFT - 6.0,
        HEIGHT - 6.0,
        HEIGHT - 6.0,
        curve.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_ends_where_all_members_are() {
        let svg = convergence(&[5, 0, 1]).expect("drawn");
        assert!(svg.contains("aria-label=\"6 members after 3 runs\""), "{svg}");
        assert_eq!(svg.matches('H').count(), 3 + 1, "one step a run, and the axis");
        assert!(convergence(&[]).is_none());
        assert!(convergence(&[0, 0]).is_some());
    }
}

//! The order of locks as a picture: who is wanted while who is held, before circles were broken and after. One file without
//! references, readable on light and dark ground.

use std::fmt::Write as _;

/// One of the two graphs.
#[derive(Clone, Debug, Default)]
pub struct Panel<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// The locks: name, and whether it is one that was inserted.
    pub locks: Vec<(String, bool)>,
    /// Which is held, which is wanted, and whether the edge is on a circle.
    pub edges: Vec<(usize, usize, bool)>,
}

const PANEL: f64 = 720.0;
const HEIGHT: f64 = 620.0;
const RADIUS: f64 = 170.0;
/// Most locks of a panel: more cannot be read. Those on circles come first.
const MOST: usize = 24;
const LABEL_CHARS: usize = 34;

const STYLE: &str = "\
:root{--ground:#ffffff;--ink:#1b1f24;--soft:#57606a;--ours:#0969da;--theirs:#57606a;--hot:#cf222e;--calm:#8c959f}\
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9198a1;--ours:#58a6ff;--theirs:#9198a1;--hot:#ff7b72;--calm:#656c76}}\
.ground{fill:var(--ground)}text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px;fill:var(--ink)}\
.title{font-size:14px;font-weight:600}.soft{fill:var(--soft)}.ours{fill:var(--ours)}.theirs{fill:var(--theirs)}\
.edge{fill:none;stroke:var(--calm);stroke-width:1.3}.edge.hot{stroke:var(--hot);stroke-width:2.2}\
.head{fill:var(--calm)}.head.hot{fill:var(--hot)}";

/// Draws the panels side by side.
pub fn draw(panels: &[Panel<'_>]) -> String {
    let width = PANEL * panels.len().max(1) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\"><style>{STYLE}</style>\
         <rect class=\"ground\" width=\"{width}\" height=\"{HEIGHT}\"/>"
    );
    for (number, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, PANEL * number as f64);
    }
    svg + "</svg>\n"
}

fn draw_panel(svg: &mut String, panel: &Panel<'_>, left: f64) {
    let red = |lock: usize| panel.edges.iter().any(|(a, b, hot)| *hot && (*a == lock || *b == lock));
    let mut shown: Vec<usize> = (0..panel.locks.len()).collect();
    shown.sort_by_key(|lock| !red(*lock));
    shown.truncate(MOST);
    let hot = panel.edges.iter().filter(|(.., hot)| *hot).count();
    let (all, edges) = (panel.locks.len(), panel.edges.len());
    let _ = write!(
        svg,
        "<text class=\"title\" x=\"{}\" y=\"28\">{}</text><text class=\"soft\" x=\"{0}\" y=\"46\">{all} locks, {edges} orders, {hot} on \
         circles{}</text>",
        left + 20.0,
        escape(panel.title),
        if all > shown.len() { format!("; {} of the locks are drawn", shown.len()) } else { String::new() }
    );
    let place = |lock: usize| {
        let at = shown.iter().position(|one| *one == lock)?;
        let angle = std::f64::consts::TAU * at as f64 / shown.len().max(1) as f64 - std::f64::consts::FRAC_PI_2;
        Some((left + PANEL / 2.0 + RADIUS * angle.cos(), HEIGHT / 2.0 + 20.0 + RADIUS * angle.sin(), angle))
    };
    let mut lines: Vec<&(usize, usize, bool)> = panel.edges.iter().collect();
    // Circles on top.
    lines.sort_by_key(|(.., hot)| *hot);
    for (from, to, hot) in lines {
        let (Some((x1, y1, _)), Some((x2, y2, _))) = (place(*from), place(*to)) else { continue };
        arrow(svg, (x1, y1), (x2, y2), if *hot { " hot" } else { "" });
    }
    for lock in &shown {
        let (Some((x, y, angle)), Some((name, ours))) = (place(*lock), panel.locks.get(*lock)) else { continue };
        let (class, right) = (if *ours { "ours" } else { "theirs" }, angle.cos() >= -0.01);
        let (anchor, dx) = if right { ("start", 10.0) } else { ("end", -10.0) };
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}</title></circle>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(name),
            x + dx,
            y + 4.0 + 8.0 * angle.sin(),
            escape(&cut(name))
        );
    }
    let _ = write!(
        svg,
        "<circle class=\"ours\" cx=\"{}\" cy=\"{}\" r=\"5\"/><text x=\"{}\" y=\"{}\">inserted</text>\
         <circle class=\"theirs\" cx=\"{}\" cy=\"{1}\" r=\"5\"/><text x=\"{}\" y=\"{3}\">the program's</text>",
        left + 26.0,
        HEIGHT - 24.0,
        left + 38.0,
        HEIGHT - 20.0,
        left + 126.0,
        left + 138.0
    );
}

/// A curve that bends to one side, so that an edge and the one back are two.
fn arrow(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy).max(1.0);
    let (cx, cy) = (f64::midpoint(x1, x2) - dy * 0.12, f64::midpoint(y1, y2) + dx * 0.12);
    // Where the curve arrives, in the direction of its end.
    let (ex, ey) = (x2 - cx, y2 - cy);
    let end = ex.hypot(ey).max(1.0);
    let (ux, uy) = (ex / end, ey / end);
    let (tx, ty) = (x2 - 6.0 * ux, y2 - 6.0 * uy);
    if length < 2.0 {
        return;
    }
    let _ = write!(
        svg,
        "<path class=\"edge{class}\" d=\"M{x1:.1} {y1:.1}Q{cx:.1} {cy:.1} {tx:.1} {ty:.1}\"/>\
         <path class=\"head{class}\" d=\"M{tx:.1} {ty:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
        tx - 8.0 * ux - 4.0 * uy,
        ty - 8.0 * uy + 4.0 * ux,
        tx - 8.0 * ux + 4.0 * uy,
        ty - 8.0 * uy - 4.0 * ux
    );
}

fn cut(name: &str) -> String {
    if name.chars().count() <= LABEL_CHARS {
        return name.to_owned();
    }
    name.chars().take(LABEL_CHARS - 1).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(locks: usize, edges: &[(usize, usize, bool)]) -> Panel<'static> {
        let locks = (0..locks).map(|n| (format!("lock<{n}>"), n % 2 == 0)).collect();
        Panel { title: "before", locks, edges: edges.to_vec() }
    }

    #[test]
    fn circles_are_red_and_names_are_escaped() {
        let svg = draw(&[panel(3, &[(0, 1, true), (1, 0, true), (1, 2, false)]), panel(3, &[(0, 1, false)])]);
        assert_eq!(svg.matches("class=\"edge hot\"").count(), 2);
        assert_eq!(svg.matches("class=\"edge\"").count(), 2);
        assert!(svg.contains("lock&lt;0&gt;") && !svg.contains("lock<0>"));
        assert!(svg.contains("3 locks, 3 orders, 2 on circles") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn of_many_locks_those_on_circles_are_drawn() {
        let svg = draw(&[panel(60, &[(58, 59, true), (59, 58, true), (1, 2, false)])]);
        assert!(svg.contains("24 of the locks are drawn") && svg.contains("lock&lt;59&gt;"));
        assert_eq!(svg.matches("class=\"edge hot\"").count(), 2);
        assert!(draw(&[panel(0, &[])]).contains("0 locks"));
    }
}

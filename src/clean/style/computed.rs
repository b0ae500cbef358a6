//! What the declarations on the way down the tree add up to: is this text seen, and how does it flow?

use super::color::Color;
use super::declarations::{Background, Declarations, Declared, Display, function_argument};
use super::length::Length;

/// Text smaller than this cannot be read.
const UNREADABLE_PX: f32 = 2.5;
/// Less opacity than this is as good as none.
const UNSEEN_OPACITY: f32 = 0.06;
/// Text with less contrast to what is behind it is not seen.
const UNSEEN_CONTRAST: f32 = 1.15;
/// A box moved this far to the left or upwards is off the page.
const OFF_PAGE: f32 = -500.0;
/// Text indented this far has left a box that clips.
const PUSHED_OUT: f32 = 900.0;
/// A box moved this far to the right or downwards is beyond any scrolling.
const FAR_AWAY: f32 = 4000.0;

/// What becomes of white space in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum TextSpace {
    /// Runs become one space.
    Collapse,
    /// Line ends stay, runs become one space.
    KeepLines,
    /// Everything stays.
    Keep,
}

impl TextSpace {
    pub(super) fn parse(value: &str) -> Option<Self> {
        Some(match value.to_ascii_lowercase().as_str() {
            "normal" | "nowrap" | "collapse" | "initial" => Self::Collapse,
            "pre-line" | "preserve-breaks" => Self::KeepLines,
            "pre" | "pre-wrap" | "break-spaces" | "preserve" => Self::Keep,
            _ => return None,
        })
    }
}

pub(super) fn display(value: &str) -> Option<Display> {
    Some(match value.to_ascii_lowercase().as_str() {
        "none" => Display::None,
        "inline" | "contents" | "ruby" => Display::Inline,
        "table-cell" => Display::TableCell,
        "table-column" | "table-column-group" => Display::None,
        "inline-block" | "inline-table" | "inline-flex" | "inline-grid" => Display::InlineBlock,
        "block" | "list-item" | "flow-root" | "table" | "table-row" | "table-caption"
        | "table-row-group" | "table-header-group" | "table-footer-group" => Display::Block,
        "flex" | "grid" => Display::Flex,
        _ => return None,
    })
}

/// `Some(true)` when the text is hidden.
pub(super) fn visibility(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "hidden" | "collapse" => Some(true),
        "visible" | "initial" => Some(false),
        _ => None,
    }
}

/// Do clipping or moving leave nothing of the box in sight?
pub(super) fn takes_away(property: &[u8], value: &str) -> Option<bool> {
    let lengths = |inside: &str| -> Vec<f32> {
        inside
            .split([',', ' '])
            .filter(|part| !part.trim().is_empty())
            .map_while(|part| Some(Length::parse(part)?.pixels(16.0)))
            .collect()
    };
    let scaled_to_nothing = |factors: &str| {
        let mut factors =
            factors.split([',', ' ']).filter_map(|part| part.trim().parse::<f32>().ok());
        factors.any(|factor| factor.abs() < 0.02)
    };
    let moved_away =
        |inside: &str| lengths(inside).iter().any(|&by| by <= OFF_PAGE || by >= FAR_AWAY);
    match property {
        b"clip" => {
            let sides = lengths(function_argument(value, "rect")?);
            let [top, right, bottom, left] = sides[..] else { return Some(false) };
            Some(right - left <= 1.0 || bottom - top <= 1.0)
        }
        b"clip-path" => {
            if let Some(inset) = function_argument(value, "inset") {
                // Shares are taken of a window 1000 wide, so half of it from each side is all.
                let sides = lengths(inset);
                let side = |at: usize| sides.get(at).copied();
                let (top, right) = (side(0)?, side(1).or(side(0))?);
                let (bottom, left) = (side(2).unwrap_or(top), side(3).unwrap_or(right));
                return Some(top + bottom >= 990.0 || left + right >= 990.0);
            }
            let round =
                ["circle", "ellipse"].iter().find_map(|name| function_argument(value, name));
            if let Some(round) = round {
                return Some(lengths(round).first().is_some_and(|&radius| radius <= 0.5));
            }
            let corners = lengths(function_argument(value, "polygon")?);
            Some(corners.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 0.5))
        }
        b"scale" => Some(scaled_to_nothing(value)),
        b"translate" => Some(moved_away(value)),
        _ => {
            let scale = ["scale", "scalex", "scaley", "scale3d"]
                .iter()
                .any(|name| function_argument(value, name).is_some_and(scaled_to_nothing));
            let translate = ["translate", "translatex", "translatey", "translate3d"]
                .iter()
                .any(|name| function_argument(value, name).is_some_and(moved_away));
            Some(scale || translate)
        }
    }
}

/// Can a reader see the text?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum Sight {
    /// Yes.
    Shown,
    /// Only on a background other than the usual light one.
    LowContrast,
    /// No.
    Hidden,
}

/// How an element flows, as far as its style has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::clean) struct Flow {
    /// The declared display, if any.
    pub(in crate::clean) display: Option<Display>,
    /// Taken out of the line: floating, or placed absolutely.
    pub(in crate::clean) blockified: bool,
    /// Is the box no bigger than a speck?
    pub(in crate::clean) tiny: bool,
}

impl Flow {
    /// Does an element of the inline kind stand on lines of its own?
    pub(in crate::clean) fn is_block(self, in_flex: bool) -> bool {
        in_flex || self.blockified || matches!(self.display, Some(Display::Block | Display::Flex))
    }

    /// Does an element of the block kind stand in the line?
    pub(in crate::clean) fn is_inline(self) -> bool {
        !self.blockified
            && matches!(
                self.display,
                Some(Display::Inline | Display::InlineBlock | Display::TableCell)
            )
    }
}

/// What an element hands down to its children.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::clean) struct Inherited {
    /// Hidden by a property that no child can undo.
    gone: bool,
    /// `visibility`, which a child can undo.
    invisible: bool,
    font_px: f32,
    color: Color,
    /// `None` is a picture.
    background: Option<Color>,
    /// Was a background set by anybody?
    own_background: bool,
    /// Was a text colour set by anybody?
    own_color: bool,
    /// What becomes of white space.
    pub(in crate::clean) space: TextSpace,
    /// The result for text.
    pub(in crate::clean) sight: Sight,
}

impl Inherited {
    /// What a page starts with.
    pub(in crate::clean) const PAGE: Self = Self {
        gone: false,
        invisible: false,
        font_px: 16.0,
        color: Color::BLACK,
        background: Some(Color::WHITE),
        own_background: false,
        own_color: false,
        space: TextSpace::Collapse,
        sight: Sight::Shown,
    };

    /// Is everything below hidden for good?
    pub(in crate::clean) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Hides everything below, for good.
    pub(in crate::clean) fn hide(&mut self) {
        self.gone = true;
        self.sight = Sight::Hidden;
    }

    /// The presentational attribute `color` of `<font>`.
    pub(in crate::clean) fn set_color(&mut self, color: Color) {
        self.color = color;
        self.own_color = true;
        self.look();
    }

    /// The presentational attribute `bgcolor`.
    pub(in crate::clean) fn set_background(&mut self, color: Color) {
        self.paint(color);
        self.look();
    }

    fn paint(&mut self, color: Color) {
        if color.alpha > 0.0 {
            self.background = self.background.map(|below| color.over(below));
            if color.alpha >= 1.0 {
                self.background = Some(color);
            }
            self.own_background = true;
        }
    }

    /// Takes an element's declarations into account. `is_box` says whether sizes apply to it.
    pub(in crate::clean) fn apply(&mut self, declarations: &Declarations, is_box: bool) -> Flow {
        let mut flow = Flow::default();
        let mut frame = Frame::default();
        let parent_font = self.font_px;
        for declared in declarations.iter() {
            match declared {
                Declared::Display(display) => flow.display = Some(display),
                Declared::Hidden(hidden) => self.invisible = hidden,
                Declared::Opacity(opacity) => frame.faint = opacity < UNSEEN_OPACITY,
                Declared::FontSize(size) => self.font_px = size.font_size(parent_font),
                Declared::Color(color) => {
                    self.color = color;
                    self.own_color = true;
                }
                Declared::Background(Background::Color(color)) => self.paint(color),
                Declared::Background(Background::Picture) => self.background = None,
                Declared::WhiteSpace(space) => self.space = space,
                Declared::Floats(floats) => frame.floats = floats,
                Declared::OutOfFlow(out) => frame.out_of_flow = out,
                other => frame.note(other, self.font_px),
            }
        }
        flow.blockified = frame.floats || frame.out_of_flow;
        flow.tiny = frame.is_tiny();
        let is_box = match flow.display {
            Some(Display::Inline) => flow.blockified,
            Some(_) => true,
            None => is_box || flow.blockified,
        };
        if flow.display == Some(Display::None) || frame.is_out_of_sight(is_box) {
            self.gone = true;
        }
        self.look();
        flow
    }

    /// Works out [`Self::sight`] from the rest.
    fn look(&mut self) {
        self.sight = if self.gone
            || self.invisible
            || self.font_px < UNREADABLE_PX
            || self.color.alpha < UNSEEN_OPACITY
        {
            Sight::Hidden
        } else if self.own_color && self.is_camouflaged() {
            if self.own_background { Sight::Hidden } else { Sight::LowContrast }
        } else {
            Sight::Shown
        };
    }

    fn is_camouflaged(&self) -> bool {
        self.background
            .is_some_and(|behind| self.color.over(behind).contrast(behind) < UNSEEN_CONTRAST)
    }
}

/// The size and place of one element's box, as far as declared.
#[derive(Default)]
struct Frame {
    faint: bool,
    clips: bool,
    clipped_away: bool,
    floats: bool,
    out_of_flow: bool,
    positioned: bool,
    shifted_away: bool,
    moved_away: bool,
    /// Indented to beyond its own right edge.
    pushed_out: bool,
    width: Option<f32>,
    height: Option<f32>,
}

impl Frame {
    fn note(&mut self, declared: Declared, font: f32) {
        let smaller = |old: Option<f32>, new: Length| {
            let new = new.pixels(font);
            Some(old.map_or(new, |old| old.min(new)))
        };
        match declared {
            Declared::Clips(clips) => self.clips |= clips,
            Declared::ClippedAway(away) => self.clipped_away |= away,
            Declared::Positioned(positioned) => self.positioned = positioned,
            Declared::Width(length) | Declared::MaxWidth(length) => {
                self.width = smaller(self.width, length);
            }
            Declared::Height(length) | Declared::MaxHeight(length) => {
                self.height = smaller(self.height, length);
            }
            Declared::Shift(length) => {
                let by = length.pixels(font);
                self.shifted_away |= by <= OFF_PAGE || by >= FAR_AWAY;
            }
            Declared::OppositeShift(length) => {
                let by = -length.pixels(font);
                self.shifted_away |= by <= OFF_PAGE || by >= FAR_AWAY;
            }
            Declared::TextIndent(length) => {
                self.moved_away |= length.pixels(font) <= OFF_PAGE;
                self.pushed_out = length.pixels(font) >= PUSHED_OUT;
            }
            Declared::MarginStart(length) => self.moved_away |= length.pixels(font) <= OFF_PAGE,
            _ => {}
        }
    }

    fn is_tiny(&self) -> bool {
        let nothing = |size: Option<f32>| size.is_some_and(|size| size <= 0.0);
        let speck = |size: Option<f32>| size.is_some_and(|size| size <= 1.0);
        nothing(self.width) || nothing(self.height) || (speck(self.width) && speck(self.height))
    }

    fn is_out_of_sight(&self, is_box: bool) -> bool {
        self.faint
            || self.clipped_away
            || (is_box && self.moved_away)
            || (is_box && self.clips && (self.is_tiny() || self.pushed_out))
            || (self.positioned && self.shifted_away)
    }
}

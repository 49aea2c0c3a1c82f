//! A conversation for people to read: who said what, the calls and how they
//! ended, as text or as one self-contained page.

mod step;
mod text;
mod html;

pub use html::{page_end, page_start, step as html};
pub use step::{Block, Step};
pub use text::step as text;

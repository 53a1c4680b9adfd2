//! What `selvedge detect` sees and what it costs: the paper's Table 2 on the corpus and on real programs, the corpus's
//! correct programs, and slow-down, memory and yield beside ThreadSanitizer.

pub mod corpus;
pub mod cost;
pub mod healing;
pub mod page;
pub mod table;

//! How long an image takes: `measure IMAGE` prints the time for opening it, for finding its sites,
//! and for naming up to 100 000 of them (or as many places in its code).

use std::path::PathBuf;
use std::time::Instant;

use selvedge_image::{Image, Symboliser, Variables, find_sites};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: measure IMAGE")?);
    let start = Instant::now();
    let image = Image::open(&path)?;
    let opened = start.elapsed();
    let code: u64 = image.exec_segments().iter().map(|segment| segment.1).sum();

    let start = Instant::now();
    let sites = find_sites(&image);
    println!("{code} bytes of code, opened in {opened:?}, {} sites in {:?}", sites.entries.len(), start.elapsed());
    println!("{:?}", sites.counters);

    let start = Instant::now();
    let symboliser = Symboliser::new(&image);
    let prepared = start.elapsed();
    let mut offsets: Vec<u64> = sites.entries.iter().map(|entry| u64::from(entry.offset)).take(100_000).collect();
    if let Some((first, size)) = image.exec_segments().first().filter(|_| offsets.len() < 100_000) {
        offsets.extend((0..100_000).map(|nth| first + nth * size / 100_000));
        offsets.truncate(100_000);
    }
    let start = Instant::now();
    let frames: usize = offsets.iter().map(|offset| symboliser.frames(*offset).len()).sum();
    println!("lines prepared in {prepared:?}, {} offsets with {frames} frames in {:?}", offsets.len(), start.elapsed());
    println!("{:?}", symboliser.counters());

    let start = Instant::now();
    let variables = Variables::new(&image);
    let named = (0..100_000).filter(|nth| variables.variable(nth * 8).is_some()).count();
    println!("{named} of 100000 words named in {:?}, {:?}", start.elapsed(), variables.counters());
    Ok(())
}

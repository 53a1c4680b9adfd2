//! `site_table`, second half: the image around the table.

use std::path::Path;

use selvedge_image::embed::with_table;
use selvedge_image::{
    Functions, Image, Loaded, Origin, SiteList, Symboliser, Variables, find_sites, read_table, site_keys, table_bytes,
};

/// Sites that are looked up in the debug information.
const LOOKED_UP: usize = 48;

/// Opens the bytes as an image and asks everything that can be asked of it.
pub fn exercise(bytes: &[u8]) {
    // There is no such folder, so no companion file is found beside the image.
    let image = match Image::from_bytes(Path::new("no/such/folder/image"), bytes.to_vec()) {
        Ok(image) => image,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return;
        }
    };
    let sites = find_sites(&image);
    assert!(sites.entries.windows(2).all(|pair| pair[0].offset < pair[1].offset), "sites ascend");
    if let Some(Ok(table)) = read_table(&image) {
        assert!((0..table.len()).all(|ordinal| table.get(ordinal).is_some()));
    }
    let table = table_bytes(image.build_id(), &sites.entries, &sites.reach);
    crate::table::read(&table);
    if let Ok(embedded) = with_table(&image, &table) {
        let _ = Image::from_bytes(Path::new("no/such/folder/image"), embedded).as_ref().map(read_table);
    }
    let functions = Functions::new(&image);
    let _ = functions.groups().len();
    let symboliser = Symboliser::new(&image);
    let list = SiteList::new(&sites.entries, &symboliser);
    for site in list.iter().take(LOOKED_UP) {
        assert!(!site.frames.is_empty(), "frames are never empty");
    }
    let variables = Variables::new(&image);
    for (start, size) in image.exec_segments() {
        let _ = image.loaded_bytes(start, usize::try_from(size).unwrap_or(usize::MAX));
    }
    for offset in (0..0x5000_u64).step_by(0x98).chain([u64::MAX, u64::MAX - image.base(), 1 << 63]) {
        assert!(!symboliser.frames(offset).is_empty(), "frames are never empty");
        let _ = (variables.variable(offset), image.slot_name(offset), image.stub_name(offset));
        let _ = (functions.at(offset).map(selvedge_image::Function::name), image.loaded_bytes(offset, 8));
    }
    let _ = (symboliser.counters(), variables.counters(), image.has_full_symbols());
    let entries: Vec<_> = sites.entries.into_iter().take(LOOKED_UP).collect();
    let loaded =
        Loaded { image, entries, reach: sites.reach, origin: Origin::BuiltMissing, counters: sites.counters };
    let mut keys = site_keys(&loaded);
    assert_eq!(keys.len(), loaded.entries.len());
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "two sites have one key");
}

//! Symbol names for humans: Rust (both manglings, without hashes), C++ (without parameter lists,
//! because a source line always stands beside the name), C as it is.

use cpp_demangle::{DemangleOptions, Symbol};

/// The readable form; the name itself where it is not mangled or cannot be read.
pub(crate) fn demangle(raw: &str) -> String {
    let raw = raw.split_once('@').map_or(raw, |(name, _version)| name);
    if let Ok(rust) = rustc_demangle::try_demangle(raw) {
        return format!("{rust:#}");
    }
    if !raw.starts_with("_Z") {
        return raw.to_owned();
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    Symbol::new(raw)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| raw.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn each_language_reads_well() {
        let rows = [
            ("main", "main"),
            ("memcpy@GLIBC_2.14", "memcpy"),
            ("_ZN4bank7Account8withdrawEi", "bank::Account::withdraw"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZZ4tickvE5count", "tick()::count"),
            ("_Z", "_Z"),
            ("", ""),
        ];
        for (raw, readable) in rows {
            assert_eq!(demangle(raw), readable);
        }
    }
}

//! What a site key says, read back from its text (`selvedge_image::site_key` makes it). A key that is not of that form has no
//! file and no function; it is a name all the same.

use super::SiteKey;
use super::select::split_inlined;

impl SiteKey {
    /// The source file: `bank.c`, `net/util.c`, or `list.h` of `list.h(bank.c)`; `None` where it is not known.
    pub fn file(&self) -> Option<&str> {
        let file = self.parts()?.0;
        let file = file.strip_suffix(')').and_then(|file| file.rsplit_once('(')).map_or(file, |(file, _)| file);
        Some(file).filter(|file| *file != "?")
    }

    /// The functions, with the one that the innermost was inlined into: `withdraw`, or `pay/push`. Empty where not known.
    pub fn functions(&self) -> Option<&str> {
        self.parts().map(|(_, functions)| functions)
    }

    /// The function whose code it is in: that which all the others are inlined into.
    pub fn outer_function(&self) -> Option<&str> {
        self.functions().and_then(|functions| split_inlined(functions).next()).filter(|function| !function.is_empty())
    }

    /// What the access does: `w4`, `load8`.
    pub fn does(&self) -> Option<&str> {
        self.parts()?;
        self.unnumbered().rsplit_once(':').map(|(_, does)| does)
    }

    /// Without the number that tells equals apart.
    fn unnumbered(&self) -> &str {
        let numbered = self.0.rsplit_once('#');
        numbered.filter(|(_, number)| is_number(number, 10)).map_or(&self.0, |(rest, _)| rest)
    }

    /// Before the function, and the functions.
    fn parts(&self) -> Option<(&str, &str)> {
        let (rest, _does) = self.unnumbered().rsplit_once(':')?;
        let by_line = rest.rsplit_once(':').filter(|(_, column)| is_number(column, 10)).and_then(|(rest, _)| {
            let at = rest.rfind(['+', '-', '='])?;
            Some(rest.split_at(at)).filter(|(_, line)| line.get(1..).is_some_and(|line| is_number(line, 10)))
        });
        let by_code = || rest.rsplit_once('@').filter(|(_, offset)| is_number(offset, 16));
        let (place, _) = by_line.or_else(by_code)?;
        place.split_once(':')
    }
}

fn is_number(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

#[cfg(test)]
mod tests {
    use super::SiteKey;

    #[test]
    fn keys_are_read_back() {
        let rows = [
            ("bank.c:withdraw+3:12:w4", Some("bank.c"), Some("withdraw"), Some("w4")),
            ("bank.c:withdraw+3:12:w4#2", Some("bank.c"), Some("withdraw"), Some("w4")),
            ("list.h(bank.c):pay/push+0:8:r8", Some("list.h"), Some("pay/push"), Some("r8")),
            (
                "a/util.c:bank::Account::operator+-1:0:r8uv",
                Some("a/util.c"),
                Some("bank::Account::operator+"),
                Some("r8uv"),
            ),
            ("body.inc:f=17:12:load4", Some("body.inc"), Some("f"), Some("load4")),
            ("a.cpp:_GLOBAL__sub_I@1a:w4", Some("a.cpp"), Some("_GLOBAL__sub_I"), Some("w4")),
            ("?:withdraw@1a4:range-r", None, Some("withdraw"), Some("range-r")),
            ("?:@4f1a4:w4", None, Some(""), Some("w4")),
            ("m.rs:b::main::{closure#0}+2:9:add4", Some("m.rs"), Some("b::main::{closure#0}"), Some("add4")),
            ("anything", None, None, None),
            ("a:b:c", None, None, None),
            ("", None, None, None),
        ];
        for (text, file, functions, does) in rows {
            let key = SiteKey(text.to_owned());
            assert_eq!((key.file(), key.functions(), key.does()), (file, functions, does), "{text}");
        }
        let outer = |text: &str| SiteKey(text.to_owned()).outer_function().map(str::to_owned);
        assert_eq!(outer("list.h:pay/push+3:12:w4").as_deref(), Some("pay"));
        assert_eq!(outer("v.h:std::vector<a/b>::f/g+3:12:w4").as_deref(), Some("std::vector<a/b>::f"));
        assert_eq!(outer("?:@4f1a4:w4"), None);
    }
}

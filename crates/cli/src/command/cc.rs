//! `selvedge cc`, `selvedge c++`.

use std::ffi::OsString;
use std::path::Path;

use selvedge_drive::build::{Driver, Environment, Exit, Wrapper};

use crate::messages::{Failure, note};
use crate::runtime;

/// Is the compiler, for these arguments.
pub(crate) fn run(driver: Driver, args: &[OsString]) -> Result<u8, Failure> {
    compile(driver, args).map(Exit::code)
}

/// Compiles; comes back only after a link, or where the compiler could not be started.
pub(crate) fn compile(driver: Driver, args: &[OsString]) -> Result<Exit, Failure> {
    let runtime = runtime::unpack().map_err(|error| Failure::internal(&error))?;
    let own_executable = std::env::current_exe().unwrap_or_default();
    let mut post_link = |image: &Path| -> Result<(), Box<dyn std::error::Error>> {
        if selvedge_image::index(image)?.bodies_lost {
            note(&format!(
                "warning: objects of `{}` were stripped before they were linked: their hooks cannot be switched on; keep debug \
                 information until after the link, or compile with SELVEDGE_BODIES=one",
                image.display()
            ));
        }
        Ok(())
    };
    let wrapper = Wrapper {
        driver,
        runtime: &runtime,
        cache_dir: &runtime::cache_dir(),
        own_executable: &own_executable,
        environment: Environment::from_process(),
        post_link: &mut post_link,
    };
    wrapper.run(args).map_err(|error| Failure::new(error.exit_code(), &error))
}

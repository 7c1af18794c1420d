//! `netcliff-bindgen MODULE.wasm DIRECTORY`: writes netcliff.js and netcliff_bg.wasm into the directory, without the names of
//! functions, which are a sixth of its compressed size.

use std::process::ExitCode;

fn main() -> ExitCode {
    let [module, directory]: [String; 2] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap_or_default();
    let made = wasm_bindgen_cli_support::Bindgen::new().input_path(module).out_name("netcliff").web(true).and_then(
        |bindgen| bindgen.typescript(true).remove_name_section(true).remove_producers_section(true).generate(directory),
    );
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("netcliff-bindgen: {error:?}");
            ExitCode::FAILURE
        }
    }
}

//! Compiles the eBPF programs and generates their Rust skeleton, for Linux.
//!
//! Sets the cfg `have_bpf` if this succeeds. If it fails (clang is missing or too old), the crate is built without
//! eBPF, with a warning, and the program has the reason in `NETCLIFF_NO_BPF_REASON`. With `NETCLIFF_REQUIRE_BPF=1` in
//! the environment it is an error instead (for packagers and CI).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(have_bpf)");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=NETCLIFF_REQUIRE_BPF");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system != "linux" {
        println!("cargo::rustc-env=NETCLIFF_NO_BPF_REASON=built without eBPF: it is Linux's, and this is {system}");
        return;
    }
    match compile() {
        Ok(()) => println!("cargo::rustc-cfg=have_bpf"),
        Err(reason) => {
            println!("cargo::rustc-env=NETCLIFF_NO_BPF_REASON={reason}");
            let required = std::env::var("NETCLIFF_REQUIRE_BPF").is_ok_and(|value| value == "1");
            if cfg!(feature = "ebpf") {
                let level = if required { "error" } else { "warning" };
                println!("cargo::{level}={reason}; CPU accounting will use procfs");
            }
        }
    }
}

#[cfg(not(feature = "ebpf"))]
fn compile() -> Result<(), String> {
    Err("built without eBPF: the cargo feature `ebpf` was off".to_owned())
}

#[cfg(feature = "ebpf")]
fn compile() -> Result<(), String> {
    use std::{env, path::PathBuf, process::Command};

    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    if Command::new(&clang).arg("--version").output().is_err() {
        return Err(format!("built without eBPF: {clang} was not found (Debian: apt-get install clang)"));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // The type information contains the paths of the sources. They are mapped to paths in the tree, so that the output
    // is the same wherever the tree is.
    let here = env::var("CARGO_MANIFEST_DIR").map_err(|error| format!("CARGO_MANIFEST_DIR: {error}"))?;
    let mapped = format!("-ffile-prefix-map={here}=/netcliff/crates/host");
    for program in ["cpu", "drops", "live", "trace"] {
        libbpf_cargo::SkeletonBuilder::new()
            .source(format!("bpf/{program}.bpf.c"))
            .clang(&clang)
            // v3: atomic exchange and 32-bit jumps; the kernel has both since 5.12.
            .clang_args(["-mcpu=v3", "-Wall", "-Werror", &mapped])
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .map_err(|error| {
                let error = format!("{error:#}").replace('\n', " | ");
                format!("built without eBPF: clang could not compile bpf/{program}.bpf.c: {error}")
            })?;
    }
    Ok(())
}

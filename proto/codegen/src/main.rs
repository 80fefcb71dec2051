//! Writes the generated protobuf code that the repository keeps, without a system protoc.
//!
//! A package of its own, so that it runs while the library does not compile. Never part of a build:
//! `cargo build` uses what is committed.
//!
//! `callgate-codegen` writes; `callgate-codegen --check` compares and exits 1 on a difference.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the messages and client stubs live, from the repository's root.
const CLIENT_DIR: &str = "clients/rust/src/pb";
/// Where the server traits live, from the repository's root.
const SERVER_DIR: &str = "src/pb";
/// Name of the Rust file of the package.
const RUST_FILE: &str = "callgate.v1.rs";
/// Name of the descriptor set, which the method table and reflection read.
const DESCRIPTOR_FILE: &str = "callgate.v1.binpb";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = repository_root()?;
    let check = std::env::args().nth(1).as_deref() == Some("--check");
    let scratch = root.join("target").join("codegen");
    fs::create_dir_all(&scratch)?;
    let files = generate(&root, &scratch)?;
    let mut stale = Vec::new();
    for (made, kept) in &files {
        let fresh = fs::read(made)?;
        if fs::read(kept).ok().as_deref() == Some(fresh.as_slice()) {
            continue;
        }
        stale.push(kept.clone());
        if !check {
            fs::write(kept, fresh)?;
        }
    }
    Ok(report(check, &stale))
}

#[expect(clippy::print_stderr, reason = "a command-line tool says what it did")]
fn report(check: bool, stale: &[PathBuf]) -> ExitCode {
    for file in stale {
        let word = if check { "stale" } else { "wrote" };
        eprintln!("{word} {}", file.display());
    }
    if check && !stale.is_empty() {
        eprintln!("\nhint: run `make generate` and commit the result");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn repository_root() -> Result<PathBuf, Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.join("../..").canonicalize()?)
}

/// Generates everything into `scratch` and returns pairs of (made, kept).
fn generate(root: &Path, scratch: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Box<dyn Error>> {
    let proto = root.join("proto");
    let mut compiler = protox::Compiler::new([&proto])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(proto_files(&proto)?)?;
    let commented = compiler.file_descriptor_set();
    let bare = compiler
        .include_source_info(false)
        .encode_file_descriptor_set();

    let client = scratch.join("client");
    let server = scratch.join("server");
    fs::create_dir_all(&client)?;
    fs::create_dir_all(&server)?;
    // Clients are made with `new(channel)`: the transport constructor is called
    // `connect` and collides with the rpc of that name.
    tonic_prost_build::configure()
        .out_dir(&client)
        .emit_rerun_if_changed(false)
        .build_server(false)
        .build_transport(false)
        .bytes(".")
        .compile_fds(commented.clone())?;
    tonic_prost_build::configure()
        .out_dir(&server)
        .emit_rerun_if_changed(false)
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .extern_path(".callgate.v1", "::callgate_client::pb::v1")
        .compile_fds(commented)?;
    let descriptors = scratch.join(DESCRIPTOR_FILE);
    fs::write(&descriptors, bare)?;
    Ok(vec![
        (
            client.join(RUST_FILE),
            root.join(CLIENT_DIR).join(RUST_FILE),
        ),
        (
            server.join(RUST_FILE),
            root.join(SERVER_DIR).join(RUST_FILE),
        ),
        (descriptors, root.join(SERVER_DIR).join(DESCRIPTOR_FILE)),
    ])
}

/// All proto files, sorted so that the output is the same everywhere.
fn proto_files(proto: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(proto.join("callgate/v1"))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path.strip_prefix(proto)?.to_path_buf());
        }
    }
    files.sort();
    Ok(files)
}

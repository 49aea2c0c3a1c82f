//! Compiles `proto/` to Rust: messages and services (prost, tonic), proto JSON
//! (pbjson) and the descriptor set that reflection serves. No system protoc.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use prost::Message as _;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // Printed by hand: the builders below print nothing for descriptor sets.
    println!("cargo:rerun-if-changed=proto");
    // For `wire::weight`.
    let encoded = ENCODED.map(|name| format!("a11.v1.{name}"));
    println!("cargo:rustc-env=A11_ENCODED_MESSAGES={}", encoded.join(","));

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(proto_files()?)?;
    let descriptor_bytes = compiler.encode_file_descriptor_set();
    let mut descriptors = prost_types(&descriptor_bytes)?;
    keep_encoded(&mut descriptors)?;

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("a11_descriptor.bin"), &descriptor_bytes)?;

    let mut prost = prost_build::Config::new();
    prost
        // Payloads stay slices of the buffer they arrived in.
        .bytes(["."])
        // Sorted, so that one message has one encoding.
        .btree_map(["."])
        .compile_well_known_types()
        .enable_type_names()
        .extern_path(".google.protobuf", "::pbjson_types");
    tonic_prost_build::configure()
        .codec_path("crate::wire::codec::BoundedCodec")
        .compile_fds_with_config(descriptors, prost)?;

    pbjson_build::Builder::new()
        .register_descriptors(&descriptor_bytes)?
        .btree_map(["."])
        .extern_path(".google.protobuf", "::pbjson_types")
        .ignore_unknown_fields()
        .exclude(NOT_AS_JSON.map(|name| format!(".a11.v1.{name}")))
        .build(&[".a11.v1"])?;
    say_expected_once(&out.join("a11.v1.serde.rs"))
}

/// What pbjson says is expected goes where serde says "expected" already.
fn say_expected_once(generated: &Path) -> Result<(), Failure> {
    let code = fs::read_to_string(generated)?;
    let once = code.replace("\"expected one of: {:?}\"", "\"one of {:?}\"");
    if once == code {
        return Err("pbjson says something else is expected than it did".into());
    }
    fs::write(generated, once)?;
    Ok(())
}

/// Messages whose field `interaction` stays encoded: what is stored is the bytes that
/// came, with what is not known here. On the wire the two are the same.
const ENCODED: [&str; 2] = ["ExecuteActionsFromInteractionRequest", "AppendInteractionRequest"];

/// These messages and the one that holds one have no JSON form in Rust: it would
/// not be the contract's.
const NOT_AS_JSON: [&str; 3] = [ENCODED[0], ENCODED[1], "StreamActionsFromInteractionRequest"];

fn keep_encoded(descriptors: &mut prost_types::FileDescriptorSet) -> Result<(), Failure> {
    use prost_types::field_descriptor_proto::Type;
    let ours = descriptors.file.iter_mut().filter(|file| file.package() == "a11.v1");
    let mut found = 0;
    for message in ours.flat_map(|file| &mut file.message_type) {
        if !ENCODED.contains(&message.name()) {
            continue;
        }
        let field = message.field.iter_mut().find(|field| field.name() == "interaction");
        let field = field.ok_or("a message whose interaction stays encoded has none")?;
        field.set_type(Type::Bytes);
        field.type_name = None;
        // Absent stays apart from empty.
        field.proto3_optional = field.oneof_index.is_none().then_some(true);
        found += 1;
    }
    if found == ENCODED.len() { Ok(()) } else { Err("a message of ENCODED is gone".into()) }
}

fn proto_files() -> Result<Vec<PathBuf>, Failure> {
    let mut files: Vec<PathBuf> = fs::read_dir("proto/a11/v1")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ext| ext == "proto"));
    files.sort();
    Ok(files)
}

fn prost_types(bytes: &[u8]) -> Result<prost_types::FileDescriptorSet, Failure> {
    Ok(prost_types::FileDescriptorSet::decode(bytes)?)
}

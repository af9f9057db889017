// Links tidu_c from the folder that run.sh names.
fn main() {
    println!("cargo:rerun-if-env-changed=TIDU_LIBRARIES");
    println!("cargo:rustc-link-search=native={}", std::env::var("TIDU_LIBRARIES").expect("run.sh sets TIDU_LIBRARIES"));
    println!("cargo:rustc-link-lib=dylib=tidu_c");
}

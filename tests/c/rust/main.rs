// The C interface from Rust: a graph is built and differentiated, its gradient runs on memory, from several threads, a primitive is
// written in Rust, and errors come as text.
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr::{null, null_mut};

#[repr(C)]
#[derive(Clone, Copy)]
struct Type {
    dtype: i32,
    rank: u32,
    dims: *const i64,
}
#[repr(C)]
struct Attribute {
    name: *const c_char,
    kind: i32,
    optional: i32,
    default_value: i64,
}
#[repr(C)]
struct JvpCall {
    op: *const c_void,
    emitter: *mut c_void,
    num_operands: usize,
    operands: *const u32,
    tangents: *const u32,
    num_results: usize,
    results: *const u32,
}
#[repr(C)]
struct KernelCall {
    op: *const c_void,
    num_operands: usize,
    operands: *const *const c_void,
    operand_types: *const Type,
    num_results: usize,
    results: *const *mut c_void,
    result_types: *const Type,
}
#[repr(C)]
struct PrimitiveFunctions {
    struct_size: usize,
    name: *const c_char,
    version: u32,
    num_operands: i32,
    num_results: i32,
    attributes: *const Attribute,
    num_attributes: usize,
    traits: u32,
    linearity: i32,
    linear_operands: u32,
    user: *mut c_void,
    infer: Option<extern "C" fn(*mut c_void, *const c_void, *const Type, usize, *mut c_void) -> i32>,
    jvp: Option<extern "C" fn(*mut c_void, *const JvpCall, *mut u32) -> i32>,
    transpose: Option<extern "C" fn(*mut c_void, *const c_void, *mut u32) -> i32>,
    batch: Option<extern "C" fn(*mut c_void, *const c_void, *mut u32) -> i32>,
    kernel: Option<extern "C" fn(*mut c_void, *const KernelCall) -> i32>,
}
#[repr(C)]
struct CpuOptions {
    struct_size: usize,
    threads: i32,
    check_indices: i32,
    generate_no_code: i32,
    cached_bytes: usize,
    primitives: *const c_void,
}

extern "C" {
    fn tidu_last_error() -> *const c_char;
    fn tidu_builder_create(name: *const c_char, set: *const c_void, builder: *mut *mut c_void) -> i32;
    fn tidu_builder_release(builder: *mut c_void);
    fn tidu_builder_emitter(builder: *mut c_void) -> *mut c_void;
    fn tidu_builder_input(builder: *mut c_void, name: *const c_char, of: *const Type, value: *mut u32) -> i32;
    fn tidu_builder_build(builder: *mut c_void, outputs: *const u32, count: usize, graph: *mut *mut c_void) -> i32;
    fn tidu_emit1(emitter: *mut c_void, name: *const c_char, operands: *const u32, count: usize, attributes: *const c_char,
                  result: *mut u32) -> i32;
    fn tidu_grad(graph: *const c_void, wrt: *const usize, count: usize, options: *const c_void, to: *mut *mut c_void) -> i32;
    fn tidu_graph_from_json(json: *const c_char, size: usize, set: *const c_void, graph: *mut *mut c_void) -> i32;
    fn tidu_graph_release(graph: *mut c_void);
    fn tidu_cpu_create(options: *const CpuOptions, executor: *mut *mut c_void) -> i32;
    fn tidu_executor_release(executor: *mut c_void);
    fn tidu_compile(executor: *const c_void, graph: *const c_void, executable: *mut *mut c_void) -> i32;
    fn tidu_executable_release(executable: *mut c_void);
    fn tidu_run_memory(executable: *const c_void, inputs: *const *const c_void, num_inputs: usize, outputs: *const *mut c_void,
                       num_outputs: usize) -> i32;
    fn tidu_primitive_create(functions: *const PrimitiveFunctions, primitive: *mut *const c_void) -> i32;
    fn tidu_primitive_set_create(primitives: *const *const c_void, count: usize, set: *mut *mut c_void) -> i32;
    fn tidu_primitive_set_release(set: *mut c_void);
    fn tidu_results_add(results: *mut c_void, of: *const Type) -> i32;
}

fn ok(status: i32) {
    if status != 0 {
        panic!("status {status}: {}", last_error());
    }
}
fn last_error() -> String {
    unsafe { CStr::from_ptr(tidu_last_error()) }.to_string_lossy().into_owned()
}
fn text(of: &str) -> CString {
    CString::new(of).unwrap()
}

struct Emitter(*mut c_void);
impl Emitter {
    fn emit(&self, name: &str, operands: &[u32], attributes: Option<&str>) -> u32 {
        let (name, attributes) = (text(name), attributes.map(text));
        let pointer = attributes.as_ref().map_or(null(), |a| a.as_ptr());
        let mut result = 0;
        ok(unsafe { tidu_emit1(self.0, name.as_ptr(), operands.as_ptr(), operands.len(), pointer, &mut result) });
        result
    }
}

// A primitive in Rust: y = x^2, dy = 2 x dx.
extern "C" fn infer(_: *mut c_void, _: *const c_void, operands: *const Type, _: usize, results: *mut c_void) -> i32 {
    unsafe { tidu_results_add(results, operands) }
}
extern "C" fn jvp(_: *mut c_void, call: *const JvpCall, tangents: *mut u32) -> i32 {
    let call = unsafe { &*call };
    let emitter = Emitter(call.emitter);
    unsafe {
        let product = emitter.emit("mul", &[*call.operands, *call.tangents], None);
        *tangents = emitter.emit("add", &[product, product], None);
    }
    0
}
extern "C" fn kernel(_: *mut c_void, call: *const KernelCall) -> i32 {
    unsafe {
        let call = &*call;
        let count = *(*call.operand_types).dims as usize;
        let from = std::slice::from_raw_parts(*call.operands as *const f64, count);
        let to = std::slice::from_raw_parts_mut(*call.results as *mut f64, count);
        to.iter_mut().zip(from).for_each(|(y, x)| *y = x * x);
    }
    0
}

fn own_primitives() -> *mut c_void {
    let name = text("rust.square");
    let functions = PrimitiveFunctions {
        struct_size: std::mem::size_of::<PrimitiveFunctions>(), name: name.as_ptr(), version: 1, num_operands: 1, num_results: 1,
        attributes: null(), num_attributes: 0, traits: 1, linearity: 0, linear_operands: 0, user: null_mut(), infer: Some(infer),
        jvp: Some(jvp), transpose: None, batch: None, kernel: Some(kernel),
    };
    let (mut primitive, mut set) = (null(), null_mut());
    ok(unsafe { tidu_primitive_create(&functions, &mut primitive) });
    ok(unsafe { tidu_primitive_set_create(&primitive, 1, &mut set) });
    set
}

// sum(sin(x) rust.square(x))
fn build(set: *const c_void) -> *mut c_void {
    let (mut builder, mut graph) = (null_mut(), null_mut());
    let dims = [3i64];
    let vector = Type { dtype: 6, rank: 1, dims: dims.as_ptr() };
    let mut x = 0;
    unsafe {
        ok(tidu_builder_create(text("f").as_ptr(), set, &mut builder));
        ok(tidu_builder_input(builder, text("x").as_ptr(), &vector, &mut x));
        let emitter = Emitter(tidu_builder_emitter(builder));
        let product = emitter.emit("mul", &[emitter.emit("sin", &[x], None), emitter.emit("rust.square", &[x], None)], None);
        let sum = emitter.emit("reduce_sum", &[product], Some("{\"axes\": [0]}"));
        ok(tidu_builder_build(builder, &sum, 1, &mut graph));
        tidu_builder_release(builder);
    }
    graph
}

struct Program(*mut c_void);
unsafe impl Sync for Program {} // any thread may run it

fn check_gradient(program: &Program, seed: f64) {
    let x = [0.3 + seed, -1.2, 2.0 - seed];
    let mut dx = [0.0f64; 3];
    let (inputs, outputs) = ([x.as_ptr() as *const c_void], [dx.as_mut_ptr() as *mut c_void]);
    ok(unsafe { tidu_run_memory(program.0, inputs.as_ptr(), 1, outputs.as_ptr(), 1) });
    for (x, dx) in x.iter().zip(dx) {
        let expected = x.cos() * x * x + 2.0 * x * x.sin();
        assert!((dx - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "expected {expected}, got {dx}");
    }
}

fn main() {
    let set = own_primitives();
    let graph = build(set);
    let options = CpuOptions { struct_size: std::mem::size_of::<CpuOptions>(), threads: 1, check_indices: 0, generate_no_code: 0,
                               cached_bytes: 0, primitives: set };
    let (mut gradient, mut executor, mut executable) = (null_mut(), null_mut(), null_mut());
    unsafe {
        ok(tidu_grad(graph, null(), 0, null(), &mut gradient));
        ok(tidu_cpu_create(&options, &mut executor));
        ok(tidu_compile(executor, gradient, &mut executable));
    }
    let program = Program(executable);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || (0..1000).for_each(|i| check_gradient(program, f64::from(thread * 1000 + i) * 1e-3)));
        }
    });
    let mut wrong = null_mut();
    let status = unsafe { tidu_graph_from_json(text("{").as_ptr(), 1, null(), &mut wrong) };
    assert!(status == 6 && wrong.is_null() && last_error().contains("line 1"), "{}", last_error());
    unsafe {
        tidu_executable_release(program.0);
        tidu_executor_release(executor);
        tidu_graph_release(gradient);
        tidu_graph_release(graph);
        tidu_primitive_set_release(set);
    }
    println!("Rust: a primitive, gradients from 4 threads, and errors, all as they should be");
}

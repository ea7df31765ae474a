//! The C interface that headrace_tokenizer.h declares. Nothing unwinds into C++: a panic of the crate is that text's error.

use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

use rayon::prelude::*;
use tokenizers::Tokenizer;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HrText {
    data: *const u8,
    size: usize,
}
// Borrowed from the caller for the time of a call, and only read.
unsafe impl Sync for HrText {}

impl HrText {
    unsafe fn bytes(&self) -> &[u8] {
        if self.size == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.data, self.size)
        }
    }
}

pub struct HrTokenizer {
    tokenizer: Tokenizer,
    pool: Option<rayon::ThreadPool>,
}

pub struct HrTokens {
    texts: Vec<Result<Vec<u32>, String>>,
}

/// The caller's from here on, with a zero behind it; `hr_tokenizer_free_text` takes it back.
fn own(text: String) -> *mut c_char {
    let mut bytes = text.into_bytes();
    bytes.push(0);
    Box::into_raw(bytes.into_boxed_slice()).cast()
}

fn own_error(why: String) -> *mut c_char {
    own(why.replace('\0', "?"))
}

fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    let what = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("the tokenizer panicked: {}", what.unwrap_or_else(|| "without a word".into()))
}

#[no_mangle]
pub extern "C" fn hr_tokenizer_available() -> i32 {
    1
}

#[no_mangle]
pub extern "C" fn hr_tokenizer_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_load(json: HrText, threads: u32, error: *mut *mut c_char) -> *mut HrTokenizer {
    let made = catch_unwind(AssertUnwindSafe(|| -> Result<HrTokenizer, String> {
        let mut tokenizer = Tokenizer::from_bytes(json.bytes()).map_err(|e| e.to_string())?;
        // A document must not be cut at some model's length, nor depend on the others of its batch.
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        let pool = if threads > 1 {
            let builder = rayon::ThreadPoolBuilder::new()
                .num_threads(threads as usize)
                .thread_name(|i| format!("hr-token-{i}"));
            Some(builder.build().map_err(|e| e.to_string())?)
        } else {
            None
        };
        Ok(HrTokenizer { tokenizer, pool })
    }));
    match made.unwrap_or_else(|panic| Err(panic_text(panic))) {
        Ok(tokenizer) => Box::into_raw(Box::new(tokenizer)),
        Err(why) => {
            *error = own_error(why);
            std::ptr::null_mut()
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_free(tokenizer: *mut HrTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_free_text(text: *mut c_char, size: usize) {
    if !text.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.cast::<u8>(), size + 1)));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_vocabulary(tokenizer: *const HrTokenizer) -> u64 {
    (*tokenizer).tokenizer.get_vocab(true).values().max().map_or(0, |id| u64::from(*id) + 1)
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_id(tokenizer: *const HrTokenizer, token: HrText) -> i64 {
    match std::str::from_utf8(token.bytes()) {
        Ok(token) => (*tokenizer).tokenizer.token_to_id(token).map_or(-1, i64::from),
        Err(_) => -1,
    }
}

fn encode(tokenizer: &Tokenizer, bytes: &[u8], first: i32, last: i32) -> Result<Vec<u32>, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("the text is not valid UTF-8 at byte {}", e.valid_up_to()))?;
    let encoded = catch_unwind(AssertUnwindSafe(|| tokenizer.encode_fast(text, false)));
    let encoding = encoded.map_err(panic_text)?.map_err(|e| e.to_string())?;
    let mut tokens = Vec::with_capacity(encoding.len() + 2);
    tokens.extend(u32::try_from(first).ok());
    tokens.extend_from_slice(encoding.get_ids());
    tokens.extend(u32::try_from(last).ok());
    Ok(tokens)
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_encode(
    tokenizer: *const HrTokenizer,
    texts: *const HrText,
    count: usize,
    first: i32,
    last: i32,
) -> *mut HrTokens {
    let texts = if count == 0 { &[] } else { std::slice::from_raw_parts(texts, count) };
    let HrTokenizer { tokenizer, pool } = &*tokenizer;
    let texts = match pool {
        Some(pool) if count > 1 => pool.install(|| texts.par_iter().map(|t| encode(tokenizer, t.bytes(), first, last)).collect()),
        _ => texts.iter().map(|t| encode(tokenizer, t.bytes(), first, last)).collect(),
    };
    Box::into_raw(Box::new(HrTokens { texts }))
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokens_size(tokens: *const HrTokens, index: usize) -> i64 {
    match &(&(*tokens).texts)[index] {
        Ok(ids) => ids.len() as i64,
        Err(_) => -1,
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokens_error(tokens: *const HrTokens, index: usize) -> HrText {
    let why = match &(&(*tokens).texts)[index] {
        Ok(_) => "",
        Err(why) => why.as_str(),
    };
    HrText { data: why.as_ptr(), size: why.len() }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokens_copy(tokens: *const HrTokens, out: *mut i32) {
    let mut out = out;
    for ids in (&(*tokens).texts).iter().flatten() {
        std::ptr::copy_nonoverlapping(ids.as_ptr().cast::<i32>(), out, ids.len());
        out = out.add(ids.len());
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokens_free(tokens: *mut HrTokens) {
    if !tokens.is_null() {
        drop(Box::from_raw(tokens));
    }
}

#[no_mangle]
pub unsafe extern "C" fn hr_tokenizer_decode(
    tokenizer: *const HrTokenizer,
    tokens: *const i64,
    count: usize,
    size: *mut usize,
    error: *mut *mut c_char,
) -> *mut c_char {
    let tokens = if count == 0 { &[] } else { std::slice::from_raw_parts(tokens, count) };
    let decoded = catch_unwind(AssertUnwindSafe(|| -> Result<String, String> {
        let ids: Result<Vec<u32>, String> =
            tokens.iter().map(|t| u32::try_from(*t).map_err(|_| format!("{t} is no token"))).collect();
        (*tokenizer).tokenizer.decode(&ids?, false).map_err(|e| e.to_string())
    }));
    match decoded.unwrap_or_else(|panic| Err(panic_text(panic))) {
        Ok(text) => {
            *size = text.len();
            own(text)
        }
        Err(why) => {
            *error = own_error(why);
            std::ptr::null_mut()
        }
    }
}

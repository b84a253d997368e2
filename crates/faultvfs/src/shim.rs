//! The VFS itself: SQLite's C interface on one side, the `unix` VFS on the other, the lock and the record between.
//!
//! It must not decide anything: `plan` says what fails, `disk` keeps what is durable. SQLite calls it on the
//! thread of whichever connection.
//!
//! A file as SQLite sees it is a [`ShimFile`], followed in the same allocation (`szOsFile` bytes, made and freed by
//! SQLite) by the file of the unix VFS. SQLite never uses one file from two threads at once, so a shim file needs no
//! lock of its own; what files share is behind the mutex in [`Shared`].
#![allow(
    unsafe_code,
    reason = "SQLite takes a VFS as C function pointers and hands out raw pointers; there is no safe interface for it"
)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::{align_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;

use libsqlite3_sys as ffi;

use crate::plan::{Effect, FileKind, Operation};
use crate::{Shared, State};

/// What a registered `sqlite3_vfs` points to with `pAppData`.
struct Registration {
    unix: *mut ffi::sqlite3_vfs,
    shared: &'static Shared,
}

/// Valid from the end of `open` to the end of `close`.
#[repr(C)]
struct ShimFile {
    /// First, since SQLite's `sqlite3_file*` is a pointer to this struct.
    base: ffi::sqlite3_file,
    shared: &'static Shared,
    kind: FileKind,
    /// `None` for temporary files: nobody looks for them after a crash.
    path: Option<PathBuf>,
}

/// Where the unix VFS's own file begins. SQLite aligns the allocation to 8 bytes, which both parts must be content with.
const UNIX_FILE_OFFSET: usize = size_of::<ShimFile>().next_multiple_of(8);
const _: () = assert!(align_of::<ShimFile>() <= 8);

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

pub(crate) fn register(name: &str, shared: &'static Shared) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let name = CString::new(name).expect("a VFS name has no zero byte");
    // SAFETY: both names are valid C strings; SQLite initialises itself in the call.
    let (unix, taken) =
        unsafe { (ffi::sqlite3_vfs_find(c"unix".as_ptr()), ffi::sqlite3_vfs_find(name.as_ptr())) };
    assert!(!unix.is_null(), "this SQLite has no unix VFS");
    assert!(taken.is_null(), "the VFS name {name:?} is taken");
    // SAFETY: SQLite never frees or changes its own VFS, apart from the list pointer, which registration overwrites.
    let mut vfs = unsafe { *unix };
    // The functions that are not replaced stay those of the unix VFS. They get this VFS as their first argument, but
    // all except `xOpen` ignore it. Version 2 leaves out the ones that replace system calls process-wide.
    vfs.iVersion = 2;
    vfs.szOsFile += c_int::try_from(UNIX_FILE_OFFSET).expect("a few dozen bytes");
    vfs.pNext = ptr::null_mut();
    vfs.zName = name.into_raw();
    vfs.pAppData = Box::into_raw(Box::new(Registration { unix, shared })).cast();
    vfs.xOpen = Some(open);
    vfs.xDelete = Some(delete);
    // SAFETY: the VFS, its name and its data are leaked, so they stay valid for as long as SQLite may use them.
    let rc = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0) };
    assert_eq!(rc, ffi::SQLITE_OK, "sqlite3_vfs_register");
}

/// # Safety
/// `vfs` is one that `register` made.
unsafe fn registration<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Registration {
    // SAFETY: `register` set the pointer to a leaked `Registration`, and nothing writes to it.
    unsafe { &*(*vfs).pAppData.cast::<Registration>() }
}

/// # Safety
/// `file` points to an allocation of our `szOsFile` bytes.
unsafe fn unix_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: the offset lies inside of that allocation.
    unsafe { file.cast::<u8>().add(UNIX_FILE_OFFSET).cast() }
}

/// The three things that a method needs: the shim file, the unix file, and the unix file's methods.
///
/// # Safety
/// `file` is open: SQLite got it from `open` and has not closed it.
unsafe fn parts<'a>(
    file: *mut ffi::sqlite3_file,
) -> (&'a ShimFile, *mut ffi::sqlite3_file, &'a ffi::sqlite3_io_methods) {
    // SAFETY: `open` initialised both parts before it published the methods that lead here. The reference covers the
    // shim's part only, and SQLite does not write to that while the file is open.
    unsafe {
        let unix = unix_file(file);
        (&*file.cast::<ShimFile>(), unix, &*(*unix).pMethods)
    }
}

/// Methods that go to the unix VFS as they are. The last column is the answer if it lacks the method (it has no shared
/// memory for files opened with `nolock`).
macro_rules! pass_through {
    ($($name:ident = $method:ident($($arg:ident: $ty:ty),*) or $missing:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($arg: $ty),*) -> c_int {
            // SAFETY: SQLite calls methods on open files only, with arguments that are as valid for the unix VFS.
            unsafe {
                let (_, unix, methods) = parts(file);
                methods.$method.map_or($missing, |method| method(unix, $($arg),*))
            }
        }
    )*};
}

pass_through! {
    read = xRead(to: *mut c_void, len: c_int, offset: i64) or ffi::SQLITE_IOERR_READ;
    file_size = xFileSize(size: *mut i64) or ffi::SQLITE_IOERR_FSTAT;
    lock = xLock(level: c_int) or ffi::SQLITE_IOERR_LOCK;
    unlock = xUnlock(level: c_int) or ffi::SQLITE_IOERR_UNLOCK;
    check_reserved_lock = xCheckReservedLock(reserved: *mut c_int) or ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    sector_size = xSectorSize() or 4096;
    device_characteristics = xDeviceCharacteristics() or 0;
    shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int) or ffi::SQLITE_IOERR_SHMLOCK;
    shm_unmap = xShmUnmap(delete: c_int) or ffi::SQLITE_OK;
    fetch = xFetch(offset: i64, len: c_int, mapped: *mut *mut c_void) or ffi::SQLITE_IOERR_MMAP;
    unfetch = xUnfetch(offset: i64, mapped: *mut c_void) or ffi::SQLITE_OK;
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls methods on open files only, with arguments that are as valid for the unix VFS. If the
    // region can't be had, it looks at `mapped` no less, so that is set.
    unsafe {
        let (shim, unix, methods) = parts(file);
        if extend != 0 && shim.shared.lock().plan.observe(shim.kind, Operation::GrowIndex).is_some() {
            *mapped = ptr::null_mut();
            return ffi::SQLITE_IOERR_SHMSIZE;
        }
        methods.xShmMap.map_or(ffi::SQLITE_IOERR_SHMMAP, |map| map(unix, region, size, extend, mapped))
    }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: SQLite calls methods on open files only.
    unsafe {
        let (_, unix, methods) = parts(file);
        if let Some(barrier) = methods.xShmBarrier {
            barrier(unix);
        }
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let kind = match flags {
        _ if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 => FileKind::Database,
        _ if flags & ffi::SQLITE_OPEN_WAL != 0 => FileKind::Wal,
        _ => FileKind::Other,
    };
    let lasting = ffi::SQLITE_OPEN_MAIN_DB
        | ffi::SQLITE_OPEN_WAL
        | ffi::SQLITE_OPEN_MAIN_JOURNAL
        | ffi::SQLITE_OPEN_SUPER_JOURNAL;
    // SAFETY: SQLite calls this with a VFS of ours, a name that is null or a C string, and `szOsFile` bytes at `file`,
    // of which none is in use yet. The name goes on to the unix VFS itself, which looks for URI parameters behind it.
    unsafe {
        let Registration { unix: unix_vfs, shared } = registration(vfs);
        let path = (!name.is_null() && flags & lasting != 0).then(|| path_of(name));
        let mut state = shared.lock();
        let existed = path.as_deref().is_some_and(Path::exists);
        let unix = unix_file(file);
        (*file).pMethods = ptr::null();
        (*unix).pMethods = ptr::null();
        let unix_open = (**unix_vfs).xOpen.expect("the unix VFS opens files");
        let mut rc = unix_open(*unix_vfs, name, unix, flags, out_flags);
        if let Some(path) = path.as_deref().filter(|path| rc == ffi::SQLITE_OK && state.disk.wants(path)) {
            match content(unix) {
                Ok(content) => state.disk.opened(path, existed.then_some(content)),
                Err(error) => rc = error,
            }
        }
        if rc != ffi::SQLITE_OK {
            if let Some(close) = (*unix).pMethods.as_ref().and_then(|methods| methods.xClose) {
                close(unix);
            }
            return rc;
        }
        state.open_files += 1;
        let base = ffi::sqlite3_file { pMethods: &METHODS };
        file.cast::<ShimFile>().write(ShimFile { base, shared, kind, path });
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file is open, and SQLite does not use it after this call, so its path can be dropped here. Nothing
    // borrows from it: `parts` is called for the unix half only.
    unsafe {
        let (_, unix, methods) = parts(file);
        let rc = methods.xClose.map_or(ffi::SQLITE_OK, |close| close(unix));
        let shim = file.cast::<ShimFile>().read();
        shim.shared.lock().open_files -= 1;
        (*file).pMethods = ptr::null();
        rc
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite calls this with a VFS of ours and the name of a file.
    unsafe {
        let Registration { unix, shared } = registration(vfs);
        let mut state = shared.lock();
        let unix_delete = (**unix).xDelete.expect("the unix VFS deletes files");
        let rc = unix_delete(*unix, name, sync_directory);
        if rc == ffi::SQLITE_OK {
            state.disk.deleted(&path_of(name), sync_directory != 0);
        }
        rc
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the file is open, and `len` bytes can be read at `from`.
    unsafe {
        let (shim, unix, _) = parts(file);
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), index(len));
        let mut state = shim.shared.lock();
        let size = match size_of_file(unix) {
            Ok(size) => size,
            Err(error) => return error,
        };
        match state.plan.observe_write(shim.kind, index(offset) + bytes.len() > size) {
            Some(Effect::DiskFull) => ffi::SQLITE_FULL,
            Some(Effect::ShortWrite) => {
                // Its own result does not matter: the write fails in any case.
                write_through(&mut state, shim, unix, &bytes[..bytes.len() / 2], offset);
                ffi::SQLITE_IOERR_WRITE
            }
            Some(Effect::IoError | Effect::SyncLies) => ffi::SQLITE_IOERR_WRITE,
            None => write_through(&mut state, shim, unix, bytes, offset),
        }
    }
}

/// # Safety
/// `unix` is the unix half of the open file `shim`.
unsafe fn write_through(
    state: &mut State,
    shim: &ShimFile,
    unix: *mut ffi::sqlite3_file,
    bytes: &[u8],
    offset: i64,
) -> c_int {
    let len = c_int::try_from(bytes.len()).expect("at most what SQLite asked for");
    // SAFETY: the bytes outlive the call.
    let rc = unsafe {
        let write = (*(*unix).pMethods).xWrite.expect("the unix VFS writes files");
        write(unix, bytes.as_ptr().cast(), len, offset)
    };
    if let Some(path) = shim.path.as_deref().filter(|_| rc == ffi::SQLITE_OK) {
        state.disk.wrote(path, index(offset), bytes);
    }
    rc
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let (shim, unix, methods) = parts(file);
        let mut state = shim.shared.lock();
        let size_before = match size_of_file(unix) {
            Ok(size) => size,
            Err(error) => return error,
        };
        match state.plan.observe_write(shim.kind, index(size) > size_before) {
            Some(Effect::DiskFull) => return ffi::SQLITE_FULL,
            Some(_) => return ffi::SQLITE_IOERR_TRUNCATE,
            None => {}
        }
        let rc = methods.xTruncate.map_or(ffi::SQLITE_IOERR_TRUNCATE, |truncate| truncate(unix, size));
        record_size(&mut state, shim, unix, size_before);
        rc
    }
}

/// The real file is not synced: no test can see whether it was, and the syncs of a few thousand runs take minutes.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let (shim, ..) = unsafe { parts(file) };
    let mut state = shim.shared.lock();
    let effect = state.plan.observe(shim.kind, Operation::Sync);
    if let Some(path) = shim.path.as_deref() {
        match effect {
            None => state.disk.synced(path),
            Some(Effect::SyncLies) => {}
            Some(_) => state.disk.sync_failed(path),
        }
    }
    match effect {
        None | Some(Effect::SyncLies) => ffi::SQLITE_OK,
        Some(_) => ffi::SQLITE_IOERR_FSYNC,
    }
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the file is open, and `arg` is what the operation asks for: an `i64` for a size hint.
    unsafe {
        let (shim, unix, methods) = parts(file);
        let control = methods.xFileControl.expect("the unix VFS controls files");
        if operation != ffi::SQLITE_FCNTL_SIZE_HINT {
            return control(unix, operation, arg);
        }
        let mut state = shim.shared.lock();
        let size_before = match size_of_file(unix) {
            Ok(size) => size,
            Err(error) => return error,
        };
        if index(*arg.cast::<i64>()) > size_before {
            match state.plan.observe(shim.kind, Operation::Grow) {
                Some(Effect::DiskFull) => return ffi::SQLITE_FULL,
                Some(_) => return ffi::SQLITE_IOERR_WRITE,
                None => {}
            }
        }
        let rc = control(unix, operation, arg);
        record_size(&mut state, shim, unix, size_before);
        rc
    }
}

/// Records a truncation, if the size is another one now.
///
/// # Safety
/// `unix` is the unix half of the open file `shim`.
unsafe fn record_size(state: &mut State, shim: &ShimFile, unix: *mut ffi::sqlite3_file, size_before: usize) {
    // SAFETY: as above.
    let size = unsafe { size_of_file(unix) };
    if let (Some(path), Ok(size)) = (shim.path.as_deref(), size)
        && size != size_before
    {
        state.disk.truncated(path, size);
    }
}

/// # Safety
/// `unix` is an open file of the unix VFS.
unsafe fn size_of_file(unix: *mut ffi::sqlite3_file) -> Result<usize, c_int> {
    let mut size: i64 = 0;
    // SAFETY: the file is open, and `size` outlives the call.
    let rc = unsafe {
        let file_size = (*(*unix).pMethods).xFileSize.expect("the unix VFS knows sizes");
        file_size(unix, &mut size)
    };
    if rc == ffi::SQLITE_OK { Ok(index(size)) } else { Err(rc) }
}

/// The whole file, read through its own handle: a second descriptor, when closed, would drop the process's locks.
///
/// # Safety
/// `unix` is an open file of the unix VFS.
unsafe fn content(unix: *mut ffi::sqlite3_file) -> Result<Vec<u8>, c_int> {
    const PART: usize = 1 << 20;
    // SAFETY: the file is open, and each part of the buffer is as long as is said.
    unsafe {
        let read = (*(*unix).pMethods).xRead.expect("the unix VFS reads files");
        let mut content = vec![0; size_of_file(unix)?];
        let mut offset: i64 = 0;
        for part in content.chunks_mut(PART) {
            let len = c_int::try_from(part.len()).expect("at most PART bytes");
            match read(unix, part.as_mut_ptr().cast(), len, offset) {
                ffi::SQLITE_OK => offset += i64::from(len),
                error => return Err(error),
            }
        }
        Ok(content)
    }
}

/// # Safety
/// `name` is a C string.
unsafe fn path_of(name: *const c_char) -> PathBuf {
    // SAFETY: as above; the bytes are copied at once.
    let name = unsafe { CStr::from_ptr(name) };
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// SQLite's sizes and offsets are signed, but never negative.
fn index(size: impl TryInto<usize>) -> usize {
    size.try_into().ok().expect("SQLite's sizes and offsets are never negative")
}

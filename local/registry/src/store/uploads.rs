//! Upload sessions: a file that grows, hashed while it does.
//!
//! The file outlives the process: a session that is asked for after a restart is read again to get its hash back.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rand::Rng;

use super::{Store, durable, if_present, names_in};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::error::ApiError;
use crate::name::RepositoryName;

/// Sessions that nobody touched for this long are swept at the next start.
const ABANDONED: Duration = Duration::from_hours(24);

/// When there is no room for another session, those that nobody touched for this long make room.
const IDLE: Duration = Duration::from_mins(10);

/// Sessions in use, by id.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

/// One running upload.
pub(crate) struct Session {
    pub(crate) id: String,
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    size: u64,
    hasher: Hasher,
    touched: Instant,
    /// Set by the request that took the content or cancelled; late writers stop.
    closed: bool,
}

impl Session {
    fn open(id: &str, path: PathBuf, fresh: bool) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create_new(fresh).open(&path)?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let size = if fresh { 0 } else { hash_file(&mut file, &mut hasher)? };
        Ok(Self {
            id: id.to_owned(),
            path,
            state: Mutex::new(State { file, size, hasher, touched: Instant::now(), closed: false }),
        })
    }

    /// Bytes received so far.
    pub(crate) fn size(&self) -> u64 {
        self.state.lock().size
    }

    /// Appends at `offset`, which must be the end: two writers cannot mix.
    pub(crate) fn append(&self, offset: u64, parts: &[Bytes], max: u64) -> Result<u64, ApiError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(ApiError::BlobUploadUnknown(self.id.clone()));
        }
        if state.size != offset {
            return Err(ApiError::Range(format!("the upload is at byte {}, not {offset}", state.size)));
        }
        for part in parts {
            let size = state.size + part.len() as u64;
            if size > max {
                return Err(ApiError::TooLarge(format!("a blob may have at most {max} bytes")));
            }
            if let Err(error) = state.file.write_all(part) {
                // Part of it may be in the file: size and hash are no longer known.
                state.closed = true;
                return Err(error.into());
            }
            state.hasher.update(part);
            state.size = size;
            state.touched = Instant::now();
        }
        Ok(state.size)
    }
}

fn hash_file(file: &mut File, hasher: &mut Hasher) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(size);
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
    }
}

impl Store {
    /// Starts an upload into a repository.
    pub(crate) fn start_upload(&self, name: &RepositoryName) -> Result<Arc<Session>, ApiError> {
        let id = hex::encode(rand::rng().random::<[u8; 16]>());
        let path = self.uploads_dir().join(&id);
        let mut sessions = self.sessions.0.lock();
        if sessions.len() >= self.options.max_sessions {
            // Only forgotten: their files can still be asked for, and the next start sweeps them.
            sessions.retain(|_, session| session.state.lock().touched.elapsed() < IDLE);
        }
        if sessions.len() >= self.options.max_sessions {
            return Err(ApiError::TooManyRequests);
        }
        fs::write(path.with_extension("repository"), name.as_str())?;
        let session = Arc::new(Session::open(&id, path, true)?);
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// A running upload of this repository.
    pub(crate) fn upload(&self, name: &RepositoryName, id: &str) -> Result<Arc<Session>, ApiError> {
        let unknown = || ApiError::BlobUploadUnknown(id.to_owned());
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(unknown());
        }
        let path = self.uploads_dir().join(id);
        let owner = if_present(fs::read_to_string(path.with_extension("repository")))?.ok_or_else(unknown)?;
        if owner != name.as_str() {
            return Err(unknown());
        }
        let mut sessions = self.sessions.0.lock();
        if let Some(session) = sessions.get(id) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(if_present(Session::open(id, path, false))?.ok_or_else(unknown)?);
        sessions.insert(id.to_owned(), Arc::clone(&session));
        Ok(session)
    }

    /// Forgets an upload and what it sent.
    pub(crate) fn cancel_upload(&self, session: &Session) -> io::Result<()> {
        session.state.lock().closed = true;
        self.sessions.0.lock().remove(&session.id);
        durable::remove(&session.path)?;
        durable::remove(&session.path.with_extension("repository")).map(drop)
    }

    /// Makes the upload a blob when its content has this digest; otherwise the upload is gone.
    pub(crate) fn finish_upload(
        &self,
        name: &RepositoryName,
        session: &Session,
        digest: &Digest,
    ) -> Result<(), ApiError> {
        let found = Self::close_upload(session, digest.algorithm())?;
        if found != *digest {
            self.cancel_upload(session)?;
            return Err(ApiError::DigestInvalid(format!("content has {found}, not {digest}")));
        }
        self.adopt_blob(name, digest, &session.path)?;
        self.cancel_upload(session)?;
        Ok(())
    }

    fn close_upload(session: &Session, algorithm: Algorithm) -> Result<Digest, ApiError> {
        let mut state = session.state.lock();
        if state.closed {
            return Err(ApiError::BlobUploadUnknown(session.id.clone()));
        }
        state.closed = true;
        state.file.sync_all()?;
        if algorithm == Algorithm::Sha256 {
            return Ok(state.hasher.clone().finish());
        }
        let mut hasher = Hasher::new(algorithm);
        hash_file(&mut File::open(&session.path)?, &mut hasher)?;
        Ok(hasher.finish())
    }

    /// Removes uploads that were abandoned long ago, or whose repository is not known.
    pub(super) fn sweep_uploads(&self) -> io::Result<()> {
        let dir = self.uploads_dir();
        for name in names_in(&dir)? {
            let path = dir.join(&name);
            let twin = match name.strip_suffix(".repository") {
                Some(id) => dir.join(id),
                None => path.with_extension("repository"),
            };
            let age = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let old = age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED));
            if (old && !name.ends_with(".repository")) || !twin.exists() {
                durable::remove(&path)?;
            }
        }
        Ok(())
    }
}

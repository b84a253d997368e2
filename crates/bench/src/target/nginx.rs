//! The reference: nginx with one worker, answering every request with an empty 200, or with one given file.
//!
//! The figure that everything else is divided by, so it must not be handicapped: no access log, no limit on requests
//! per connection, request bodies in one buffer. It runs as a single process (`master_process off`), so that all of
//! its processor time is in one place and nothing can be orphaned.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::host::process::{self, Guard};

/// Where nginx is when it is not on the search path of an ordinary user.
const PROGRAMS: [&str; 3] = ["nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"];
/// Where Debian has them (libnginx-mod-http-lua).
const LUA: &str = "load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
";

#[derive(Debug)]
pub struct Nginx {
    guard: Guard,
    pub address: SocketAddr,
    files: PathBuf,
}

impl Nginx {
    /// Starts nginx with all of its files below `folder`, which must exist and be its own.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_as(folder, "", "return 200;")
    }

    /// Its empty 200 comes after this time, and costs nothing meanwhile: a target whose times are known.
    pub fn start_late(folder: &Path, delay: Duration) -> anyhow::Result<Self> {
        let late = format!(
            "content_by_lua_block {{ ngx.header.content_length = 0 ngx.sleep({}) }}",
            delay.as_secs_f64()
        );
        Self::start_as(folder, LUA, &late)
    }

    fn start_as(folder: &Path, modules: &str, answer: &str) -> anyhow::Result<Self> {
        let files = folder.join("files");
        std::fs::create_dir(&files).context("nginx's folder")?;
        let (guard, address) = start_with(folder, |port| configure(folder, port, modules, answer))?;
        Ok(Self { guard, address, files })
    }

    pub fn pid(&self) -> u32 {
        self.guard.pid()
    }

    /// Serves `content` under `/name` from now on, as a file. With `gzipped`, to those who accept gzip.
    pub fn serve_file(&self, name: &str, content: &[u8], gzipped: Option<&[u8]>) -> io::Result<()> {
        assert!(!name.contains('/'), "files lie in one folder");
        std::fs::write(self.files.join(name), content)?;
        match gzipped {
            Some(bytes) => std::fs::write(self.files.join(format!("{name}.gz")), bytes),
            None => Ok(()),
        }
    }
}

/// Starts nginx with the configuration that is made for a free port, and waits until it listens.
pub(crate) fn start_with(
    folder: &Path,
    configuration: impl Fn(u16) -> String,
) -> anyhow::Result<(Guard, SocketAddr)> {
    let (file, log) = (folder.join("nginx.conf"), folder.join("log"));
    process::start_listening("nginx", &log, |address| {
        std::fs::write(&file, configuration(address.port())).context("nginx's configuration")?;
        spawn(folder, &file, &log)
    })
}

/// `nginx/1.22.1`, or why it can't be said.
pub fn version() -> String {
    let output = PROGRAMS.iter().find_map(|program| Command::new(program).arg("-v").output().ok());
    match output {
        Some(output) => String::from_utf8_lossy(&output.stderr).trim().replace("nginx version: ", ""),
        None => "not found".to_owned(),
    }
}

/// Anything that is no file is answered by the empty 200.
fn configure(folder: &Path, port: u16, modules: &str, answer: &str) -> String {
    let folder = folder.display();
    format!(
        "{modules}daemon off; master_process off; worker_processes 1; worker_rlimit_nofile 16384;
pid {folder}/pid; error_log {folder}/log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; server_tokens off; default_type text/html;
  keepalive_requests 1000000000; keepalive_timeout 300s;
  client_body_in_single_buffer on; client_body_buffer_size 16k; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  sendfile on; tcp_nopush on; open_file_cache max=16 inactive=600s; open_file_cache_valid 600s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ {answer} }}
    location ~ ^/[a-z0-9_]+\\.html$ {{ root {folder}/files; gzip_static on; }}
  }}
}}
"
    )
}

fn spawn(folder: &Path, configuration: &Path, log: &Path) -> anyhow::Result<Guard> {
    for program in PROGRAMS {
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-e").arg(log).arg("-c").arg(configuration);
        match Guard::start(&mut command, log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result.context("starting nginx"),
        }
    }
    bail!(
        "nginx is not installed: it is the reference that everything is divided by (Debian: apt-get install nginx)"
    );
}

//! A client of the AHP face, as small as it can be: one connection, one request at a time.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A host with all its faces.
pub(super) struct House {
    child: Child,
    address: String,
    token: String,
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl House {
    /// Starts a host that works in a directory.
    pub(super) fn start(program: &Path, home: &Path, work: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["--port", "0", "--sdk-port", "0", "--home"])
            .arg(home)
            .current_dir(work)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = BufReader::new(child.stdout.take().context("there is no output")?);
        let mut place = None;
        for line in out.lines() {
            if let Some((_, url)) = line?.split_once("ws://") {
                place = Some(url.to_owned());
                break;
            }
        }
        let place = place.context("this program says no address for AHP clients")?;
        let (address, query) = place.split_once('/').context("the address has no path")?;
        // Older programs say it in the address.
        let token = match query.split_once("tkn=") {
            Some((_, token)) => token.to_owned(),
            None => std::fs::read_to_string(home.join("token"))?.trim().to_owned(),
        };
        Ok(Self {
            child,
            address: address.to_owned(),
            token,
        })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client that has said `initialize`.
    pub(super) fn connect(&self) -> Result<Client> {
        self.connect_as("bench")
    }

    /// The same under a name of its own.
    pub(super) fn connect_as(&self, name: &str) -> Result<Client> {
        let mut client = self.open()?;
        let hello = json!({ "channel": ROOT, "protocolVersions": ["1.0.0"], "clientId": name });
        client.call("initialize", &hello)?;
        Ok(client)
    }

    /// A connection on which nothing was said yet.
    pub(super) fn open(&self) -> Result<Client> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        write!(
            stream,
            "GET /?tkn={} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            self.token, self.address
        )?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.contains("101") {
            bail!("the host says {line:?}");
        }
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        Ok(Client {
            reader,
            stream,
            last: 0,
        })
    }
}

/// The channel of the host itself.
pub(super) const ROOT: &str = "ahp-root://";

/// A connection.
pub(super) struct Client {
    pub(super) reader: BufReader<TcpStream>,
    stream: TcpStream,
    last: u64,
}

impl Client {
    /// The result of a request.
    pub(super) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let text = self.raw(method, params)?;
        let mut message: Value = serde_json::from_slice(&text)?;
        if let Some(error) = message.get("error") {
            bail!("{method}: {error}");
        }
        Ok(message["result"].take())
    }

    /// The bytes of the response to a request.
    pub(super) fn raw(&mut self, method: &str, params: &Value) -> Result<Vec<u8>> {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())?;
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        loop {
            let text = self.receive()?;
            if text.starts_with(head.as_bytes()) {
                return Ok(text);
            }
        }
    }

    /// Tells the host an action.
    pub(super) fn dispatch(&mut self, channel: &str, action: &Value) -> Result<()> {
        self.last += 1;
        let params = json!({ "channel": channel, "clientSeq": self.last, "action": action });
        self.send(&json!({ "jsonrpc": "2.0", "method": "dispatchAction", "params": params }).to_string())
    }

    pub(super) fn send(&mut self, text: &str) -> Result<()> {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // A mask of zeros leaves the text as it is.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        Ok(self.stream.write_all(&frame)?)
    }

    /// The next message, whatever it is.
    pub(super) fn receive(&mut self) -> Result<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 2];
            self.reader.read_exact(&mut head)?;
            let length = match head[1] & 0x7f {
                126 => {
                    let mut long = [0; 2];
                    self.reader.read_exact(&mut long)?;
                    u64::from(u16::from_be_bytes(long))
                }
                127 => {
                    let mut long = [0; 8];
                    self.reader.read_exact(&mut long)?;
                    u64::from_be_bytes(long)
                }
                short => u64::from(short),
            };
            let start = message.len();
            message.resize(start + usize::try_from(length)?, 0);
            self.reader.read_exact(&mut message[start..])?;
            match (head[0] & 0x0f, head[0] & 0x80 != 0) {
                (8, _) => bail!("the host closed the connection"),
                (9 | 10, _) => message.truncate(start),
                (_, true) => return Ok(message),
                (_, false) => {}
            }
        }
    }
}

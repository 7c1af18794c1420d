//! TLS for the requester's connections, by rustls: one [`Client`] for all connections, a [`Session`] for each.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netcliff_host::files;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::net::send;
use crate::protocol::Protocol;

/// Files of the system's trusted certificates on Debian, Red Hat, SUSE and Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Largest file of certificates (bytes).
const LARGEST_FILE_BYTES: u64 = 16 << 20;
const WHAT_TO_DO: &str = "give --cacert FILE (the certificate itself, or who signed it), --server-name NAME (one that it is for), or --insecure (not checked)";

/// The user's TLS settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// True: connections are encrypted, even if `--request` does not say `https:`.
    pub tls: bool,
    /// True: certificates are not checked.
    pub insecure: bool,
    /// File of trusted certificates, used instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Name of the service in its certificate; `None`: its address.
    pub server_name: Option<String>,
}

/// Encryption of the connections.
#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Encryption for a service at the address `to`. Each connection makes a complete handshake, as new clients do.
    ///
    /// # Errors
    /// One sentence: certificates cannot be read, or the name is not valid.
    pub fn new(wanted: &Wanted, protocol: Protocol, to: IpAddr) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let name = match &wanted.server_name {
            Some(name) => ServerName::try_from(name.clone()).map_err(|_| {
                format!("--server-name {name}: expected a host's name or address, such as www.example.com")
            })?,
            None => ServerName::from(to),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let trusted = if wanted.insecure { None } else { Some(trusted(wanted.ca_file.as_deref(), &provider)?) };
        let check = Arc::new(Check { trusted, provider });
        let mut config = builder.dangerous().with_custom_certificate_verifier(check).with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![if protocol == Protocol::Dns { b"dot".to_vec() } else { b"http/1.1".to_vec() }];
        Ok(Self { config: Arc::new(config), name })
    }

    /// Makes the TLS state of a new connection. The first message of the handshake is ready, but not sent.
    ///
    /// # Errors
    /// rustls rejects the configuration; the error is one sentence.
    pub fn session(&self) -> Result<Session, String> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut connection = connection.map_err(|error| format!("TLS: {error}"))?;
        connection.set_buffer_limit(None);
        Ok(Session(Box::new(connection)))
    }
}

/// Trusted certificates, and the verifier that checks other certificates by them.
type Trusted = (Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>);

fn trusted(file: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Trusted, String> {
    let system = || SYSTEM.iter().map(Path::new).find(|path| path.exists());
    let Some(path) = file.or_else(system) else {
        return Err(format!("this system has no file of trusted certificates ({}): {WHAT_TO_DO}", SYSTEM.join(", ")));
    };
    let failed = |error: &dyn std::fmt::Display| {
        let option = if file.is_some() { "--cacert " } else { "" };
        format!("{option}{}: {error}; expected certificates in PEM, `-----BEGIN CERTIFICATE-----`", path.display())
    };
    let mut store = RootCertStore::empty();
    let bytes = files::bytes(path, LARGEST_FILE_BYTES).map_err(|error| failed(&error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| failed(&error))?;
    let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(failed(&"it has no certificate"));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    Ok((certificates, verifier.map_err(|error| failed(&error))?))
}

/// TLS state of one connection.
#[derive(Debug)]
pub struct Session(Box<ClientConnection>);

impl Session {
    /// True once the handshake is complete.
    pub fn is_open(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// Encrypts bytes; `push` sends them.
    pub fn put(&mut self, plain: &[u8]) {
        // The session's buffer is unlimited, so it takes all bytes.
        let _ = self.0.writer().write_all(plain);
    }

    /// Sends pending bytes; false if the socket did not take all.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) fn push(&mut self, fd: &OwnedFd) -> io::Result<bool> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut To(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Decrypts received bytes and appends the plain text.
    ///
    /// # Errors
    /// One sentence: the service is not trusted, or does not use TLS.
    pub fn take(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).map_err(|error| format!("TLS: {error}"))?;
            let state = self.0.process_new_packets().map_err(|error| explained(&error))?;
            let (start, more) = (plain.len(), state.plaintext_bytes_to_read());
            plain.resize(start + more, 0);
            self.0.reader().read_exact(&mut plain[start..]).map_err(|error| format!("TLS: {error}"))?;
            if state.peer_has_closed() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A socket in the form in which rustls writes to it.
struct To<'a>(&'a OwnedFd);

impl Write for To<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match send(self.0, bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            sent => Ok(sent),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn explained(error: &Error) -> String {
    let mut text = match error {
        Error::InvalidCertificate(why) => return format!("its certificate is not trusted ({why}): {WHAT_TO_DO}"),
        Error::InvalidMessage(_) => "it does not speak TLS here".to_owned(),
        _ => "TLS".to_owned(),
    };
    let _ = write!(text, ": {error}");
    text
}

/// Accepts a certificate that is itself in the trusted list (self-signed), or that is signed by a trusted one; without
/// `trusted`, any certificate (--insecure). Signatures of the handshake are always checked, because this work is part
/// of what a client does for a connection.
#[derive(Debug)]
struct Check {
    trusted: Option<Trusted>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trusted {
            Some((own, by)) if !own.iter().any(|one| one == end_entity) => {
                by.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

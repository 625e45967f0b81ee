//! Keys and certificates of a local cluster: one authority, thrown away with the cluster.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Group that the API server lets do everything.
pub const ADMIN_GROUP: &str = "system:masters";

/// A certificate authority that writes what it issues as PEM files into one folder.
pub struct Authority {
    dir: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Paths of a certificate and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key, readable by its owner only.
    pub key: PathBuf,
}

impl Authority {
    /// Makes an authority whose files go to `dir`, which must exist.
    pub fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "local-cluster-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self {
            dir: dir.to_owned(),
            issuer,
        };
        write(&authority.certificate(), &authority.issuer.pem())?;
        Ok(authority)
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// A certificate for a server that is reached under `names` (DNS names or IP addresses).
    pub fn server(&self, file: &str, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(file, params)
    }

    /// A certificate that the API server takes as the user `name`, a member of `group`.
    pub fn client(&self, file: &str, name: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params)
    }

    fn issue(&self, file: &str, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let identity = Identity {
            certificate: self.dir.join(format!("{file}.crt")),
            key: self.dir.join(format!("{file}.key")),
        };
        write(&identity.certificate, &certificate.pem())?;
        write(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }

    /// A bare key pair, for signing service account tokens: the private key and the public one.
    pub fn signing_key(&self, file: &str) -> Result<SigningKey> {
        let key = KeyPair::generate()?;
        let paths = SigningKey {
            private: self.dir.join(format!("{file}.key")),
            public: self.dir.join(format!("{file}.pub")),
        };
        write(&paths.private, &key.serialize_pem())?;
        write(&paths.public, &key.public_key_pem())?;
        Ok(paths)
    }
}

/// Paths of a key pair without a certificate.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// The private key.
    pub private: PathBuf,
    /// The public key.
    pub public: PathBuf,
}

fn write(path: &Path, pem: &str) -> Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(pem.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

//! The certificates of a real kube-apiserver, created for each run.

use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "nonet-envtest-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn serving(&self) -> Result<Pair, rcgen::Error> {
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        self.sign(params, "kube-apiserver", ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(super) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(params, user, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Pair, rcgen::Error> {
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        Ok(Pair { certificate: params.signed_by(&key, &self.0)?.pem(), key: key.serialize_pem() })
    }
}

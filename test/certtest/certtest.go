// SPDX-License-Identifier: Apache-2.0

// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Certificate is one with its key.
type Certificate struct {
	*x509.Certificate
	Key *ecdsa.PrivateKey
}

// Authority is a template for a certificate that signs others.
func Authority() *x509.Certificate {
	return &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

// Sign makes what the template says, with a new key, valid from an hour ago for two hours unless it says otherwise. Nil as an authority has it
// sign itself.
func Sign(t testing.TB, template *x509.Certificate, authority *Certificate) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := template, key
	if authority != nil {
		parent, signer = authority.Certificate, authority.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Certificate{parsed, key}
}

// PEM is the certificate as files have it.
func (c *Certificate) PEM() string { return Encode("CERTIFICATE", c.Raw) }

// KeyPEM is its key likewise (PKCS #8).
func (c *Certificate) KeyPEM(t testing.TB) string {
	t.Helper()
	return EncodeKey(t, c.Key)
}

// TLS is the certificate as crypto/tls has it.
func (c *Certificate) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: c.Key, Leaf: c.Certificate}
}

// Pool trusts what the certificate has signed.
func (c *Certificate) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate)
	return pool
}

// Encode is PEM of that kind.
func Encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// EncodeKey is a key in PEM.
func EncodeKey(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Encode("PRIVATE KEY", der)
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/test/certtest"
)

// mistakes are contents of a TlsCertificate, and of what is beside it, that somebody might write. PEM stands for the private key as a string of JSON,
// BARE for it without its first and last line, ENCODED for base64 of it, and CHAIN for the certificate.
var mistakes = []struct{ name, at, text string }{
	{"key in place of its source", "private_key", `PEM`},
	{"key as bytes", "private_key.inline_bytes", `{"inline_bytes": PEM}`},
	{"key in place of a file's name", "private_key", `{"filename": PEM}`},
	{"key without its first line in place of a file's name", "private_key", `{"filename": BARE}`},
	{"encoded key in place of a file's name", "private_key", `{"filename": ENCODED}`},
	{"key in place of a variable's name", "", `{"environment_variable": PEM}`},
	{"misspelt field", "private_key", `{"inline_strin": PEM}`},
	{"key for a field's name", "private_key", `{PEM: ""}`},
	{"bare key for a field's name", "private_key", `{BARE: ""}`},
	{"list of keys", "private_key.inline_string", `{"inline_string": [PEM]}`},
	{"mapping in place of a text", "private_key.inline_string", `{"inline_string": {"key": PEM}}`},
	{"two sources", "private_key", `{"inline_string": PEM, "inline_bytes": ENCODED}`},
	{"key that is cut", "", `{"inline_string": CUT}`},
	{"another key", "", `{"inline_string": OTHER}`},
	{"encoded key", "", `{"inline_string": ENCODED}`},
}

// canary is a private key, and what of it must be nowhere.
type canary struct {
	replace *strings.Replacer
	traces  []string
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	own := certtest.Sign(t, certtest.Authority(), nil)
	other := certtest.Sign(t, certtest.Authority(), nil)
	c := &canary{}
	pem := own.KeyPEM(t)
	lines := strings.Split(strings.TrimSpace(pem), "\n")
	bare := strings.Join(lines[1:len(lines)-1], "")
	encoded := asBase64(pem)
	quoted := func(s string) string {
		text, err := json.Marshal(s)
		must(t, err)
		return string(text)
	}
	c.replace = strings.NewReplacer("PEM", quoted(pem), "BARE", quoted(bare), "ENCODED", quoted(encoded), "CUT", quoted(pem[:len(pem)/2]),
		"OTHER", quoted(other.KeyPEM(t)), "CHAIN", quoted(own.PEM()))
	for _, text := range []string{bare, encoded, other.KeyPEM(t)[40:]} {
		text = strings.ReplaceAll(text, "\n", "")
		for at := 0; at+8 <= len(text); at += 4 {
			c.traces = append(c.traces, text[at:at+8])
		}
	}
	return c
}

// requireSilence fails if there is a piece of the key in a text.
func (c *canary) requireSilence(t *testing.T, what, text string) {
	t.Helper()
	for _, trace := range c.traces {
		if strings.Contains(text, trace) {
			t.Errorf("%s: a piece of the private key is in %.300q", what, text)
			return
		}
	}
}

// socketWith is a cluster's transport socket with that TlsCertificate.
func socketWith(certificate string) string {
	return `{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"common_tls_context": {"tls_certificates": [` + certificate + `], "validation_context": {"trusted_ca": {"inline_string": CHAIN}}}}}`
}

// A key that somebody has written in the wrong place reaches nobody: what is wrong is told by path and field.
func TestPrivateKeysAreInNoError(t *testing.T) {
	c := newCanary(t)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			certificate := `{"certificate_chain": {"inline_string": CHAIN}, "private_key": ` + m.text + `}`
			for name, read := range map[string]func(t *testing.T) error{
				"file of a secret":            c.secretFile(certificate, "s.json"),
				"file of a secret in YAML":    c.secretFile(certificate, "s.yaml"),
				"bootstrap's cluster":         c.bootstrap("$cluster.transport_socket", socketWith(certificate)),
				"control plane's cluster":     c.controlPlane(socketWith(certificate)),
				"control plane's secret file": c.controlSecret(certificate),
			} {
				err := read(t)
				if err == nil {
					t.Fatalf("%s: accepted", name)
				}
				c.requireSilence(t, name, err.Error())
				if !strings.Contains(err.Error(), m.at) && !strings.Contains(name, "control plane") {
					t.Errorf("%s: %q does not name %s", name, err, m.at)
				}
			}
		})
	}
}

// What is no JSON, or not a file of resources, is not quoted either.
func TestPrivateKeysAreInNoErrorOfSyntax(t *testing.T) {
	c := newCanary(t)
	for _, text := range []string{
		`PEM`, `[PEM]`, `{"resources": PEM}`, `{"resources": [PEM]}`, `{PEM: 1}`, `{"resources": [{"@type": PEM}]}`, `{"resources": [{"@type": BARE}]}`,
		`{"resources": [{"name": PEM}]}`, `PEM PEM`, `{"resources": [*BARE]}`, `{"a": !!int PEM}`, `{"a": !!float BARE}`, `{BARE: 1, BARE: 2}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", PEM: 1}]}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": PEM}]}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "tls_certificate": PEM}]}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "generic_secret": PEM}]}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "generic_secret": {"secret": {"inline_string": PEM}}}]}`,
		`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "session_ticket_keys": {"keys": [PEM]}}]}`,
	} {
		// An alias in YAML has no quotes.
		text = strings.Replace(c.replace.Replace(text), `*"`, `*`, 1)
		for _, name := range []string{"s.json", "s.yaml"} {
			path := filepath.Join(t.TempDir(), name)
			must(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := ReadSecret(path, "own")
			if err == nil {
				t.Fatalf("%.80s is accepted", text)
			}
			c.requireSilence(t, name, err.Error())
			if _, err := Parse(name, []byte(text)); err == nil {
				t.Fatalf("%.80s is accepted as a bootstrap", text)
			} else {
				c.requireSilence(t, "bootstrap "+name, err.Error())
			}
		}
	}
}

// Names that are no names are refused before anybody is told of them.
func TestPrivateKeysAreNoNamesOfSecrets(t *testing.T) {
	c := newCanary(t)
	for _, text := range []string{
		`{"name": "own", "sds_config": {"path_config_source": {"path": PEM}}}`,
		`{"name": PEM, "sds_config": {"path_config_source": {"path": "/s.yaml"}}}`,
	} {
		socket := `{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"common_tls_context": {"tls_certificate_sds_secret_configs": [` + text + `], "validation_context": {"trusted_ca": {"inline_string": CHAIN}}}}}`
		for name, read := range map[string]func(*testing.T) error{
			"bootstrap's cluster": c.bootstrap("$cluster.transport_socket", socket), "control plane's cluster": c.controlPlane(socket),
		} {
			err := read(t)
			if err == nil {
				t.Fatalf("%s: %s is accepted", name, text)
			}
			c.requireSilence(t, name, err.Error())
		}
	}
}

// Secrets that a server sends are not quoted, and what is shown of resources has none.
func TestPrivateKeysAreNotShown(t *testing.T) {
	c := newCanary(t)
	var pem string
	must(t, json.Unmarshal([]byte(c.replace.Replace("PEM")), &pem))
	for name, secret := range map[string]*tlsv3.Secret{
		"name":     {Name: pem},
		"filename": {Name: "own", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{PrivateKey: fileSource(pem), CertificateChain: fileSource(pem)}}},
		"generic":  {Name: "own", Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: fileSource(pem)}}},
	} {
		text, err := proto.Marshal(secret)
		must(t, err)
		for _, body := range [][]byte{text, text[:len(text)-1], bytes.TrimPrefix(text, text[:3])} {
			if _, _, err := DecodeSecret(body); err == nil {
				t.Errorf("%s: accepted", name)
			} else {
				c.requireSilence(t, name, err.Error())
			}
		}
		redact(secret.ProtoReflect())
		if name != "name" {
			c.requireSilence(t, "shown: "+name, secret.String())
		}
	}
}

func (c *canary) secretFile(certificate, name string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		_, err := ReadSecret(c.writeSecret(t, certificate, name), "own")
		return err
	}
}

// writeSecret writes a file of resources. All JSON is YAML.
func (c *canary) writeSecret(t *testing.T, certificate, name string) string {
	t.Helper()
	text := `{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "tls_certificate": ` + certificate + `}]}`
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(c.replace.Replace(text)), 0o600))
	return path
}

func (c *canary) bootstrap(at, text string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		_, err := Parse("f.yaml", change{at: at, yaml: c.replace.Replace(text)}.apply(t))
		return err
	}
}

func (c *canary) controlPlane(socket string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		_, err := ParseBootstrap("b.yaml", []byte(strings.Replace(dynamicBase, "  - name: control\n",
			"  - name: control\n    transport_socket: "+strings.ReplaceAll(c.replace.Replace(socket), "\n", " ")+"\n", 1)))
		return err
	}
}

func (c *canary) controlSecret(certificate string) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		path := c.writeSecret(t, certificate, "s.json")
		return c.controlPlane(`{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"common_tls_context": {"tls_certificate_sds_secret_configs": [{"name": "own", "sds_config": {"path_config_source": {"path": "` + path + `"}}}],
			"validation_context": {"trusted_ca": {"inline_string": CHAIN}}}}}`)(t)
	}
}

func asBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func fileSource(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

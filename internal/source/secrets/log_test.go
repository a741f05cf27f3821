// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/test/certtest"
)

// A private key in the wrong place of a file, or of what a server sends, is neither in the log nor in what the admin API shows of secrets.
func TestPrivateKeysAreNeitherLoggedNorShown(t *testing.T) {
	own := certtest.Sign(t, certtest.Authority(), nil)
	key := own.KeyPEM(t)
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "secret.yaml")
	var log bytes.Buffer
	s := New(Config{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	defer s.Stop()
	file, served := model.SecretSource{Name: "own", File: path}, model.SecretSource{Name: "own", Socket: "/nowhere"}
	s.store.Follow([]*model.UpstreamTLS{{CertificateSecret: &file}, {CertificateSecret: &served}})
	for _, private := range []string{string(quoted), `{"inline_bytes": ` + string(quoted) + `}`, `{"filename": ` + string(quoted) + `}`, `{` + string(quoted) + `: 1}`} {
		text := `{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "own", "tls_certificate": {"private_key": ` + private + `}}]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		requireNoKey(t, key, &log, s)
	}
	for _, name := range []string{key, "own"} {
		body, err := proto.Marshal(&tlsv3.Secret{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.take([]model.SecretSource{served}, body, "1"); err == nil {
			t.Fatal("accepted")
		}
		requireNoKey(t, key, &log, s)
	}
}

// requireNoKey wants faults, without a line of the key.
func requireNoKey(t *testing.T, key string, log *bytes.Buffer, s *Secrets) {
	t.Helper()
	shown := log.String()
	for _, held := range s.store.Secrets() {
		row, err := json.Marshal(intake.OfSecret(&held, ""))
		if err != nil {
			t.Fatal(err)
		}
		shown += held.Fault + string(row)
	}
	shown += log.String()
	if !strings.Contains(shown, "refused") {
		t.Fatal("nothing is refused")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(key), "\n") {
		if !strings.HasPrefix(line, "---") && strings.Contains(shown, line[:16]) {
			t.Fatalf("a line of the private key is in %s", shown)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xlb-project/xlb/test/envoytest"
	"github.com/xlb-project/xlb/test/suite"
)

// loaded is the bootstrap that an Envoy with that admin address has made of a file.
func loaded(t *testing.T, path, admin string) *bootstrapv3.Bootstrap {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/config_dump?mask=bootstrap.static_resources", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var dump struct{ Configs []json.RawMessage }
	if err := json.Unmarshal(text, &dump); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	for _, one := range dump.Configs {
		m := &adminv3.BootstrapConfigDump{}
		content := map[string]json.RawMessage{}
		if err := json.Unmarshal(one, &content); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content["@type"]), "BootstrapConfigDump") {
			continue
		}
		delete(content, "@type")
		if err := protojson.Unmarshal(mustMarshal(t, content), m); err != nil {
			t.Fatalf("%s: %v\n%s", path, err, one)
		}
		return m.GetBootstrap()
	}
	t.Fatalf("%s: no bootstrap in %s", path, text)
	return nil
}

func mustMarshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// run is Envoy's reading of a file with an admin address.
func run(t *testing.T, file string, text func(before string) []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	admin := envoytest.FreeAddress(t)
	before := fmt.Sprintf(`"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}},`, admin.Port())
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, text(before), 0o600); err != nil {
		t.Fatal(err)
	}
	envoytest.StartFile(t, path).Dial(t, admin)
	return loaded(t, path, admin.String())
}

func TestEnvoyReadsTheSame(t *testing.T) {
	envoytest.Binary(t)
	for file, list := range map[string][]spelling{"f.yaml": inYAML, "f.json": inJSON} {
		distinct := make([]spelling, len(list))
		for i, s := range list {
			distinct[i] = spelling{text: s.text}
		}
		got := run(t, file, func(before string) []byte {
			text := string(clustersOf(file, before, distinct))
			for i := range list { // Envoy wants names that differ
				for _, name := range []string{"{name: c,", `{"name": "c",`} {
					text = strings.Replace(text, name, strings.Replace(name, "c", fmt.Sprintf("c%d", i), 1), 1)
				}
			}
			return []byte(text)
		})
		compareClusters(t, list, got)
	}
}

// refuses reports whether Envoy refuses a file, and what it says.
func refuses(t *testing.T, file, text string) (bool, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), envoytest.Binary(t), "--mode", "validate", "--disable-hot-restart", "-l", "error", "-c", path).CombinedOutput()
	return err != nil, string(out)
}

func TestEnvoyRefusesTheSame(t *testing.T) {
	suite.Long(t, suite.Depth) // Envoy starts for each case
	for _, tt := range misspellings {
		if refused, said := refuses(t, tt.file, string(clustersOf(tt.file, "", []spelling{{text: tt.text}}))); !refused {
			t.Errorf("%s: Envoy takes it: %s", tt.text, said)
		}
	}
	for _, tt := range documents {
		if refused, said := refuses(t, tt.file, tt.text); refused != (tt.want != "" && !tt.stricter) {
			t.Errorf("%s: refused %v: %s", tt.name, refused, said)
		}
	}
}

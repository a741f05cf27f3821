// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xlb-project/xlb/internal/problem"
)

// The words and forms that Envoy takes are in the tests of package config, which ask Envoy about the same.

func TestDocumentThatIsNoMappingIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":         "f.yaml: empty: expected a mapping",
		"# text\n": "f.yaml: empty: expected a mapping",
		"---\n":    "f.yaml: empty: expected a mapping",
		"null\n":   "f.yaml: empty: expected a mapping",
		"[]\n":     "f.yaml: expected a mapping",
		"word\n":   "f.yaml: expected a mapping",
	} {
		p := problem.NewList()
		if root := Read(p, "f.yaml", []byte(text), "expected a mapping"); root != nil {
			t.Errorf("%q: %v", text, root)
		}
		if err := p.Err("f.yaml"); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestSameTreeComesOfYAMLAndJSON(t *testing.T) {
	for name, text := range map[string]string{
		"f.yaml": "name: c\nconnectTimeout: {seconds: 3}\nlb_policy: round_robin\n",
		"f.json": `{"name": "c", "connect_timeout": "3s", "lbPolicy": "ROUND_ROBIN"}`,
	} {
		p := problem.NewList()
		root := Read(p, name, []byte(text), "expected a cluster")
		c := &clusterv3.Cluster{}
		Respell(c.ProtoReflect().Descriptor(), root)
		if err := errors.Join(p.Joined(), Decode(root, c)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.GetName() != "c" || c.GetConnectTimeout().GetSeconds() != 3 || c.GetLbPolicy() != clusterv3.Cluster_ROUND_ROBIN {
			t.Errorf("%s: got %v", name, c)
		}
	}
}

// What a decoder quotes may be a private key.
func TestReasonQuotesNamesAlone(t *testing.T) {
	const key = "-----BEGIN PRIVATE KEY-----MIIEvQIBADANBgkqhkiG9w0BAQEFAASC-----END"
	got := Reason(errors.New(`proto: (line 1:20): invalid value for string field inline_string: "` + key + `" in "private_key"`))
	if want := `invalid value for string field inline_string: "..." in "private_key"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnchorThatContainsItselfIsRefused(t *testing.T) {
	for _, text := range []string{"node: &x {id: *x}\n", "node: &x [*x]\n", "node: &x {id: &y [*x], cluster: *y}\n"} {
		p := problem.NewList()
		Read(p, "f.yaml", []byte(text), ExpectBootstrap)
		if err := p.Err("f.yaml"); err == nil || !strings.Contains(err.Error(), `f.yaml: line 1: not valid YAML: anchor "x" contains itself`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

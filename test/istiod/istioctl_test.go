// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// istioctlViews are what istioctl shows of a proxy, by the page of the admin API that it reads. exact: in JSON, too, it is what Envoy's is.
var istioctlViews = []struct {
	view, page string
	exact      bool
}{
	{"clusters", "/config_dump", true},
	{"listeners", "/config_dump", true},
	{"routes", "/config_dump", true},
	{"eds", "/config_dump?include_eds", false},
	{"endpoints", "/clusters?format=json", false},
	{"bootstrap", "/config_dump", false},
	{"secret", "/config_dump", true},
	{"all", "/config_dump?include_eds", false},
}

// compareIstioctl has istioctl read what XLB and Envoy say of themselves. It shows the same.
func compareIstioctl(t *testing.T, w *world) {
	for _, v := range istioctlViews {
		for _, output := range []string{"short", "json"} {
			got, err := istioctl(t, w.xlb, "127.82.1.1", v.page, "proxy-config", v.view, "-o", output)
			if err != nil {
				t.Errorf("istioctl proxy-config %s -o %s: %v\n%s", v.view, output, err, strings.Join(got, "\n"))
				continue
			}
			if output == "json" && !v.exact {
				continue
			}
			want, err := istioctl(t, w.envoy, "127.82.1.2", v.page, "proxy-config", v.view, "-o", output)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.DeleteFunc(want, differsByDesign), slices.DeleteFunc(got, differsByDesign)); diff != "" {
				t.Errorf("istioctl proxy-config %s -o %s (-Envoy +XLB):\n%s", v.view, output, diff)
			}
		}
	}
}

// synced are the kinds of resources that istiod sends to every sidecar.
var synced = []string{"CDS", "LDS", "EDS", "RDS"}

// requireSynced has istioctl ask istiod what it knows of its clients: that both have acknowledged all it has sent them.
func requireSynced(t *testing.T, w *world) {
	t.Helper()
	dir, last := t.TempDir(), ""
	chain, key, root := w.certify(t, adminToken)
	for name, text := range map[string]string{"cert-chain.pem": chain, "key.pem": key, "root-cert.pem": root} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	harness.Eventually(t, patience, "istioctl proxy-status shows both as synced", func() bool {
		cmd := exec.Command(built(t, "istiod/bin/istioctl"), "proxy-status", "-v", "1", "--xds-address", w.secure.String(), "--cert-dir", dir,
			"--authority", "istiod.istio-system.svc")
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG="+w.kubeconfig)
		out, err := cmd.CombinedOutput()
		last = string(out)
		lines := strings.Split(strings.TrimSpace(last), "\n")
		if err != nil || len(lines) != 3 {
			return false
		}
		return isSynced(t, lines[0], lines[1]) && isSynced(t, lines[0], lines[2])
	})
	t.Logf("istioctl proxy-status:\n%s", last)
}

// isSynced looks at the columns of a client.
func isSynced(t *testing.T, heads, line string) bool {
	t.Helper()
	for _, kind := range synced {
		at := strings.Index(heads, kind)
		if at < 0 {
			t.Fatalf("proxy-status has no column %s: %s", kind, heads)
		}
		if at >= len(line) || !strings.HasPrefix(line[at:], "SYNCED") {
			return false
		}
	}
	return true
}

// differsByDesign reports lines about the version, the endpoints of the control plane, which XLB does not count, endpoints that are left out, and
// the one that XLB knows of a cluster whose clients all connect to one address.
func differsByDesign(line string) bool {
	const health = "HEALTHY "
	return strings.HasPrefix(line, "Envoy Version: ") || strings.Contains(line, "UNKNOWN ") ||
		strings.Contains(line, health) && (strings.HasSuffix(line, " istiod") || strings.HasSuffix(line, " PassthroughCluster") || strings.Contains(line, "||grpc."))
}

// istioctl gives it a page of the admin API as a file. It returns the lines in order, with one space between their words; service is called SERVICE.
func istioctl(t *testing.T, b *harness.Balancer, service, page string, arguments ...string) ([]string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.json")
	if err := os.WriteFile(file, []byte(b.Get(t, page)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built(t, "istiod/bin/istioctl"), append(arguments, "--file", file)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=/nonexistent")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.ReplaceAll(string(out), service, "SERVICE"), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	slices.Sort(lines)
	return lines, err
}
